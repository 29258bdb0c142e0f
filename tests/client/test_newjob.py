from datetime import timedelta
from typing import Any

import pytest

from disque.client import Backoff, NewJob


def test_a_queue_and_a_body_are_enough() -> None:
    assert NewJob("q", "b").words(100) == [b"ADDJOB", b"q", b"b", b"100"]


def test_every_option() -> None:
    job = NewJob("q", b"b", delay=1, retry=timedelta(seconds=2), ttl=3.5, replicate=1, maxlen=0, unique="k", window=9)
    assert job.words(0)[4:] == [
        *(b"REPLICATE", b"1", b"DELAY", b"1", b"RETRY", b"2", b"TTL", b"4", b"MAXLEN", b"0"),
        *(b"UNIQUE", b"k", b"9"),
    ]
    assert NewJob("q", b"b", background=True).options() == [b"ASYNC"]


def test_what_few_jobs_have() -> None:
    job = NewJob(
        "q", b"b", tries=5, backoff=Backoff("fixed", 0.5), deadletter="", priority=9, headers={"a": "b"}, at=1.5
    )
    assert job.options() == [
        *(b"AT", b"1500", b"PRIORITY", b"9", b"TRIES", b"5", b"BACKOFF", b"fixed:0.5", b"DEADLETTER", b""),
        *(b"HEADER", b"a", b"b"),
    ]
    assert NewJob("q", b"b", retain=timedelta(hours=1)).options() == [b"RETAIN", b"3600"]
    assert NewJob("q", b"b", delay=0.25).options() == [b"DELAY", b"0.25"]
    with pytest.raises(ValueError, match="at and delay"):
        NewJob("q", b"b", at=1.5, delay=1).options()


def test_a_key_without_a_window_is_held_while_the_job_lives() -> None:
    assert NewJob("q", b"b", unique=b"k").options() == [b"UNIQUE", b"k", b"0"]


def test_a_window_without_a_key_makes_no_sense() -> None:
    with pytest.raises(ValueError, match="window needs a key"):
        NewJob("q", b"b", window=1).options()


def test_wrong_types_are_named() -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"replicate": "3"}, "replicate"),
        ({"maxlen": 1.0}, "maxlen"),
        ({"delay": "1"}, "delay"),
        ({"unique": 1}, "unique"),
        ({"tries": 1.0}, "tries"),
        ({"priority": "1"}, "priority"),
        ({"deadletter": 1}, "deadletter"),
        ({"retain": "1"}, "retain"),
    ]
    for options, name in wrong:
        with pytest.raises(TypeError, match=name):
            NewJob("q", b"b", **options).options()
