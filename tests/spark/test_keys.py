from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from disque.spark.keys import KEY_BYTES, Keys, again, head, scope_of

BODIES = st.lists(st.binary(max_size=3), max_size=12)


def keys(bodies: Sequence[bytes], scope: str = "run 1", partition: int = 0) -> list[bytes]:
    return Keys(scope, partition).make([head(b"q", ())] * len(bodies), bodies)


@given(BODIES, st.randoms())
def test_the_same_rows_have_the_same_keys_in_any_order(bodies: list[bytes], random: object) -> None:
    shuffled = list(bodies)
    random.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis gives a Random
    assert sorted(keys(bodies)) == sorted(keys(shuffled))


@given(BODIES)
def test_each_row_has_a_key_of_its_own(bodies: list[bytes]) -> None:
    assert len(set(keys(bodies))) == len(bodies)
    assert all(len(key) == KEY_BYTES for key in keys(bodies))


@given(BODIES.filter(bool))
def test_other_scopes_and_other_partitions_have_other_keys(bodies: list[bytes]) -> None:
    assert not set(keys(bodies)) & set(keys(bodies, scope="run 2"))
    assert not set(keys(bodies)) & set(keys(bodies, partition=1))


def test_a_second_occurrence_is_another_key() -> None:
    first, second, third = keys([b"a", b"a", b"a"])
    assert (second, third) == (again(first, 1), again(first, 2))


ROWS = st.tuples(
    st.binary(max_size=4), st.lists(st.none() | st.integers(0, 9), min_size=2, max_size=2), st.binary(max_size=4)
)


@given(ROWS, ROWS)
def test_no_two_rows_look_the_same(one: tuple[bytes, list[int], bytes], other: tuple[bytes, list[int], bytes]) -> None:
    assert (one == other) == (head(*one[:2]) + one[2] == head(*other[:2]) + other[2])


def test_what_belongs_together() -> None:
    assert scope_of(None, None, None, "s1") == "save of s1"
    assert scope_of("r", None, None, "s1") == scope_of("r", None, None, "s2")
    assert scope_of(None, "q", "7", "s1") == scope_of(None, "q", "7", "s2") != scope_of(None, "q", "8", "s1")
    assert scope_of("r", "q", "7", "s1") != scope_of("r", "q", "8", "s1"), "a batch of a run that has a name"
