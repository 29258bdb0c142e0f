from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from cluster import membership
from cluster.messages import (
    DELJOB,
    DIGEST,
    ENTRIES,
    HAVE,
    HOLD,
    LIMIT,
    NEEDJOBS,
    NEEDNOW,
    OFFER,
    QUEUED,
    ROW_SPEC,
    SETACK,
    STILL,
    YOURJOBS,
    decode,
    encode_message,
    frame,
)
from disque.core import step
from disque.core.federation import supply
from disque.core.journal import schema
from disque.core.journal.codec import encode, head
from disque.core.journal.replay import Replay
from disque.core.journal.schema import DELETE, HOLDERS, JOBS, JOBS_IDS
from disque.core.model.flow import WANT_MS
from disque.core.model.job import DELIVERED, LEASE_OWNER
from disque.core.model.spec import PRIORITY
from tests.conftest import rarely
from tests.core import support
from tests.core.support import MYSELF, NOTHING, Bench, Client, assert_delivered
from tests.support.formats import encoded, pause_everywhere, row_ids, row_with, yourjobs_row, yourjobs_rows

B0, B1, B2 = [b"%02x" % (0xB0 + number) * 20 for number in range(3)]


def an_id(number: int, retry: int = 60) -> bytes:
    return b"D-b0b0b0b0-%024d-%04x" % (number, 0x5A0 | (retry > 0))


def row(number: int, *, body: bytes = b"body", retry: int = 60, holders: tuple[bytes, ...] = (B0,)) -> tuple[Any, ...]:
    """A job of YOURJOBS, a second old."""
    ctime = (support.START_MS - 1000) * 1_000_000 + number
    return yourjobs_row(
        an_id(number, retry),
        body=body,
        ttl=60,
        retry=retry,
        repl=len(holders),
        left_ms=59_000,
        ctime=ctime,
        nacks=2,
        deliveries=3,
        holders=holders,
    )


def need(bench: Bench, *peers: membership.Member, queue: bytes = b"q", count: int = 1) -> None:
    for peer in peers:
        bench.hear(peer, (NEEDJOBS, queue, count))


def send(bench: Bench, peer: membership.Member, *rows: tuple[Any, ...], queue: bytes = b"q") -> None:
    bench.hear(peer, (YOURJOBS, queue, rows))


def given(bench: Bench) -> list[tuple[bytes, list[bytes]]]:
    """To whom jobs were sent since the last call, and which."""
    return [(peer, row_ids(message)) for peer, message in bench.sent(YOURJOBS)]


# -- giving ------------------------------------------------------------------------------------------------------------


def test_a_request_finds_the_jobs_that_are_there() -> None:
    bench = Bench(peers=2)
    jobs = [bench.client().add("q", "b", "RETRY", 60, "TTL", 600, "REPLICATE", 1) for _ in range(3)]
    bench.advance(100)
    need(bench, bench.peers[0], count=2)
    ((peer, message),) = bench.sent(YOURJOBS)
    assert peer == B0
    assert row_ids(message) == jobs[:2]
    first = bench.job(jobs[0])
    assert yourjobs_rows(message)[0] == yourjobs_row(
        first.id, body=b"b", ttl=600, retry=60, left_ms=599_900, ctime=first.ctime, holders=(MYSELF,)
    )


def test_the_most_urgent_ones_are_handed_over_first() -> None:
    bench = Bench(peers=2)
    client = bench.client()
    jobs = [client.add("q", "b", "PRIORITY", number, "REPLICATE", 1) for number in (0, 3, 0, 7)]
    need(bench, bench.peers[0], count=3)
    ((_, message),) = bench.sent(YOURJOBS)
    assert row_ids(message) == [jobs[3], jobs[1], jobs[0]]
    specs = [entry[ROW_SPEC] for entry in yourjobs_rows(message)]
    assert specs == [bench.job(jobs[at]).spec.encoded for at in (3, 1, 0)]


def test_jobs_that_come_stand_where_their_priority_says() -> None:
    bench = Bench(peers=1)
    mine = [bench.client().add("q", "b", "PRIORITY", number, "REPLICATE", 1) for number in (0, 5)]
    urgent = [row_with(row(number), spec=encoded(60, 60, 1, {PRIORITY.number: number})) for number in (4, 5, 6)]
    send(bench, bench.peers[0], row(1), *urgent)
    order = [entry[1] for entry in bench.client()("QPEEK", "q", 9)]
    assert order == [an_id(6), an_id(5), mine[1], an_id(4), an_id(1), mine[0]]


def test_urgent_ones_that_are_too_long_for_the_other_node_stay_where_they_were() -> None:
    bench = Bench(peers=1)
    client = bench.client()
    bodies = ((2, "x" * 500), (2, "b"), (1, "x" * 500), (0, "b"))
    jobs = [client.add("q", body, "PRIORITY", number, "REPLICATE", 1) for number, body in bodies]
    bench.hear(bench.peers[0], (LIMIT, 100))
    need(bench, bench.peers[0], count=9)
    assert given(bench) == [(B0, [jobs[1], jobs[3]])]
    assert [entry[1] for entry in client("QPEEK", "q", 9)] == [jobs[0], jobs[2]]


def test_a_request_stands_until_jobs_come() -> None:
    bench = Bench(peers=2)
    client = bench.client()
    need(bench, bench.peers[0], count=2)
    bench.live(WANT_MS - 1000)
    jobs = [client.add("q", "b", "REPLICATE", 1) for _ in range(3)]
    assert [given(bench), client("QLEN", "q")] == [[(B0, jobs[:1]), (B0, jobs[1:2])], 1]


def test_a_request_ends_after_a_minute_or_when_it_is_taken_back() -> None:
    bench = Bench(peers=2)
    client = bench.client()
    need(bench, bench.peers[0])
    bench.advance(WANT_MS)
    client.add("q", "b", "REPLICATE", 1)
    assert given(bench) == []
    need(bench, bench.peers[1])
    need(bench, bench.peers[1], queue=b"other")
    need(bench, bench.peers[1], queue=b"other", count=0)
    client.add("other", "b", "REPLICATE", 1)
    assert [peer for peer, _ in given(bench)] == [B1]


