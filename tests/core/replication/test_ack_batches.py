import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.membership import Member
from cluster.messages import DELJOB, GOTACK, SETACK
from disque.core import step
from disque.core.journal.schema import ACK, DELETE
from disque.core.model.ack_batch import AGAIN_MS, AGAIN_SPREAD_MS, BATCH_LEAST, BATCH_MOST, Ack, AckStage
from disque.core.replication.ack_batches import SOME
from tests.conftest import examples
from tests.core.support import Bench, batches_of, foreign_id, repljob


def shared(bench: Bench, count: int = 3, *options: str, copies: int = 3) -> list[bytes]:
    """Jobs that this node and as many others hold as make up the copies, the same ones for all."""
    client = bench.client()
    for _ in range(count):
        client.send("ADDJOB", "q", "b", 0, "REPLICATE", copies, "RETRY", 60, *options)
    jobs = list(bench.node.copies.wanted)
    for job_id in jobs:
        bench.confirm(job_id, *holders_among(bench, job_id))
    bench.sent()
    client.read_all()
    return jobs


def holders_among(bench: Bench, job_id: bytes) -> list[Member]:
    """The peers that hold a job."""
    return [peer for peer in bench.peers if peer.id in bench.job(job_id).holders]


def acknowledge(bench: Bench, *jobs: bytes) -> None:
    """Each by a command of its own, all in one turn, which is not the first with these holders."""
    client = bench.client()
    for job_id in jobs:
        bench.node.acks.telling.setdefault(bench.job(job_id).holders, None)
        client.send("ACKJOB", job_id)


@pytest.fixture
def trio() -> Bench:
    return Bench(peers=2)


def test_jobs_of_one_turn_have_one_message_for_each_holder_and_one_timer(trio: Bench) -> None:
    jobs = shared(trio)
    holders = trio.job(jobs[0]).holders
    acknowledge(trio, *jobs)
    assert sorted(trio.sent()) == sorted((peer.id, (SETACK, holders, tuple(jobs))) for peer in trio.peers)
    (batch,) = batches_of(trio.node)
    assert (batch.ids, batch.left) == (jobs, 3)
    acknowledge(trio, *shared(trio))
    assert len(batches_of(trio.node)) == 2


def test_the_first_of_a_turn_goes_alone(trio: Bench) -> None:
    """Where jobs have many different holders, few would share anything."""
    jobs = shared(trio)
    client = trio.client()
    for job_id in jobs:
        client.send("ACKJOB", job_id)
    assert [type(trio.node.acks.by_id[job_id]) for job_id in jobs] == [Ack, AckStage, AckStage]
    assert trio.told(trio.peers[0]) == [(SETACK, trio.job(jobs[0]).holders, tuple(jobs))]


def test_what_all_have_confirmed_is_removed_and_the_rest_is_not(trio: Bench) -> None:
    jobs, (first, second) = shared(trio), trio.peers
    acknowledge(trio, *jobs)
    trio.hear(first, (GOTACK, 1, (), tuple(jobs)), (GOTACK, 1, (), (jobs[0],)))
    trio.hear(second, (GOTACK, 1, (), (jobs[0], jobs[2], jobs[0])))
    assert [trio.state(job_id) for job_id in jobs] == ["gone", "acked", "gone"]
    assert sorted(trio.sent(DELJOB)) == sorted((peer.id, (DELJOB, (jobs[0], jobs[2]))) for peer in trio.peers)
    trio.hear(second, (GOTACK, 1, (), (jobs[1],)))
    assert trio.state(jobs[1]) == "gone"
    assert batches_of(trio.node) == []
    trio.advance(AGAIN_MS + AGAIN_SPREAD_MS)
    assert trio.sent(SETACK) == []


def test_jobs_that_different_nodes_have_confirmed_end_in_any_order(trio: Bench) -> None:
    jobs, (first, second) = shared(trio, 4), trio.peers
    acknowledge(trio, *jobs)
    trio.hear(first, (GOTACK, 1, (), tuple(jobs[:2])))
    trio.hear(second, (GOTACK, 1, (), tuple(jobs[2:])))
    assert [trio.node.acks.by_id[job_id].confirmed[1] for job_id in jobs] == [first.id, first.id, second.id, second.id]
    for peer in (first, second):
        trio.hear(peer, (GOTACK, 1, (), (jobs[3], jobs[0], jobs[2], jobs[1])))
    assert trio.node.jobs_registered() == 0
    assert sorted(job_id for _, message in trio.sent(DELJOB) for job_id in message[1]) == sorted(jobs * 2)


