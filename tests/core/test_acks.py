import pytest

from disque.core import acks
from tests.core.support import START_MS, UNKNOWN_ID, Bench, Client


@pytest.mark.parametrize("state", ["queued", "active", "delayed", "nacked"])
def test_an_acknowledged_job_is_gone_at_once_whatever_its_state(bench: Bench, client: Client, state: str) -> None:
    job = client.add("q", "b", *(("DELAY", 9) if state == "delayed" else ()))
    if state in {"active", "nacked"}:
        client.get("q")
    if state == "nacked":
        client("NACK", job, "DELAY", 5)
    assert acks.acknowledge(bench.node, job, START_MS)
    assert not acks.acknowledge(bench.node, job, START_MS)
    assert client.raw("SHOW", job) == b"$-1\r\n"
    bench.advance(1_000_000)
    assert client.get("q") == []


def test_unknown_jobs_are_not_remembered(bench: Bench) -> None:
    assert not acks.acknowledge(bench.node, UNKNOWN_ID, START_MS)
    assert not acks.delete(bench.node, UNKNOWN_ID)
    assert bench.node.jobs_registered() == 0
    assert bench.node.used == 0


def test_an_acknowledged_job_lets_go_of_its_body(bench: Bench, client: Client) -> None:
    jobs = [client.add("q", "x" * 1000) for _ in range(3)]
    middle = bench.job(jobs[1])
    client("ACKJOB", jobs[1])
    assert middle.body == b"", "its shell may still lie in the queue"
    assert client.get("q", count=3) == [jobs[0], jobs[2]]


@pytest.mark.parametrize(("command", "kind"), [("ACKJOB", 3), ("FASTACK", 4), ("DELJOB", 4)])
def test_the_end_of_a_job_is_filed(command: str, kind: int) -> None:
    bench = Bench(journaling=True)
    client = bench.client()
    job = client.add("q")
    bench.records()
    client(command, job, job, UNKNOWN_ID)
    assert bench.records() == [(kind, job)]


def test_expiry_is_not_filed() -> None:
    bench = Bench(journaling=True)
    client = bench.client()
    client.add("q", "b", "TTL", 1)
    bench.records()
    bench.advance(1000)
    assert bench.node.jobs_registered() == 0
    assert bench.records() == []


def test_a_spent_job_can_be_acknowledged(bench: Bench, client: Client) -> None:
    job = client.add("q", "b", "RETRY", 0)
    client.get("q")
    assert client("ACKJOB", job) == 1
    assert bench.node.evictable == {}
