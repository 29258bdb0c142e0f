import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from disque.core.base.glob import MAX_PATTERN, Glob


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (b"*", b""),
        (b"*", b"anything"),
        (b"maxmemory", b"maxmemory"),
        (b"max*", b"maxmemory"),
        (b"*memory*", b"maxmemory-policy"),
        (b"m?x*", b"maxclients"),
        (b"[hm]z", b"hz"),
        (b"[a-i]z", b"hz"),
        (b"[i-a]z", b"hz"),
        (b"[^a-g]z", b"hz"),
        (b"[\\]h]z", b"hz"),
        (b"\\*", b"*"),
        (b"a\\", b"a\\"),
        (b"[hz", b"h"),
        (b"[a-]", b"_"),
        (b"****z", b"hz"),
    ],
)
def test_fits(pattern: bytes, text: bytes) -> None:
    assert Glob(pattern).matches(text)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (b"", b"hz"),
        (b"?", b""),
        (b"HZ", b"hz"),
        (b"max", b"maxmemory"),
        (b"memory", b"maxmemory"),
        (b"[^h]z", b"hz"),
        (b"[]z", b"hz"),
        (b"\\*", b"hz"),
        (b"h?z", b"hz"),
    ],
)
def test_does_not_fit(pattern: bytes, text: bytes) -> None:
    assert not Glob(pattern).matches(text)


def test_many_stars_cost_no_more_than_the_two_lengths_multiplied() -> None:
    assert not Glob(b"*a" * 1000 + b"b").matches(b"a" * 4000)


def test_a_pattern_beyond_the_limit_fits_nothing() -> None:
    assert Glob(b"*" * MAX_PATTERN).matches(b"hz")
    assert not Glob(b"*" * (MAX_PATTERN + 1)).matches(b"hz")


@given(st.text("ab*?", max_size=8), st.text("abc", max_size=10))
def test_stars_and_marks_mean_what_they_mean_in_a_regular_expression(pattern: str, text: str) -> None:
    same = pattern.replace("*", ".*").replace("?", ".")
    assert Glob(pattern.encode()).matches(text.encode()) == bool(re.fullmatch(same, text))


@given(st.binary(max_size=20), st.binary(max_size=20))
def test_no_pattern_fails(pattern: bytes, text: bytes) -> None:
    Glob(pattern).matches(text)


def test_what_stands_behind_a_star_is_walked_through_once() -> None:
    """A step for each byte of the text: with a step for each byte and place these would be 2,400 million."""
    glob = Glob(b"*" + b"a" * 2000 + b"b")
    assert not any(glob.matches(b"a" * 4000 + b"%d" % number) for number in range(300))
    assert glob.matches(b"a" * 4000 + b"b")


@pytest.mark.parametrize("pattern", [b"*[^a]?[\x01-\xff]b*c", b"x*[a-c][^a-c]*", b"*??", b"*a*a"])
@given(text=st.binary(max_size=6) | st.text("abcdx", max_size=8).map(str.encode))
def test_classes_behind_a_star_mean_what_they_mean_in_a_regular_expression(pattern: bytes, text: bytes) -> None:
    expression = pattern.replace(b"?", b".").replace(b"*", b".*")
    assert Glob(pattern).matches(text) == bool(re.fullmatch(expression, text, re.DOTALL))
