from typing import Any, cast

import pytest

from cluster.capabilities import STEAD
from cluster.membership import STOPPED
from cluster.messages import (
    ALL_SENT,
    COPY_UNKNOWN,
    COPYIS,
    ENQUEUE,
    GOTACK,
    HANDED_ON,
    HOLD,
    I_STOP,
    IN_MY_STEAD,
    NEEDJOBS,
    OUT_IN_MY_STEAD,
    PING,
    REPLJOB,
    SETACK,
    STOPPING,
    YOURJOBS,
)
from disque.core import handover, step
from disque.core.dedup.keys import digest_of
from disque.core.journal.replay import clean_list
from disque.core.journal.schema import CLEAN
from disque.core.model.job import ACTIVE, LEASE_OWNER
from disque.core.replication.arbitration import SPREAD_MS
from tests.core.support import PROCESS, Bench, Client, foreign_id, repljob


def add_shared(client: Client) -> bytes:
    """A job with copies on the first two peers."""
    bench = client.bench
    client.send("ADDJOB", "q", "body", 0, "RETRY", 5, "REPLICATE", 3)
    (job_id,) = bench.node.copies.wanted
    bench.confirm(job_id, *bench.peers[:2])
    assert bench.state(job_id) == "queued"
    client.read()
    return job_id


def farewell(bench: Bench) -> int:
    """This node stops. In how many steps it said so."""
    steps = 0
    one = handover.Farewell(bench.node)
    while not one.done:
        one.step(bench.now_ms)
        steps += 1
    return steps


def test_it_says_to_all_that_it_stops() -> None:
    bench = Bench(peers=2)
    farewell(bench)
    said = [(peer, message[:2]) for peer, message in bench.membership.messages]
    assert said == [(peer.id, (PING, STOPPED)) for peer in bench.peers]


def test_a_queued_job_that_others_hold_is_handed_to_one_of_them() -> None:
    bench = Bench(peers=2)
    job_id = add_shared(bench.client())
    bench.sent(ENQUEUE)
    farewell(bench)
    ((peer, message),) = bench.sent(ENQUEUE)
    assert peer in {other.id for other in bench.peers}
    assert message == (ENQUEUE, job_id, 0)
    assert bench.job(job_id).state == ACTIVE


@pytest.mark.parametrize("lacks", [0, 1])
def test_nor_to_one_that_did_not_know_a_younger_job(lacks: int) -> None:
    """Seed 1560237: it was asked after its start, and copies enough were made elsewhere."""
    bench = Bench(peers=2)
    client = bench.client()
    older, younger = add_shared(client), add_shared(client)
    bench.node.repairs.doubts.clear()
    bench.hear(bench.peers[lacks], (COPYIS, COPY_UNKNOWN, (), (younger,)))
    later = add_shared(client)
    bench.sent()
    farewell(bench)
    given = {message[1]: peer for peer, message in bench.sent(ENQUEUE)}
    other = bench.peers[1 - lacks].id
    assert (given[older], given[younger]) == (other, other)
    assert later in given


def test_it_is_not_handed_to_one_that_has_started_again_if_there_is_another() -> None:
    """Without a journal that one has lost its copy."""
    for again, chosen in ((0, 1), (1, 0)):
        bench = Bench(peers=2)
        job_id = add_shared(bench.client())
        bench.link_up(bench.peers[again], PROCESS + 1)
        bench.sent(ENQUEUE)
        farewell(bench)
        assert bench.sent(ENQUEUE) == [(bench.peers[chosen].id, (ENQUEUE, job_id, 0))]


def test_but_to_one_of_these_if_all_have() -> None:
    bench = Bench(peers=2)
    job_id = add_shared(bench.client())
    for peer in bench.peers:
        bench.link_up(peer, PROCESS + 1)
    bench.sent(ENQUEUE)
    farewell(bench)
    ((_, message),) = bench.sent(ENQUEUE)
    assert message == (ENQUEUE, job_id, 0)


