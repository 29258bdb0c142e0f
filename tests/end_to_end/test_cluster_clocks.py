"""Nodes whose clocks are an hour apart, and jump while a node is down: only durations count between nodes."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from tests.conftest import path_of
from tests.end_to_end.cluster import Cluster, Place
from tests.end_to_end.cluster_load import cluster_load
from tests.end_to_end.conftest import StartNode
from tests.end_to_end.node import Raw, until


def clock(hours: int) -> tuple[str, ...]:
    """Give the words before a command whose wall clock is to be wrong by so much.

    Not `faketime` itself, which stays in between and would be killed in place of the node.
    """
    root = Path(path_of("faketime")).resolve().parent.parent
    library = next(iter(sorted(root.glob("lib*/**/faketime/libfaketimeMT.so.1"))))
    return ("env", f"LD_PRELOAD={library}", f"FAKETIME={hours:+d}h", "FAKETIME_DONT_FAKE_MONOTONIC=1")


HOURS: Final = (0, 1, -1)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Give three nodes of which each takes it for another hour."""
    cluster = Cluster(tmp_path, len(HOURS), places=[Place(prefix=clock(hours) if hours else ()) for hours in HOURS])
    try:
        cluster.start_whole()
        yield cluster
    finally:
        cluster.discard()


@pytest.mark.slow
def test_clocks_that_are_an_hour_apart_make_no_difference(cluster: Cluster) -> None:
    times = [int(node.ask("TIME")[0]) for node in cluster.members]
    assert max(times) - min(times) > 7000, "the clocks are wrong"
    with cluster_load(cluster, 2) as load:
        load.more()
    assert not load.account.errors
    assert set(load.account.again()) <= {"nack", "retry"}


@pytest.mark.slow
def test_a_clock_that_jumps_while_its_node_is_down_loses_nothing(cluster: Cluster) -> None:
    node = cluster.members[1]
    with cluster_load(cluster, 2) as load:
        load.more()
        cluster.kill(node)
        node.prefix = clock(-1)
        cluster.start_whole()
        load.more()
        cluster.kill(node)
        node.prefix = clock(2)
        cluster.start_whole()
        load.more()


@pytest.mark.parametrize("cleanly", [True, False])
def test_a_clock_that_is_far_ahead_at_one_start_costs_no_job(start_node: StartNode, cleanly: bool) -> None:
    node = start_node("--appendonly", "yes")
    job_id = node.ask("ADDJOB", "q", "body", 0, "TTL", 86_400)
    node.kill()
    node.prefix = clock(72)
    node.launch()
    until(lambda: "They are kept, and clients are told LOADING" in node.log(), "the warning")
    with closing(Raw((node.host, node.port))) as raw:
        assert str(raw.ask("QLEN", "q")).startswith("LOADING")
    if cleanly:
        assert node.stop() == 0
    else:
        node.kill()
    node.prefix = ()
    assert node.start().ask("GETJOB", "FROM", "q") == [[b"q", job_id, b"body"]]


@pytest.mark.slow
def test_a_clock_that_is_far_ahead_is_believed_in_the_end(start_node: StartNode) -> None:
    node = start_node("--appendonly", "yes", "--cluster-node-timeout", "500")
    node.ask("ADDJOB", "q", "body", 0, "TTL", 86_400)
    node.kill()
    node.prefix = clock(72)
    assert node.start().ask("QLEN", "q") == 0
    assert "The clock is taken to be right" in node.log()
    kept = node.ask("ADDJOB", "q", "body", 0, "TTL", 86_400)
    node.kill()
    assert node.start().ask("GETJOB", "FROM", "q") == [[b"q", kept, b"body"]]
