import pytest

from cluster.messages import (
    ANSWER,
    ANSWER_NO,
    ASKCOPY,
    COPY_THERE,
    COPY_UNKNOWN,
    COPYIS,
    GOTJOB,
    GOTMOVE,
    MOVED,
    REPLJOB,
    REPLJOB_IDS,
    WILLQUEUE,
)
from disque.core import links
from disque.core.journal.codec import encode
from disque.core.journal.replay import Replay
from disque.core.journal.schema import RETURNED
from disque.core.model.memory import RETURNED_BYTES
from disque.core.model.repair import Check, Walk
from disque.core.replication import repair
from tests.core.support import NOTHING, START_MS, Bench

DAY_MS = 86_400_000


def restarted(bench: Bench, after_ms: int, peers: int = 2) -> Bench:
    """The node starts again, so much later; the others are there: the two that had the job come first."""
    records = bench.node.outbox.take()
    again = Bench(peers=peers, journaling=True)
    again.set("restart-grace", 0)
    again.now_ms = bench.now_ms + after_ms
    reader = Replay(again.node, "boot")
    for payload in encode(records, bench.now_ms):
        reader.apply(payload, 1)
    for _ in reader.finish(again.now_ms):
        pass
    again.node.beat_ms = again.now_ms
    again.membership.tick(again.now_ms)
    return again


def with_job() -> tuple[Bench, bytes]:
    """A node with a job that the two others have, too."""
    bench = Bench(peers=2, journaling=True)
    client = bench.client()
    client.send("ADDJOB", "q", "body", 0, "REPLICATE", 3, "TTL", 9 * 86_400, "RETRY", 60)
    (job_id,) = bench.sent(REPLJOB)[0][1][REPLJOB_IDS]
    for peer in bench.peers:
        bench.hear(peer, (GOTJOB, (job_id,)))
    assert client.read() == job_id
    return bench, job_id


def say(bench: Bench, what: int, job_id: bytes) -> None:
    """All others say so."""
    for peer in bench.peers:
        bench.hear(peer, (COPYIS, what, (), (job_id,)))


def let_queue(bench: Bench, job_id: bytes) -> None:
    """All that were asked whether the node may queue the job let it."""
    for peer_id, message in bench.sent(WILLQUEUE):
        peer = next(one for one in bench.peers if one.id == peer_id)
        bench.hear(peer, (ANSWER, message[1], ANSWER_NO, (), (job_id,)))


def test_after_a_short_absence_nothing_is_in_doubt() -> None:
    bench, _ = with_job()
    again = restarted(bench, DAY_MS - 1000)
    assert not again.node.repairs.returned
    assert not again.node.repairs.is_forgotten


def test_what_nobody_knows_any_more_is_put_away() -> None:
    bench, job_id = with_job()
    again = restarted(bench, DAY_MS)
    assert again.node.repairs.is_forgotten
    client = again.client()
    assert client("GETJOB", "FROM", "q") is NOTHING
    again.live(3000)
    let_queue(again, job_id)
    again.live(5000)
    assert client.waiting
    assert {peer_id for peer_id, _ in again.sent(ASKCOPY)} == {peer.id for peer in again.peers}
    say(again, COPY_UNKNOWN, job_id)
    assert {message[1] for _, message in again.sent(MOVED)} == {b"disque:returned"}
    assert client.waiting
    shown = again.client().show(job_id)
    assert (shown["queue"], shown["origin"], shown["died"]) == (b"disque:returned", b"q", b"returned")
    assert not again.node.repairs.returned
    assert again.client()("REVIVEJOB", job_id) == 1
    again.settle()
    assert not client.waiting


def test_what_one_of_them_knows_goes_on_as_ever() -> None:
    bench, job_id = with_job()
    again = restarted(bench, DAY_MS)
    one, two = again.peers
    again.live(3000)
    again.hear(two, (COPYIS, COPY_UNKNOWN, (), (job_id,)))
    again.hear(one, (COPYIS, COPY_THERE, (), (job_id,)))
    assert not again.node.repairs.returned
    for _ in range(3):
        let_queue(again, job_id)
        again.live(1000)
    assert again.state(job_id) == "queued"
    assert again.job(job_id).queue == b"q"


def asked(bench: Bench) -> list[bytes]:
    """Who was asked since the last time, by node ID."""
    return sorted({peer_id for peer_id, _ in bench.sent(ASKCOPY)})


def test_what_no_holder_knows_may_have_been_copied_to_any_other_node() -> None:
    bench, job_id = with_job()
    again = restarted(bench, DAY_MS, peers=4)
    one, two, three, four = again.peers
    again.live(6000)
    assert asked(again) == [one.id, two.id], "as long as one of them may know it"
    again.hear(one, (COPYIS, COPY_UNKNOWN, (), (job_id,)))
    assert asked(again) == []
    again.hear(two, (COPYIS, COPY_UNKNOWN, (), (job_id,)))
    assert asked(again) == [three.id, four.id]
    again.hear(three, (COPYIS, COPY_UNKNOWN, (), (job_id,)))
    assert list(again.node.repairs.returned) == [job_id]
    again.hear(four, (COPYIS, COPY_THERE, (), (job_id,)))
    assert not again.node.repairs.returned
    assert again.job(job_id).queue == b"q"
    assert four.id in again.job(job_id).holders


