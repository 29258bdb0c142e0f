"""Replies of beanstalkd are counted right however they are cut."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from disque.cli.bench_lane import Budget
from disque.cli.bench_tally import Tally
from tests.speed.beanstalk import DeleteLane, LinesLane, ReserveLane, put

cuts = st.lists(st.integers(min_value=0), max_size=10)


def in_pieces(lane: LinesLane, data: bytes, cut: list[int]) -> list[bytes | None]:
    places = sorted({place % len(data) for place in cut} | {0, len(data)})
    return [lane.feed(data[low:high]) for low, high in itertools.pairwise(places)]


def lane_of(kind: type[LinesLane], operations: int = 3) -> LinesLane:
    return kind(Budget(operations), Tally(), lambda: 0, 3, lambda _batch, size: b"ask\r\n" * size)


def test_put() -> None:
    assert put(b"abc", 7) == b"put 0 7 600 3\r\nabc\r\n"


@given(cuts)
def test_lines_count_the_same_at_any_chunking(cut: list[int]) -> None:
    lane = lane_of(LinesLane)
    assert lane.start() == b"ask\r\n" * 3
    *early, last = in_pieces(lane, b"INSERTED 1\r\nINSERTED 2\r\nOUT_OF_MEMORY\r\n", cut)
    assert set(early) <= {None}
    assert last == b""
    assert (lane.tally.operations, lane.tally.errors) == (3, {"OUT_OF_MEMORY": 1})


@given(cuts)
def test_reserved_jobs_are_two_lines_and_their_numbers_are_kept(cut: list[int]) -> None:
    lane = lane_of(ReserveLane, 2)
    assert isinstance(lane, ReserveLane)
    lane.job_ids = []
    lane.start()
    assert in_pieces(lane, b"RESERVED 17 3\r\nabc\r\nRESERVED 4 0\r\n\r\n", cut)[-1] == b""
    assert (lane.job_ids, lane.tally.errors) == ([b"17", b"4"], {})


def test_a_connection_deletes_what_it_has_reserved() -> None:
    lane = lane_of(DeleteLane, 10)
    assert isinstance(lane, DeleteLane)
    lane.job_ids = [b"1", b"2", b"3", b"4"]
    assert lane.start() == b"delete 1\r\ndelete 2\r\ndelete 3\r\n"
    assert lane.feed(b"DELETED\r\n" * 3) == b"delete 4\r\n"
    assert lane.feed(b"DELETED\r\n") == b""
    assert lane.tally.operations == 4


def test_the_end_of_the_connection_is_noticed() -> None:
    with pytest.raises(AssertionError, match="closed"):
        lane_of(LinesLane).feed(b"")
