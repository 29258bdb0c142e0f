"""Nodes that differ in `proto-max-bulk-len`: a large job goes where it is taken, or its client hears why not."""

from tests.end_to_end.conftest import MakeCluster
from tests.end_to_end.node import Node, ServerError

LARGE = "x" * (2 << 20)
OTHERS = 200


def add(node: Node, queue: str, body: str, copies: int) -> bytes:
    """ADDJOB that must work: the ID."""
    job_id = node.ask("ADDJOB", queue, body, 10_000, "REPLICATE", copies)
    assert isinstance(job_id, bytes), job_id
    return job_id


def refusal(node: Node, copies: int) -> str:
    """The error that a large job must cause."""
    reply = node.ask("ADDJOB", "large", LARGE, 10_000, "REPLICATE", copies)
    assert isinstance(reply, ServerError), reply
    return str(reply)


def test_a_job_that_one_node_does_not_take_goes_elsewhere_and_stands_in_nobodys_way(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(3)
    giver, taker, small = cluster.members
    cluster.stop(small)
    small.start("--proto-max-bulk-len", "1mb")
    cluster.await_whole()
    added = [add(giver, "large", LARGE, 2) for _ in range(3)]
    for job_id in added:
        assert taker.ask("SHOW", job_id)
        assert small.ask("SHOW", job_id) is None
    assert refusal(giver, 3).startswith("NOREPL Not enough reachable nodes for the requested replication level: the ")
    for number in range(OTHERS):
        add(giver, "q", f"body {number}", 3)
    assert small.ask("GETJOB", "NOHANG", "FROM", "large") is None
    found = taker.ask("GETJOB", "COUNT", 3, "TIMEOUT", 10_000, "FROM", "large")
    assert {job_id for _, job_id, _ in found} <= set(added)
    assert found


def test_where_nobody_takes_a_job_its_client_hears_so_and_others_are_served(make_cluster: MakeCluster) -> None:
    giver, small = make_cluster(2).members
    assert small.ask("CONFIG", "SET", "proto-max-bulk-len", "1mb") == b"OK"
    assert refusal(giver, 2).startswith("NOREPL")
    for number in range(OTHERS):
        add(giver, "q", f"body {number}", 2)


def test_results_and_messages_may_be_as_long_as_their_bounds_say(shared: Node) -> None:
    megabyte = "x" * (1 << 20)
    job_id = shared.ask("ADDJOB", "q", "body", 0, "RETAIN", 60)
    shared.ask("GETJOB", "FROM", "q")
    assert shared.ask("ACKJOB", job_id, "RESULT", megabyte) == 1
    found = shared.ask("RESULT", job_id)
    assert found[found.index(b"result") + 1] == megabyte.encode()
    assert shared.ask("PUBLISH", "news", megabyte) == 0
    assert "at most 1048576 bytes" in str(shared.ask("PUBLISH", "news", megabyte + "x"))
    assert shared.ask("CRON", "SET", "night", "0 0 * * *", "q", megabyte[:-1000]) == b"OK"
    assert shared.ask("CRON", "DEL", "night") == 1
