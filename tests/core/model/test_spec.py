"""What the jobs of a queue have in common is one object, as long as there are few kinds of jobs."""

from collections.abc import Iterator

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from disque.core.base.numbers import SECONDS_MAX
from disque.core.model.spec import (
    ENCODED_MOST,
    NEWER_BYTES,
    NEWER_MOST,
    NUMBERS_MOST,
    READ_MOST,
    REPL,
    RETRY,
    ROWS_MOST,
    SPECS_MOST,
    TABLE,
    TTL,
    VALUE_BYTES,
    JobSpec,
    Row,
    SpecCache,
    Value,
    decode,
    encode,
    read,
)
from tests.conftest import FORM


def usual(ttl: int = 100, retry: int = 10, repl: int = 1) -> SpecCache:
    return SpecCache(JobSpec(b"q", ttl, retry, repl))


def of(values: dict[int, Value]) -> bytes:
    """These values as a spec, whatever they are."""
    packed: bytes = msgpack.packb(values)
    return packed


class TestSpec:
    def test_it_says_what_it_was_given(self) -> None:
        spec = JobSpec(b"q", SECONDS_MAX, 0, 65535)
        assert (spec.queue, spec.ttl, spec.retry, spec.repl) == (b"q", SECONDS_MAX, 0, 65535)

    def test_it_is_equal_to_what_says_the_same(self) -> None:
        spec = JobSpec(b"q", 3, 2, 1)
        assert spec.equals(spec)
        assert spec.equals(JobSpec(b"q", 3, 2, 1))
        others = [
            *(JobSpec(b"r", 3, 2, 1), JobSpec(b"q", 4, 2, 1), JobSpec(b"q", 3, 3, 1), JobSpec(b"q", 3, 2, 2)),
            JobSpec(b"q", 3, 2, 1, {99: 1}),
        ]
        assert not any(spec.equals(other) for other in others)
        assert others[-1].equals(JobSpec(b"q", 3, 2, 1, {99: 1}))

    def test_it_is_small(self) -> None:
        assert (JobSpec.__basicsize__, SpecCache.__basicsize__) == ((80, 48) if FORM == "compiled" else (72, 40))


class TestCache:
    def test_equal_numbers_get_one_object(self) -> None:
        known = usual()
        assert known.spec(100, 10, 1) is known.spec(100, 10, 1)
        assert known.spec(100, 10, 1) is known.last

    @pytest.mark.parametrize("numbers", [(101, 10, 1), (100, 11, 1), (100, 10, 2)])
    def test_each_number_makes_a_difference(self, numbers: tuple[int, int, int]) -> None:
        known = usual()
        first = known.spec(100, 10, 1)
        other = known.spec(*numbers)
        assert other is not first
        assert (other.ttl, other.retry, other.repl) == numbers
        assert other.queue is first.queue

    def test_a_few_kinds_that_take_turns_share_theirs(self) -> None:
        known = usual(0)
        rounds = [[known.spec(ttl, 10, 1) for ttl in range(SPECS_MOST)] for _ in range(3)]
        assert len({id(spec) for turn in rounds for spec in turn}) == SPECS_MOST
        assert [spec.ttl for spec in rounds[-1]] == list(range(SPECS_MOST))

    def test_the_oldest_make_room_so_that_no_more_than_a_few_are_remembered(self) -> None:
        known = usual(0)
        specs = [known.spec(ttl, 10, 1) for ttl in range(3 * SPECS_MOST)]
        assert [one.ttl for one in specs] == list(range(3 * SPECS_MOST))
        assert all(known.spec(one.ttl, 10, 1) is one for one in specs[-SPECS_MOST:])
        assert known.spec(0, 10, 1) is not specs[0]

    def test_what_is_read_is_the_object_that_was_made_of_numbers(self) -> None:
        known = usual()
        assert known.read(encode(100, 10, 1, None)) is known.last
        other = known.spec(100, 10, 2)
        assert known.read(encode(100, 10, 1, None)) is not other
        assert known.read(other.encoded) is other is known.last

    def test_and_the_other_way_round(self) -> None:
        known = usual()
        for repl in range(2, 9):
            spec = known.read(encode(100, 10, repl, None))
            assert spec is known.spec(100, 10, repl)

    def test_one_with_more_rows_is_no_plain_one(self) -> None:
        known = usual()
        rare = known.read(encode(100, 10, 1, {99: 1}))
        assert rare is not None
        assert (rare.ttl, rare.retry, rare.repl, rare.rows) == (100, 10, 1, {99: 1})
        assert known.spec(100, 10, 1) is not rare
        assert known.read(encode(100, 10, 1, {99: 1})) is rare

    def test_nonsense_is_not_remembered(self) -> None:
        known = usual()
        assert known.read(b"\xc1") is None
        assert known.read(b"") is None
        assert known.last.ttl == 100


