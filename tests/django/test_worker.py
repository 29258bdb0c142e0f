"""`manage.py disque_worker` and the example, as processes."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import override_settings

from disque.django.backend import DisqueBackend
from tests.django import tasks
from tests.end_to_end.node import ROOT, Node, until

MANAGE = str(ROOT / "examples" / "django_shop" / "manage.py")


def test_the_example(node: Node, tmp_path: Path) -> None:
    environment = {**os.environ, "DISQUE": f"disque://127.0.0.1:{node.port}", "PYTHONPATH": str(ROOT)}
    log_path = tmp_path / "log"
    with log_path.open("wb") as log:
        words = [sys.executable, MANAGE, "disque_worker"]
        worker = subprocess.Popen(words, env=environment, cwd=ROOT, stdout=log, stderr=log)
    try:
        words = [sys.executable, "-m", "examples.django_shop.enqueue"]
        done = subprocess.run(words, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.stdout.splitlines() == [
            "SUCCESSFUL 800 attempts: 1",
            "SUCCESSFUL Dear Ada, this is try 2. attempts: 2",
            "SUCCESSFUL 49 attempts: 1",
        ], done.stderr
        until(lambda: b"working on default, mails of" in log_path.read_bytes(), "the worker to say so")
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0, log_path.read_text()
    finally:
        worker.kill()
        worker.wait()


@pytest.fixture
def _signals() -> Any:
    """The command sets handlers."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("_signals")
def test_it_may_end_when_nothing_is_left(node: Node, backend: DisqueBackend) -> None:
    result = tasks.add.using(queue_name="mails").enqueue(1)
    other = tasks.add.enqueue(1)
    call_command("disque_worker", "--burst", "--queues", "mails", "--threads", "1")
    assert backend.get_result(result.id).return_value == 2
    assert not backend.get_result(other.id).is_finished
    assert node.ask("QLEN", "default") == 1


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--backend", "other"], "TASKS.'other'.: .*"),
        (["--threads", "0"], "--threads must be at least 1"),
    ],
)
def test_what_is_wrong_on_the_command_line(backend: DisqueBackend, words: list[str], error: str) -> None:
    del backend
    with pytest.raises(CommandError, match=error):
        call_command("disque_worker", *words)


def test_another_backend_has_a_worker_of_its_own() -> None:
    immediate = f"{DisqueBackend.__mro__[1].__module__.rpartition('.')[0]}.immediate.ImmediateBackend"
    with override_settings(TASKS={"default": {"BACKEND": immediate}}), pytest.raises(CommandError, match="no Disque"):
        call_command("disque_worker")


def test_queues_must_be_named_somewhere() -> None:
    tasks_setting = {"default": {"BACKEND": "disque.django.DisqueBackend", "QUEUES": []}}
    with override_settings(TASKS=tasks_setting), pytest.raises(CommandError, match="which queues"):
        call_command("disque_worker")