def test_a_job_that_a_further_node_holds_goes_on_alone() -> None:
    bench = Bench(peers=3)
    jobs = shared(bench, 2, copies=2)
    holders = bench.job(jobs[0]).holders
    (holder,) = holders_among(bench, jobs[0])
    acknowledge(bench, *jobs)
    other = next(peer for peer in bench.peers if peer is not holder)
    everybody = tuple(sorted([*holders, other.id]))
    bench.hear(holder, (GOTACK, 1, everybody, (jobs[0],)), (GOTACK, 1, (), (jobs[1],)))
    assert [bench.state(job_id) for job_id in jobs] == ["acked", "gone"]
    assert type(bench.node.acks.by_id[jobs[0]]) is Ack
    assert bench.told(other, SETACK) == [(SETACK, everybody, (jobs[0],))]
    bench.hear(other, (GOTACK, 1, (), (jobs[0],)))
    assert bench.state(jobs[0]) == "gone"


def test_what_is_not_confirmed_in_two_seconds_is_told_again_some_at_a_time(trio: Bench) -> None:
    jobs = shared(trio, SOME + 3)
    acknowledge(trio, *jobs)
    trio.sent()
    trio.hear(trio.peers[0], (GOTACK, 1, (), (*jobs[1:],)))
    trio.advance(AGAIN_MS - 1)
    assert len(batches_of(trio.node)) == 1
    step.tick(trio.node, trio.now_ms + 1)
    assert [type(ack) for ack in trio.node.acks.by_id.values()].count(Ack) == SOME
    trio.advance(AGAIN_SPREAD_MS + 1)
    assert not any(isinstance(ack, AckStage) for ack in trio.node.acks.by_id.values())
    assert {ack.tries for ack in trio.node.acks.by_id.values()} == {1}
    again = trio.sent(SETACK)
    counts = [sum(len(message[2]) for to, message in again if to == peer.id) for peer in trio.peers]
    assert counts == [1, len(jobs)]


def test_who_has_not_confirmed_is_told_again(trio: Bench) -> None:
    jobs, (first, second) = shared(trio), trio.peers
    acknowledge(trio, *jobs)
    trio.sent()
    trio.hear(first, (GOTACK, 1, (), tuple(jobs)))
    trio.advance(AGAIN_MS + AGAIN_SPREAD_MS)
    again = trio.sent(SETACK)
    assert {peer for peer, _ in again} == {second.id}
    assert sorted(job_id for _, message in again for job_id in message[2]) == sorted(jobs)


def test_over_a_new_link_those_are_told_that_have_not_confirmed(trio: Bench) -> None:
    jobs, (first, _) = shared(trio), trio.peers
    acknowledge(trio, *jobs)
    trio.hear(first, (GOTACK, 1, (), (jobs[1],)))
    trio.link_down(first)
    trio.sent()
    trio.link_up(first)
    assert trio.told(first, SETACK) == [(SETACK, trio.node.acks.by_id[jobs[0]].holders, (jobs[0], jobs[2]))]


def test_a_node_that_is_forgotten_is_not_waited_for(trio: Bench) -> None:
    jobs, (first, second) = shared(trio), trio.peers
    acknowledge(trio, *jobs)
    trio.hear(first, (GOTACK, 1, (), tuple(jobs)))
    trio.membership.forget(second.id, trio.now_ms)
    trio.live(200)
    assert trio.node.jobs_registered() == 0
    assert batches_of(trio.node) == []


def test_a_node_that_goes_in_the_middle_of_a_turn_is_told_no_more(trio: Bench) -> None:
    jobs, (first, second) = shared(trio), trio.peers
    acknowledge(trio, jobs[0])
    step.link_down(trio.node, first.id, True, trio.now_ms)
    acknowledge(trio, *jobs[1:])
    told = trio.sent(SETACK)
    assert [message[2] for peer, message in told if peer == first.id] == [(jobs[0],)]
    assert [message[2] for peer, message in told if peer == second.id] == [tuple(jobs)]


def test_a_job_that_ends_sooner_than_a_lot_has_a_timer_of_its_own(trio: Bench) -> None:
    (job_id,) = shared(trio, 1, "TTL", "3")
    acknowledge(trio, job_id)
    assert batches_of(trio.node) == []
    assert len(trio.sent(SETACK)) == 2
    trio.advance(3000)
    assert trio.state(job_id) == "gone"


def test_a_lot_has_bounds() -> None:
    bench = Bench(peers=2, checked=False)
    jobs = shared(bench, BATCH_MOST + 1)
    acknowledge(bench, *jobs)
    assert sorted(batch.left for batch in batches_of(bench.node)) == [1, BATCH_MOST]
    assert [message[2] for message in bench.told(bench.peers[0])] == [tuple(jobs)]


