"""Lanes count replies right however they are cut, and notice every one that should not be there."""

import itertools
from collections.abc import Callable

import hiredis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from disque.cli.bench_lane import (
    AddIdsLane,
    Batches,
    Budget,
    CycleLane,
    ElementsLane,
    IdStore,
    IntegerLane,
    Lane,
    LengthLane,
    Pace,
    make_body,
    numbered,
    queue_order,
)
from disque.cli.bench_resp import BenchError, ackjob, ackjobs, addjob_ends, encode, getjob
from disque.cli.bench_tally import Tally

REQUEST = b"request\r\n"
ID_LINE = b"+D-dcb833cf-8YL1NT17e9+wsA/09NqxscQI-05a1\r\n"
JOBS = b"*2\r\n*3\r\n$1\r\nq\r\n$2\r\nD1\r\n$4\r\n-a\r\n\r\n*3\r\n$1\r\nq\r\n$2\r\nD2\r\n$0\r\n\r\n"


def ticking() -> Callable[[], int]:
    """Give a clock that goes 1000 ns forward each time it is read."""
    now = [0]

    def clock() -> int:
        now[0] += 1000
        return now[0]

    return clock


def new_lane(lane: type[Lane], depth: int = 3, operations: int | None = 3) -> Lane:
    return lane(Budget(operations), Tally(), ticking(), depth, lambda _batch, size: REQUEST * size)


def feed_in_pieces(lane: Lane, data: bytes, cuts: list[int]) -> list[bytes | None]:
    places = sorted({cut % (len(data) + 1) for cut in cuts} | {0, len(data)})
    return [lane.feed(data[low:high]) for low, high in itertools.pairwise(places)]


class TestCounting:
    @pytest.mark.parametrize(
        ("kind", "reply"), [(Lane, ID_LINE), (IntegerLane, b":1\r\n"), (LengthLane, b":0\r\n"), (ElementsLane, JOBS)]
    )
    @given(cuts=st.lists(st.integers(min_value=0), max_size=12))
    def test_replies_count_the_same_at_any_chunking(self, kind: type[Lane], reply: bytes, cuts: list[int]) -> None:
        lane = new_lane(kind)
        assert lane.start() == REQUEST * 3
        *early, last = feed_in_pieces(lane, reply * 3, cuts)
        assert set(early) <= {None}
        assert last == b""
        assert (lane.tally.operations, lane.tally.empty, lane.tally.errors) == (3, 0, {})

    @given(cuts=st.lists(st.integers(min_value=0), max_size=12))
    def test_errors_are_noticed_at_any_chunking(self, cuts: list[int]) -> None:
        lane = new_lane(Lane)
        lane.start()
        feed_in_pieces(lane, ID_LINE + b"-NOREPL Not enough\r\n" + ID_LINE, cuts)
        assert lane.tally.errors == {"NOREPL Not enough": 1}

    def test_the_next_batch_goes_out_when_the_last_reply_is_in(self) -> None:
        lane = new_lane(Lane, depth=2, operations=3)
        assert lane.start() == REQUEST * 2
        assert lane.feed(ID_LINE) is None
        assert lane.feed(ID_LINE) == REQUEST
        assert lane.feed(ID_LINE) == b""

    def test_latency_is_that_of_the_batch(self) -> None:
        lane = new_lane(Lane)
        lane.start()
        lane.feed(ID_LINE * 3)
        assert (lane.tally.latency.count, lane.tally.latency.max_ns) == (1, 1000)

    def test_a_reply_of_another_kind_is_an_error(self) -> None:
        lane = new_lane(Lane)
        lane.start()
        lane.feed(b":5\r\n")
        assert lane.tally.errors == {"unexpected reply 5": 1}

    def test_a_reply_too_many_ends_the_run(self) -> None:
        lane = new_lane(Lane)
        lane.start()
        with pytest.raises(BenchError, match="more replies"):
            lane.feed(ID_LINE * 4)

    @pytest.mark.parametrize("text", ["OOM x", "MISCONF x", "NOAUTH x", "LOADING x", "ERR unknown command 'ADDJOB'"])
    def test_an_error_that_will_not_go_away_ends_the_run(self, text: str) -> None:
        lane = new_lane(Lane)
        lane.start()
        with pytest.raises(BenchError, match=text[:4]):
            lane.feed(b"-" + text.encode() + b"\r\n")
        assert lane.tally.errors == {text: 1}

    def test_what_is_no_resp_raises(self) -> None:
        lane = new_lane(Lane)
        lane.start()
        with pytest.raises(hiredis.ProtocolError):
            lane.feed(b"HTTP/1.1 200 OK\r\n")

    def test_nil_counts_as_empty_and_jobs_are_counted(self) -> None:
        lane = new_lane(ElementsLane)
        lane.start()
        lane.feed(b"*-1\r\n" + JOBS * 2)
        assert (lane.tally.empty, lane.tally.jobs) == (1, 4)

    def test_removing_nothing_counts_as_empty(self) -> None:
        lane = new_lane(IntegerLane)
        lane.start()
        lane.feed(b":0\r\n:1\r\n:1\r\n")
        assert lane.tally.empty == 1

    def test_error_texts_are_bounded(self) -> None:
        tally = Tally()
        for number in range(1000):
            tally.complain(f"ERR number {number}")
        assert len(tally.errors) == 51
        assert sum(tally.errors.values()) == 1000