def test_a_request_makes_no_queue_and_counts_when_there_is_one() -> None:
    bench = Bench(peers=1)
    need(bench, bench.peers[0], queue=b"new")
    assert bench.node.queues == {}
    job = bench.client().add("new", "b", "REPLICATE", 1)
    assert given(bench) == [(B0, [job])]


def test_of_too_many_requests_of_one_node_its_oldest_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("disque.core.model.demand.WANTS_MOST", 2)
    bench = Bench(peers=2)
    client = bench.client()
    need(bench, bench.peers[1], queue=b"b")
    for queue in (b"a", b"b", b"a", b"c"):
        need(bench, bench.peers[0], queue=queue)
    for name in ("c", "a", "b"):
        client.add(name, name, "REPLICATE", 1)
    assert [(peer, message[1]) for peer, message in bench.sent(YOURJOBS)] == [(B0, b"c"), (B0, b"a"), (B1, b"b")]


def test_a_node_of_which_requests_were_dropped_is_offered_what_may_be_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("disque.core.model.demand.WANTS_MOST", 2)
    bench = Bench(peers=2)
    client = bench.client()
    for queue in (b"a", b"b", b"c"):
        need(bench, bench.peers[0], queue=queue)
    job = client.add("a", "body", "REPLICATE", 1)
    client.add("a", "body", "REPLICATE", 1)
    assert bench.sent() == [(B0, (OFFER, b"a"))], "once, and nobody else"
    bench.hear(bench.peers[0], (NEEDNOW, b"a", 1))
    assert given(bench) == [(B0, [job])]
    federation = bench.node.federation
    assert len(federation.standing[B0].wants) == 2
    assert list(federation.crowded) == [B0]
    for queue in (b"a", b"b", b"c"):
        need(bench, bench.peers[0], queue=queue, count=0)
    bench.live(WANT_MS + 100)
    assert federation.crowded == {}
    bench.sent()
    client.add("new", "body", "REPLICATE", 1)
    assert bench.sent(OFFER) == []


def test_a_node_that_could_not_renew_its_requests_is_offered_jobs_too() -> None:
    bench = Bench(peers=1)
    need(bench, bench.peers[0], queue=b"a")
    bench.live(WANT_MS + 100)
    assert bench.node.federation.standing == {}
    bench.client().add("a", "body", "REPLICATE", 1)
    assert bench.sent(OFFER) == [(B0, (OFFER, b"a"))]


def imported(bench: Bench, peer: membership.Member) -> Client:
    """A consumer has got a job that came from ``peer``, and waits no more."""
    consumer = bench.client()
    consumer("GETJOB", "FROM", "q")
    send(bench, peer, row(1))
    assert_delivered(consumer, an_id(1))
    bench.sent()
    return consumer


def test_a_job_that_is_kept_back_is_offered_and_goes_when_somebody_waits_there() -> None:
    """It came to somebody who waited up to five seconds late, on an idle cluster."""
    bench = Bench(peers=2)
    imported(bench, bench.peers[0])
    need(bench, bench.peers[1])
    job = bench.client().add("q", "b", "REPLICATE", 1)
    bench.live(500)
    assert bench.sent(OFFER, YOURJOBS) == [(B1, (OFFER, b"q"))], "once"
    need(bench, bench.peers[1])
    assert bench.sent(OFFER, YOURJOBS) == [(B1, (OFFER, b"q"))], "once more, since it has spoken"
    bench.hear(bench.peers[1], (NEEDNOW, b"q", 1))
    assert given(bench) == [(B1, [job])]


def test_what_was_imported_is_offered_too() -> None:
    bench = Bench(peers=2)
    imported(bench, bench.peers[0])
    need(bench, bench.peers[1], count=5)
    send(bench, bench.peers[0], row(2), row(3))
    assert bench.sent(OFFER, YOURJOBS) == [(B1, (OFFER, b"q"))]
    bench.hear(bench.peers[1], (NEEDNOW, b"q", 1))
    assert given(bench) == [(B1, [an_id(2)])]
    bench.advance(100)
    send(bench, bench.peers[0], row(4))
    assert given(bench) == [], "it was for this moment only"


def test_what_is_too_long_is_not_offered_and_hides_no_shorter_job() -> None:
    bench = Bench(peers=2)
    imported(bench, bench.peers[0])
    bench.hear(bench.peers[1], (LIMIT, 100))
    need(bench, bench.peers[1])
    client = bench.client()
    client.add("q", "x" * 500, "REPLICATE", 1)
    assert bench.sent(OFFER, YOURJOBS) == []
    job = client.add("q", "b", "REPLICATE", 1)
    assert bench.sent(OFFER, YOURJOBS) == [(B1, (OFFER, b"q"))]
    bench.hear(bench.peers[1], (NEEDNOW, b"q", 1))
    assert given(bench) == [(B1, [job])]


def test_an_offer_is_sent_again_only_over_a_new_link() -> None:
    bench = Bench(peers=2)
    imported(bench, bench.peers[0])
    need(bench, bench.peers[1])
    bench.client().add("q", "b", "REPLICATE", 1)
    bench.live(300)
    assert bench.sent(OFFER) == [(B1, (OFFER, b"q"))]
    bench.link_down(bench.peers[1])
    bench.link_up(bench.peers[1])
    bench.live(200)
    assert bench.sent(OFFER) == [(B1, (OFFER, b"q"))]


def test_nobody_is_offered_what_somebody_here_waits_for() -> None:
    bench = Bench(peers=2)
    consumer = imported(bench, bench.peers[0])
    need(bench, bench.peers[1])
    consumer("GETJOB", "FROM", "q")
    bench.hear(bench.peers[1], (NEEDNOW, b"q", 1))
    job = bench.client().add("q", "b", "REPLICATE", 1)
    assert_delivered(consumer, job)
    assert bench.sent(OFFER, YOURJOBS) == []


def test_consumers_that_wait_here_come_first() -> None:
    bench = Bench(peers=1)
    consumer, producer = bench.client(), bench.client()
    consumer("GETJOB", "FROM", "q")
    need(bench, bench.peers[0], count=5)
    first = producer.add("q", "b", "REPLICATE", 1)
    assert_delivered(consumer, first)
    assert given(bench) == []
    second = producer.add("q", "b", "REPLICATE", 1)
    assert given(bench) == [(B0, [second])]