def test_after_everything_was_forgotten_a_turn_goes_on_with_another_lot(trio: Bench) -> None:
    jobs = shared(trio)
    acknowledge(trio, jobs[0])
    trio.client().send("DEBUG", "FLUSHALL")
    assert batches_of(trio.node) == []
    others = shared(trio, 2)
    acknowledge(trio, *others)
    (batch,) = batches_of(trio.node)
    assert batch.ids == others


def test_those_that_another_node_tells_of_together_are_a_lot_here(trio: Bench) -> None:
    first, second = trio.peers
    jobs, holders = shared(trio), tuple(sorted([trio.node.node_id, first.id, second.id]))
    trio.hear(first, (SETACK, holders, (*jobs, jobs[1])))
    (batch,) = batches_of(trio.node)
    assert batch.left == 2, "of one nobody knows what it means to hear it twice"
    assert sorted(job_id for message in trio.told(first, GOTACK) for job_id in message[3]) == sorted([*jobs, jobs[1]])
    trio.hear(first, (DELJOB, tuple(jobs)))
    assert trio.node.jobs_registered() == 0
    assert batches_of(trio.node) == []


def test_a_word_that_leaves_nothing_to_wait_for_leaves_no_lot() -> None:
    bench = Bench(peers=1)
    peer = bench.peers[0]
    bench.hear(peer, repljob(peer.id))
    bench.sent()
    bench.hear(peer, (SETACK, bench.job(foreign_id()).holders, (foreign_id(),)))
    assert bench.state(foreign_id()) == "gone"
    assert bench.node.timers.count == len(bench.node.queues)


def test_in_few_words_of_another_node_each_goes_alone(trio: Bench) -> None:
    first, second = trio.peers
    jobs, holders = shared(trio, BATCH_LEAST - 1), tuple(sorted([trio.node.node_id, first.id, second.id]))
    trio.hear(first, (SETACK, holders, tuple(jobs)))
    assert batches_of(trio.node) == []
    assert len(trio.node.acks.by_id) == len(jobs)


def test_a_message_with_more_than_a_lot_makes_two() -> None:
    bench = Bench(peers=2, checked=False)
    first, second = bench.peers
    jobs, holders = shared(bench, BATCH_MOST + 1), tuple(sorted([bench.node.node_id, first.id, second.id]))
    bench.hear(first, (SETACK, holders, tuple(jobs)))
    assert sorted(batch.left for batch in batches_of(bench.node)) == [1, BATCH_MOST]


@pytest.mark.parametrize("end", ["DELJOB", "FASTACK", "SETACK"])
def test_a_lot_that_was_empty_has_a_timer_when_another_job_comes(trio: Bench, end: str) -> None:
    jobs, (first, second) = shared(trio, 3, "TTL", "60"), trio.peers
    holders = trio.job(jobs[0]).holders
    acknowledge(trio, jobs[0])
    if end == "SETACK":
        for peer in (first, second):
            step.message(trio.node, peer.id, (SETACK, holders, (jobs[0],)), trio.now_ms)
    else:
        trio.client().send(end, jobs[0])
    assert trio.state(jobs[0]) == "gone"
    acknowledge(trio, *jobs[1:])
    trio.sent()
    trio.advance(AGAIN_MS + AGAIN_SPREAD_MS)
    assert {job_id for _, message in trio.sent(SETACK) for job_id in message[2]} == set(jobs[1:])
    trio.advance(60_000)
    assert trio.node.jobs_registered() == 0


def test_an_id_that_comes_twice_in_a_message_leaves_no_job_without_a_timer(trio: Bench) -> None:
    jobs, (first, second) = shared(trio, 4, "TTL", "60"), trio.peers
    trio.hear(first, (SETACK, trio.job(jobs[0]).holders, (jobs[0], *jobs)))
    trio.sent()
    trio.advance(AGAIN_MS + AGAIN_SPREAD_MS)
    again = [job_id for peer, message in trio.sent(SETACK) for job_id in message[2] if peer == second.id]
    assert sorted(again) == sorted(jobs)
    trio.advance(60_000)
    assert trio.node.jobs_registered() == 0


def test_while_no_holder_can_be_reached_each_turn_has_a_lot_of_its_own(trio: Bench) -> None:
    jobs, (first, second) = shared(trio, 9, "TTL", "60"), trio.peers
    for peer in (first, second):
        trio.link_down(peer)
    for at in (0, 3, 6):
        acknowledge(trio, *jobs[at : at + 3])
        assert trio.sent(SETACK) == []
        trio.advance(AGAIN_MS + AGAIN_SPREAD_MS)
        assert batches_of(trio.node) == []
    trio.advance(60_000)
    assert trio.node.jobs_registered() == 0
    assert not trio.node.acks.by_id


