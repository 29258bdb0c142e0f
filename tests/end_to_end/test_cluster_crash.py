"""Nodes of a cluster are killed under load, some of them or all, and come back: nothing that was promised is lost."""

import pytest

from tests.conftest import rarely
from tests.end_to_end.cluster_load import cluster_load
from tests.end_to_end.conftest import MakeCluster


def test_without_faults_each_job_is_done_and_gone_everywhere_at_the_end(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(3)
    with cluster_load(cluster, 2) as load:
        load.more()
    assert not load.account.errors
    assert not load.account.reconnects
    assert not load.account.missed()
    assert set(load.account.again()) <= {"nack", "retry"}


@pytest.mark.parametrize("size", [3, *rarely(5, 7)])
def test_a_minority_that_is_killed_takes_nothing_along(make_cluster: MakeCluster, size: int) -> None:
    cluster = make_cluster(size)
    victims = cluster.members[: cluster.minority]  # a producer is at the first
    with cluster_load(cluster, size - cluster.minority) as load:
        load.more()
        cluster.kill(*victims)
        load.more()
        cluster.start_whole()
        load.more()


@pytest.mark.parametrize(
    ("size", "fsync"),
    [
        (3, "everysec"),
        pytest.param(3, "always", marks=pytest.mark.slow),
        pytest.param(5, "everysec", marks=pytest.mark.slow),
        pytest.param(7, "always", marks=pytest.mark.slow),
    ],
)
def test_all_nodes_killed_at_once_under_load_lose_nothing(make_cluster: MakeCluster, size: int, fsync: str) -> None:
    cluster = make_cluster(size, "--appendfsync", fsync)
    with cluster_load(cluster, 3, "NOREPL") as load:  # there are no three while they come back one by one
        load.more()
        cluster.kill(*cluster.members)
        cluster.start_whole()
        load.more()


@pytest.mark.slow
def test_all_nodes_killed_with_jobs_that_nobody_has_got_yet_give_them_back(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(3)
    with cluster_load(cluster, 3, "NOREPL", consumers=0) as load:
        load.more(acked=0)
        load.enough()
        cluster.kill(*cluster.members)
        cluster.start_whole()
        load.consume(3)
    assert not load.account.missed(), "a crash of processes loses no at-most-once job that waits"
