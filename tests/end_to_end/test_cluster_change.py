"""Nodes are restarted, join and leave under load: no request fails but for connections that end."""

import pytest

from tests.conftest import rarely
from tests.end_to_end.cluster import Cluster, id_of, rows
from tests.end_to_end.cluster_load import cluster_load, jobs_left
from tests.end_to_end.conftest import MakeCluster
from tests.end_to_end.node import SLOW_POLL_S, Node, until


@pytest.mark.parametrize("size", [3, *rarely(2, 5)])
def test_a_rolling_restart_fails_no_request_with_one_copy_less_than_nodes(make_cluster: MakeCluster, size: int) -> None:
    cluster = make_cluster(size)
    with cluster_load(cluster, size - 1) as load:
        load.more()
        for node in cluster.members:
            cluster.stop(node)
            cluster.start_whole()
        load.more()
    assert not load.account.errors


def test_a_node_joins_under_load_and_takes_its_part(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(2)
    newcomer = cluster.make()
    cluster.start(newcomer)
    with cluster_load(cluster, 2) as load:
        load.more()
        assert cluster.members[0].ask("CLUSTER", "MEET", newcomer.host, newcomer.port) == b"OK"
        cluster.members.append(newcomer)
        cluster.await_whole()
        until(lambda: int(newcomer.info("registered_jobs")), "a copy at the newcomer")
        load.more()
    assert not load.account.errors
    job_id = newcomer.ask("ADDJOB", "other", "body", 5000, "REPLICATE", 3)
    assert [job[1] for job in cluster.members[0].ask("GETJOB", "TIMEOUT", 30_000, "FROM", "other")] == [job_id]


@pytest.mark.slow
def test_a_node_leaves_under_load_and_nothing_is_missed(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(3)
    leaver = cluster.members[0]  # a producer is there
    with cluster_load(cluster, 2) as load:
        load.more()
        assert leaver.ask("CLUSTER", "LEAVING", "yes") == b"OK"
        load.more()  # the producer stays there: its jobs are placed on others
        cluster.members.remove(leaver)
        leaver.ask("CLIENT", "KILL", "TYPE", "normal")  # those who did not go by themselves find another node
        until(lambda: not jobs_left(leaver), lambda: f"{len(jobs_left(leaver))} jobs to leave", SLOW_POLL_S)
        leave(cluster, leaver)
        load.more()
    assert not load.account.errors


def leave(cluster: Cluster, leaver: Node) -> None:
    """Stop a node and take it out of the cluster."""
    leaver_id = id_of(leaver)
    cluster.stop(leaver)
    for node in cluster.members:
        assert node.ask("CLUSTER", "FORGET", leaver_id) == b"OK"
    cluster.await_whole()
    assert all(leaver_id.decode() not in {row.node_id for row in rows(node)} for node in cluster.members)