def test_a_queue_with_consumers_here_gives_half_of_what_it_has() -> None:
    bench = Bench(peers=1)
    client = bench.client()
    jobs = [client.add("q", "b", "REPLICATE", 1) for _ in range(11)]
    client.get("q")
    need(bench, bench.peers[0], count=6)
    assert given(bench) == [(B0, jobs[1:6])]


def test_a_long_queue_gives_all_that_is_wanted() -> None:
    bench = Bench(peers=1)
    client = bench.client()
    for _ in range(11):
        client.add("q", "b", "REPLICATE", 1)
    client.get("q")
    need(bench, bench.peers[0], count=5)
    assert client("QLEN", "q") == 5


def test_nodes_get_jobs_in_fair_turns() -> None:
    bench = Bench(peers=3)
    client = bench.client()
    need(bench, *bench.peers, count=10)
    for _ in range(6):
        client.add("q", "b", "REPLICATE", 1)
    assert [peer for peer, _ in given(bench)] == [B0, B1, B2, B0, B1, B2]
    bench.client().raw("PAUSE", "q", "out")
    for _ in range(7):
        client.add("q", "b", "REPLICATE", 1)
    client("PAUSE", "q", "none")
    assert [(peer, len(jobs)) for peer, jobs in given(bench)] == [(B0, 3), (B1, 2), (B2, 2)]


def test_a_queue_that_is_paused_out_gives_nothing() -> None:
    bench = Bench(peers=1)
    client = bench.client()
    client("PAUSE", "q", "out")
    job = client.add("q", "b", "REPLICATE", 1)
    need(bench, bench.peers[0])
    assert given(bench) == []
    client("PAUSE", "q", "none")
    assert given(bench) == [(B0, [job])]


def test_a_frozen_node_gives_nothing_to_anybody() -> None:
    bench = Bench(peers=1)
    client, waiting = bench.client(), bench.client()
    client.add("q", "b", "REPLICATE", 1)
    bench.advance(1)
    bench.node.reconciling = True
    need(bench, bench.peers[0], count=5)
    assert given(bench) == []
    assert client.raw("GETJOB", "NOHANG", "FROM", "q") == b"*-1\r\n"
    assert waiting("GETJOB", "FROM", "q") is NOTHING
    client.add("q", "b", "REPLICATE", 1)
    assert bench.node.next_due_ms > bench.now_ms, "it does not spin either"
    bench.node.reconciling = False
    bench.node.wake(bench.node.queues[b"q"])
    bench.settle()
    assert not waiting.waiting
    assert client("QLEN", "q") == 0


def test_jobs_go_only_to_nodes_that_can_take_them() -> None:
    bench = Bench(peers=2)
    hung, leaving = bench.peers
    need(bench, hung, leaving, count=5)
    bench.fail(hung)
    bench.membership.set_flags(leaving, membership.LEAVING)
    job = bench.client().add("q", "b", "REPLICATE", 1)
    assert given(bench) == []
    bench.membership.set_flags(hung, 0)
    bench.live(200)
    assert given(bench) == [(B0, [job])], "it answers again"


def test_while_the_journal_cannot_be_written_nothing_is_given() -> None:
    bench = Bench(peers=1)
    job = bench.client().add("q", "b", "REPLICATE", 1)
    bench.node.misconf = b"MISCONF"
    need(bench, bench.peers[0])
    assert given(bench) == []
    bench.node.misconf = b""
    bench.live(200)
    assert given(bench) == [(B0, [job])]


def test_one_message_is_bounded_in_jobs_and_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supply, "JOBS_MOST", 3)
    monkeypatch.setattr(supply, "BYTES_MOST", 2000)
    bench = Bench(peers=2)
    client = bench.client()
    for _ in range(5):
        client.add("q", "b", "REPLICATE", 1)
        client.add("big", "x" * 1500, "REPLICATE", 1)
    need(bench, bench.peers[0], count=5)
    need(bench, bench.peers[0], queue=b"big", count=5)
    assert [len(jobs) for _, jobs in given(bench)] == [3, 2]
    client.add("q", "b", "REPLICATE", 1)
    assert given(bench) == [], "it ends its request, as the other side knows"


def test_headers_count_in_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supply, "BYTES_MOST", 2000)
    bench = Bench(peers=1)
    client = bench.client()
    for _ in range(5):
        client("ADDJOB", "q", "b", 0, "REPLICATE", 1, "HEADER", "name", "v" * 1500)
    need(bench, bench.peers[0], count=5)
    assert [len(jobs) for _, jobs in given(bench)] == [2]
    client.add("q", "b", "REPLICATE", 1)
    assert given(bench) == [], "it ends its request, as the other side knows"


def test_much_is_given_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("disque.core.jobs.deliver.SERVE_MOST", 4)
    bench = Bench(peers=2)
    client = bench.client()
    for _ in range(10):
        client.send("ADDJOB", "q", "b", 0, "REPLICATE", 1)
    client.read_all()
    for peer in bench.peers:
        step.message(bench.node, peer.id, (NEEDJOBS, b"q", 5), bench.now_ms)
    bench.settle()
    assert client.bench.node.queues[b"q"].length == 6
    assert bench.node.next_due_ms == 0
    bench.tick()
    assert [(peer, len(jobs)) for peer, jobs in given(bench)] == [(B0, 4), (B1, 3), (B0, 1), (B1, 2)]


# -- the hand-over -----------------------------------------------------------------------------------------------------


def test_a_job_with_a_retry_stays_as_a_copy_for_which_this_node_speaks() -> None:
    bench = Bench(peers=1, journaling=True)
    client = bench.client()
    job_id = client.add("q", "b", "RETRY", 60, "REPLICATE", 1)
    bench.records()
    need(bench, bench.peers[0])
    job = bench.job(job_id)
    assert job.holders == (MYSELF, B0)
    assert job.flags & (LEASE_OWNER | DELIVERED) == LEASE_OWNER
    assert 60_000 <= job.requeue_ms - bench.now_ms < 60_500
    assert bench.records() == [(HOLDERS, job_id, (MYSELF, B0))]


