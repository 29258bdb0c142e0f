"""What the tests of the broker need: kombu and Celery, and a node that they share.

Without kombu nothing here can be imported, so only `test_installed.py` is collected, which says so.
"""

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.end_to_end.node import Node

INSTALLED: Final = all(importlib.util.find_spec(name) for name in ("kombu", "celery", "redis"))
NO_CELERY: Final = "Celery is missing: pip install 'disque-server[celery]'"

collect_ignore_glob = [] if INSTALLED else [path.name for path in Path(__file__).parent.glob("test_[!i]*.py")]
if not INSTALLED:
    collect_ignore_glob.append("test_inspection.py")


@pytest.fixture
def connection(node: Node) -> Iterator[Any]:
    """Give a connection of kombu to the node."""
    from tests.celery.support import connect  # noqa: PLC0415 - kombu may be missing

    with connect(node) as one:
        yield one
