from cluster.messages import BY_NACK, BY_RETURN, QUEUED, STILL
from disque.core.journal.schema import REQUEUE
from disque.core.model.job import COUNTER_MAX, REQUEUE_ANNOUNCED
from disque.core.replication import announcements
from tests.core.support import Bench, Client


def add_shared(client: Client, *options: str) -> bytes:
    """A job with copies on both peers."""
    bench = client.bench
    client.send("ADDJOB", "q", "body", 0, "RETRY", 5, "REPLICATE", 3, *options)
    (job_id,) = bench.node.copies.wanted
    bench.confirm(job_id, *bench.peers)
    client.read()
    return job_id


def test_counters_stop_where_old_clients_stop() -> None:
    bench = Bench()
    job = bench.job(bench.client().add("q"))
    job.nacks = job.deliveries = COUNTER_MAX
    announcements.count(job, nack=True)
    announcements.count(job, nack=False)
    assert (job.nacks, job.deliveries) == (COUNTER_MAX, COUNTER_MAX)


def test_the_record_of_a_return_has_the_counters_and_the_time_that_a_crash_must_not_shorten() -> None:
    bench = Bench(journaling=True)
    client = bench.client()
    job_id = client.add("q")
    client.get("q")
    bench.records()
    assert client("NACK", job_id, "DELAY", 7) == 1
    assert (REQUEUE, job_id, 1, 0, bench.now_ms + 7000) in bench.records()


def test_the_other_holders_are_told_of_a_return_and_why() -> None:
    bench = Bench(peers=2)
    client = bench.client()
    job_id = add_shared(client)
    client.get("q")
    bench.sent(QUEUED)
    client("NACK", job_id)
    assert sorted(bench.sent(QUEUED)) == sorted((peer.id, (QUEUED, BY_NACK, (job_id,))) for peer in bench.peers)
    assert bench.job(job_id).flags & REQUEUE_ANNOUNCED


def test_a_job_that_is_given_back_uncounted_is_out_of_the_books_of_the_others_too() -> None:
    bench = Bench(peers=2)
    client = bench.client()
    job_id = add_shared(client)
    client.get("q")
    bench.sent(QUEUED)
    client("NACK", job_id, "NOCOUNT")
    assert sorted(bench.sent(QUEUED)) == sorted((peer.id, (QUEUED, BY_RETURN, (job_id,))) for peer in bench.peers)
    job = bench.job(job_id)
    assert (bench.state(job_id), job.nacks, job.deliveries) == ("queued", 0, 0)


def test_a_delay_that_ends_is_no_further_delivery() -> None:
    bench = Bench(peers=2)
    client = bench.client()
    job_id = add_shared(client, "DELAY", "1")
    for peer in bench.peers:
        bench.fail(peer)
    bench.sent(QUEUED)
    bench.advance(1000)
    assert bench.state(job_id) == "queued"
    assert bench.job(job_id).deliveries == 0
    assert all(message[1] == STILL for _, message in bench.sent(QUEUED))