def test_a_job_that_is_delivered_at_most_once_leaves_for_good() -> None:
    bench = Bench(peers=1, journaling=True)
    client = bench.client()
    job = client.add("q", "the body", "RETRY", 0, "REPLICATE", 1)
    bench.records()
    need(bench, bench.peers[0])
    ((_, message),) = bench.sent(YOURJOBS)
    ((first, body, *_),) = yourjobs_rows(message)
    assert (first, body) == (job, b"the body")
    assert bench.state(job) == "gone"
    assert bench.records() == [(DELETE, job)]


def test_a_handed_on_job_comes_back_from_the_journal() -> None:
    bench = Bench(peers=1, journaling=True)
    job = bench.client().add("q", "b", "RETRY", 60, "REPLICATE", 1)
    need(bench, bench.peers[0])
    bench.node.file(bench.job(job))
    fresh = Bench(peers=1)
    replay = Replay(fresh.node, "boot")
    replay.apply(head(bench.node, "boot", "always", bench.now_ms), 1)
    for payload in encode(bench.records(), bench.now_ms):
        replay.apply(payload, 1)
    list(replay.finish(bench.now_ms))
    assert fresh.job(job).holders == (MYSELF, B0)


@pytest.mark.parametrize("retry", [0, 60])
def test_jobs_of_which_no_byte_left_are_taken_back(retry: int) -> None:
    bench = Bench(peers=1, journaling=True)
    client = bench.client()
    job = client.add("q", "the body", "RETRY", retry, "REPLICATE", 1)
    need(bench, bench.peers[0])
    sent = [message for _, message in bench.sent(YOURJOBS)]
    bench.records()
    step.undelivered(bench.node, B0, sent, bench.now_ms)
    bench.link_down(bench.peers[0])
    assert client.show(job)["nodes-delivered"] == [MYSELF]
    assert client("GETJOB", "FROM", "q") == [[b"q", job, b"the body"]]
    if not retry:
        record = bench.records()[0]
        assert (record[0], record[JOBS_IDS]) == (JOBS, (job,))


def test_a_job_that_is_done_is_not_taken_back() -> None:
    bench = Bench(peers=1)
    client = bench.client()
    job = client.add("q", "b", "REPLICATE", 1)
    need(bench, bench.peers[0])
    sent = [message for _, message in bench.sent(YOURJOBS)]
    client("ACKJOB", job)
    step.undelivered(bench.node, B0, sent, bench.now_ms)
    bench.settle()
    assert client("QLEN", "q") == 0


def test_a_holder_stays_one_when_a_job_for_it_is_taken_back() -> None:
    bench = Bench(peers=2)
    client = bench.client()
    client.send("ADDJOB", "q", "b", 0, "REPLICATE", 3)
    bench.settle()
    (job_id,) = bench.node.copies.wanted
    bench.confirm(job_id, *bench.peers)
    need(bench, bench.peers[0])
    sent = [message for _, message in bench.sent(YOURJOBS)]
    step.undelivered(bench.node, B0, sent, bench.now_ms)
    bench.settle()
    assert bench.job(job_id).holders == (MYSELF, B0, B1)
    assert bench.state(job_id) == "queued"


# -- getting -----------------------------------------------------------------------------------------------------------


def test_a_holder_that_has_got_the_job_handed_on_is_told_that_it_is_queued_here_too() -> None:
    bench = Bench(peers=2)
    client = bench.client()
    job_id = client.add("q", "b", "RETRY", 60, "REPLICATE", 1)
    holder = bench.peers[0]
    bench.hear(holder, (HAVE, (job_id,)))
    assert holder.id in bench.job(job_id).holders
    bench.sent()
    bench.hear(holder, (HAVE, (job_id,)))
    assert bench.sent() == [(holder.id, (QUEUED, STILL, (job_id,)))]
    assert bench.state(job_id) == "queued"


def test_a_holder_of_an_imported_job_that_was_heard_of_before_counts() -> None:
    bench = Bench(peers=3)
    bench.hear(bench.peers[2], (HAVE, (an_id(1),)))
    send(bench, bench.peers[0], row(1))
    assert bench.peers[2].id in bench.job(an_id(1)).holders


def test_an_imported_job_is_queued_filed_and_shared_with_its_sender() -> None:
    bench = Bench(peers=1, journaling=True)
    client = bench.client()
    send(bench, bench.peers[0], row(1))
    shown = client.show(an_id(1))
    assert shown["state"] == b"queued"
    assert (shown["ttl"], shown["retry"], shown["nacks"], shown["additional-deliveries"]) == (59, 60, 2, 3)
    assert shown["nodes-delivered"] == [MYSELF, B0]
    assert [(record[0], record[JOBS_IDS]) for record in bench.records()] == [(JOBS, (an_id(1),))]
    assert bench.sent() == []
    bench.advance(58_999)
    assert bench.state(an_id(1)) == "queued"
    bench.advance(1)
    assert bench.state(an_id(1)) == "gone"


def test_an_imported_job_that_is_delivered_at_most_once_belongs_to_this_node_alone() -> None:
    bench = Bench(peers=1)
    client = bench.client()
    send(bench, bench.peers[0], row(1, retry=0))
    assert client.show(an_id(1, retry=0))["nodes-delivered"] == [MYSELF]
    assert client.get("q") == [an_id(1, retry=0)]


def test_an_import_serves_those_who_wait() -> None:
    bench = Bench(peers=1)
    consumer = bench.client()
    consumer("GETJOB", "COUNT", 5, "FROM", "q")
    send(bench, bench.peers[0], row(1), row(2))
    assert_delivered(consumer, an_id(1), an_id(2))


def test_other_holders_are_told_of_the_new_copy_and_take_note() -> None:
    bench = Bench(peers=3)
    everybody = tuple(sorted((B0, B1, B2)))
    send(bench, bench.peers[0], row(1, holders=everybody), row(2, holders=everybody), row(3))
    assert bench.sent(HAVE) == [(B1, (HAVE, (an_id(1), an_id(2)))), (B2, (HAVE, (an_id(1), an_id(2))))]
    bench.hear(bench.peers[1], (HAVE, (an_id(3), an_id(9))))
    assert bench.job(an_id(3)).holders == (MYSELF, B0, B1)


