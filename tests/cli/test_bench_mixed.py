"""The book of a mixed run: what was promised, what came, what came twice."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from disque.cli.bench_histogram import Histogram
from disque.cli.bench_lane import Budget, Pace
from disque.cli.bench_mixed import STAMP_BYTES, ConsumerLane, Ledger, Market, ProducerLane, read_stamp, stamp
from disque.cli.bench_resp import encode
from disque.cli.bench_tally import Tally

events = st.lists(st.tuples(st.sampled_from(["promise", "receive"]), st.integers(min_value=0, max_value=20)))


@given(events)
def test_the_ledger_agrees_with_a_plain_count(happened: list[tuple[str, int]]) -> None:
    ledger, promised, came = Ledger(), set(), Counter[int]()
    ledger.reserve(21)
    for what, number in happened:
        if what == "receive":
            ledger.receive(number)
            came[number] += 1
        elif number not in promised:
            ledger.promise(number)
            promised.add(number)
        assert ledger.open == ledger.lost() == len(promised - set(came))
    assert ledger.twice() == sum(times > 1 for times in came.values())


def test_the_ledger_grows() -> None:
    ledger = Ledger()
    first = [ledger.reserve(100_000) for _ in range(3)]
    assert first == [0, 100_000, 200_000]
    ledger.promise(299_999)
    assert ledger.lost() == 1


def test_a_job_may_come_any_number_of_times() -> None:
    ledger = Ledger()
    ledger.reserve(1)
    for _ in range(1000):
        ledger.receive(0)
    assert ledger.twice() == 1


@pytest.mark.parametrize("number", [-1, 5])
def test_a_number_that_was_never_sent_is_foreign(number: int) -> None:
    ledger = Ledger()
    ledger.reserve(5)
    with pytest.raises(ValueError, match="never sent"):
        ledger.receive(number)


def test_stamps_come_back() -> None:
    assert len(stamp(7, 123)) == STAMP_BYTES
    assert read_stamp(stamp(7, 123) + b"padding") == (7, 123)


@pytest.mark.parametrize("body", [b"", b"x" * 100, b"000000000007:0000000000000000123"])
def test_other_bodies_are_no_stamps(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"not a body|invalid literal"):
        read_stamp(body)


def producer(market: Market, operations: int = 4) -> ProducerLane:
    return ProducerLane(Budget(operations), Tally(), lambda: 50, 2, market, lambda _batch: (b"<", b">"), b"pad")


def consumer(market: Market) -> ConsumerLane:
    return ConsumerLane(Budget(0), Tally(), lambda: 90, market, b"GETJOB", Histogram())


def delivery(*numbers: int) -> bytes:
    jobs = [(b"q", b"D-%d" % number, stamp(number, 50)) for number in numbers]
    return b"*%d\r\n" % len(jobs) + b"".join(encode(*job) for job in jobs)


class TestProducer:
    def test_bodies_are_numbered_and_dated(self) -> None:
        lane = producer(Market(1, 3))
        assert lane.start() == b"<" + stamp(0, 50) + b"pad><" + stamp(1, 50) + b"pad>"
        assert lane.feed(b"+D-0\r\n+D-1\r\n") == b"<" + stamp(2, 50) + b"pad><" + stamp(3, 50) + b"pad>"

    def test_only_what_got_an_id_is_promised(self) -> None:
        market = Market(1, 3)
        lane = producer(market, 2)
        lane.start()
        lane.feed(b"-PAUSED x\r\n+D-1\r\n")
        assert market.ledger.open == 1
        assert (lane.tally.added, lane.tally.errors) == (1, {"PAUSED x": 1})

    def test_consumers_learn_when_the_last_producer_ends(self) -> None:
        market = Market(2, 3)
        for left in (1, 0):
            lane = producer(market, 1)
            lane.start()
            lane.feed(b"+D-0\r\n")
            assert market.producing == left

    def test_a_producer_that_rests_has_not_ended(self) -> None:
        market, pace = Market(1, 3), Pace(1, 10.0)
        lane = ProducerLane(pace, Tally(), lambda: 50, 2, market, lambda _batch: (b"<", b">"), b"pad")
        assert lane.start() == b""
        assert market.producing == 1
        pace.open()
        assert lane.start() == b"<" + stamp(0, 50) + b"pad>"
        assert (lane.feed(b"+D-0\r\n"), market.producing) == (b"", 0)


class TestConsumer:
    def test_it_acknowledges_and_asks_again_at_once(self) -> None:
        market = Market(1, 3)
        market.ledger.reserve(2)
        lane = consumer(market)
        assert lane.start() == b"GETJOB"
        assert lane.feed(delivery(0, 1)) == encode(b"ACKJOB", b"D-0", b"D-1") + b"GETJOB"
        assert lane.feed(b":2\r\n") is None
        assert lane.feed(b"*-1\r\n") == b"GETJOB"
        assert lane.tally.delivered is not None
        assert (lane.tally.operations, lane.tally.delivered.max_ns) == (2, 40)

    def test_it_ends_when_all_that_was_promised_came(self) -> None:
        market = Market(0, 3)
        market.ledger.reserve(1)
        market.ledger.promise(0)
        lane = consumer(market)
        lane.start()
        assert lane.feed(b"*-1\r\n") == b"GETJOB"
        assert lane.feed(delivery(0)) == encode(b"ACKJOB", b"D-0")
        assert lane.feed(b":1\r\n") == b""

    def test_it_gives_up_on_what_does_not_come(self) -> None:
        market = Market(0, 3)
        market.ledger.reserve(1)
        market.ledger.promise(0)
        lane = consumer(market)
        lane.start()
        assert [lane.feed(b"*-1\r\n") for _ in range(3)] == [b"GETJOB", b"GETJOB", b""]
        assert market.ledger.lost() == 1

    def test_errors_do_not_keep_it_waiting_for_ever(self) -> None:
        market = Market(0, 1)
        market.ledger.reserve(1)
        market.ledger.promise(0)
        lane = consumer(market)
        lane.start()
        assert lane.feed(b"-ERR no\r\n") == b""
        assert lane.tally.errors == {"ERR no": 1}

    def test_bodies_of_others_are_counted_and_acknowledged(self) -> None:
        lane = consumer(Market(1, 3))
        lane.start()
        assert lane.feed(b"*1\r\n" + encode(b"q", b"D-9", b"not ours")) == encode(b"ACKJOB", b"D-9") + b"GETJOB"
        assert lane.tally.foreign == 1
