"""Jobs that are delivered at most once, of a node that leaves."""

from typing import Any

import pytest

from cluster.capabilities import MINE, TAKEOVER
from cluster.membership import Member
from cluster.messages import (
    GOTJOB,
    REFUSED,
    REFUSED_GONE,
    REFUSED_JOURNAL,
    REFUSED_LEAVING,
    REPLJOB,
    REPLJOB_BODIES,
    REPLJOB_DELAY_MS,
    REPLJOB_HOLDERS,
    REPLJOB_IDS,
    SETACK,
    TAKEJOB,
)
from disque.core import step
from disque.core.journal.schema import DELETE, JOBS, KEYS
from disque.core.model.job import ACTIVE, QUEUED, WAIT_REPL
from disque.core.model.repair import Walk
from disque.core.replication import repair
from tests.core.support import MYSELF, PROCESS, Bench, foreign_id
from tests.support.formats import repljob, repljob_with


@pytest.fixture
def three() -> Bench:
    """A node among two others, with a journal."""
    return Bench(peers=2, journaling=True)


def added(bench: Bench, *words: str) -> bytes:
    """A job that is delivered at most once."""
    job_id: bytes = bench.client()("ADDJOB", "q", "body", 0, "REPLICATE", 1, "RETRY", 0, *words)
    return job_id


def leave(bench: Bench) -> None:
    """The node leaves, and has begun to look at its jobs."""
    bench.client()("CLUSTER", "LEAVING", "yes")
    bench.live(1200)


def asked(bench: Bench) -> list[tuple[Member, Any]]:
    """Who was given jobs."""
    by_id = {peer.id: peer for peer in bench.peers}
    return [(by_id[peer_id], message) for peer_id, message in bench.sent(TAKEJOB)]


def kinds(bench: Bench) -> list[int]:
    return [record[0] for record in bench.records()]


def left(bench: Bench) -> bytes:
    text: bytes = bench.client()("CLUSTER", "INFO")
    return next(line for line in text.split(b"\r\n") if line.startswith(b"leaving_jobs"))


def test_a_delayed_job_goes_to_another_node_and_is_deleted_here_before(three: Bench) -> None:
    job_id = added(three, "DELAY", "500")
    leave(three)
    ((peer, message),) = asked(three)
    assert message[REPLJOB_IDS] == (job_id,)
    assert message[REPLJOB_BODIES] == (b"body",)
    assert message[REPLJOB_HOLDERS] == (peer.id,)
    assert 498_000 < message[REPLJOB_DELAY_MS] < 500_000
    assert three.job(job_id).state == WAIT_REPL
    assert DELETE in kinds(three)
    assert not any(one[0] == TAKEJOB for _, one in three.node.early)
    three.hear(peer, (GOTJOB, (job_id,)))
    assert three.node.find(job_id) is None
    assert not three.node.repairs.parting
    three.live(5000)
    assert left(three) == b"leaving_jobs:0"
    assert not asked(three)


def test_a_queued_job_leaves_its_queue(three: Bench) -> None:
    job_id = added(three)
    leave(three)
    ((_, message),) = asked(three)
    assert (message[REPLJOB_IDS], message[REPLJOB_DELAY_MS]) == ((job_id,), 0)
    assert three.client()("GETJOB", "NOHANG", "FROM", "q") is None


def test_one_that_was_delivered_stays(three: Bench) -> None:
    added(three)
    assert three.client()("GETJOB", "FROM", "q")
    leave(three)
    assert not asked(three)
    assert left(three) == b"leaving_jobs:0"


def test_the_next_node_is_asked_when_one_refuses_and_then_the_job_is_what_it_was(three: Bench) -> None:
    job_id = added(three, "DELAY", "500")
    due_ms = three.job(job_id).requeue_ms
    leave(three)
    ((first, _),) = asked(three)
    three.hear(first, (REFUSED, REFUSED_JOURNAL, (job_id,)))
    ((second, _),) = asked(three)
    assert second is not first
    three.records()
    three.hear(second, (REFUSED, REFUSED_LEAVING, (job_id,)))
    job = three.job(job_id)
    assert (job.state, job.requeue_ms) == (ACTIVE, due_ms)
    assert JOBS in kinds(three)
    assert not three.node.copies.wanted
    three.live(7000)
    assert len(asked(three)) == 1  # the next walk


def test_a_node_that_leaves_no_more_keeps_what_is_refused(three: Bench) -> None:
    job_id = added(three)
    leave(three)
    ((first, _),) = asked(three)
    three.client()("CLUSTER", "LEAVING", "no")
    three.hear(first, (REFUSED, REFUSED_JOURNAL, (job_id,)))
    assert three.job(job_id).state == QUEUED
    assert not asked(three)


def test_while_the_journal_cannot_be_written_nothing_has_left_over_a_link_that_ends(three: Bench) -> None:
    """Seed 1520792: messages wait for the record that is before them."""
    job_id = added(three)
    leave(three)
    ((peer, message),) = asked(three)
    three.node.misconf = b"no space"
    three.link_down(peer)
    three.live(3000)
    three.link_up(peer, PROCESS + 1)
    three.live(3000)
    assert three.job(job_id).state == WAIT_REPL
    three.node.misconf = b""
    three.live(100)
    three.sent()
    three.link_up(peer, PROCESS + 2)  # what waited for the journal is still about to leave
    assert three.sent(TAKEJOB, REPLJOB) == [], "and may have come: it is not said again"
    step.undelivered(three.node, peer.id, [message], three.now_ms)
    ((other, _),) = asked(three)
    assert other is not peer
    three.hear(other, (GOTJOB, (job_id,)))
    three.live(2000)
    assert three.node.find(job_id) is None


