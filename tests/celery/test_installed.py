"""Without kombu the package says which extra brings it."""

import importlib.util
import subprocess
import sys

import pytest

from tests.celery.conftest import INSTALLED, NO_CELERY


def test_celery_is_there() -> None:
    if not INSTALLED:
        pytest.skip(NO_CELERY)


@pytest.mark.parametrize("package", ["kombu", "redis"])
def test_the_error_names_the_extra(package: str) -> None:
    if importlib.util.find_spec("redis") is None:
        pytest.skip(NO_CELERY)
    program = f"import sys; sys.modules[{package!r}] = None; import disque.celery"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "ImportError: the transport needs kombu and redis-py: pip install 'disque-server[celery]'" in done.stderr
