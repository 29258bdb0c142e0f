from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from disque.core.base.timers import NEVER
from disque.core.model.key_store import DIGEST_BYTES, REPL_MAX, SHARDS, KeyStore
from tests.conftest import examples

ID = b"D-5d5d5d5d-abcdefghijklmnopqrstuvwx-05a1"
NOW_MS = 1_800_000_000_123


def digest(number: int) -> bytes:
    """All of them in one array, every third with the same mark."""
    return b"%013d" % number + b"x" + b"abc"[number % 3 : number % 3 + 1]


def row(job_id: bytes = ID, ends_ms: int = NOW_MS, segment: int = 0) -> tuple[bytes, int, int, int, int]:
    return (job_id, ends_ms, segment, 3, 2)


def filled(count: int, ends_ms: int = NOW_MS, segment: int = 0) -> KeyStore:
    shelf = KeyStore()
    for number in range(count):
        shelf.put(digest(number), row(ID, ends_ms + number, segment), is_listed=False)
    return shelf


@given(
    st.binary(min_size=DIGEST_BYTES, max_size=DIGEST_BYTES),
    st.tuples(*[st.binary(min_size=size, max_size=size) for size in (8, 24, 4)]),
    st.integers(1, 2**62 - 1),
    st.integers(0, 2**32 - 1),
    st.integers(0, REPL_MAX),
    st.integers(0, 2),
)
def test_a_key_comes_back_as_it_was_put(
    key: bytes, parts: tuple[bytes, bytes, bytes], ends_ms: int, segment: int, repl: int, state: int
) -> None:
    shelf = KeyStore()
    whole = (b"D-%b-%b-%b" % parts, ends_ms, segment, repl, state)
    shelf.put(key, whole, is_listed=False)
    assert shelf.get(key) == whole
    assert list(shelf) == [key]


def test_what_is_not_there_is_not_found_though_it_looks_alike() -> None:
    shelf = filled(30)
    assert shelf.get(digest(31)) is None
    assert shelf.get(digest(4)[:-1] + b"z") is None
    assert KeyStore().get(digest(1)) is None


@settings(max_examples=examples(30))
@given(st.integers(0, 1 << 20), st.integers(1, 1500))
def test_keys_come_and_go_in_any_order(seed: int, most: int) -> None:
    random = Random(seed)
    shelf = KeyStore()
    known: dict[bytes, tuple[bytes, int, int, int, int]] = {}
    for _ in range(most):
        key = digest(random.randrange(most))
        if key in known:
            shelf.drop(key)
            del known[key]
        else:
            known[key] = row(ID, NOW_MS + random.randrange(9000), random.randrange(3))
            shelf.put(key, known[key], is_listed=False)
    assert shelf.count == len(known)
    assert {key: shelf.get(key) for key in shelf} == known


def test_to_drop_what_is_not_there_changes_nothing() -> None:
    shelf = filled(3)
    shelf.drop(digest(9))
    assert shelf.count == 3


def test_more_keys_than_there_was_room_for_at_first_are_found() -> None:
    shelf = filled(2000)
    assert shelf.count == len(shelf.digests(digest(0)[0] << 4 | digest(0)[1] >> 4)) == 2000
    assert shelf.get(digest(1999)) == row(ID, NOW_MS + 1999)
    for number in range(1999):
        shelf.drop(digest(number))
    assert list(shelf) == [digest(1999)]


# -- the end of a window ----------------------------------------------------------------------------------------------


def test_keys_go_when_the_second_in_which_their_window_ends_is_over() -> None:
    shelf = filled(1)
    assert shelf.next_ms() == NOW_MS // 1000 * 1000 + 1000
    assert shelf.expire(shelf.next_ms() - 1, 10) == []
    assert shelf.count == 1
    assert shelf.expire(shelf.next_ms(), 10) == [0]
    assert (shelf.count, shelf.next_ms()) == (0, NEVER)


def test_no_more_are_looked_at_than_is_said() -> None:
    shelf = filled(500)
    late_ms = NOW_MS + 5000
    assert [len(shelf.expire(late_ms, 200)) for _ in range(4)] == [200, 200, 100, 0]
    assert shelf.next_ms() == NEVER


def test_the_segments_of_what_goes_are_told() -> None:
    shelf = filled(2, segment=7)
    shelf.put(digest(9), row(segment=8), is_listed=False)
    assert sorted(shelf.expire(NOW_MS + 5000, 10)) == [7, 7, 8]


def test_a_key_that_has_gone_before_is_not_missed_and_a_new_one_of_its_digest_stays() -> None:
    shelf = filled(2)
    shelf.drop(digest(0))
    shelf.drop(digest(1))
    shelf.put(digest(1), row(ends_ms=NOW_MS + 60_000), is_listed=False)
    assert shelf.expire(NOW_MS + 5000, 10) == []
    assert list(shelf) == [digest(1)]
    assert shelf.expire(NOW_MS + 65_000, 10) == [0]


@pytest.mark.parametrize("is_expired", [False, True])
def test_one_that_comes_back_is_listed_once_and_goes_all_the_same(is_expired: bool) -> None:
    shelf = filled(1)
    shelf.drop(digest(0))
    if is_expired:
        shelf.expire(NOW_MS + 5000, 10)
    shelf.put(digest(0), row(), is_listed=True)
    assert shelf.expire(NOW_MS + 5000, 1) == [0]
    assert shelf.next_ms() == NEVER


# -- the journal ------------------------------------------------------------------------------------------------------


def test_the_segment_of_a_key_changes_and_nothing_else() -> None:
    shelf = filled(3, segment=1)
    shelf.lies_in(digest(1), 70_000)
    shelf.lies_in(digest(9), 5)
    assert shelf.get(digest(1)) == row(ID, NOW_MS + 1, 70_000)
    where = digest(0)[0] << 4 | digest(0)[1] >> 4
    assert where < SHARDS
    assert shelf.digests(where, 1) == [digest(0), digest(2)]
    shelf.forget_segments()
    assert shelf.digests(where, 0) == list(shelf)


@settings(max_examples=examples(60))
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.booleans()), min_size=1, max_size=60))
def test_rows_and_ends_are_right_whatever_came_before(steps: list[tuple[int, int, bool]]) -> None:
    """What a put shares with the one before, numbers and seconds, is not what it shares no more."""
    shelf = KeyStore()
    there: dict[bytes, tuple[bytes, int, int, int, int]] = {}
    for number, (seconds, segment, ends) in enumerate(steps):
        one = (ID, NOW_MS + 1000 * seconds, segment, 1 + segment, segment)
        before_ms = shelf.next_ms()
        is_first = shelf.put(digest(number), one, is_listed=False)
        assert is_first or shelf.next_ms() == before_ms
        there[digest(number)] = one
        if ends:
            now_ms = shelf.next_ms()
            gone = [key for key, row in there.items() if row[1] < now_ms]
            assert sorted(shelf.expire(now_ms, 1000)) == sorted(there[key][2] for key in gone)
            for key in gone:
                del there[key]
    assert {key: shelf.get(key) for key in shelf} == there
    assert len(shelf.expire(NOW_MS + 60_000, 1000)) == len(there)
    assert shelf.next_ms() == NEVER
