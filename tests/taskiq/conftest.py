"""What the tests of taskiq need: taskiq, and a node that they share.

Without taskiq nothing here can be imported, so only `test_installed.py` is collected, which says so.
"""

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.end_to_end.node import Node

INSTALLED: Final = all(importlib.util.find_spec(name) for name in ("taskiq", "redis"))
NO_TASKIQ: Final = "taskiq is missing: pip install 'disque-server[taskiq]'"

collect_ignore_glob = [] if INSTALLED else [path.name for path in Path(__file__).parent.glob("test_[!i]*.py")]


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
def url(node: Node) -> str:
    return f"disque://127.0.0.1:{node.port}"