def test_holders_that_were_forgotten_are_left_out_those_that_are_not_met_yet_are_not() -> None:
    bench = Bench(peers=2)
    gone = bench.peers[1].id
    bench.membership.forget(gone, bench.now_ms)
    send(bench, bench.peers[0], row(1, holders=(B0, gone, b"f" * 40)))
    assert bench.job(an_id(1)).holders == (MYSELF, B0, b"f" * 40)


def test_from_a_node_that_was_just_forgotten_only_what_is_nowhere_else_is_taken() -> None:
    bench = Bench(peers=1)
    (gone,) = bench.peers
    need_id = an_id(1, retry=0)
    bench.membership.forget(gone.id, bench.now_ms)
    bench.live(200)
    bench.hear(gone, (YOURJOBS, b"q", (row(1, retry=0), row(2, retry=60))))
    bench.hear(gone, (YOURJOBS, b"q", (row(1, retry=0),)))
    assert support.all_jobs(bench.node) == [bench.job(need_id)]
    assert bench.job(need_id).holders == (MYSELF,)


def test_a_copy_that_is_known_is_queued_instead() -> None:
    bench = Bench(peers=2)
    client = bench.client()
    send(bench, bench.peers[0], row(1))
    need(bench, bench.peers[1])
    bench.live(6000)
    need(bench, bench.peers[1])
    assert [peer for peer, _ in given(bench)] == [B1], "it went on"
    send(bench, bench.peers[1], row(1, holders=(B0, B1)))
    assert client.get("q") == [an_id(1)], "and came back"
    assert bench.job(an_id(1)).holders == (MYSELF, B0, B1)


def test_a_job_that_is_out_with_a_consumer_here_is_not_queued_again() -> None:
    bench = Bench(peers=1)
    client = bench.client()
    send(bench, bench.peers[0], row(1))
    client.get("q")
    bench.advance(1000)
    bench.sent()
    send(bench, bench.peers[0], row(1))
    assert bench.sent(HOLD) == [(B0, (HOLD, 0, (), (an_id(1),), (59_000,)))]
    assert client.get("q") == []


def test_a_job_that_was_handed_on_and_then_postponed_here_is_not_queued_when_it_is_sent_back() -> None:
    bench = Bench(peers=1)
    client = bench.client()
    job_id = client.add("q", "b", "RETRY", 60, "REPLICATE", 1)
    need(bench, bench.peers[0])
    bench.sent()
    assert client("WORKING", job_id) == 60, "the consumer of an earlier delivery goes on"
    send(bench, bench.peers[0], (job_id, *row(1)[1:]))
    assert bench.sent(HOLD) == [(B0, (HOLD, 0, (), (job_id,), (60_000,)))]
    assert client.get("q") == []


def test_a_job_that_is_queued_here_already_stays_where_it_is() -> None:
    bench = Bench(peers=1)
    client = bench.client()
    send(bench, bench.peers[0], row(1))
    send(bench, bench.peers[0], row(1))
    assert client.get("q", count=5) == [an_id(1)]


def test_a_spent_job_is_not_queued_again() -> None:
    bench = Bench(peers=1)
    client = bench.client()
    send(bench, bench.peers[0], row(1, retry=0))
    client.get("q")
    send(bench, bench.peers[0], row(1, retry=0))
    assert client.get("q") == []


def test_what_cannot_be_true_of_a_job_is_skipped_and_counted() -> None:
    bench = Bench(peers=1)
    told = row(1)
    lies = [
        row_with(told, id=b"x" * 40),
        row_with(told, id=an_id(1, retry=0)),  # an ID says itself whether its job has a RETRY
        row_with(told, spec=encoded(repl=2**31)),
        row_with(told, spec=encoded(ttl=2**33)),
        row_with(told, spec=encoded(retry=2**33)),
        row_with(told, spec=encoded(retry=0)),
        row_with(told, spec=b""),
        row_with(told, spec=encoded() + b"x"),
        row_with(told, ctime=2**62 - 1),
    ]
    send(bench, bench.peers[0], *lies)
    assert bench.node.messages_skipped == len(lies)
    assert support.all_jobs(bench.node) == []


def test_counters_beyond_bounds_stop_where_old_clients_stop() -> None:
    bench = Bench(peers=1)
    client = bench.client()
    bench.hear(bench.peers[0], support.repljob(B0, job_id=an_id(1), retry=60))
    told = row(1)
    send(bench, bench.peers[0], row_with(told, nacks=2**31, deliveries=2**40))
    job = bench.job(an_id(1))
    assert (bench.state(job.id), job.nacks, job.deliveries) == ("queued", 65535, 65535)
    assert client.get("q") == [an_id(1)]


def test_an_acknowledged_job_is_not_taken_and_its_sender_is_told() -> None:
    bench = Bench(peers=1)
    client = bench.client()
    send(bench, bench.peers[0], row(1))
    for job_id in (an_id(1), an_id(2)):
        client("ACKJOB", job_id)
    bench.sent()
    send(bench, bench.peers[0], row(1), row(2))
    assert [(peer, message[2]) for peer, message in bench.sent(SETACK)] == [(B0, (an_id(1),)), (B0, (an_id(2),))]
    bench.hear(bench.peers[0], (HAVE, (an_id(1),)))
    assert len(bench.sent(SETACK)) == 1
    assert client("QLEN", "q") == 0


def test_a_job_that_is_over_does_not_come_back() -> None:
    bench = Bench(peers=1)
    client = bench.client()
    bench.hear(bench.peers[0], (DELJOB, (an_id(1),)))
    send(bench, bench.peers[0], row(1), row_with(row(2), id=b"no job ID at all, but forty bytes long!!"))
    assert client("QLEN", "q") == 0
    assert bench.node.queues == {}


def test_a_full_node_takes_what_it_asked_for() -> None:
    bench = Bench(peers=1)
    bench.set("maxmemory", 1)
    send(bench, bench.peers[0], row(1))
    assert bench.client()("QLEN", "q") == 1