def test_jobs_with_different_holders_that_end_by_turns_are_different_lots() -> None:
    bench = Bench(peers=3)
    pairs: dict[tuple[bytes, ...], list[bytes]] = {}
    while len(pairs) < 3 or min(map(len, pairs.values())) < 2:
        (job_id,) = shared(bench, 1, copies=2)
        pairs.setdefault(bench.job(job_id).holders, []).append(job_id)
    acknowledge(bench, *[ids[at] for at in range(2) for ids in pairs.values()])
    assert sorted(batch.ids for batch in batches_of(bench.node)) == sorted(ids[:2] for ids in pairs.values())


def test_those_that_wait_for_copies_or_end_soon_are_in_no_lot(trio: Bench) -> None:
    first = trio.peers[0]
    producer = trio.client()
    jobs = [*shared(trio, 3), *shared(trio, 1, "TTL", "3")]
    producer.send("ADDJOB", "q", "b", 0, "REPLICATE", 3, "RETRY", 60)
    jobs.append(next(iter(trio.node.copies.wanted)))
    trio.hear(first, (SETACK, trio.job(jobs[0]).holders, tuple(jobs)))
    assert producer.read() == jobs[-1]
    assert [type(trio.node.acks.by_id[job_id]) for job_id in jobs] == [AckStage, AckStage, AckStage, Ack, Ack]
    trio.hear(first, (DELJOB, tuple(jobs)))
    assert trio.node.jobs_registered() == 0


def test_a_confirmation_of_a_node_that_is_no_holder_counts_for_nothing() -> None:
    bench = Bench(peers=4)
    jobs = shared(bench)
    known = holders_among(bench, jobs[0])
    acknowledge(bench, *jobs)
    for peer in bench.peers:
        if peer not in known:
            bench.hear(peer, (GOTACK, 1, (), tuple(jobs)))
    assert bench.node.jobs_registered() == 3
    for peer in known:
        bench.hear(peer, (GOTACK, 1, (), tuple(jobs)))
    assert bench.node.jobs_registered() == 0


def test_each_is_in_the_journal() -> None:
    bench = Bench(peers=2, journaling=True)
    jobs = shared(bench)
    bench.records()
    acknowledge(bench, *jobs)
    assert bench.records() == [(ACK, job_id) for job_id in jobs]
    for peer in bench.peers:
        bench.hear(peer, (GOTACK, 1, (), tuple(jobs)))
    assert bench.records() == [(DELETE, job_id) for job_id in jobs]


def test_a_tick_for_many_lots_takes_few_jobs_out_of_each() -> None:
    bench = Bench(peers=2, checked=False)
    for _ in range(20):
        acknowledge(bench, *shared(bench, 8))
        bench.settle()
    step.tick(bench.node, bench.now_ms + AGAIN_MS)
    assert [type(ack) for ack in bench.node.acks.by_id.values()].count(Ack) == 20 * SOME


EVENTS = ["ACKJOB", "DELJOB", "FASTACK", "GETJOB", "SETACK", "GOTACK", "settle", "wait"]


@given(st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 7), st.integers(0, 1)), max_size=40))
@settings(max_examples=examples(40))
def test_whatever_happens_in_a_turn_every_job_ends(happens: list[tuple[str, int, int]]) -> None:
    """Several things between two settles; what the bench counts again after each says that no batch is forgotten."""
    bench = Bench(peers=2)
    jobs = shared(bench, 8, "TTL", "90")
    holders = bench.job(jobs[0]).holders
    client = bench.client()
    for what, number, peer in happens:
        job_id, sender = jobs[number], bench.peers[peer].id
        if what == "settle":
            bench.settle()
        elif what == "wait":
            bench.advance(700)
        elif what == "GETJOB":
            client.send("GETJOB", "NOHANG", "FROM", "q")
        elif what in {"SETACK", "GOTACK"}:
            some = tuple(jobs[number:] + jobs[: number // 2])
            step.message(
                bench.node, sender, (SETACK, holders, some) if what == "SETACK" else (GOTACK, 1, (), some), bench.now_ms
            )
        else:
            client.send(what, job_id)
    bench.settle()
    bench.advance(100_000)
    assert bench.node.jobs_registered() == 0
    assert not bench.node.acks.by_id
    assert bench.node.timers.count == len(bench.node.queues)


def test_for_want_of_memory_one_of_a_lot_is_evicted(trio: Bench) -> None:
    jobs = shared(trio)
    acknowledge(trio, *jobs)
    trio.settle()
    trio.client().add("q", "x" * 5000, "REPLICATE", 1)
    trio.set("maxmemory", trio.node.used)
    trio.client()("ADDJOB", "q", "b", 0, "REPLICATE", 1)
    assert 0 < trio.node.evicted == 3 - len(trio.node.acks.by_id)