def test_when_it_is_back_it_asks_at_once() -> None:
    bench = Bench(peers=2)
    job_id = add_shared(bench.client())
    farewell(bench)
    assert bench.job(job_id).requeue_ms == bench.now_ms


def test_of_a_job_that_is_out_the_others_are_told_how_long() -> None:
    bench = Bench(peers=2)
    client = bench.client()
    job_id = add_shared(client)
    assert client.get("q") == [job_id]
    bench.advance(2000)
    bench.sent(HOLD)
    farewell(bench)
    held = bench.sent(HOLD)
    assert sorted(peer for peer, _ in held) == sorted(other.id for other in bench.peers)
    assert all(message == (HOLD, OUT_IN_MY_STEAD, (), (job_id,), (3000,)) for _, message in held)


def test_one_of_an_older_version_is_not_told_which_jobs_consumers_have() -> None:
    bench = Bench(peers=2)
    client = bench.client()
    out, late = add_shared(client), add_shared(client)
    assert client.get("q", count=2) == [out, late]
    assert client("NACK", late, "DELAY", 3) == 1
    old, new = [bench.node.peers[one.id] for one in bench.peers]
    old.capabilities = new.capabilities & ~STEAD
    bench.sent(HOLD)
    farewell(bench)
    told = {(peer, message[1]): message[3] for peer, message in bench.sent(HOLD)}
    assert {key: set(ids) for key, ids in told.items()} == {
        (old.id, IN_MY_STEAD): {out, late},
        (new.id, IN_MY_STEAD): {late},
        (new.id, OUT_IN_MY_STEAD): {out},
    }


def test_nobody_speaks_for_a_job_that_was_handed_on() -> None:
    bench = Bench(peers=2)
    client = bench.client()
    job_id = add_shared(client)
    one, other = bench.peers
    bench.hear(one, (NEEDJOBS, b"q", 1))
    assert [peer for peer, _ in bench.sent(YOURJOBS)] == [one.id]
    farewell(bench)
    assert {peer: message[1:4] for peer, message in bench.sent(HOLD)} == {
        peer.id: (HANDED_ON, (), (job_id,)) for peer in (one, other)
    }


def test_the_list_of_a_clean_stop_does_not_speak_for_what_was_handed_on() -> None:
    """The next process would object when the one that has it wants to queue it after a stop of its own."""
    bench = Bench(peers=2)
    client = bench.client()
    given, out = add_shared(client), add_shared(client)
    bench.hear(bench.peers[0], (NEEDJOBS, b"q", 1))
    assert client.get("q") == [out]
    flags = {
        one[0]: one[2] for record in clean_list(bench.node) if record[0] == CLEAN for one in cast("Any", record[1])
    }
    assert not flags[given] & LEASE_OWNER
    assert flags[out] & LEASE_OWNER


def test_what_was_handed_to_this_node_stays_queued_when_the_giver_stops() -> None:
    bench = Bench(peers=2)
    job_id = add_shared(bench.client())
    one, other = bench.peers
    bench.hear(one, (HOLD, HANDED_ON, (), (job_id,), (5000,)))
    assert bench.state(job_id) == "queued"
    bench.hear(other, (HOLD, IN_MY_STEAD, (), (job_id,), (5000,)))
    assert bench.state(job_id) == "active"


def test_what_was_handed_on_comes_back_from_a_node_that_stops() -> None:
    bench = Bench(peers=2)
    client = bench.client()
    job_id = add_shared(client)
    one, other = bench.peers
    bench.hear(one, (NEEDJOBS, b"q", 1))
    bench.hear(one, (ENQUEUE, job_id, 0))
    assert bench.state(job_id) == "queued"
    assert client.get("q") == [job_id]
    bench.hear(other, (ENQUEUE, job_id, 0))
    assert bench.state(job_id) == "active"  # it is out with a consumer here


