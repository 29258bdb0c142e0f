"""Three real nodes answer together: QLEN and QSTAT of all, FIND; also while one of them hangs or is dead."""

import time
from typing import Any

import pytest

from disque.client import Disque
from tests.end_to_end.cluster import Cluster
from tests.end_to_end.conftest import MakeCluster
from tests.end_to_end.node import Node, until


@pytest.fixture
def cluster(make_cluster: MakeCluster) -> Cluster:
    # always: an answer waits for the disk like all that a node says
    return make_cluster(3, "--appendfsync", "always")


def stat(node: Node, *words: str) -> dict[bytes, Any]:
    flat = node.ask("QSTAT", "q", *words)
    return dict(zip(flat[::2], flat[1::2], strict=True))


def test_one_command_asks_all(cluster: Cluster) -> None:
    one, two, three = cluster.members
    for number, node in enumerate(cluster.members, 1):
        for _ in range(number):
            node.ask("ADDJOB", "q", "body", 1000, "REPLICATE", 1)
    two.ask("ADDJOB", "q", "late", 1000, "REPLICATE", 2, "DELAY", 100)
    key_id = three.ask("ADDJOB", "other", "body", 1000, "REPLICATE", 2, "UNIQUE", "k", 60)
    for node in cluster.members:
        assert node.ask("QLEN", "q", "CLUSTER") == 6
        assert node.ask("FIND", "other", "k") == key_id
        assert node.ask("FIND", "other", "l") is None
    assert two.ask("QLEN", "q") == 2
    ((_, got, _),) = three.ask("GETJOB", "FROM", "q")
    shown = stat(one, "CLUSTER")
    wanted = {b"len": 5, b"delayed": 1, b"in-flight": 1, b"added": 7, b"delivered": 1, b"acked": 0, b"nodes": 3}
    assert {name: shown[name] for name in wanted} == wanted
    assert three.ask("ACKJOB", got) == 1
    shown = stat(two, "CLUSTER")
    assert (shown[b"in-flight"], shown[b"acked"], shown[b"unreachable"]) == (0, 1, [])
    with Disque(f"disque://{one.host}:{one.port}") as disque:
        assert disque.queue_length("q", cluster=True) == 5
        assert disque.find("other", "k") == key_id.decode()


def test_a_node_that_hangs_and_one_that_is_dead(cluster: Cluster) -> None:
    one, two, three = cluster.members
    for node in cluster.members:
        node.ask("ADDJOB", "q", "body", 1000, "REPLICATE", 1)
    hung_id = three.ask("CLUSTER", "MYID")
    cluster.hang(three)
    began_s = time.monotonic()
    shown = stat(one, "CLUSTER")
    assert time.monotonic() - began_s < 60, "it was waited for without end"
    assert (shown[b"len"], shown[b"unreachable"]) == (2, [hung_id])
    cluster.kill(two)
    until(lambda: len(stat(one, "CLUSTER")[b"unreachable"]) == 2, "one is alone")
    assert one.ask("QLEN", "q", "CLUSTER") == 1