def test_qstat_and_qscan_tell_of_imports() -> None:
    bench = Bench(peers=1)
    client = bench.client()
    client.add("home", "b", "REPLICATE", 1)
    assert client("QSTAT", "home")[10:14] == [b"import-from", [], b"import-rate", 0]
    send(bench, bench.peers[0], row(1))
    assert client("QSTAT", "q")[10:14] == [b"import-from", [B0], b"import-rate", 20]
    assert client("QSCAN", "IMPORTRATE", 20)[1] == [b"q"]
    assert client("QSCAN", "IMPORTRATE", 21)[1] == []
    assert sorted(client("QSCAN", "IMPORTRATE", 0)[1]) == [b"home", b"q"]
    bench.advance(5001)
    assert client("QSTAT", "q")[10:14] == [b"import-from", [], b"import-rate", 0]


# -- neither in circles nor stranded -----------------------------------------------------------------------------------


def test_imports_stay_while_they_are_of_use_here_and_go_on_five_seconds_after_the_last() -> None:
    bench = Bench(peers=2)
    client = bench.client()
    need(bench, bench.peers[1], count=9)
    bench.advance(6000)
    send(bench, bench.peers[0], *[row(number) for number in range(1, 6)])
    client.get("q")
    assert given(bench) == []
    bench.advance(4999)
    assert given(bench) == []
    bench.advance(1)
    ((peer, jobs),) = given(bench)
    assert (peer, jobs) == (B1, [an_id(2), an_id(3), an_id(4), an_id(5)])


def test_imports_that_nobody_wants_here_go_on_after_a_second() -> None:
    bench = Bench(peers=2)
    need(bench, bench.peers[1], count=9)
    bench.advance(6000)
    send(bench, bench.peers[0], row(1))
    bench.advance(999)
    assert given(bench) == []
    bench.advance(1)
    assert given(bench) == [(B1, [an_id(1)])]


def test_a_request_that_has_just_come_draws_no_imports_but_what_belongs_here() -> None:
    bench = Bench(peers=2)
    client = bench.client()
    send(bench, bench.peers[0], row(1))
    bench.advance(20_000)
    need(bench, bench.peers[1], count=9)
    assert given(bench) == []
    client.add("q", "b", "REPLICATE", 1)
    ((_, jobs),) = given(bench)
    assert len(jobs) == 1
    need(bench, bench.peers[1], count=0)
    bench.advance(30_000)
    assert given(bench) == []
    need(bench, bench.peers[1], count=9)
    bench.advance(5000)
    assert len(given(bench)) == 1


def test_what_was_imported_long_ago_is_like_any_other_job() -> None:
    bench = Bench(peers=2)
    left_ms = 600_000
    send(bench, bench.peers[0], row_with(row(1), left_ms=left_ms, spec=encoded(ttl=600)))
    bench.advance(120_000)
    need(bench, bench.peers[1])
    assert given(bench) == [(B1, [an_id(1)])]


# -- pauses ------------------------------------------------------------------------------------------------------------


def test_a_broadcast_pause_is_told_to_all_and_to_those_who_come_later() -> None:
    bench = Bench(peers=2)
    client = bench.client()
    client("PAUSE", "q", "in")
    assert bench.sent(ENTRIES) == []
    assert client("PAUSE", "q", "out", "bcast") == b"out"
    message = pause_everywhere(b"q", 2, bench.now_ms, MYSELF)
    assert bench.sent(ENTRIES) == [(B0, message), (B1, message)]
    client("PAUSE", "q", "none", "bcast")
    message = pause_everywhere(b"q", 0, bench.now_ms + 1, MYSELF)
    assert bench.sent(ENTRIES)[0] == (B0, message)
    step.link_up(bench.node, B1, 7, bench.now_ms)
    assert [(peer, message[:3]) for peer, message in bench.sent(DIGEST)] == [
        (B1, (DIGEST, 1, bench.node.registry.digest()))
    ]
    bench.hear(bench.peers[1], (DIGEST, 1, b""))
    assert bench.sent(ENTRIES) == [(B1, message)]


def test_the_greatest_pause_wins_whatever_the_order() -> None:
    bench = Bench(peers=2, journaling=True)
    client = bench.client()
    peer = bench.peers[0]
    bench.hear(peer, pause_everywhere(b"q", 1, 5, B1))
    bench.hear(peer, pause_everywhere(b"q", 2, 5, B0))
    assert client("PAUSE", "q", "state") == b"in"
    bench.hear(peer, pause_everywhere(b"q", 3, 5, B2))
    assert client("PAUSE", "q", "state") == b"all"
    bench.hear(peer, pause_everywhere(b"q", 0, 6, B0))
    assert client("PAUSE", "q", "state") == b"none"
    bench.hear(peer, pause_everywhere(b"q", 9, 7, B0))
    assert client("PAUSE", "q", "state") == b"none", "no node says that"
    assert [record[2] for record in bench.records() if record[0] == schema.PAUSE] == [1, 3, 0]
    assert bench.sent(ENTRIES) == []


def test_a_broadcast_goes_above_whatever_is_known() -> None:
    bench = Bench(peers=1)
    client = bench.client()
    bench.hear(bench.peers[0], pause_everywhere(b"q", 1, bench.now_ms + 10**9, B0))
    client("PAUSE", "q", "all", "bcast")
    assert bench.sent(ENTRIES) == [(B0, pause_everywhere(b"q", 3, bench.now_ms + 10**9 + 1, MYSELF))]


