"""Servers for the tests: `node` is a fresh one, `start_node` makes as many as wanted, `shared` serves a module."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import NO_NAMESPACES, emptied, path_of, serving
from tests.end_to_end.cluster import Cluster
from tests.end_to_end.namespaces import Divided, RefusedError
from tests.end_to_end.node import Node

StartNode = Callable[..., Node]
MakeCluster = Callable[..., Cluster]


@pytest.fixture
def make_node(tmp_path: Path) -> Iterator[StartNode]:
    """Give a function that makes a node that is not started yet; its arguments are options."""
    nodes: list[Node] = []

    def make(*options: str, directory: Path | None = None) -> Node:
        where = directory or tmp_path / f"node{len(nodes)}"
        where.mkdir(exist_ok=True)
        nodes.append(Node(where, *options))
        return nodes[-1]

    yield make
    for one in nodes:
        one.discard()


@pytest.fixture
def start_node(make_node: StartNode) -> StartNode:
    """Give a function that makes a node and starts it."""

    def start(*options: str, directory: Path | None = None) -> Node:
        return make_node(*options, directory=directory).start()

    return start


@pytest.fixture
def node(start_node: StartNode) -> Node:
    """Give a node without a journal."""
    return start_node()


@pytest.fixture(scope="module")
def one_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """Give a node that the tests of a module share, with settings that some of them change."""
    with serving(tmp_path_factory) as one:
        yield one


@pytest.fixture
def shared(one_node: Node) -> Iterator[Node]:
    """Give the node of the module, without jobs and queues."""
    yield from emptied(one_node)


@pytest.fixture
def make_cluster(tmp_path: Path) -> Iterator[MakeCluster]:
    """Give a function that starts a cluster of so many nodes and waits until it is whole; the rest are options."""
    clusters: list[Cluster] = []

    def make(size: int, *options: str) -> Cluster:
        directory = tmp_path / f"cluster{len(clusters)}"
        directory.mkdir()
        clusters.append(Cluster(directory, size, *options))
        clusters[-1].start_whole()
        return clusters[-1]

    yield make
    for one in clusters:
        one.discard()


@pytest.fixture
def divided(tmp_path: Path) -> Iterator[Divided]:
    """Give three nodes on a network that can be cut; skips the test where no such network can be made."""
    path_of("ip")
    try:
        cluster = Divided(tmp_path, 3)
    except RefusedError as refusal:
        pytest.skip(f"{NO_NAMESPACES}, so partitions are only simulated: {refusal}")
    try:
        cluster.start_whole()
        yield cluster
    finally:
        cluster.discard()
