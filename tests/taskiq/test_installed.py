"""Without taskiq the package says which extra brings it."""

import importlib.util
import subprocess
import sys

import pytest

from tests.taskiq.conftest import INSTALLED, NO_TASKIQ


def test_taskiq_is_there() -> None:
    if not INSTALLED:
        pytest.skip(NO_TASKIQ)


@pytest.mark.parametrize("package", ["taskiq", "redis"])
def test_the_error_names_the_extra(package: str) -> None:
    if importlib.util.find_spec("redis") is None:
        pytest.skip(NO_TASKIQ)
    program = f"import sys; sys.modules[{package!r}] = None; import disque.taskiq"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "the broker needs taskiq and redis-py: pip install 'disque-server[taskiq]'" in done.stderr