class TestBytes:
    @pytest.mark.parametrize(
        ("numbers", "encoded"),
        [
            ((86400, 300, 1), b"\x80"),
            ((86400, 300, 3), b"\x81\x03\x03"),
            ((60, 0, 2), b"\x83\x01\x3c\x02\x00\x03\x02"),
            ((SECONDS_MAX, 300, 65535), b"\x82\x01\xce\xff\xff\xff\xff\x03\xcd\xff\xff"),
        ],
    )
    def test_they_are_for_ever(self, numbers: tuple[int, int, int], encoded: bytes) -> None:
        assert JobSpec(b"q", *numbers).encoded == encoded
        spec = read(b"q", encoded)
        assert spec is not None
        assert spec.says(*numbers)

    def test_numbers_and_defaults_of_the_rows_are_for_ever(self) -> None:
        found = [(row.number, row.name, row.default) for row in TABLE.values()]
        assert found[:3] == [(1, "ttl", 86400), (2, "retry", 300), (3, "repl", 1)]
        assert list(TABLE) == [row.number for row in TABLE.values()] == sorted(TABLE)

    @given(
        st.integers(1, SECONDS_MAX),
        st.integers(0, SECONDS_MAX),
        st.integers(1, 65535),
        st.dictionaries(
            st.integers(max(TABLE) + 1, NUMBERS_MOST - 1),
            st.integers(-(2**63), 2**64 - 1) | st.binary(max_size=60),
            max_size=9,
        ),
    )
    def test_everything_comes_back(self, ttl: int, retry: int, repl: int, rows: dict[int, Value]) -> None:
        encoded = encode(ttl, retry, repl, rows)
        spec = read(b"q", encoded)
        assert spec is not None
        assert (spec.queue, spec.ttl, spec.retry, spec.repl, spec.rows) == (b"q", ttl, retry, repl, rows or None)
        assert spec.encoded == encoded
        assert JobSpec(b"q", ttl, retry, repl, rows or None).encoded == encoded

    @pytest.mark.parametrize(
        "encoded",
        [
            *(b"", b"\xc1", b"\x80\x80", b"\xc0", b"\x90", b"\x01", b"\xc4\x00", b"\xa0"),
            *(b"\x81" * 9, b"\x81" * ENCODED_MOST, b"\x81\x09" * (ENCODED_MOST // 2), b"\x91" * ENCODED_MOST),
            *(b"\xdf\xff\xff\xff\xff", b"\x81\x09\xc6\xff\xff\xff\xff", b"\x81\x09\xdd\xff\xff\xff\xff"),
            *(b"\x81\x09\xd4\x05x", b"\x81\x09\xa1x", b"\x81\x09\x90", b"\x81\x09\x80", b"\x81\x09\xc0"),
            *(b"\x81\x09\xc3", b"\x81\x09\xca\x3f\x80\x00\x00", b"\x81\x09\xd7\xff" + bytes(8)),
            *(b"\x81\x80\x09", b"\x81\x90\x09", b"\x81\xc4\x01x\x09", b"\x81\xc0\x09", b"\x81\xc3\x09"),
            *(of({0: 1}), of({-1: 1}), of({NUMBERS_MOST: 1})),
            *(of({1: 0}), of({1: -1}), of({1: SECONDS_MAX + 1}), of({1: b"60"}), of({2: -1}), of({2: 2**40})),
            *(of({3: 0}), of({3: 65536}), of({3: b""})),
            # What is fine, but not as nodes say it.
            *(of({1: 86400}), of({2: 300}), of({3: 1}), of({2: 1, 1: 1}), of({100: 1, 99: 1})),
            *(b"\x82\x09\x01\x09\x01", b"\x81\x09\xcc\x01", b"\xde\x00\x01\x09\x01", b"\x81\xcc\x09\x01"),
        ],
        ids=bytes.hex,
    )
    def test_what_no_node_makes_is_refused(self, encoded: bytes) -> None:
        assert decode(encoded) is None
        assert read(b"q", encoded) is None

    @given(st.binary(max_size=40))
    def test_any_bytes_are_a_spec_or_refused(self, encoded: bytes) -> None:
        spec = read(b"q", encoded)
        assert spec is None or encode(spec.ttl, spec.retry, spec.repl, spec.rows) == encoded

    def test_rows_of_newer_nodes_have_a_bound(self) -> None:
        longest: dict[int, Value] = {99: bytes(NEWER_BYTES - 2 * VALUE_BYTES), 100: 2**64 - 1}
        assert decode(of(longest)) is not None
        assert decode(of({**longest, 101: 1})) is None
        assert decode(of(dict.fromkeys(range(100, 100 + NEWER_MOST), 1))) is not None
        assert decode(of(dict.fromkeys(range(100, 101 + NEWER_MOST), 1))) is None

    @pytest.mark.parametrize(
        "newer",
        [
            {60_000: bytes(NEWER_BYTES - VALUE_BYTES)},
            {60_000 + number: 2**64 - 1 - number for number in range(NEWER_MOST)},
            {60_000 + number: bytes(NEWER_BYTES // NEWER_MOST - VALUE_BYTES) for number in range(NEWER_MOST)},
        ],
    )
    def test_all_rows_that_there_are_fit_into_one_beside_those_of_newer_nodes(self, newer: dict[int, Value]) -> None:
        """What ADDJOB may say can be told to others, and what becomes of a job that a newer node has added."""
        largest: dict[int, Value] = {
            row.number: bytes(row.most) if isinstance(row.default, bytes) else row.most for row in TABLE.values()
        }
        assert decode(of({**largest, **newer})) is not None
        assert len(largest) + NEWER_MOST <= ROWS_MOST

    def test_what_was_read_is_looked_up_and_forgotten_when_there_is_much_of_it(self) -> None:
        first = of({99: 0})
        assert decode(first) is decode(first)
        before = decode(first)
        for number in range(1, READ_MOST + 1):
            decode(of({99: number}))
        assert decode(first) is not before


class TestRow:
    """A further option is a row. What else there is needs no change."""

    @pytest.fixture
    def tries(self) -> Iterator[Row]:
        row = TABLE[60_001] = Row(60_001, "tries", 0, 0, 65535)
        yield row
        del TABLE[60_001]

    @pytest.fixture
    def name(self) -> Iterator[Row]:
        row = TABLE[60_002] = Row(60_002, "name", b"", 0, 9)
        yield row
        del TABLE[60_002]

    def test_its_value_is_read_by_the_row(self, tries: Row, name: Row) -> None:
        spec = read(b"q", encode(60, 5, 1, {tries.number: 7, name.number: b"dead"}))
        assert spec is not None
        assert (spec.number(tries), spec.text(name)) == (7, b"dead")

    def test_it_has_a_default_which_is_not_encoded(self, tries: Row, name: Row) -> None:
        spec = JobSpec(b"q", 60, 5, 1)
        assert (spec.number(tries), spec.text(name)) == (0, b"")
        assert encode(60, 5, 1, {tries.number: 0, name.number: b""}) == spec.encoded

    @pytest.mark.parametrize("value", [-1, 65536, b"7"])
    def test_a_number_has_bounds(self, tries: Row, value: Value) -> None:
        assert decode(of({tries.number: value})) is None

    @pytest.mark.parametrize("value", [bytes(10), 7])
    def test_a_byte_string_has_bounds(self, name: Row, value: Value) -> None:
        assert decode(of({name.number: value})) is None

    def test_the_first_three_are_attributes(self) -> None:
        for row in (TTL, RETRY, REPL):
            with pytest.raises(AssertionError):
                JobSpec(b"q", 60, 5, 1).number(row)
