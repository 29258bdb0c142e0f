"""What the tests of the backend need: Django with tasks, configured once, and a node that they share.

Without Django nothing here can be imported, so only `test_installed.py` is collected, which says so.
"""

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.end_to_end.node import Node

INSTALLED: Final = bool(importlib.util.find_spec("django") and importlib.util.find_spec("redis")) and any(
    importlib.util.find_spec(name) for name in ("django.tasks", "django_tasks")
)
NO_DJANGO: Final = "Django is missing, or its tasks: pip install 'disque-server[django]'"

collect_ignore_glob = [] if INSTALLED else [path.name for path in Path(__file__).parent.glob("test_[!i]*.py")]

if INSTALLED:
    import django

    os.environ["DJANGO_SETTINGS_MODULE"] = "examples.django_shop.settings"
    django.setup()


@pytest.fixture
def options() -> dict[str, Any]:
    """Give the options of the backend; a test may change them before it asks for `backend`."""
    return {"TRIES": 2}


@pytest.fixture
def backend(node: Node, options: dict[str, Any]) -> Iterator[Any]:
    """Give the backend that tasks are added with."""
    from django.test import override_settings  # noqa: PLC0415 - Django may be missing

    from disque.django.api import task_backends  # noqa: PLC0415 - it reads the settings

    given = {"URL": f"disque://127.0.0.1:{node.port}", **options}
    tasks = {"default": {"BACKEND": "disque.django.DisqueBackend", "QUEUES": ["default", "mails"], "OPTIONS": given}}
    with override_settings(TASKS=tasks):
        found = task_backends["default"]
        yield found
        found.client.close()
