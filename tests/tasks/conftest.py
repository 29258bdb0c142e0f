"""A node for workers, and an app whose queues nobody else has."""

from collections.abc import Iterator

import pytest

from disque.client import Config
from tests.end_to_end.node import Node
from tests.tasks.support import Shop


@pytest.fixture(scope="session")
def task_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node that all tests of workers share."""
    one = Node(tmp_path_factory.mktemp("tasks")).start()
    yield one
    one.discard()


@pytest.fixture
def config(task_node: Node) -> Config:
    return Config(nodes=((task_node.host, task_node.port),), discover=False, backoff_ms=1)


@pytest.fixture
def shop(config: Config) -> Shop:
    """An app, and what works for it."""
    return Shop(config)
