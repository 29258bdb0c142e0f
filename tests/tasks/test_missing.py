"""Without its packages, the library says which extra brings them."""

import subprocess
import sys

from tests.conftest import ROOT

CODE = """
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "redis" else found(name, *rest)
import disque.tasks
"""


def test_the_error_names_the_extra() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "tasks need redis-py: pip install 'disque-server[tasks]'" in done.stderr
