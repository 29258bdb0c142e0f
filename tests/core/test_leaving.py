from cluster.messages import ENQUEUE, HOLD
from disque.core import leaving
from disque.core.job import ACTIVE
from tests.core.support import Bench, Client


def add_shared(client: Client) -> bytes:
    """A job with copies on the first two peers."""
    bench = client.bench
    client.send("ADDJOB", "q", "body", 0, "RETRY", 5, "REPLICATE", 3)
    (job_id,) = bench.node.pending
    bench.confirm(job_id, *bench.peers[:2])
    assert bench.state(job_id) == "queued"
    client.read()
    return job_id


def test_a_queued_job_that_others_hold_is_handed_to_one_of_them() -> None:
    bench = Bench(peers=2)
    job_id = add_shared(bench.client())
    bench.sent(ENQUEUE)
    leaving.stopping(bench.node, bench.now_ms)
    ((peer, message),) = bench.sent(ENQUEUE)
    assert peer in {other.id for other in bench.peers}
    assert message == (ENQUEUE, job_id, 0)
    assert bench.job(job_id).state == ACTIVE


def test_when_it_is_back_it_asks_at_once() -> None:
    bench = Bench(peers=2)
    job_id = add_shared(bench.client())
    leaving.stopping(bench.node, bench.now_ms)
    assert bench.job(job_id).requeue_ms == bench.now_ms


def test_of_a_job_that_is_out_the_others_are_told_how_long() -> None:
    bench = Bench(peers=2)
    client = bench.client()
    job_id = add_shared(client)
    assert client.get("q") == [job_id]
    bench.advance(2000)
    bench.sent(HOLD)
    leaving.stopping(bench.node, bench.now_ms)
    held = bench.sent(HOLD)
    assert sorted(peer for peer, _ in held) == sorted(other.id for other in bench.peers)
    assert all(message == (HOLD, 0, (), (job_id,), (3000,)) for _, message in held)


def test_a_job_that_nobody_else_holds_stays() -> None:
    bench = Bench(peers=2)
    client = bench.client()
    job_id = client.add("q", "body", "REPLICATE", 1)
    leaving.stopping(bench.node, bench.now_ms)
    assert bench.state(job_id) == "queued"
    assert bench.sent(ENQUEUE) == []