class TestCycle:
    def test_a_cycle_adds_gets_and_acknowledges(self) -> None:
        lane = CycleLane(
            Budget(2), Tally(), ticking(), 2, lambda _batch, size: b"A" * size, lambda _batch, size: (b"G" * size, size)
        )
        assert lane.start() == b"AA"
        assert lane.feed(ID_LINE * 2) == b"GG"
        assert lane.feed(JOBS + b"*-1\r\n") == encode(b"ACKJOB", b"D1", b"D2")
        assert lane.feed(b":2\r\n") == b""
        assert (lane.tally.operations, lane.tally.requests, lane.tally.jobs, lane.tally.empty) == (2, 5, 2, 1)

    def test_each_reply_with_one_job_is_acknowledged_by_itself(self) -> None:
        lane = CycleLane(
            Budget(3), Tally(), ticking(), 3, lambda _batch, size: b"A" * size, lambda _batch, size: (b"G" * size, size)
        )
        lane.start()
        lane.feed(ID_LINE * 3)
        first, second = (b"D-dcb833cf-8YL1NT17e9+wsA/09NqxscQ%d-05a1" % number for number in range(2))
        one = b"*1\r\n*3\r\n$1\r\nq\r\n$40\r\n%b\r\n$0\r\n\r\n"
        assert lane.feed(one % first + JOBS) is None
        wanted = ackjob([first]) + ackjob([second]) + encode(b"ACKJOB", b"D1", b"D2")
        assert lane.feed(one % second) == wanted == ackjobs([first, second]) + ackjob([b"D1", b"D2"])
        assert lane.feed(b":1\r\n:1\r\n:2\r\n") == b""
        assert (lane.tally.requests, lane.tally.jobs) == (9, 4)

    def test_a_cycle_that_got_nothing_goes_on(self) -> None:
        lane = CycleLane(Budget(2), Tally(), ticking(), 1, lambda _batch, _size: b"A", lambda _batch, _size: (b"G", 1))
        lane.start()
        lane.feed(ID_LINE)
        assert lane.feed(b"*-1\r\n") == b"A"


class TestBudget:
    def test_it_gives_out_exactly_what_there_is(self) -> None:
        budget = Budget(10)
        assert [budget.take(4) for _ in range(4)] == [4, 4, 2, 0]
        assert budget.batches == 3

    def test_closed_it_gives_nothing(self) -> None:
        budget = Budget(None)
        assert budget.take(5) == 5
        budget.close()
        assert budget.take(5) == 0


