"""An app whose queues nobody else has, on a node with the jobs of all tests of workers."""

import pytest

from disque.client import Config
from tests.end_to_end.node import Node
from tests.tasks.support import Shop


@pytest.fixture
def config(one_node: Node) -> Config:
    return Config(nodes=((one_node.host, one_node.port),), discover=False, backoff_ms=1)


@pytest.fixture
def shop(config: Config) -> Shop:
    """An app, and what works for it."""
    return Shop(config)
