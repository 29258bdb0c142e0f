import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.messages import MORE_MOST
from disque.core.model.extra import (
    BOUNDS,
    DIED_TRIES,
    ERROR_AGE_MS,
    ERROR_MOST,
    GENERATION_MOST,
    HEADERS_BYTES,
    HEADERS_MOST,
    IN_JOURNAL,
    NEWER_BYTES,
    NEWER_MOST,
    ORIGIN_MOST,
    PROGRESS_AGE_MS,
    PROGRESS_MOST,
    TRIES,
    Extra,
    Value,
    decode,
    encode,
    is_sound,
)
from disque.core.model.job import COUNTER_MAX
from disque.core.model.spec import ENCODED_MOST, VALUE_BYTES
from disque.core.node import IDS_MOST

NODE, OTHER = b"a" * 40, b"b" * 40
NOW_MS = 1_800_000_000_000


def extra(**values: object) -> Extra:
    made = Extra()
    for name, value in values.items():
        setattr(made, name, value)
    return made


def fields(one: Extra | None) -> dict[str, object]:
    assert one is not None
    names = [name for name in dir(Extra) if not name.startswith("_") and not callable(getattr(one, name))]
    return {name: getattr(one, name) for name in names if name != "sure"}


@given(
    st.lists(st.binary(min_size=1, max_size=20), max_size=5, unique=True),
    st.integers(0, 65535),
    st.binary(max_size=4096),
    st.integers(0, 10**9),
    st.integers(0, 2**39),
    st.booleans(),
)
def test_it_comes_back(names: list[bytes], tries: int, error: bytes, age_ms: int, generation: int, dead: bool) -> None:
    one = extra(headers=tuple([word for name in names for word in (name, b"v")]), tries=tries, error=error)
    one.error_ms = NOW_MS - age_ms if error else 0
    if generation:
        one.generation, one.mover = generation, NODE
    if dead:
        one.died, one.origin, one.first = 1, b"q", b"\x80"
    assert fields(decode(encode(one, NOW_MS), NOW_MS)) == fields(one)
    assert fields(decode(encode(one, IN_JOURNAL), IN_JOURNAL)) == fields(one)


def test_ages_travel_and_the_journal_has_times() -> None:
    one = extra(error=b"x", error_ms=NOW_MS - 700)
    found = decode(encode(one, NOW_MS), 5000)
    assert found is not None
    assert found.error_ms == 4300
    assert decode(encode(one, IN_JOURNAL), NOW_MS) is None
    assert decode(encode(one, NOW_MS), IN_JOURNAL) is None


def test_what_is_older_than_the_clock_of_a_node_is_of_its_first_moment() -> None:
    one = extra(error=b"x", error_ms=NOW_MS - 700, progress=b"y", progress_ms=NOW_MS - 900)
    found = decode(encode(one, NOW_MS), 500)
    assert found is not None
    assert (found.error_ms, found.progress_ms) == (0, 0)
    assert fields(decode(encode(found, IN_JOURNAL), IN_JOURNAL)) == fields(found)


def test_rows_of_newer_nodes_are_kept() -> None:
    said = msgpack.packb({TRIES: 1, 77: b"new", 78: (b"a",), 79: 5})
    found = decode(said, NOW_MS)
    assert found is not None
    assert encode(found, NOW_MS) == said
    assert encode(found.copied(), NOW_MS) == said


def values_of(number: int) -> st.SearchStrategy[Value]:
    """What a row can have."""
    if number not in BOUNDS:
        return st.integers(-(2**63), 2**64 - 1) | st.binary(max_size=9) | st.lists(st.binary(max_size=3)).map(tuple)
    kind, most = BOUNDS[number]
    if kind is int:
        return st.integers(0, most)
    if kind is bytes:
        return st.sampled_from([b"", b"x", NODE, b"y" * most]).filter(lambda text: len(text) <= most)
    return st.sampled_from([(), (b"n", b"v")])


ROWS = st.sets(st.sampled_from([*BOUNDS, 60_000, 60_001])).flatmap(
    lambda numbers: st.fixed_dictionaries({number: values_of(number) for number in sorted(numbers)})
)


@given(ROWS)
def test_what_another_node_says_can_be_read_in_the_journal(rows: dict[int, Value]) -> None:
    found = decode(msgpack.packb(rows), NOW_MS)
    if found is not None:
        assert fields(decode(encode(found, IN_JOURNAL), IN_JOURNAL)) == fields(found)
        assert fields(decode(encode(found, NOW_MS), NOW_MS)) == fields(found)


@pytest.mark.parametrize("row", [ERROR_AGE_MS, PROGRESS_AGE_MS])
def test_a_time_without_its_text_is_nothing(row: int) -> None:
    found = decode(msgpack.packb({row: 0}), NOW_MS)
    assert found is not None
    assert encode(found, IN_JOURNAL) == encode(Extra(), NOW_MS)


