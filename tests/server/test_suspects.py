from typing import Any, cast

from disque.core.host import CROSS_PROTOCOL, FAILED_AUTH
from disque.server.suspects import MOST, QUIET_S, Suspects
from tests.server.shell import Log

HERE = b"10.0.0.1:5000"


class Place:
    """Suspects, their log, and a clock."""

    def __init__(self) -> None:
        self.log = Log()
        self.suspects = Suspects(cast("Any", self.log))
        self.now_s = 100.0

    def fail(self, address: bytes = HERE, what: str = FAILED_AUTH) -> None:
        self.suspects.add(what, address, self.now_s)

    def wait(self, seconds: float) -> None:
        self.now_s += seconds
        self.suspects.cron(self.now_s)

    def said(self) -> list[str]:
        lines, self.log.lines[:] = list(self.log.lines), []
        return lines


def test_the_first_time_is_a_line_with_the_address() -> None:
    place = Place()
    place.fail()
    assert place.said() == ["Failed AUTH of a client at 10.0.0.1:5000: wrong user or password."]
    place.fail(what=CROSS_PROTOCOL)
    (line,) = place.said()
    assert line.startswith(
        "Possible SECURITY ATTACK detected. It looks like somebody is sending POST or Host: commands"
    )
    assert line.endswith("Connection from 10.0.0.1:5000 aborted.")


def test_what_follows_is_counted_for_a_minute_whatever_the_port() -> None:
    place = Place()
    for port in range(1000):
        place.fail(b"10.0.0.1:%d" % port)
        place.wait(0.001)
    assert len(place.said()) == 1
    place.wait(QUIET_S)
    assert place.said() == ["999 more failed AUTHs of clients at 10.0.0.1 in the last minute."]
    place.wait(QUIET_S)
    assert place.said() == []


def test_who_goes_on_is_named_once_a_minute_and_who_was_quiet_at_once() -> None:
    place = Place()
    for _ in range(3):
        place.fail()
        place.fail()
        place.wait(QUIET_S)
    assert len(place.said()) == 4
    place.wait(QUIET_S)
    place.fail()
    assert len(place.said()) == 1


def test_many_addresses_are_one_beyond_a_bound() -> None:
    place = Place()
    for number in range(MOST * 3):
        place.fail(b"[fe80::%x]:7" % number)
    assert len(place.said()) == MOST + 1
    place.wait(QUIET_S)
    assert place.said() == [f"{MOST * 2 - 1} more failed AUTHs of clients at other addresses in the last minute."]


def test_another_sin_is_another_line() -> None:
    place = Place()
    for number in range(MOST):
        place.fail(b"10.0.0.%d:7" % number)
    place.said()
    place.fail(what=CROSS_PROTOCOL)
    assert "10.0.0.1:5000" in place.said()[0]
