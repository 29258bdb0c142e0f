from typing import Any

import pytest

from cluster.membership import LEAVING, Member
from cluster.messages import (
    ANNOUNCE,
    ASKCOPY,
    COPY_OVER,
    COPY_THERE,
    COPY_UNDECIDED,
    COPY_UNKNOWN,
    COPYIS,
    GOTJOB,
    HAVE,
    REFUSED,
    REFUSED_GONE,
    REFUSED_MEMORY,
    REFUSED_PAUSED,
    REPLACEMENT,
    REPLJOB,
    REPLJOB_DELAY_MS,
    REPLJOB_FLAGS,
    REPLJOB_HOLDERS,
    REPLJOB_IDS,
    SETACK,
    TAKEJOB,
)
from disque.core.model.job import ACTIVE, LEASE_OWNER
from disque.core.model.queue import ELSEWHERE
from disque.core.model.repair import Walk
from disque.core.replication import repair
from disque.core.replication.rank import rank
from tests.core.support import MYSELF, NOTHING, PROCESS, Bench, foreign_id
from tests.support.formats import repljob, repljob_with

AFTER_MS = 10_000


def bench_of(peers: int) -> Bench:
    """A node that waits less than usual before it repairs."""
    bench = Bench(peers=peers, journaling=True)
    bench.set("cluster-repair-after", AFTER_MS // 1000)
    return bench


def made(bench: Bench, copies: int, *options: str) -> bytes:
    """A job with so many copies: here, and at the first of the other nodes that are asked."""
    client = bench.client()
    client.send("ADDJOB", "q", "body", 0, "REPLICATE", copies, "RETRY", 60, *options)
    job_id = b""
    for peer_id, message in bench.sent(REPLJOB):
        job_id = message[REPLJOB_IDS][0]
        bench.hear(node_of(bench, peer_id), (GOTJOB, (job_id,)))
    reply: bytes = client.read()
    assert job_id in {b"", reply}
    return reply


def node_of(bench: Bench, node_id: bytes) -> Member:
    return next(peer for peer in bench.peers if peer.id == node_id)


def others(bench: Bench, job_id: bytes) -> list[Member]:
    """The other nodes that have a copy, the first one in the order of the job first."""
    holders = [peer for peer in bench.peers if peer.id in bench.job(job_id).holders]
    return sorted(holders, key=lambda peer: -rank(peer.id, job_id))


def without(bench: Bench, job_id: bytes) -> list[Member]:
    """The other nodes that have none, in the order of the job."""
    free = [peer for peer in bench.peers if peer.id not in bench.job(job_id).holders]
    return sorted(free, key=lambda peer: -rank(peer.id, job_id))


def copies(bench: Bench) -> list[tuple[bytes, Any]]:
    """Who was sent copies that replace lost ones."""
    return [(peer_id, message) for peer_id, message in bench.sent(REPLJOB) if message[REPLJOB_FLAGS] & REPLACEMENT]


@pytest.fixture
def four() -> Bench:
    """A node among four others, all reachable."""
    return bench_of(4)


def test_a_copy_is_made_again_when_its_node_has_failed_for_long(four: Bench) -> None:
    job_id = made(four, 2)
    (gone,) = others(four, job_id)
    target = without(four, job_id)[0]
    four.fail(gone)
    four.live(AFTER_MS - 3000)
    assert not copies(four)
    four.live(10_000)
    ((peer_id, message),) = copies(four)
    assert peer_id == target.id
    assert message[REPLJOB_IDS] == (job_id,)
    assert message[REPLJOB_HOLDERS] == tuple(sorted([MYSELF, gone.id, target.id]))
    assert four.node.repairs.short == 1
    assert four.node.repairs.alone == 1
    four.hear(target, (GOTJOB, (job_id,)))
    four.live(2000)
    assert (four.node.repairs.short, four.node.repairs.alone, four.node.repairs.made) == (0, 0, 1)
    assert four.node.repairs.walk is None
    four.live(2 * AFTER_MS)
    assert not copies(four)


def test_nobody_walks_as_long_as_all_nodes_are_well(four: Bench) -> None:
    made(four, 3)
    four.live(AFTER_MS + 2000)  # once, a while after the start: other nodes may have lost copies before it
    for peer_id, (_, _, ids) in four.sent(ASKCOPY):
        four.hear(node_of(four, peer_id), (COPYIS, COPY_THERE, (), ids))
    four.live(2 * AFTER_MS)
    assert not four.sent(ASKCOPY, REPLJOB)
    assert not four.node.repairs.doubts


def test_with_0_nothing_is_repaired_unless_somebody_says_so(four: Bench) -> None:
    four.set("cluster-repair-after", 0)
    job_id = made(four, 2)
    (gone,) = others(four, job_id)
    four.fail(gone)
    four.live(3 * AFTER_MS)
    assert not copies(four)
    client = four.client()
    client.send("CLUSTER", "REPAIR", gone.id)
    four.live(6000)
    assert client.read() == 1
    assert len(copies(four)) == 1


def test_the_first_of_those_that_have_a_copy_repairs(four: Bench) -> None:
    job_id = made(four, 3)
    one, two = others(four, job_id)
    four.fail(two)
    four.live(AFTER_MS + 2000)
    assert four.sent(ASKCOPY) == [(one.id, (ASKCOPY, four.job(job_id).holders, (job_id,)))]
    four.hear(one, (COPYIS, COPY_THERE, (), (job_id,)))
    am_first = rank(MYSELF, job_id) > rank(one.id, job_id)
    assert len(copies(four)) == am_first
    assert four.node.repairs.short == am_first


@pytest.mark.parametrize("becomes", ["another object", "nothing"])
def test_a_job_that_the_walk_has_yet_to_look_at_may_move_or_end(four: Bench, becomes: str) -> None:
    _, job_id, _ = [made(four, 3) for _ in range(3)]
    _, two = others(four, job_id)
    four.fail(two)
    job = four.job(job_id)
    walk = Walk(frozenset([two.id]), "", four.now_ms, everything=True)
    level = repair.level_of(four.node, walk, job)
    assert level
    four.client()(*(("MOVE", "r", job_id) if becomes == "another object" else ("DELJOB", job_id)))
    assert four.node.find(job_id) is not job
    repair.see_to(four.node, walk, level, [job])
    assert list(four.node.repairs.checks) == ([job_id] if becomes == "another object" else [])


def test_what_the_first_one_does_not_repair_is_repaired_by_another_one_later(four: Bench) -> None:
    job_id = made(four, 3)
    while rank(MYSELF, job_id) > rank(others(four, job_id)[0].id, job_id):
        job_id = made(four, 3)
    one, two = others(four, job_id)
    four.fail(two)
    asked, sent = 0, []
    for _ in range(60):
        four.live(1000)
        messages = four.sent(ASKCOPY, REPLJOB)
        if (one.id, ASKCOPY) in [(peer_id, message[0]) for peer_id, message in messages]:
            asked += 1
            four.hear(one, (COPYIS, COPY_THERE, (), (job_id,)))
            sent += copies(four)
    assert asked > 2, "it looks again, and again"
    assert [message[REPLJOB_IDS] for _, message in sent] == [(job_id,)]


def test_who_is_not_the_first_repairs_if_that_one_has_no_copy(four: Bench) -> None:
    job_id = made(four, 3)
    one, two = others(four, job_id)
    four.fail(two)
    four.live(AFTER_MS + 2000)
    four.sent()
    four.hear(one, (COPYIS, COPY_UNKNOWN, (), (job_id,)))
    assert len(copies(four)) == 2
    walk = four.node.repairs.walk
    assert walk is not None
    assert (walk.short, walk.alone) == (1, 1)


@pytest.mark.parametrize("what", [COPY_OVER, COPY_UNDECIDED])
def test_what_is_over_or_not_decided_gets_no_copies(four: Bench, what: int) -> None:
    job_id = made(four, 3)
    one, two = others(four, job_id)
    four.fail(two)
    four.live(AFTER_MS + 2000)
    four.hear(one, (COPYIS, what, (), (job_id,)))
    assert not copies(four)
    assert not four.node.repairs.checks


def test_a_node_that_is_away_for_a_moment_counts(four: Bench) -> None:
    job_id = made(four, 3)
    one, two = others(four, job_id)
    four.fail(two)
    four.live(AFTER_MS - 3000)
    four.fail(one)
    four.live(8000)
    ((target_id, _),) = copies(four)
    four.live(AFTER_MS)
    four.hear(node_of(four, target_id), (COPYIS, COPY_UNKNOWN, (), (job_id,)))
    assert len(copies(four)) == 2  # both are missing now


def test_a_node_that_has_started_again_is_asked_after_a_while(four: Bench) -> None:
    four.live(AFTER_MS + 2000)
    job_id = made(four, 2)
    (one,) = others(four, job_id)
    four.link_down(one)
    four.link_up(one, PROCESS + 1)
    four.live(AFTER_MS - 3000)
    assert not four.sent(ASKCOPY)
    four.live(10_000)
    assert four.sent(ASKCOPY) == [(one.id, (ASKCOPY, four.job(job_id).holders, (job_id,)))]
    four.hear(one, (COPYIS, COPY_UNKNOWN, (), (job_id,)))
    assert [peer_id for peer_id, _ in copies(four)] == [
        max([peer.id for peer in four.peers], key=lambda peer_id: rank(peer_id, job_id))
    ]
    assert one.id in four.job(job_id).holders


def test_a_node_that_counted_since_it_could_not_be_asked_is_asked_later(four: Bench) -> None:
    job_id = made(four, 2)
    (one,) = others(four, job_id)
    four.live(AFTER_MS - 2000)
    four.link_down(one)
    four.live(4000)  # once, a while after the start, all is looked at
    assert not four.sent(ASKCOPY)
    four.link_up(one, PROCESS)
    four.live(AFTER_MS)
    assert four.sent(ASKCOPY) == [(one.id, (ASKCOPY, four.job(job_id).holders, (job_id,)))]
    four.hear(one, (COPYIS, COPY_UNKNOWN, (), (job_id,)))
    assert len(copies(four)) == 1
    assert not four.node.repairs.doubts


def test_a_node_that_was_sent_a_copy_and_did_not_answer_is_asked_whether_it_has_one() -> None:
    bench = bench_of(2)
    bench.live(AFTER_MS + 2000)
    job_id = made(bench, 2)
    (gone,) = others(bench, job_id)
    (other,) = without(bench, job_id)
    bench.membership.forget(gone.id, bench.now_ms)
    bench.peers.remove(gone)
    bench.live(3000)
    assert [peer_id for peer_id, _ in copies(bench)] == [other.id]
    bench.live(30_000)
    assert not bench.node.copies.wanted
    bench.live(6000)
    assert [(peer_id, message[2]) for peer_id, message in bench.sent(ASKCOPY)] == [(other.id, (job_id,))]
    bench.hear(other, (COPYIS, COPY_UNKNOWN, (), (job_id,)))
    assert [peer_id for peer_id, _ in copies(bench)] == [other.id]


@pytest.mark.parametrize("answers", [True, False])
def test_what_was_not_learnt_when_all_was_looked_at_is_asked_again(answers: bool) -> None:
    bench = bench_of(3)
    bench.live(AFTER_MS + 2000)
    job_id = made(bench, 2)
    (one,) = others(bench, job_id)
    gone = without(bench, job_id)[0]
    bench.membership.forget(gone.id, bench.now_ms)
    bench.peers.remove(gone)
    bench.live(3000)
    assert [peer_id for peer_id, _ in bench.sent(ASKCOPY)] == [one.id]
    if answers:
        bench.hear(one, (COPYIS, COPY_UNDECIDED, (), (job_id,)))
    bench.live(20_000)
    assert [(peer_id, message[2]) for peer_id, message in bench.sent(ASKCOPY)][:1] == [(one.id, (job_id,))]


def test_with_two_nodes_nothing_can_be_repaired_and_the_log_says_so() -> None:
    bench = bench_of(1)
    made(bench, 2)
    bench.fail(bench.peers[0])
    bench.live(AFTER_MS + 3000)
    assert not copies(bench)
    assert (bench.node.repairs.short, bench.node.repairs.alone) == (1, 1)
    assert list(bench.node.repairs.news) == [
        f"Repair begins, of 1 jobs here: node {bench.peers[0].id[:8].decode()} has been failing for 10 s",
        "Repair: 1 jobs still have too few copies: there is no further node to take one",
    ]
    assert not bench.node.copies.wanted
    other = bench.meet(5)
    bench.live(3000)
    assert [peer_id for peer_id, _ in copies(bench)] == [other.id]


def test_who_refuses_is_asked_again_when_nobody_else_is_left() -> None:
    bench = bench_of(2)
    job_id = made(bench, 2)
    (gone,) = others(bench, job_id)
    (target,) = without(bench, job_id)
    bench.fail(gone)
    bench.live(AFTER_MS + 2000)
    assert [peer_id for peer_id, _ in copies(bench)] == [target.id]
    bench.hear(target, (REFUSED, REFUSED_MEMORY, (job_id,)))
    assert not bench.node.copies.wanted
    bench.live(2000)
    assert bench.node.repairs.news[-1].endswith("nodes refuse to take more for now")
    assert target.id not in bench.job(job_id).holders
    bench.live(10_000)
    assert [peer_id for peer_id, _ in copies(bench)] == [target.id]
    bench.hear(target, (GOTJOB, (job_id,)))
    bench.live(2000)
    assert bench.node.repairs.short == 0


def test_who_refuses_a_job_that_was_handed_on_may_have_it_and_is_asked() -> None:
    bench = bench_of(2)
    job_id = made(bench, 2)
    (gone,) = others(bench, job_id)
    (target,) = without(bench, job_id)
    node = bench.node
    node.take_out(bench.job(job_id), bench.now_ms)
    bench.job(job_id).place = ELSEWHERE
    node.hold(bench.job(job_id), bench.now_ms + 60_000, LEASE_OWNER)
    node.repairs.doubts.clear()  # the walk after the start is over
    bench.client()("CLUSTER", "FORGET", gone.id)
    bench.live(2000)
    assert [peer_id for peer_id, _ in copies(bench)] == [target.id]
    bench.hear(target, (REFUSED, REFUSED_MEMORY, (job_id,)))
    assert target.id in bench.job(job_id).holders, "it was handed on, maybe to this one"
    bench.sent()
    bench.live(10_000)
    assert job_id in [job_id for message in bench.told(target, ASKCOPY) for job_id in message[2]]
    bench.hear(target, (COPYIS, COPY_UNKNOWN, (), (job_id,)))
    bench.live(2000)
    assert [peer_id for peer_id, _ in copies(bench)] == [target.id]


def test_another_node_is_asked_when_the_one_that_was_asked_is_forgotten() -> None:
    bench = bench_of(3)
    job_id = made(bench, 2)
    (gone,) = others(bench, job_id)
    first, second = without(bench, job_id)
    bench.fail(gone)
    bench.live(AFTER_MS + 2000)
    assert [peer_id for peer_id, _ in copies(bench)] == [first.id]
    for asked, then in ((first, [second.id]), (second, [])):
        bench.peers.remove(asked)
        assert bench.client()("CLUSTER", "FORGET", asked.id) == b"OK"
        bench.live(200)
        assert [peer_id for peer_id, _ in copies(bench)] == then
        assert not bench.node.copies.short  # that is for what goes on until somebody is there; the next walk repairs
    assert not bench.node.copies.wanted
    other = bench.meet(9)
    bench.live(5000)
    assert [peer_id for peer_id, _ in copies(bench)] == [other.id]


def test_a_holder_that_has_no_copy_is_asked_again_until_there_are_enough() -> None:
    bench = bench_of(2)
    bench.live(AFTER_MS + 2000)  # once, a while after the start, all is looked at
    job_id = made(bench, 2)
    (gone,) = others(bench, job_id)
    (other,) = without(bench, job_id)
    bench.hear(other, (HAVE, (job_id,)))
    bench.fail(other, LEAVING)  # so it takes no copies for now
    bench.live(1000)
    bench.hear(gone, (COPYIS, COPY_THERE, (), (job_id,)))
    bench.hear(other, (COPYIS, COPY_UNKNOWN, (), (job_id,)))
    bench.live(1000)
    bench.fail(gone)
    bench.membership.forget(gone.id, bench.now_ms)
    bench.peers.remove(gone)
    bench.live(2000)  # all is looked at
    bench.hear(other, (COPYIS, COPY_UNKNOWN, (), (job_id,)))
    bench.live(1000)
    bench.membership.set_flags(other, 0)
    bench.sent()
    bench.live(8000)
    assert [(peer_id, message[2]) for peer_id, message in bench.sent(ASKCOPY)] == [(other.id, (job_id,))]
    bench.hear(other, (COPYIS, COPY_UNKNOWN, (), (job_id,)))
    ((peer_id, message),) = copies(bench)
    assert (peer_id, message[REPLJOB_IDS]) == (other.id, (job_id,))


def test_at_most_once_is_not_repaired(four: Bench) -> None:
    client = four.client()
    client.add("q", "body", "RETRY", 0, "REPLICATE", 1)
    for peer in four.peers[:2]:
        four.fail(peer)
    four.live(AFTER_MS + 3000)
    assert not four.sent(ASKCOPY, REPLJOB)
    assert four.node.repairs.short == 0


def test_a_delay_goes_with_the_copy(four: Bench) -> None:
    job_id = made(four, 2, "DELAY", "10000")
    (gone,) = others(four, job_id)
    four.fail(gone)
    four.live(AFTER_MS + 2000)
    ((_, message),) = copies(four)
    assert 9_985_000 < message[REPLJOB_DELAY_MS] < 9_990_000


def test_a_copy_tells_another_one_its_delay_without_the_retry(four: Bench) -> None:
    one, two, *_ = four.peers
    job_id = foreign_id()
    four.hear(one, repljob(job_id, repl=3, retry=60, ttl=80_000, delay_ms=5_000_000, holders=(one.id, two.id)))
    four.fail(one)
    four.fail(two)
    four.live(AFTER_MS + 2000)
    delays = [message[REPLJOB_DELAY_MS] for _, message in copies(four)]
    assert len(delays) == 2
    assert all(4_985_000 < delay < 4_991_000 for delay in delays)


def test_what_has_ended_meanwhile_is_not_counted(four: Bench) -> None:
    job_id = made(four, 2)
    (gone,) = others(four, job_id)
    four.fail(gone)
    four.live(AFTER_MS + 2000)
    assert four.client()("ACKJOB", job_id) == 1
    assert not four.node.copies.wanted
    four.live(2000)
    assert (four.node.repairs.short, four.node.repairs.made) == (0, 0)
    assert four.node.repairs.walk is None


def test_a_forgotten_node_has_no_copies_any_more(four: Bench) -> None:
    job_id = made(four, 2)
    (gone,) = others(four, job_id)
    assert four.client()("CLUSTER", "FORGET", gone.id) == b"OK"
    four.peers.remove(gone)
    four.live(3000)
    ((_, message),) = copies(four)
    assert gone.id not in message[REPLJOB_HOLDERS]


def test_a_node_that_leaves_copies_its_jobs_away(four: Bench) -> None:
    client = four.client()
    alone, shared = made(four, 1, "DELAY", "5000"), made(four, 2)
    (one,) = others(four, shared)
    assert client("CLUSTER", "LEAVING", "yes") == b"OK"
    assert "leaving_jobs:2\r\n" in client("CLUSTER", "INFO").decode()
    four.live(3000)
    sent = four.sent(REPLJOB, ASKCOPY)
    assert [message[REPLJOB_IDS] for _, message in sent if message[0] == REPLJOB] == [(alone,)]
    assert [peer_id for peer_id, message in sent if message[0] == ASKCOPY] == [one.id]
    (target,) = [node_of(four, peer_id) for peer_id, message in sent if message[0] == REPLJOB]
    four.hear(target, (GOTJOB, (alone,)))
    four.hear(one, (COPYIS, COPY_THERE, (), (shared,)))  # it repairs that one
    four.live(1000)
    assert four.node.repairs.left == 2  # as of the beginning of that walk: another one follows
    four.live(4000)
    asked = four.sent(ASKCOPY)
    assert sorted(message[2] for _, message in asked) == sorted([(alone,), (shared,)])
    four.hear(target, (COPYIS, COPY_THERE, (), (alone,)))
    other = next(peer for peer in four.peers if peer not in {one, target})
    four.hear(one, (COPYIS, COPY_THERE, tuple(sorted([MYSELF, one.id, other.id])), (shared,)))
    four.live(1000)
    assert four.node.repairs.left == 1
    four.live(4000)  # the walk after the start begins
    for peer_id, message in four.sent(ASKCOPY):
        four.hear(node_of(four, peer_id), (COPYIS, COPY_THERE, (), message[2]))
    four.live(1000)
    assert "leaving_jobs:0\r\n" in client("CLUSTER", "INFO").decode()
    assert "it can be stopped" in four.node.repairs.news[-1]


def test_a_node_that_leaves_does_not_rely_on_one_that_fails_and_has_confirmed_nothing(four: Bench) -> None:
    alone = made(four, 1, "DELAY", "5000")
    four.client()("CLUSTER", "LEAVING", "yes")
    four.live(3000)
    ((silent, _),) = copies(four)
    four.fail(node_of(four, silent))
    four.live(repair.COPY_MOST_MS + 8000)
    assert four.node.repairs.left == 1
    ((other, message),) = copies(four)
    assert (other != silent, message[REPLJOB_IDS]) == (True, (alone,))


def test_a_walk_that_began_before_says_nothing_of_a_node_that_leaves(four: Bench) -> None:
    alone = made(four, 1, "DELAY", "5000")
    shared = made(four, 2)
    (gone,) = others(four, shared)
    four.fail(gone)
    four.live(AFTER_MS + 2000)
    walk = four.node.repairs.walk
    assert walk is not None
    client = four.client()
    client("CLUSTER", "LEAVING", "yes")
    for peer_id, _ in copies(four):
        four.hear(node_of(four, peer_id), (GOTJOB, (shared,)))
    four.live(300)
    assert four.node.repairs.walk is not walk
    assert four.node.repairs.left == -1
    four.live(3000)
    assert [message[REPLJOB_IDS] for _, message in copies(four)] == [(alone,)]


def test_what_nobody_else_can_have_keeps_a_node_that_leaves(four: Bench) -> None:
    client = four.client()
    once = client.add("q", "body", "RETRY", 0, "REPLICATE", 1)
    begun = client.add("q", "body", "RETRY", 60, "REPLICATE", 3, "ASYNC")
    client("CLUSTER", "LEAVING", "yes")
    four.live(1200)
    for _ in four.peers:
        for peer_id, _ in four.sent(TAKEJOB):
            four.hear(node_of(four, peer_id), (REFUSED, REFUSED_MEMORY, (once,)))
    four.live(2000)
    assert four.node.repairs.left == 2
    assert client("ACKJOB", once, begun) == 2
    four.live(12_000)
    assert four.node.repairs.left == 0


def test_copies_at_a_node_that_leaves_do_not_count(four: Bench) -> None:
    job_id = made(four, 2)
    (one,) = others(four, job_id)
    four.fail(one, LEAVING)
    four.live(3000)
    four.hear(one, (COPYIS, COPY_THERE, (), (job_id,)))
    assert [peer_id for peer_id, _ in copies(four)] == [
        max([peer.id for peer in four.peers if peer is not one], key=lambda peer_id: rank(peer_id, job_id))
    ]
    assert four.node.repairs.short == 1


def test_repairs_are_in_slices(four: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repair, "OPEN_MOST", 3)
    ids = [made(four, 2) for _ in range(10)]
    for peer in four.peers[:3]:
        four.fail(peer)
    four.live(AFTER_MS + 2000)
    seen: list[bytes] = []
    target = four.peers[3]
    for _ in range(20):
        some = [message[REPLJOB_IDS][0] for _, message in copies(four)]
        assert len(some) <= 3
        seen += some
        four.hear(target, (GOTJOB, tuple(some)))
        four.live(200)
    lost = [job_id for job_id in ids if target.id not in four.job(job_id).holders or job_id in seen]
    assert sorted(seen) == sorted(lost)
    assert four.node.repairs.made == len(seen)


def test_a_job_that_comes_by_once_more_is_not_asked_about_twice(four: Bench) -> None:
    job_id = made(four, 3)
    walk = Walk(frozenset(), "", four.now_ms, everything=True)
    four.node.repairs.walk = walk
    assert repair.check(four.node, walk, four.job(job_id)) > 0
    used = four.node.used
    assert repair.check(four.node, walk, four.job(job_id)) == 0
    assert four.node.used == used
    repair.break_off(four.node)
    four.node.repairs.walk = None


def test_who_never_answers_is_asked_again_later(four: Bench) -> None:
    job_id = made(four, 3)
    one, two = others(four, job_id)
    four.fail(two)
    four.live(AFTER_MS + 2000)
    assert four.sent(ASKCOPY) == [(one.id, (ASKCOPY, four.job(job_id).holders, (job_id,)))]
    used = four.node.used
    four.live(repair.ANSWER_MOST_MS)  # its link stands all the time: the answer was lost with one of its own
    assert four.node.repairs.walk is None
    assert four.node.used < used
    assert not four.sent(ASKCOPY, REPLJOB)
    four.live(repair.AGAIN_MS + 1000)
    assert four.sent(ASKCOPY) == [(one.id, (ASKCOPY, four.job(job_id).holders, (job_id,)))]
    four.hear(one, (COPYIS, COPY_UNKNOWN, (), (job_id,)))
    assert len(copies(four)) == 2


def test_flushing_ends_a_repair(four: Bench) -> None:
    job_id = made(four, 2)
    four.fail(others(four, job_id)[0])
    four.live(AFTER_MS + 2000)
    assert four.node.repairs.walk is not None
    assert four.client()("DEBUG", "FLUSHALL") == b"OK"
    four.live(5000)
    assert four.node.repairs.short == 0


# -- being asked -------------------------------------------------------------------------------------------------------


def test_who_is_asked_says_what_it_has(four: Bench) -> None:
    one, two, *_ = four.peers
    job_id = made(four, 1)
    done = made(four, 2)
    four.client()("ACKJOB", done)
    client = four.client()
    assert client("ADDJOB", "q", "b", 0, "REPLICATE", 3) is NOTHING
    waiting = four.sent(REPLJOB)[0][1][REPLJOB_IDS][0]
    four.sent()
    four.hear(one, (ASKCOPY, (one.id, two.id), (job_id, foreign_id(), done, waiting)))
    said: dict[bytes, Any] = {}
    for peer_id, message in four.sent(COPYIS, SETACK):
        assert peer_id in {one.id, *[peer.id for peer in four.peers]}
        if message[0] == COPYIS:
            said.update(dict.fromkeys(message[3], (message[1], message[2])))
    everybody = tuple(sorted([MYSELF, one.id, two.id]))
    assert said == {
        job_id: (COPY_THERE, everybody),
        foreign_id(): (COPY_UNKNOWN, ()),
        done: (COPY_OVER, ()),
        waiting: (COPY_UNDECIDED, ()),
    }
    assert four.job(job_id).holders == everybody


def test_a_paused_queue_takes_copies_that_replace_lost_ones(four: Bench) -> None:
    one = four.peers[0]
    assert four.client()("PAUSE", "q", "in") == b"in"
    job_id = foreign_id()
    copy = repljob(job_id, holders=(one.id, four.peers[1].id))
    four.hear(one, copy)
    assert four.sent(GOTJOB, REFUSED) == [(one.id, (REFUSED, REFUSED_PAUSED, (job_id,)))]
    four.hear(one, repljob_with(copy, flags=REPLACEMENT | ANNOUNCE))
    assert four.sent(GOTJOB, HAVE) == [(four.peers[1].id, (HAVE, (job_id,))), (one.id, (GOTJOB, (job_id,)))]
    assert four.job(job_id).state == ACTIVE


def test_who_waits_for_copies_itself_refuses_one(four: Bench) -> None:
    one = four.peers[0]
    assert four.client()("ADDJOB", "q", "b", 0, "REPLICATE", 3) is NOTHING
    waiting = four.sent(REPLJOB)[0][1][REPLJOB_IDS][0]
    four.hear(one, repljob_with(repljob(waiting), flags=REPLACEMENT | ANNOUNCE))
    assert four.sent(GOTJOB, REFUSED) == [(one.id, (REFUSED, REFUSED_GONE, (waiting,)))]


# -- CLUSTER REPAIR ----------------------------------------------------------------------------------------------------


def test_only_a_node_that_fails_is_gone(four: Bench) -> None:
    client = four.client()
    one = four.peers[0]
    assert client.error("CLUSTER", "REPAIR", "x") == "ERR Invalid node identifier"
    assert client.error("CLUSTER", "REPAIR", "0" * 40).startswith("ERR Unknown node")
    assert client.error("CLUSTER", "REPAIR", one.id) == f"ERR Node {one.id.decode()} does not fail: it is not gone"
    assert client.error("CLUSTER", "REPAIR", MYSELF).endswith("does not fail: it is not gone")
