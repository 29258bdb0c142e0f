"""Nodes of a cluster that stand still for longer than the node timeout: others go on, and all is well afterwards."""

import pytest

from tests.end_to_end.cluster_load import cluster_load
from tests.end_to_end.conftest import MakeCluster


@pytest.mark.slow
@pytest.mark.parametrize("size", [3, 5])
def test_a_node_that_stands_still_loses_nothing_and_no_request_fails(make_cluster: MakeCluster, size: int) -> None:
    cluster = make_cluster(size)
    victim = cluster.members[0]  # a producer is there
    with cluster_load(cluster, 2) as load:
        load.more()
        cluster.hang(victim)
        cluster.await_failed(victim)
        load.more()
        cluster.wake(victim)
        cluster.await_whole()
        load.more()


@pytest.mark.slow
def test_nodes_that_stand_still_one_after_the_other_lose_nothing(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(3)
    with cluster_load(cluster, 2) as load:
        for victim in cluster.members:
            cluster.hang(victim)
            cluster.await_failed(victim)
            cluster.wake(victim)
            cluster.await_whole()
        load.more()


@pytest.mark.slow
def test_a_node_that_stands_still_while_another_is_killed_loses_nothing(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(3)
    hung, killed, _ = cluster.members
    with cluster_load(cluster, 2, "NOREPL") as load:
        load.more()
        cluster.hang(hung)
        cluster.await_failed(hung)
        cluster.kill(killed)
        cluster.wake(hung)
        cluster.start_whole()
        load.more()