def test_a_copy_speaks_for_a_delayed_job_only_until_its_delay_is_over() -> None:
    bench = Bench(peers=2)
    one, other = bench.peers
    job_id = foreign_id()
    bench.hear(one, repljob(one.id, other.id, delay_ms=2000))
    bench.hear(one, (HOLD, IN_MY_STEAD, (), (job_id,), (1500,)))
    assert 1500 <= bench.job(job_id).requeue_ms - bench.now_ms <= 1500 + SPREAD_MS


class TestParting:
    def test_all_are_told_and_waited_for(self) -> None:
        bench = Bench(peers=2)
        one, other = bench.peers
        handover.begin(bench.node)
        bench.settle()
        assert dict(bench.sent(STOPPING)) == dict.fromkeys((one.id, other.id), (STOPPING, I_STOP))
        assert not handover.is_settled(bench.node)
        bench.hear(one, (STOPPING, ALL_SENT))
        assert not handover.is_settled(bench.node)
        bench.link_down(other)
        assert handover.is_settled(bench.node)

    def test_a_node_that_stops_asks_for_no_jobs_and_takes_what_comes(self) -> None:
        bench = Bench(peers=2)
        client = bench.client()
        handover.begin(bench.node)
        client.send("GETJOB", "FROM", "q")
        bench.settle()
        assert bench.sent(NEEDJOBS) == []

    def test_what_was_given_to_a_peer_goes_before_the_answer_and_nothing_goes_behind(self) -> None:
        bench = Bench(peers=2)
        client = bench.client()
        one, other = bench.peers
        bench.hear(one, (NEEDJOBS, b"q", 5))
        first = client.add("q", "body", "REPLICATE", 1)
        bench.hear(one, (STOPPING, I_STOP), (NEEDJOBS, b"q", 5))
        assert [message[0] for message in bench.told(one, YOURJOBS, STOPPING)] == [YOURJOBS, STOPPING]
        client.add("q", "body", "REPLICATE", 1)
        bench.settle()
        assert bench.told(one, YOURJOBS) == []
        assert bench.node.find(first) is not None
        assert [peer.id for peer in bench.node.linked] == [other.id]
        client.send("ADDJOB", "q", "body", 0, "REPLICATE", 2)
        bench.settle()
        assert [peer for peer, _ in bench.sent(REPLJOB)] == [other.id]

    def test_its_next_process_counts_again(self) -> None:
        bench = Bench(peers=2)
        one, _ = bench.peers
        bench.hear(one, (STOPPING, I_STOP))
        bench.link_down(one)
        bench.link_up(one, PROCESS + 1)
        assert len(bench.node.linked) == 2

    def test_nothing_is_left_to_one_that_stops_too_but_it_hears_what_is_out(self) -> None:
        bench = Bench(peers=2)
        client = bench.client()
        one, other = bench.peers
        queued, out = add_shared(client), add_shared(client)
        assert client.get("q") == [queued]
        bench.hear(one, (STOPPING, I_STOP))
        bench.sent()
        farewell(bench)
        assert [(peer, message[1]) for peer, message in bench.sent(ENQUEUE)] == [(other.id, out)]
        farewell(bench)
        assert {peer for peer, _ in bench.sent(HOLD)} == {one.id, other.id}


def test_a_job_that_nobody_else_holds_stays() -> None:
    bench = Bench(peers=2)
    client = bench.client()
    job_id = client.add("q", "body", "REPLICATE", 1)
    farewell(bench)
    assert bench.state(job_id) == "queued"
    assert bench.sent(ENQUEUE) == []


def test_acknowledgements_that_others_have_not_confirmed_are_told_once_more() -> None:
    bench = Bench(peers=2)
    one, other = bench.peers
    client = bench.client()
    alone, *lot = jobs = [add_shared(client) for _ in range(5)]
    bench.link_down(one)
    assert client("ACKJOB", *jobs) == 5
    bench.settle()
    bench.hear(other, (GOTACK, 1, (), (alone, lot[0])))
    step.link_up(bench.node, one.id, PROCESS, bench.now_ms)  # what follows from it has not begun
    bench.node.chores.clear()
    bench.sent()
    farewell(bench)
    bench.settle()
    told: dict[bytes, list[bytes]] = {one.id: [], other.id: []}
    for peer, message in bench.sent(SETACK):
        told[peer] += message[2]
    assert {peer: sorted(ids) for peer, ids in told.items()} == {one.id: sorted(jobs), other.id: sorted(lot[1:])}


