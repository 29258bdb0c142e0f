from collections import OrderedDict

import pytest

from disque.core.model import demand
from disque.core.model.demand import Federation, Standing
from disque.core.model.flow import Flow
from disque.core.model.queue import Queue

A, B = b"a" * 40, b"b" * 40


def test_one_fresh_import_is_twenty_a_second_as_ever() -> None:
    flow = Flow(b"q")
    flow.imported(A, 1, 10_000)
    assert [flow.rate(10_000), flow.rate(10_100), flow.rate(15_000), flow.rate(15_001)] == [20, 10, 1, 0]


def test_the_rate_covers_this_window_and_the_one_before() -> None:
    flow = Flow(b"q")
    for now_ms in range(10_000, 13_000, 10):
        flow.imported(A, 2, now_ms)
    assert 195 <= flow.rate(13_000) <= 205


def test_only_imports_that_come_quickly_are_asked_for_ahead() -> None:
    slow, quick = Flow(b"q"), Flow(b"q")
    for number in range(10):
        slow.imported(A, 1, 10_000 + 1500 * number)
    assert slow.ahead(10_000 + 1500 * 9) == 0
    for now_ms in range(10_000, 12_000, 10):
        quick.imported(A, 100, now_ms)
    assert 1900 <= quick.ahead(12_000) <= 2100, "what 200 ms bring at 10000/s"
    assert quick.ahead(17_001) == 0


def test_a_burst_after_a_silence_counts_at_once() -> None:
    flow = Flow(b"q")
    flow.imported(A, 1, 10_000)
    flow.imported(A, 1000, 100_000)
    assert flow.rate(100_000) == 12, "over all the time"
    assert flow.ahead(100_000) == 200, "as if they had taken a second"


def test_nodes_that_have_sent_lately_are_known() -> None:
    flow = Flow(b"q")
    flow.imported(A, 1, 1000)
    flow.imported(B, 1, 4000)
    assert flow.senders(6000) == [A, B]
    assert flow.senders(6001) == [B]
    flow.forget(B)
    assert flow.senders(6001) == []


def test_wants_belong_to_the_queue_when_there_is_one() -> None:
    federation = Federation()
    want = federation.want(b"q", A, 3, 0)
    queue = Queue(b"q", 0)
    federation.adopt(queue)
    assert queue.wants == {A: want}
    other = federation.want(b"q", B, 1, 0)
    assert queue.wants == {A: want, B: other}
    assert not federation.unwant(b"q", A)
    assert federation.unwant(b"q", B)
    assert not federation.unwant(b"q", B)
    assert federation.wants == {}
    assert federation.standing == {}


def test_a_want_that_is_renewed_keeps_its_age_and_is_the_last_of_its_node_to_go() -> None:
    federation = Federation()
    want = federation.want(b"q", A, 3, 0)
    federation.want(b"other", A, 3, 1)
    want.offered = want.dropped = True
    assert federation.want(b"q", A, 5, 2) is want
    assert federation.standing[A].oldest().name == b"other"
    assert (want.since_ms, want.count, want.until_ms) == (0, 5, 60_002)
    assert (want.offered, want.dropped) == (False, False)


def test_a_want_that_was_of_use_is_the_last_to_go_and_to_be_served() -> None:
    federation = Federation()
    want = federation.want(b"q", A, 3, 0)
    federation.want(b"other", A, 3, 1)
    federation.want(b"q", B, 3, 1)
    federation.used(want)
    assert federation.standing[A].oldest().name == b"other"
    assert list(federation.wants[b"q"]) == [B, A]


def test_the_wants_of_each_node_are_bounded_in_number_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demand, "WANTS_MOST", 2)
    monkeypatch.setattr(demand, "WANTS_BYTES_MOST", 100)
    federation = Federation()
    federation.want(b"a", A, 1, 0)
    federation.want(b"a", B, 1, 0)
    federation.want(b"b", A, 1, 0)
    assert not federation.standing[A].too_many()
    federation.want(b"c", A, 1, 0)
    assert federation.standing[A].too_many()
    assert not federation.standing[B].too_many()
    federation.unwant(b"a", A)
    federation.unwant(b"b", A)
    assert not federation.standing[A].too_many()
    federation.want(b"n" * 100, A, 1, 0)
    assert federation.standing[A].too_many()


def test_to_drop_the_oldest_takes_no_longer_when_many_went_before() -> None:
    """Entries that were taken away from the front of a dict are looked at again each time."""
    assert isinstance(Standing().wants, OrderedDict)


def test_a_flow_is_looked_at_once_however_often_it_is_marked() -> None:
    federation = Federation()
    flow = federation.flow(b"q")
    assert federation.flow(b"q") is flow
    federation.mark(flow)
    federation.mark(flow)
    assert list(federation.marked) == [flow]
    assert list(federation.turn) == [flow]