class TestPace:
    def test_batches_are_due_evenly(self) -> None:
        pace = Pace(None, 1000.0)
        pace.begin(5_000_000)
        due_ns = []
        for _ in range(3):
            due_ns.append(pace.due_ns())
            pace.open()
            assert pace.take(2) == 2
        assert due_ns == [5_000_000, 7_000_000, 9_000_000]

    def test_a_lane_rests_until_the_gate_opens(self) -> None:
        pace = Pace(3, 1000.0)
        assert pace.take(2) == 0
        pace.open()
        assert (pace.take(2), pace.take(2)) == (2, 0)
        pace.open()
        assert (pace.take(2), pace.over()) == (1, True)

    def test_closed_it_is_over(self) -> None:
        pace = Pace(None, 10.0)
        assert not pace.over()
        pace.close()
        assert pace.over()


class TestIdStore:
    @given(st.integers(min_value=0, max_value=3500), st.lists(st.integers(min_value=1, max_value=1500), max_size=6))
    def test_each_id_comes_back_once(self, count: int, takes: list[int]) -> None:
        store, ids = IdStore(), [b"D-%d" % number for number in range(count)]
        for job_id in ids:
            store.put(job_id)
        taken = [job_id for take in [*takes, 10_000] for job_id in store.take(take)]
        assert sorted(taken) == sorted(ids)
        assert store.take(1) == []

    def test_putting_goes_on_after_taking(self) -> None:
        store = IdStore()
        store.put(b"a")
        assert store.take(5) == [b"a"]
        store.put(b"b")
        assert store.take(5) == [b"b"]

    def test_an_add_lane_fills_it(self) -> None:
        lane = new_lane(AddIdsLane)
        assert isinstance(lane, AddIdsLane)
        lane.ids = IdStore()
        lane.start()
        lane.feed(b"+D-1\r\n+D-2\r\n+D-3\r\n")
        assert sorted(lane.ids.take(9)) == [b"D-1", b"D-2", b"D-3"]


class TestRequests:
    def test_queues_take_turns(self) -> None:
        batches = Batches(lambda queue: b"%d" % queue, [1, 0, 2], depth=2)
        assert [batches.get(batch, 2) for batch in range(4)] == [b"11", b"00", b"22", b"11"]
        assert batches.get(0, 1) == b"1"

    def test_a_queue_keeps_its_turn_for_as_long_as_asked(self) -> None:
        batches = Batches(lambda queue: b"%d" % queue, [0, 1], depth=1, repeat=2)
        assert [batches.get(batch, 1) for batch in range(5)] == [b"0", b"0", b"1", b"1", b"0"]

    @given(st.binary(max_size=20), st.binary(max_size=50), st.lists(st.binary(max_size=5), max_size=4))
    def test_the_ends_of_an_addjob_fit_its_body(self, queue: bytes, body: bytes, words: list[bytes]) -> None:
        head, tail = addjob_ends(queue, len(body), 500, tuple(words))
        assert head + body + tail == encode(b"ADDJOB", queue, body, b"500", *words)

    def test_getjob(self) -> None:
        assert getjob((b"q",), 1) == encode(b"GETJOB", b"NOHANG", b"FROM", b"q")
        blocking = encode(b"GETJOB", b"TIMEOUT", b"200", b"COUNT", b"5", b"FROM", b"q", b"r")
        assert getjob((b"q", b"r"), 5, timeout_ms=200) == blocking

    def test_numbered_keys_go_on_where_the_batch_before_ended(self) -> None:
        make = numbered(b"DEL", b"50%-", 2)
        assert make(0, 2) + make(1, 1) == b"".join(encode(b"DEL", b"50%%-%012d" % number) for number in range(3))
        assert numbered(b"SET", b"key-", 1, b"10%")(7, 1) == encode(b"SET", b"key-%012d" % 7, b"10%")

    def test_bodies_and_orders_depend_on_the_seed_alone(self) -> None:
        assert make_body(1, 10_000) == make_body(1, 10_000) != make_body(2, 10_000)
        assert [len(make_body(1, size)) for size in (0, 1, 4096, 4097)] == [0, 1, 4096, 4097]
        assert sorted(queue_order(7, 50)) == list(range(50))
        assert queue_order(7, 50) == queue_order(7, 50) != queue_order(8, 50)
