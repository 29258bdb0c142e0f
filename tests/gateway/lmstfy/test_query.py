"""Queries as lmstfy reads them."""

import pytest

from disque.gateway.lmstfy.query import U16, U32, number, parse, signed


@pytest.mark.parametrize(
    ("query", "found"),
    [
        (b"", {}),
        (b"a=1&b=2", {"a": "1", "b": "2"}),
        (b"a=1&a=2", {"a": "1"}),
        (b"a", {"a": ""}),
        (b"a=b=c", {"a": "b=c"}),
        (b"a=%31+2&%61b=x", {"a": "1 2", "ab": "x"}),
        (b"&&=&a=1", {"": "", "a": "1"}),
        (b"a=%ff", {"a": "\ufffd"}),
        (b"a=%zz&b=%4&c=%&d=1;e=2&f=3", {"f": "3"}),
        (b"a=%zz&a=2", {"a": "2"}),
        (b"%61=1&a=2", {"a": "1"}),
    ],
)
def test_the_first_value_counts(query: bytes, found: dict[str, str]) -> None:
    assert parse(query) == found


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), ("007", 7), ("65535", 65535), ("65536", None), ("", None), ("-1", None), ("+1", None), ("1.0", None)],
)
def test_numbers_are_digits_within_bounds(text: str, value: int | None) -> None:
    assert number(text, U16) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [("5", 5), ("+5", 5), ("-5", -5), ("-0", 0), ("", None), ("+", None), ("--1", None)],
)
def test_what_go_reads_as_a_signed_number_may_have_a_sign(text: str, value: int | None) -> None:
    assert signed(text) == value


@pytest.mark.parametrize("text", ["1_0", " 1", "1 ", "0x1", "\u0661", "9" * 100_000])
def test_what_python_would_take_for_a_number_and_go_would_not_is_none(text: str) -> None:
    assert number(text, U32) is None
