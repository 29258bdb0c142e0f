"""What the tests of the broker need: kombu and Celery, and a node that they share.

Without kombu nothing here can be imported, so only `test_installed.py` is collected, which says so.
"""

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.end_to_end.cluster import Cluster
from tests.end_to_end.node import Node

INSTALLED: Final = all(importlib.util.find_spec(name) for name in ("kombu", "celery", "redis"))
NO_CELERY: Final = "Celery is missing: pip install 'disque-server[celery]'"

collect_ignore_glob = [] if INSTALLED else [path.name for path in Path(__file__).parent.glob("test_[!i]*.py")]
if not INSTALLED:
    collect_ignore_glob.append("test_inspection.py")


@pytest.fixture(scope="session")
def one_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """Give a node that all tests share."""
    node = Node(tmp_path_factory.mktemp("node")).start()
    yield node
    node.discard()


@pytest.fixture
def node(one_node: Node) -> Iterator[Node]:
    """Give a node without jobs, queues and keys."""
    assert one_node.ask("DEBUG", "FLUSHALL") == b"OK"
    yield one_node
    one_node.hang_up()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Give three nodes."""
    three = Cluster(tmp_path, 3)
    three.start_whole()
    yield three
    three.discard()


@pytest.fixture
def connection(node: Node) -> Iterator[Any]:
    """Give a connection of kombu to the node."""
    from tests.celery.support import connect  # noqa: PLC0415 - kombu may be missing

    with connect(node) as one:
        yield one
