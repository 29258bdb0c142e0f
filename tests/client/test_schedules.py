"""Schedules: what is asked, and how replies of either protocol are read."""

import pytest

from disque.client import NewJob, Schedule
from tests.client.fake import MakeHands

FOUND = [
    *(b"name", b"n", b"spec", b"@hourly", b"tz", b"UTC", b"catchup", b"none", b"paused", 1, b"queue", b"q"),
    *(b"last", None, b"next", 3600, b"node", b"i", b"body", b"b", b"options", [b"TRIES", b"3"]),
]
READ = Schedule("n", "@hourly", "UTC", "none", True, "q", None, 3600, "i", b"b", "TRIES 3")


def test_set(make: MakeHands) -> None:
    sent: list[bytes] = []

    def answer(_address: object, words: list[bytes]) -> bytes:
        sent.append(b" ".join(words))
        return b"OK"

    hands = make(answer)
    assert hands.set_schedule("n", "0 9 * * *", NewJob("q", "b", tries=3), tz="Asia/Tokyo", catchup="last") is None
    hands.set_schedule("n", "@hourly", NewJob("q", "b"))
    assert sent == [b"CRON SET n 0 9 * * * q b TZ Asia/Tokyo CATCHUP last TRIES 3", b"CRON SET n @hourly q b"]


@pytest.mark.parametrize(
    ("method", "words", "sent", "reply", "value"),
    [
        ("schedule", ["n"], "CRON GET n", FOUND, READ),
        ("schedule", ["n"], "CRON GET n", dict(zip(FOUND[::2], FOUND[1::2], strict=True)), READ),
        ("schedule", ["n"], "CRON GET n", None, None),
        (
            *("schedules", [7], "CRON LIST 7", [b"9", [FOUND[:18]]]),
            (9, [Schedule("n", "@hourly", "UTC", "none", True, "q", None, 3600, "i")]),
        ),
        ("delete_schedule", ["n"], "CRON DEL n", 1, True),
        ("pause_schedule", ["n"], "CRON PAUSE n", 0, False),
        ("resume_schedule", ["n"], "CRON RESUME n", 1, True),
        ("run_schedule", ["n"], "CRON RUN n", b"D-" + b"x" * 38, "D-" + "x" * 38),
        ("next_ticks", ["@hourly", 2], "CRON NEXT @hourly 2", [3600, 7200], [3600, 7200]),
    ],
)
def test_others(method: str, words: list[object], sent: str, reply: object, value: object, make: MakeHands) -> None:
    log: list[str] = []

    def answer(_address: object, given: list[bytes]) -> object:
        log.append(b" ".join(given).decode())
        return reply

    assert getattr(make(answer), method)(*words) == value
    assert log == [sent]