def test_what_no_other_node_knows_is_put_away_when_the_last_of_them_has_said_so() -> None:
    bench, job_id = with_job()
    again = restarted(bench, DAY_MS, peers=5)
    again.set("cluster-repair-after", 0)  # that asks the holders for itself
    older(again, 4)
    again.live(6000)
    for peer in again.peers[:3]:
        again.hear(peer, (COPYIS, COPY_UNKNOWN, (), (job_id,)))
    assert asked(again) == sorted(peer.id for peer in again.peers[:4])
    again.live(6000)
    assert asked(again) == [again.peers[3].id], "what was lost with a link is said again"
    assert again.job(job_id).queue == b"q"
    again.hear(again.peers[3], (COPYIS, COPY_UNKNOWN, (), (job_id,)))
    assert again.job(job_id).queue == b"disque:returned"


def test_where_no_holder_understands_the_question_the_other_nodes_are_not_asked() -> None:
    bench, job_id = with_job()
    again = restarted(bench, DAY_MS, peers=3)
    older(again, 0)
    older(again, 1)
    again.live(6000)
    assert asked(again) == []
    assert not again.node.repairs.returned
    assert again.job(job_id).queue == b"q"


@pytest.mark.parametrize("order", [("MOVE", "other"), ("ENQUEUE",), ("NACK",)])
def test_who_wants_it_queued_waits_for_the_others(order: tuple[str, ...]) -> None:
    for what, queue in ((COPY_THERE, b"other" if order[0] == "MOVE" else b"q"), (COPY_UNKNOWN, b"disque:returned")):
        bench, job_id = with_job()
        again = restarted(bench, DAY_MS)
        assert again.client()(*order, job_id) == 1
        again.live(3000)
        assert again.state(job_id) == "active"
        say(again, what, job_id)
        for peer in again.peers:
            again.hear(peer, (GOTMOVE, 1, again.node.node_id, (job_id,)))
        for _ in range(3):
            let_queue(again, job_id)
            again.live(1000)
        assert again.state(job_id) == "queued"
        assert again.job(job_id).queue == queue


def test_one_that_cannot_be_reached_is_waited_for_until_it_is_forgotten() -> None:
    bench, job_id = with_job()
    again = restarted(bench, DAY_MS)
    one, two = again.peers
    again.fail(one)
    again.live(30_000)
    again.hear(two, (COPYIS, COPY_UNKNOWN, (), (job_id,)))
    assert again.job(job_id).queue == b"q"
    assert again.state(job_id) == "active"
    again.client()("CLUSTER", "FORGET", one.id)
    again.peers.remove(one)
    again.live(6000)
    say(again, COPY_UNKNOWN, job_id)
    assert again.job(job_id).queue == b"disque:returned"


def test_with_nobody_left_it_is_delivered() -> None:
    bench, job_id = with_job()
    again = restarted(bench, DAY_MS)
    for peer in list(again.peers):
        again.client()("CLUSTER", "FORGET", peer.id)
        again.peers.remove(peer)
    again.live(6000)
    assert again.state(job_id) == "queued"
    assert not again.node.repairs.returned
    assert again.node.repairs.noted == 0


def older(bench: Bench, which: int) -> None:
    """That node does not understand the question."""
    bench.membership.set_capabilities(bench.peers[which].id, 7)
    links.review(bench.node, bench.now_ms)


def test_where_no_other_node_understands_the_question_it_goes_on() -> None:
    bench, job_id = with_job()
    again = restarted(bench, DAY_MS)
    older(again, 0)
    older(again, 1)
    again.live(6000)
    assert not again.node.repairs.returned
    assert again.job(job_id).queue == b"q"


def test_the_others_decide_where_one_does_not_understand_the_question() -> None:
    bench, job_id = with_job()
    again = restarted(bench, DAY_MS)
    older(again, 0)
    again.live(6000)
    assert {peer for peer, _ in again.sent(ASKCOPY)} == {again.peers[1].id}
    assert list(again.node.repairs.returned) == [job_id]
    again.hear(again.peers[1], (COPYIS, COPY_UNKNOWN, (), (job_id,)))
    assert not again.node.repairs.returned
    assert again.job(job_id).queue == b"disque:returned"


def test_another_start_goes_on_with_it() -> None:
    bench, job_id = with_job()
    records = bench.node.outbox.take()
    bench.node.outbox.records.extend(records)
    again = restarted(bench, DAY_MS)
    again.live(1000)
    assert (RETURNED, 1) in again.node.outbox.records
    again.node.outbox.records[:0] = records
    third = restarted(again, 1000)
    assert list(third.node.repairs.returned) == [job_id]
    third.live(6000)
    say(third, COPY_UNKNOWN, job_id)
    third.live(1000)
    assert (RETURNED, 0) in third.node.outbox.records
    assert third.now_ms > START_MS + DAY_MS


def test_what_is_in_doubt_is_not_copied() -> None:
    bench, job_id = with_job()
    again = restarted(bench, DAY_MS)
    job, walk = again.job(job_id), Walk(frozenset(), "", again.now_ms, everything=True)
    repair.decide(again.node, walk, job, Check([], again.now_ms), again.now_ms)
    assert [walk.short, walk.unsure] == [0, 1]
    again.node.repairs.returned.clear()
    repair.decide(again.node, walk, job, Check([], again.now_ms), again.now_ms)
    assert [walk.short, walk.unsure] == [1, 1]


def test_what_is_in_doubt_counts_for_memory() -> None:
    bench, job_id = with_job()
    again = restarted(bench, DAY_MS)
    assert again.node.repairs.cost() == RETURNED_BYTES
    used = again.node.used
    again.hear(again.peers[0], (COPYIS, COPY_THERE, (), (job_id,)))
    assert again.node.used == used - RETURNED_BYTES
