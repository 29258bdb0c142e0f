"""Machines that never come back, one after the other, and one that leaves: no job goes with them."""

import pytest

from tests.end_to_end.cluster import Cluster, id_of
from tests.end_to_end.conftest import MakeCluster
from tests.end_to_end.node import SLOW_POLL_S, Node, until

JOBS = 40


def numbers(node: Node) -> dict[str, int]:
    """What CLUSTER INFO counts of copies."""
    lines = [line.split(":", 1) for line in node.ask("CLUSTER", "INFO").decode().splitlines()]
    return {name: int(value) for name, value in lines if name.endswith("_jobs")}


def total(cluster: Cluster, name: str) -> int:
    """The same, of all nodes together."""
    return sum(numbers(node)[name] for node in cluster.running())


def copies(cluster: Cluster) -> int:
    """How many copies of jobs there are."""
    return sum(int(dict(info(node))["registered_jobs"]) for node in cluster.running())


def info(node: Node) -> list[tuple[str, str]]:
    lines = node.ask("INFO", "jobs").decode().splitlines()
    return [(name, value) for name, _, value in (line.partition(":") for line in lines) if value]


def taken(cluster: Cluster) -> set[bytes]:
    """The IDs of jobs that the nodes have, each once."""
    found = {job_id for node in cluster.running() for job_id in node.ask("JSCAN", "COUNT", 100_000, "REPLY", "id")[1]}
    return set(found)


@pytest.mark.slow
def test_nothing_is_lost_while_machines_are_lost_one_by_one_and_one_leaves(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(5, "--appendonly", "yes")
    ids = set()
    for number in range(JOBS):
        node = cluster.members[number % 5]
        ids.add(node.ask("ADDJOB", "q", f"body {number}", 20_000, "REPLICATE", 2, "DELAY", 5000))
    assert all(isinstance(job_id, bytes) for job_id in ids), ids
    for _ in range(2):
        gone = cluster.members[-1]
        gone_id = id_of(gone)
        cluster.kill(gone)
        cluster.await_failed(gone)
        cluster.members.remove(gone)
        begun = cluster.members[0].ask("CLUSTER", "REPAIR", gone_id)
        assert begun == len(cluster.members)
        until(lambda: copies(cluster) >= 2 * JOBS, cluster.describe, SLOW_POLL_S)
        until(lambda: total(cluster, "under_replicated_jobs") == 0, cluster.describe, SLOW_POLL_S)
        assert taken(cluster) == ids
        for node in cluster.members:
            assert node.ask("CLUSTER", "FORGET", gone_id) == b"OK"
    leaver = cluster.members[-1]
    leaver_id = id_of(leaver)
    assert leaver.ask("CLUSTER", "LEAVING", "yes") == b"OK"
    until(lambda: numbers(leaver)["leaving_jobs"] == 0, leaver.log, SLOW_POLL_S)
    until(lambda: "it can be stopped" in leaver.log(), leaver.log, SLOW_POLL_S)
    cluster.stop(leaver)
    cluster.members.remove(leaver)
    for node in cluster.members:
        node.ask("CLUSTER", "FORGET", leaver_id)
    assert taken(cluster) == ids
    assert copies(cluster) == 2 * JOBS
    assert any("had to get their copies again" in node.log() for node in cluster.members)
