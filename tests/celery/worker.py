"""Worker processes of Celery for tests."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from tests.end_to_end.node import ROOT, until

PATIENCE_S: Final = 60.0


class Worker:
    """`celery worker` with words of its own; ``folder`` is where tasks leave notes."""

    def __init__(self, folder: Path, broker: str, *words: str, name: str = "one", **environment: str) -> None:
        self.name = f"{name}@test"
        self.log_path = folder / f"{name}.log"
        own = {"BROKER": broker, "FOLDER": str(folder), "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
        command = [sys.executable, "-m", "celery", "-A", "tests.celery.tasks", "worker", "-n", self.name]
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, "--loglevel", "INFO", *words], cwd=ROOT, env={**os.environ, **own, **environment},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def await_ready(self) -> "Worker":
        self.await_log("ready.")
        return self

    def await_log(self, text: str) -> None:
        until(lambda: text in self.log() or self.process.poll() is not None, f"{text!r} in {self.log_path}", 0.02)
        assert text in self.log(), self.log()

    def signal(self, number: int) -> None:
        """To the main process only."""
        self.process.send_signal(number)

    def kill(self) -> None:
        """Kill -9 all of its processes."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def ended(self) -> int:
        """Wait for the end; the status."""
        return self.process.wait(PATIENCE_S)

    def memory(self) -> int:
        """Resident bytes of the main process."""
        import psutil  # noqa: PLC0415 - used here only

        found: Any = psutil.Process(self.process.pid).memory_info()
        return int(found.rss)