LARGEST_NEWER = [
    {60_000: bytes(NEWER_BYTES - VALUE_BYTES)},
    {60_000 + number: 2**64 - 1 for number in range(NEWER_MOST)},
    {60_000: (b"",) * (2 * HEADERS_MOST), 60_001: bytes(NEWER_BYTES - (2 * HEADERS_MOST + 2) * VALUE_BYTES)},
]


@pytest.mark.parametrize("newer", LARGEST_NEWER)
def test_beside_what_newer_nodes_may_say_there_is_room_for_everything(newer: dict[int, Value]) -> None:
    found = decode(msgpack.packb(newer), NOW_MS)
    assert found is not None
    found.headers = (b"n", bytes(HEADERS_BYTES // HEADERS_MOST - 1)) * HEADERS_MOST
    found.tries, found.died = COUNTER_MAX, DIED_TRIES
    found.error, found.error_ms = bytes(ERROR_MOST), NOW_MS
    found.progress, found.progress_ms = bytes(PROGRESS_MOST), NOW_MS
    found.generation, found.mover = GENERATION_MOST, NODE
    found.origin, found.first = bytes(ORIGIN_MOST), bytes(ENCODED_MOST)
    for now_ms in (NOW_MS, IN_JOURNAL):
        assert fields(decode(encode(found, now_ms), now_ms)) == fields(found)
    assert len(encode(found, NOW_MS)) * IDS_MOST <= MORE_MOST, (
        "nodes may say it of as many jobs as they speak of at once"
    )


def test_what_newer_nodes_say_counts_as_memory() -> None:
    found = decode(msgpack.packb({77: b"x" * 1000, 78: (b"y" * 1000,)}), NOW_MS)
    assert found is not None
    assert found.size() > Extra().size() + 2000


@pytest.mark.parametrize("newer", LARGEST_NEWER[:2])
def test_newer_nodes_may_not_say_more(newer: dict[int, Value]) -> None:
    assert decode(msgpack.packb({**newer, 60_100: b"x"}), NOW_MS) is None


@pytest.mark.parametrize(
    "said",
    [
        *(b"x", b"\xc1", msgpack.packb([1]), msgpack.packb({b"1": 1}), msgpack.packb({0: 1}), msgpack.packb({2: -1})),
        *(
            msgpack.packb({2: b"1"}),
            msgpack.packb({2: 65536}),
            msgpack.packb({3: b"x" * 4097}),
            msgpack.packb({2: 1.5}),
        ),
        *(msgpack.packb({1: (b"a",)}), msgpack.packb({1: (b"", b"v")}), msgpack.packb({1: (b"x" * 129, b"v")})),
        *(
            msgpack.packb({1: (b"a", 7)}),
            msgpack.packb({1: (b"a", b"v") * 65}),
            msgpack.packb({1: (b"a", b"v" * 65536)}),
        ),
        *(
            msgpack.packb({5: 1}),
            msgpack.packb({6: NODE}),
            msgpack.packb({5: 1, 6: b"short"}),
            msgpack.packb({5: None}),
        ),
        *(msgpack.packb({9: b"x" * 1025}), msgpack.packb({8: -1}), msgpack.packb({1 << 16: 1}), msgpack.packb({1: {}})),
        msgpack.packb(dict.fromkeys(range(100, 140), 1)),
    ],
)
def test_nonsense_is_refused(said: bytes) -> None:
    assert decode(said, NOW_MS) is None
    assert not is_sound(said)


def test_nothing_is_sound() -> None:
    assert is_sound(b"")
    assert is_sound(encode(Extra(), NOW_MS))


def test_of_two_moves_one_wins_for_all() -> None:
    one, later = extra(generation=1, mover=OTHER), extra(generation=2, mover=OTHER)
    assert later.beats(b"z", one, b"a")
    assert not one.beats(b"a", later, b"z")
    assert one.beats(b"a", extra(generation=1, mover=NODE), b"b")
    assert one.beats(b"a", extra(generation=1, mover=NODE), b"ab")
    assert extra(generation=1, mover=NODE).beats(b"a", one, b"a")
    assert not one.beats(b"a", one, b"a")


def test_who_follows_a_move_keeps_headers_and_the_later_error() -> None:
    mine = extra(headers=(b"a", b"1"), tries=3, error=b"late", error_ms=20, sure={NODE: 1})
    theirs = extra(headers=(b"b", b"2"), generation=1, mover=NODE, error=b"early", error_ms=10)
    mine.take_move(theirs)
    assert (mine.headers, mine.tries, mine.error, mine.generation, mine.sure) == ((b"a", b"1"), 0, b"late", 1, None)


def test_it_counts_for_what_it_holds() -> None:
    assert extra(error=b"x" * 1000).size() == Extra().size() + 1000
    assert extra(headers=(b"a", b"x" * 500)).size() > Extra().size() + 501