def test_a_link_that_ends_costs_the_job_since_the_other_node_may_have_it(three: Bench) -> None:
    job_id = added(three)
    leave(three)
    ((peer, _),) = asked(three)
    three.link_down(peer)
    three.live(1100)
    assert three.node.find(job_id) is None
    assert not three.node.copies.wanted
    assert job_id not in three.node.peers[peer.id].waiting
    three.live(40_000)
    assert not asked(three)


def test_what_had_not_left_when_the_link_ended_goes_to_the_next_node(three: Bench) -> None:
    """It waits for the journal or for the end of a turn, so the end of the link is known first."""
    job_id = added(three)
    leave(three)
    ((peer, message),) = asked(three)
    three.link_down(peer)
    step.undelivered(three.node, peer.id, [message], three.now_ms)
    ((other, _),) = asked(three)
    assert other is not peer
    three.hear(other, (GOTJOB, (job_id,)))
    assert three.node.find(job_id) is None
    three.live(1100)
    assert not three.node.repairs.parting


def test_so_does_what_had_not_left_when_the_other_node_was_forgotten(three: Bench) -> None:
    job_id = added(three)
    leave(three)
    ((peer, message),) = asked(three)
    three.client()("CLUSTER", "FORGET", peer.id)
    step.undelivered(three.node, peer.id, [message], three.now_ms)
    ((other, _),) = asked(three)
    assert other is not peer
    three.hear(other, (GOTJOB, (job_id,)))
    assert three.node.find(job_id) is None


def test_what_may_have_left_when_the_other_node_was_forgotten_is_lost(three: Bench) -> None:
    job_id = added(three)
    leave(three)
    ((peer, _),) = asked(three)
    three.client()("CLUSTER", "FORGET", peer.id)
    three.live(1100)
    assert three.node.find(job_id) is None
    assert not three.node.copies.wanted
    three.live(40_000)
    assert not asked(three)


def test_nodes_that_do_not_know_this_are_not_asked(three: Bench) -> None:
    for peer in three.peers:
        three.node.membership.set_capabilities(peer.id, MINE & ~TAKEOVER)
    added(three)
    leave(three)
    assert not asked(three)
    assert left(three) == b"leaving_jobs:1"


def test_an_acknowledgement_ends_a_job_on_its_way(three: Bench) -> None:
    job_id = added(three)
    leave(three)
    ((peer, _),) = asked(three)
    assert three.client()("ACKJOB", job_id) == 1
    assert three.told(peer, SETACK)
    assert three.node.find(job_id) is None
    three.live(1000)
    assert not three.node.repairs.parting


def test_a_key_goes_on_with_its_job() -> None:
    bench = Bench(journaling=True)
    job_id = added(bench, "UNIQUE", "key", "0")
    bench.records()
    bench.meet(0)
    bench.meet(1)
    leave(bench)
    ((peer, _),) = asked(bench)
    found = kinds(bench)
    assert found.index(DELETE) < found.index(KEYS)
    bench.hear(peer, (GOTJOB, (job_id,)))
    assert bench.node.find(job_id) is None
    assert job_id in bench.node.unique.by_job


def take(bench: Bench, job_id: bytes, **values: Any) -> None:
    message = repljob_with(repljob(job_id, retry=0, holders=(MYSELF,)), **values)
    bench.hear(bench.peers[0], (TAKEJOB, *message[1:]))


def test_a_job_that_is_taken_over_begins_here_when_it_is_due(three: Bench) -> None:
    job_id = foreign_id(retry=0)
    take(three, job_id, delay_ms=5000)
    assert three.told(three.peers[0], GOTJOB) == [(GOTJOB, (job_id,))]
    job = three.job(job_id)
    assert (job.state, job.requeue_ms, job.holders) == (ACTIVE, three.now_ms + 5000, (MYSELF,))
    assert JOBS in kinds(three)
    take(three, job_id, delay_ms=5000)
    assert three.told(three.peers[0], GOTJOB) == [(GOTJOB, (job_id,))]
    three.live(5100)
    assert three.job(job_id).state == QUEUED


def test_a_pause_is_no_reason_to_refuse_but_a_job_that_is_over_is(three: Bench) -> None:
    three.client()("PAUSE", "q", "in")
    job_id = foreign_id(retry=0)
    take(three, job_id)
    assert three.told(three.peers[0], GOTJOB)
    assert three.client()("ACKJOB", job_id) == 1
    three.node.remember_gone(job_id)
    take(three, job_id)
    assert three.told(three.peers[0], REFUSED) == [(REFUSED, REFUSED_GONE, (job_id,))]
    assert three.node.find(job_id) is None


def test_who_keeps_its_key_is_a_holder(three: Bench) -> None:
    job_id = foreign_id(retry=0)
    keepers = tuple(sorted([MYSELF, three.peers[1].id]))
    take(three, job_id, holders=keepers)
    assert three.job(job_id).holders == keepers


def test_lies_are_skipped(three: Bench) -> None:
    job_id = foreign_id(retry=0)
    take(three, job_id, spec=b"x")
    message = repljob_with(repljob(job_id, retry=5))
    three.hear(three.peers[0], (TAKEJOB, *message[1:]))
    take(three, foreign_id())
    assert three.node.messages_skipped == 3
    assert three.node.find(job_id) is None


def test_what_ended_while_the_walk_rested_is_given_to_nobody(three: Bench) -> None:
    """Such a job went to another node, without its body."""
    job_id = added(three, "DELAY", "500")
    job = three.job(job_id)
    three.client()("DELJOB", job_id)
    three.sent()
    three.membership.leaving = True
    walk = Walk(frozenset(), "", three.now_ms, everything=False)
    walk.leaves = True
    repair.see_to(three.node, walk, 0, [job])
    assert not asked(three)
    assert not walk.left