def test_no_step_tells_of_more_jobs_than_take_some_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handover, "SLICE", 5)
    bench = Bench(peers=2)
    client = bench.client()
    jobs = {add_shared(client) for _ in range(20)}
    out = {*client.get("q", count=10)}
    bench.sent()
    one = handover.Farewell(bench.node)
    queued, held = [], []
    while not one.done:
        one.step(bench.now_ms)
        said = bench.sent(ENQUEUE, HOLD)
        queued += [message[1] for _, message in said if message[0] == ENQUEUE]
        told = [message[3] for _, message in said if message[0] == HOLD]
        held += [job_id for ids in told for job_id in ids]
        assert len(said) - len(told) + sum(map(len, told)) // 2 <= 5
    assert sorted(queued) == sorted(jobs - out)
    assert sorted(held) == sorted([*out, *out])


def test_a_job_that_moves_meanwhile_is_handed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handover, "SLICE", 1)
    bench = Bench(peers=2)
    client = bench.client()
    _, job, _ = [add_shared(client) for _ in range(3)]
    old = bench.job(job)
    one = handover.Farewell(bench.node)
    queued = []
    while not one.done:
        one.step(bench.now_ms)
        queued += [message[1] for _, message in bench.sent(ENQUEUE)]
        if old in one._jobs:
            client("MOVE", "r", job)
    assert bench.job(job) is not old
    assert job in queued


def add_with_key(bench: Bench, replicate: int) -> tuple[bytes, tuple[bytes, ...]]:
    """A job with a UNIQUE key that three other nodes keep, or one: its ID, and who was asked for a copy."""
    names = [b"k%d" % number for number in range(100)]
    ring = bench.node.unique.ring
    name = next(name for name in names if bench.node.node_id not in ring.keepers(digest_of(b"q", name), replicate))
    bench.client().send("ADDJOB", "q", "body", 0, "RETRY", 5, "REPLICATE", replicate, "UNIQUE", name, 0)
    bench.settle()
    (job_id,) = bench.node.copies.wanted or [key.job_id for key in bench.node.unique.table.values()]
    spread = bench.node.copies.wanted.get(job_id)
    return job_id, spread.asked if spread is not None else ()


@pytest.mark.parametrize("number", range(10))
def test_who_keeps_but_the_key_of_a_job_is_not_handed_it(number: int) -> None:
    bench = Bench(peers=3, seed=number)
    job_id, asked = add_with_key(bench, 3)
    bench.confirm(job_id, *[peer for peer in bench.peers if peer.id in asked])
    assert bench.state(job_id) == "queued"
    assert len(asked) == 2
    assert len(bench.job(job_id).holders) == 4
    bench.sent()
    farewell(bench)
    ((peer, _),) = bench.sent(ENQUEUE)
    assert peer in asked


def test_one_that_others_keep_but_the_key_of_stays() -> None:
    bench = Bench(peers=3)
    job_id, _ = add_with_key(bench, 1)
    assert len(bench.job(job_id).holders) == 2
    bench.sent()
    farewell(bench)
    assert bench.sent(ENQUEUE) == []
    assert bench.state(job_id) == "queued"


def test_where_nobody_knows_who_has_a_copy_one_of_them_is_tried() -> None:
    bench = Bench(peers=3)
    job_id, asked = add_with_key(bench, 3)
    bench.confirm(job_id, *[peer for peer in bench.peers if peer.id in asked])
    bench.node.unique.by_job[job_id].copies = None
    bench.sent()
    farewell(bench)
    assert len(bench.sent(ENQUEUE)) == 1
