"""What the tests of taskiq need: taskiq, and the URL of a node.

Without taskiq nothing here can be imported, so only `test_installed.py` is collected, which says so.
"""

import importlib.util
from pathlib import Path
from typing import Final

import pytest

from tests.end_to_end.node import Node

INSTALLED: Final = all(importlib.util.find_spec(name) for name in ("taskiq", "redis"))
NO_TASKIQ: Final = "taskiq is missing: pip install 'disque-server[taskiq]'"

collect_ignore_glob = [] if INSTALLED else [path.name for path in Path(__file__).parent.glob("test_[!i]*.py")]


@pytest.fixture
def url(node: Node) -> str:
    return f"disque://127.0.0.1:{node.port}"
