"""Without Django's tasks the package says which extra brings them."""

import importlib.util
import subprocess
import sys

import pytest

from tests.django.conftest import INSTALLED, NO_DJANGO


def test_django_is_there() -> None:
    if not INSTALLED:
        pytest.skip(NO_DJANGO)


@pytest.mark.parametrize("package", ["django", "redis"])
def test_the_error_names_the_extra(package: str) -> None:
    if importlib.util.find_spec("redis") is None:
        pytest.skip(NO_DJANGO)
    program = f"import sys; sys.modules[{package!r}] = None; import disque.django"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "or Django 5.2 with django-tasks: pip install 'disque-server[django]'" in done.stderr
