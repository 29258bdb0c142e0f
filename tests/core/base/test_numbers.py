import pytest
from hypothesis import given
from hypothesis import strategies as st

from disque.core.base.numbers import parse_int, parse_ms, parse_seconds, parse_uint64


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


#: Besides what is no whole number: what other languages call a number, and what is only nearly one.
NO_DURATION = [
    *[word for word in BAD if word != b"1.0"],
    *(b"nan", b"inf", b"-inf", b"1e5", b"1E-3", b"1.5e3", b"1e400", b".", b"1.", b".5", b"-0.5", b"+0.5", b"1.+5"),
    *(b"1.-5", b"1.2.3", b"1..2", b"1,5", b"0x1.8", b" 1.5", b"1.5 ", b"1_0.5", b"1.5_0", b"1.5s", b"1.\xd9\xa1"),
    b"1." + b"0" * 63,
]


@given(st.integers(0, 2**32), st.integers(0, 999))
def test_every_millisecond_is_read(seconds: int, ms: int) -> None:
    assert parse_ms(b"%d.%03d" % (seconds, ms)) == seconds * 1000 + ms


@given(st.integers(-(2**63), 2**63 - 1))
def test_whole_seconds_are_durations(value: int) -> None:
    assert parse_ms(b"%d" % value) == value * 1000
    assert parse_seconds(b"%d" % value) == value


@pytest.mark.parametrize(
    ("word", "ms", "seconds"),
    [
        (b"0.25", 250, 1),
        (b"0.5", 500, 1),
        (b"1.0", 1000, 1),
        (b"1.001", 1001, 2),
        (b"00.1", 100, 1),
        (b"2.9999", 2999, 3),
        (b"0.001", 1, 1),
        (b"0.0001", 1, 1),
        (b"0." + b"0" * 61 + b"1", 1, 1),
        (b"", 0, 0),
        (b"+5", 5000, 5),
        (b"-0", 0, 0),
    ],
)
def test_durations_may_have_decimals(word: bytes, ms: int, seconds: int) -> None:
    assert parse_ms(word) == ms
    assert parse_seconds(word) == seconds


@pytest.mark.parametrize("word", NO_DURATION)
def test_what_is_no_duration(word: bytes) -> None:
    assert parse_ms(word) is None
    assert parse_seconds(word) is None


def test_zero_with_decimals_is_zero_only_where_nothing_is_rounded() -> None:
    assert parse_ms(b"0.0") == parse_ms(b"0.000000") == 0
    assert parse_seconds(b"0.0") is None


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
