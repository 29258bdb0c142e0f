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
    store = KeyStore()
    for number in range(count):
        store.put(digest(number), row(ID, ends_ms + number, segment), is_listed=False)
    return store


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
    store = KeyStore()
    whole = (b"D-%b-%b-%b" % parts, ends_ms, segment, repl, state)
    store.put(key, whole, is_listed=False)
    assert store.get(key) == whole
    assert list(store) == [key]


def test_what_is_not_there_is_not_found_though_it_looks_alike() -> None:
    store = filled(30)
    assert store.get(digest(31)) is None
    assert store.get(digest(4)[:-1] + b"z") is None
    assert KeyStore().get(digest(1)) is None


@settings(max_examples=examples(30))
@given(st.integers(0, 1 << 20), st.integers(1, 1500))
def test_keys_come_and_go_in_any_order(seed: int, most: int) -> None:
    random = Random(seed)
    store = KeyStore()
    known: dict[bytes, tuple[bytes, int, int, int, int]] = {}
    for _ in range(most):
        key = digest(random.randrange(most))
        if key in known:
            store.drop(key)
            del known[key]
        else:
            known[key] = row(ID, NOW_MS + random.randrange(9000), random.randrange(3))
            store.put(key, known[key], is_listed=False)
    assert store.count == len(known)
    assert {key: store.get(key) for key in store} == known


def test_to_drop_what_is_not_there_changes_nothing() -> None:
    store = filled(3)
    store.drop(digest(9))
    assert store.count == 3


def test_more_keys_than_there_was_room_for_at_first_are_found() -> None:
    store = filled(2000)
    assert store.count == len(store.digests(digest(0)[0] << 4 | digest(0)[1] >> 4)) == 2000
    assert store.get(digest(1999)) == row(ID, NOW_MS + 1999)
    for number in range(1999):
        store.drop(digest(number))
    assert list(store) == [digest(1999)]


# -- the end of a window ----------------------------------------------------------------------------------------------


def test_keys_go_when_the_second_in_which_their_window_ends_is_over() -> None:
    store = filled(1)
    assert store.next_ms() == NOW_MS // 1000 * 1000 + 1000
    assert store.expire(store.next_ms() - 1, 10) == []
    assert store.count == 1
    assert store.expire(store.next_ms(), 10) == [0]
    assert (store.count, store.next_ms()) == (0, NEVER)


def test_no_more_are_looked_at_than_is_said() -> None:
    store = filled(500)
    late_ms = NOW_MS + 5000
    assert [len(store.expire(late_ms, 200)) for _ in range(4)] == [200, 200, 100, 0]
    assert store.next_ms() == NEVER


def test_the_segments_of_what_goes_are_told() -> None:
    store = filled(2, segment=7)
    store.put(digest(9), row(segment=8), is_listed=False)
    assert sorted(store.expire(NOW_MS + 5000, 10)) == [7, 7, 8]


def test_a_key_that_has_gone_before_is_not_missed_and_a_new_one_of_its_digest_stays() -> None:
    store = filled(2)
    store.drop(digest(0))
    store.drop(digest(1))
    store.put(digest(1), row(ends_ms=NOW_MS + 60_000), is_listed=False)
    assert store.expire(NOW_MS + 5000, 10) == []
    assert list(store) == [digest(1)]
    assert store.expire(NOW_MS + 65_000, 10) == [0]


@pytest.mark.parametrize("is_expired", [False, True])
def test_one_that_comes_back_is_listed_once_and_goes_all_the_same(is_expired: bool) -> None:
    store = filled(1)
    store.drop(digest(0))
    if is_expired:
        store.expire(NOW_MS + 5000, 10)
    store.put(digest(0), row(), is_listed=True)
    assert store.expire(NOW_MS + 5000, 1) == [0]
    assert store.next_ms() == NEVER


# -- the journal ------------------------------------------------------------------------------------------------------


def test_the_segment_of_a_key_changes_and_nothing_else() -> None:
    store = filled(3, segment=1)
    store.lies_in(digest(1), 70_000)
    store.lies_in(digest(9), 5)
    assert store.get(digest(1)) == row(ID, NOW_MS + 1, 70_000)
    where = digest(0)[0] << 4 | digest(0)[1] >> 4
    assert where < SHARDS
    assert store.digests(where, 1) == [digest(0), digest(2)]
    store.forget_segments()
    assert store.digests(where, 0) == list(store)


@settings(max_examples=examples(60))
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.booleans()), min_size=1, max_size=60))
def test_rows_and_ends_are_right_whatever_came_before(steps: list[tuple[int, int, bool]]) -> None:
    """What a put shares with the one before, numbers and seconds, is not what it shares no more."""
    store = KeyStore()
    there: dict[bytes, tuple[bytes, int, int, int, int]] = {}
    for number, (seconds, segment, ends) in enumerate(steps):
        one = (ID, NOW_MS + 1000 * seconds, segment, 1 + segment, segment)
        before_ms = store.next_ms()
        is_first = store.put(digest(number), one, is_listed=False)
        assert is_first or store.next_ms() == before_ms
        there[digest(number)] = one
        if ends:
            now_ms = store.next_ms()
            gone = [key for key, row in there.items() if row[1] < now_ms]
            assert sorted(store.expire(now_ms, 1000)) == sorted(there[key][2] for key in gone)
            for key in gone:
                del there[key]
    assert {key: store.get(key) for key in store} == there
    assert len(store.expire(NOW_MS + 60_000, 1000)) == len(there)
    assert store.next_ms() == NEVER