class TestFullMemory:
    """Whatever a peer sends makes no queues beyond `maxmemory`, and nothing that was said is forgotten."""

    @staticmethod
    def full() -> Bench:
        bench = Bench(peers=1, journaling=True)
        bench.client().add("other", "x" * 10_000, "REPLICATE", 1)
        bench.set("maxmemory", bench.node.used - 1)
        return bench

    def test_a_pause_makes_no_queue_until_there_is_memory(self) -> None:
        bench = self.full()
        bench.hear(bench.peers[0], pause_everywhere(b"q", 1, 5, B0), pause_everywhere(b"other", 2, 5, B0))
        assert list(bench.node.queues) == [b"other"]
        assert bench.node.queues[b"other"].paused == 2, "it is there anyway"
        bench.live(200)
        assert list(bench.node.queues) == [b"other"]
        bench.set("maxmemory", 0)
        bench.live(200)
        assert bench.node.queues[b"q"].paused == 1
        assert not bench.node.registry.waiting

    def test_a_pause_that_waits_gives_way_to_what_is_said_here_later(self) -> None:
        bench = self.full()
        bench.hear(bench.peers[0], pause_everywhere(b"q", 1, 5, B0))
        bench.client()("PAUSE", "q", "none")
        bench.set("maxmemory", 0)
        bench.live(200)
        assert b"q" not in bench.node.queues
        assert not bench.node.registry.waiting
        assert any(record[0] == schema.ENTRY for record in bench.records()), "a restart does not take it for news"

    def test_a_queue_that_comes_by_itself_is_paused(self) -> None:
        bench = self.full()
        bench.hear(bench.peers[0], pause_everywhere(b"q", 1, 5, B0))
        bench.node.queue(b"q", bench.now_ms)
        assert bench.node.queues[b"q"].paused == 0
        bench.live(200)
        assert bench.node.queues[b"q"].paused == 1

    def test_a_job_with_a_retry_stays_where_it_was(self) -> None:
        bench = self.full()
        send(bench, bench.peers[0], row(1), row(2))
        assert list(bench.node.queues) == [b"other"]
        assert list(bench.node.federation.flows) == []
        assert bench.node.messages_skipped == 2

    def test_one_that_would_be_lost_is_taken_far_beyond_the_limit_if_it_was_asked_for(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(supply, "NOWHERE_ELSE_BYTES", 0)
        bench = Bench(peers=1)
        client = bench.client()
        client.send("GETJOB", "COUNT", 2, "FROM", "q")
        bench.settle()
        bench.client().add("other", "x" * 10_000, "REPLICATE", 1)
        bench.set("maxmemory", bench.node.used - 1)
        send(bench, bench.peers[0], row(1, retry=0))
        assert_delivered(client, an_id(1, retry=0))
        send(bench, bench.peers[0], *[row(number, retry=0) for number in (2, 3, 4)])
        assert bench.state(an_id(2, retry=0)) == "queued"
        assert bench.state(an_id(3, retry=0)) == bench.state(an_id(4, retry=0)) == "gone"
        send(bench, bench.peers[0], row(5, retry=0))
        assert bench.state(an_id(5, retry=0)) == "gone"

    def test_and_a_little_beyond_the_limit_whether_or_not_it_was(self) -> None:
        bench = self.full()
        send(bench, bench.peers[0], row(1, retry=0))
        assert bench.state(an_id(1, retry=0)) == "queued"

    def test_empty_gifts_leave_nothing(self) -> None:
        bench = Bench(peers=1)
        send(bench, bench.peers[0])
        assert not bench.node.federation.flows

    def test_the_newest_counts(self) -> None:
        bench = self.full()
        bench.hear(
            bench.peers[0],
            pause_everywhere(b"q", 1, 5, B0),
            pause_everywhere(b"q", 0, 6, B0),
            pause_everywhere(b"q", 2, 4, B0),
        )
        bench.set("maxmemory", 0)
        bench.live(200)
        assert b"q" not in bench.node.queues

    def test_after_a_crash_before_it_the_pause_is_news_again(self) -> None:
        bench = self.full()
        bench.records()
        bench.hear(bench.peers[0], pause_everywhere(b"q", 1, 5, B0))
        assert bench.records() == []
        bench.set("maxmemory", 0)
        bench.live(200)
        assert [record[0] for record in bench.records()] == [schema.ENTRY, schema.PAUSE]


# -- several real nodes ------------------------------------------------------------------------------------------------


class Net:
    """Real nodes that are all linked; messages arrive at once, in order."""

    def __init__(self, size: int) -> None:
        ids = [b"%02x" % (0xA0 + number) * 20 for number in range(size)]
        self.benches: list[Bench] = []
        self.sent: list[tuple[Any, ...]] = []
        for number, node_id in enumerate(ids):
            with patch.object(support, "MYSELF", node_id):
                self.benches.append(Bench(seed=number + 1))
        for bench in self.benches:
            for other in ids:
                if other != bench.node.node_id:
                    bench.membership.add(membership.Member(other, b"127.0.0.1", 7711))
                    step.link_up(bench.node, other, 1, bench.now_ms)
        self.by_id = dict(zip(ids, self.benches, strict=True))
        self.run()

    def __getitem__(self, number: int) -> Bench:
        return self.benches[number]

    def run(self) -> None:
        """Deliver all messages, until there are none."""
        busy = True
        while busy:
            busy = False
            for bench in self.benches:
                bench.tick()
                for peer, message in bench.sent():
                    busy = True
                    self.sent.append(message)
                    (arrived,) = decode(frame([encode_message(message)])[4:])
                    step.message(self.by_id[peer].node, bench.node.node_id, arrived, bench.now_ms)

    def live(self, ms: int, step_ms: int = 100) -> None:
        """Let time pass on all nodes."""
        for _ in range(ms // step_ms):
            for bench in self.benches:
                bench.live(step_ms)
                bench.membership.messages.clear()
                for peer in bench.membership.nodes.values():
                    peer.ping_sent_ms, peer.pong_received_ms = 0, bench.now_ms
            self.run()

    def pass_ms(self, ms: int) -> None:
        """Let a little time pass, without what processes do ten times a second."""
        for bench in self.benches:
            bench.now_ms += ms

    def count(self, kind: int) -> int:
        """Messages of a kind since the last call."""
        count = len([message for message in self.sent if message[0] == kind])
        self.sent.clear()
        return count


def test_a_job_travels_to_the_consumer_that_waits_elsewhere() -> None:
    net = Net(3)
    consumer, producer = net[2].client(), net[0].client()
    consumer("GETJOB", "FROM", "q")
    net.run()
    job = producer.add("q", "b", "REPLICATE", 1)
    net.run()
    assert_delivered(consumer, job)
    assert consumer("ACKJOB", job) == 1
    net.run()
    assert producer("SHOW", job) is None


def test_a_consumer_that_looks_in_finds_the_job_next_time() -> None:
    net = Net(2)
    consumer, producer = net[1].client(), net[0].client()
    job = producer.add("q", "b", "REPLICATE", 1)
    assert consumer.get("q") == []
    net.run()
    assert consumer.get("q") == [job]


def test_consumers_at_two_nodes_share_the_work() -> None:
    net = Net(3)
    consumers = [net[1].client(), net[2].client()]
    producer = net[0].client()
    got = [0, 0]
    for consumer in consumers:
        consumer("GETJOB", "FROM", "q")
    for _ in range(100):
        producer.add("q", "b", "REPLICATE", 1)
        net.run()
        for number, consumer in enumerate(consumers):
            while not consumer.waiting:
                got[number] += len(consumer.read())
                consumer("GETJOB", "FROM", "q")
                net.run()
    assert sum(got) == 100
    assert min(got) >= 30


def test_pollers_at_several_nodes_do_not_draw_a_job_in_circles() -> None:
    net = Net(3)
    producer = net[0].client()
    pollers = [net[number].client() for number in (0, 1, 2)]
    turn = 1
    assert pollers[turn].get("q") == []
    net.run()
    job = producer.add("q", "b", "REPLICATE", 1, "TTL", 86400, "RETRY", 80000)
    net.run()
    for _ in range(4):
        net.live(15_000, 500)
        turn = (turn + 1) % 3
        if pollers[turn].get("q") == [job]:
            return
        net.run()
    pytest.fail("the job is never where somebody looks")


def test_jobs_whose_consumers_have_left_go_to_those_who_wait() -> None:
    net = Net(3)
    gone, waiting = net[1].client(), net[2].client()
    producer = net[0].client()
    jobs = [producer.add("q", "b", "REPLICATE", 1) for _ in range(4)]
    gone("GETJOB", "COUNT", 4, "FROM", "q")
    net.run()
    taken = [entry[1] for entry in gone.read()]
    net.run()
    gone.disconnect()
    found = []
    waiting("GETJOB", "COUNT", 4, "FROM", "q")
    net.run()
    for _ in range(70):
        net.live(100)
        if not waiting.waiting:
            found += [entry[1] for entry in waiting.read()]
            waiting("GETJOB", "COUNT", 4, "FROM", "q")
            net.run()
    assert sorted(taken + found) == sorted(jobs)


@pytest.mark.parametrize("count", [1, 10])
def test_a_fast_consumer_without_own_jobs_asks_seldom(count: int) -> None:
    net = Net(3)
    for bench in net.benches:
        bench.checked = False
    producers = [net[0].client(), net[1].client()]
    for producer in producers:
        for _ in range(1500):
            producer.send("ADDJOB", "q", "b", 0, "REPLICATE", 1)
        producer.read_all()
    consumer = net[2].client()
    got = waits = 0
    while got < 2900:
        net.pass_ms(1)
        reply = consumer("GETJOB", "COUNT", count, "FROM", "q")
        net.run()
        if reply is NOTHING:
            waits += 1
            reply = consumer.read()
        got += len(reply)
    assert waits <= 30
    assert net.count(NEEDJOBS) < 200


def test_a_slow_consumer_does_not_hoard() -> None:
    net = Net(3)
    producers = [net[0].client(), net[1].client()]
    for producer in producers:
        for _ in range(50):
            producer.add("q", "b", "REPLICATE", 1)
    consumer = net[2].client()
    for _ in range(8):
        if consumer("GETJOB", "FROM", "q") is NOTHING:
            net.run()
            assert len(consumer.read()) == 1
        net.live(3000)
        assert net[2].node.queues[b"q"].length <= 3


def test_a_node_that_needs_nothing_asks_nothing() -> None:
    net = Net(3)
    client = net[0].client()
    client("GETJOB", "TIMEOUT", 200, "FROM", "q")
    net.run()
    assert net.count(NEEDJOBS) == 2
    net.live(3000)
    assert net.count(NEEDJOBS) == 2, "taken back"
    assert net[1].node.federation.wants == {}
    net.live(10_000)
    assert net.count(NEEDJOBS) == 0


class Walk:
    """Producers and consumers at all nodes of a net that do as chance wills; ``got`` is what consumers were given."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.net = Net(4)
        self.clients = [bench.client() for bench in self.net.benches for _ in range(3)]
        self.added: list[bytes] = []
        self.got: list[bytes] = []

    def collect(self) -> None:
        """Let all messages arrive, and the consumers read."""
        self.net.run()
        for client in self.clients:
            for reply in client.read_all():
                self.got.extend(entry[1] for entry in reply or [])

    def add(self) -> None:
        producer = self.random.choice(self.net.benches).client()
        retry = self.random.choice((0, 80_000))
        for _ in range(self.random.randint(1, 5)):
            self.added.append(producer.add("q", "b", "REPLICATE", 1, "RETRY", retry))
        producer.disconnect()

    def get(self) -> None:
        client = self.random.choice(self.clients)
        hang = ("NOHANG",) if self.random.random() < 0.3 else ("TIMEOUT", self.random.choice((50, 5000)))
        if not client.waiting:
            client.send("GETJOB", "COUNT", self.random.randint(1, 4), *hang, "FROM", "q")

    def live(self) -> None:
        self.net.live(self.random.choice((100, 1000, 4000)))

    def drain(self, client: Client) -> None:
        """Only ``client`` goes on, for as long as there can be anything."""
        for _ in range(200):
            if not client.waiting:
                client.send("GETJOB", "COUNT", 10, "FROM", "q")
            self.net.live(100)
            self.collect()


@pytest.mark.parametrize("seed", rarely(*range(4)))
def test_whatever_happens_each_job_is_delivered_once_and_all_come_to_the_last_consumer(seed: int) -> None:
    walk = Walk(seed)
    for act in walk.random.choices((walk.add, walk.get, walk.live), (5, 6, 1), k=250):
        act()
        walk.collect()
    walk.net.live(6000)
    walk.collect()
    walk.drain(walk.clients[0])
    assert sorted(walk.got) == sorted(walk.added)
