from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from disque.client import Backoff
from disque.client.terms import backoff_word, header_words, moment_word
from disque.core.model.backoff import parse


@pytest.mark.parametrize(
    ("backoff", "word"),
    [
        (Backoff("fixed", 5), b"fixed:5"),
        (Backoff("linear", 0.25), b"linear:0.25"),
        (Backoff("exponential", 2, timedelta(minutes=1)), b"exponential:2:60"),
        (Backoff("exponential", 2, 60, 0.5), b"exponential:2:60:0.500"),
        (Backoff("fixed", 1, jitter=0), b"fixed:1:4294967295:0.000"),
        (Backoff("fixed", 1, 1, 1e-9), b"fixed:1:1:0.000"),
        ("Exponential:2:60:0.1", b"Exponential:2:60:0.1"),
    ],
)
def test_a_backoff_as_a_node_reads_it(backoff: Backoff | str, word: bytes) -> None:
    assert backoff_word(backoff) == word
    assert parse(word) is not None


@pytest.mark.parametrize(
    "backoff",
    [
        *("", "exponential", "cubic:2", "fixed:-1", "fixed:1:2:3:4", "fixed:1e3", "fixed:1\n"),
        *(Backoff("fixed", 0), Backoff("fixed", 5, 4), Backoff("fixed", 1, jitter=1.5), Backoff("fixed", -1)),
        Backoff("cubic", 1),  # type: ignore[arg-type]  # that is the fault
        Backoff("fixed", 1, jitter=float("nan")),
    ],
)
def test_what_is_no_backoff(backoff: Any) -> None:
    with pytest.raises(ValueError, match="backoff"):
        backoff_word(backoff)


@pytest.mark.parametrize("backoff", [5, None, b"fixed:1", ("fixed", 1)])
def test_a_backoff_of_another_type(backoff: Any) -> None:
    with pytest.raises(TypeError, match="backoff must be a Backoff or str"):
        backoff_word(backoff)


def test_headers() -> None:
    assert header_words({"trace": "ä", b"x": b"\xff"}) == [
        *(b"HEADER", b"trace", "ä".encode()),
        *(b"HEADER", b"x", b"\xff"),
    ]
    assert header_words({}) == []
    wrong: list[tuple[Any, str]] = [
        ([("a", "b")], "headers must be a mapping"),
        ({"a": 1}, "header 'a' must be"),
        ({1: "a"}, "the name of a header must be"),
    ]
    for headers, text in wrong:
        with pytest.raises(TypeError, match=text):
            header_words(headers)


def test_a_moment() -> None:
    at = datetime(2026, 11, 23, 9, 0, 0, 123000, tzinfo=UTC)
    assert moment_word(at) == b"1795424400123"
    assert moment_word(1795424400) == b"1795424400000"
    assert moment_word(0.0001) == b"1"
    with pytest.raises(ValueError, match="needs a time zone"):
        moment_word(at.replace(tzinfo=None))
    for wrong in ("now", True):
        with pytest.raises(TypeError, match="at must be a datetime or seconds"):
            moment_word(wrong)  # type: ignore[arg-type]  # that is the fault
