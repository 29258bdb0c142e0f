import pytest
from hypothesis import given
from hypothesis import strategies as st

from disque.core.base.numbers import parse_int, parse_uint64


@given(st.integers(-(2**63), 2**63 - 1))
def test_every_64_bit_number_is_read(value: int) -> None:
    assert parse_int(b"%d" % value) == value
    assert parse_int(b"%+d" % value) == value


@pytest.mark.parametrize(
    ("word", "value"), [(b"", 0), (b"0", 0), (b"-0", 0), (b"+0", 0), (b"007", 7), (b"-007", -7), (b"0" * 60 + b"5", 5)]
)
def test_forms_that_are_fine(word: bytes, value: int) -> None:
    assert parse_int(word) == value


BAD = [
    b" 1",
    b"1 ",
    b"1.0",
    b"1e3",
    b"0x1",
    b"1_0",
    b"+",
    b"-",
    b"--1",
    b"+-1",
    b"x",
    b"1\0",
    b"\n",
    b"\xd9\xa1",
    b"\xb2",
]


@pytest.mark.parametrize("word", [*BAD, str(2**63).encode(), str(-(2**63) - 1).encode(), b"9" * 1000])
def test_forms_that_are_none(word: bytes) -> None:
    assert parse_int(word) is None


@given(st.binary(max_size=8))
def test_nothing_but_a_sign_and_digits_is_a_number(word: bytes) -> None:
    digits = word[1:] if word[:1] in {b"+", b"-"} else word
    is_number = not word or (bool(digits) and all(48 <= char <= 57 for char in digits))
    assert (parse_int(word) is not None) == is_number


@given(st.integers(0, 2**64 - 1))
def test_every_cursor_is_read(value: int) -> None:
    assert parse_uint64(b"%d" % value) == value


@pytest.mark.parametrize(
    ("word", "value"),
    [
        (b"", 0),
        (b"-1", 2**64 - 1),
        (b"-0", 0),
        (b"+7", 7),
        (b"-18446744073709551615", 1),
        (b"18446744073709551616", None),
    ],
)
def test_cursors_at_their_bounds(word: bytes, value: int | None) -> None:
    assert parse_uint64(word) == value


@pytest.mark.parametrize("word", [*BAD, b"9" * 1000])
def test_what_is_no_cursor(word: bytes) -> None:
    assert parse_uint64(word) is None
