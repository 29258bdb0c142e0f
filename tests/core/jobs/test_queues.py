import pytest

from cluster.messages import ENTRIES, NEEDJOBS, YOURJOBS
from disque.core.jobs import queues
from disque.core.model.queue import QUEUE_IDLE_MS
from tests.core.support import MYSELF, Bench, Client, assert_counters_are_true
from tests.support.formats import pause_everywhere, row_ids

LIMIT_MS = QUEUE_IDLE_MS[0]


def emptied(client: Client, name: str = "q") -> None:
    """A queue that had one job."""
    job = client.add(name)
    client.get(name)
    client("ACKJOB", job)


def test_a_queue_that_nobody_uses_is_dropped(bench: Bench, client: Client) -> None:
    emptied(client)
    bench.advance(LIMIT_MS - 1)
    assert list(bench.node.queues) == [b"q"]
    bench.advance(1)
    assert bench.node.queues == {}
    assert bench.node.used == 0


def test_use_starts_the_time_again(bench: Bench, client: Client) -> None:
    emptied(client)
    bench.advance(LIMIT_MS - 1)
    emptied(client)
    bench.advance(LIMIT_MS - 1)
    assert list(bench.node.queues) == [b"q"]
    bench.advance(1)
    assert bench.node.queues == {}


def test_a_queue_with_jobs_stays(bench: Bench, client: Client) -> None:
    client.add("q")
    bench.advance(10 * LIMIT_MS)
    assert client("QLEN", "q") == 1


def test_a_queue_with_a_line_stays_until_the_line_is_gone(bench: Bench) -> None:
    consumer = bench.client()
    consumer("GETJOB", "FROM", "q")
    bench.advance(10 * LIMIT_MS)
    assert list(bench.node.queues) == [b"q"]
    consumer.disconnect()
    bench.advance(LIMIT_MS)
    assert bench.node.queues == {}


def test_a_paused_queue_stays_until_it_is_not_paused(bench: Bench, client: Client) -> None:
    client("PAUSE", "q", "in")
    bench.advance(10 * LIMIT_MS)
    assert client("PAUSE", "q", "state") == b"in"
    client("PAUSE", "q", "none")
    bench.advance(LIMIT_MS)
    assert bench.node.queues == {}


@pytest.mark.parametrize(("percent", "limit_ms"), [(80, 10_000), (96, 2_000)])
def test_when_memory_is_short_queues_are_dropped_sooner(
    bench: Bench, client: Client, percent: int, limit_ms: int
) -> None:
    client.add("full", "x" * 100_000)
    emptied(client)
    bench.set("maxmemory", bench.node.used * 100 // percent)
    bench.advance(limit_ms - 1)
    queues.drop_idle(bench.node, bench.now_ms, 100)
    assert len(bench.node.queues) == 2
    bench.advance(1)
    queues.drop_idle(bench.node, bench.now_ms, 100)
    assert list(bench.node.queues) == [b"full"]
    assert_counters_are_true(bench.node)


def test_a_dropped_queue_starts_anew(bench: Bench, client: Client) -> None:
    emptied(client)
    bench.advance(LIMIT_MS)
    client.add("q")
    stat = client("QSTAT", "q")
    assert dict(zip(stat[::2], stat[1::2], strict=True))[b"jobs-in"] == 1


def test_a_job_that_is_out_brings_its_queue_back(bench: Bench, client: Client) -> None:
    job = client.add("q", "b", "RETRY", 400)
    client.get("q")
    bench.advance(LIMIT_MS)
    assert bench.node.queues == {}
    bench.advance(400_000 - LIMIT_MS)
    assert client.get("q") == [job]


def test_pauses_are_filed_when_they_change() -> None:
    bench = Bench(journaling=True)
    client = bench.client()
    client("PAUSE", "q", "in")
    client("PAUSE", "q", "in")
    client("PAUSE", "q", "state")
    client("PAUSE", "q", "all")
    client("PAUSE", "q", "none")
    client("PAUSE", "q", "none")
    assert bench.records() == [(7, b"q", 1), (7, b"q", 3), (7, b"q", 0)]


def test_a_queue_is_dropped_although_other_nodes_want_jobs_of_it_and_they_still_do_when_it_is_back() -> None:
    bench = Bench(peers=1)
    client = bench.client()
    bench.node.queue(b"q", bench.now_ms)
    bench.advance(LIMIT_MS - 1)
    bench.hear(bench.peers[0], (NEEDJOBS, b"q", 1))
    bench.advance(1)
    assert bench.node.queues == {}
    job = client.add("q", "b", "REPLICATE", 1)
    assert [row_ids(message)[0] for _, message in bench.sent(YOURJOBS)] == [job]


def test_a_pause_for_this_node_alone_is_not_told() -> None:
    bench = Bench(peers=2)
    client = bench.client()
    client("PAUSE", "q", "in")
    client("PAUSE", "q", "none")
    assert bench.sent() == []


def test_a_broadcast_tells_how_the_queue_stands_here() -> None:
    bench = Bench(peers=1)
    client = bench.client()
    client("PAUSE", "q", "in")
    assert client("PAUSE", "q", "bcast", "state") == b"in"
    assert [message for _, message in bench.sent(ENTRIES)] == [pause_everywhere(b"q", 1, bench.now_ms, MYSELF)]
