"""What `make run` starts: three nodes in one terminal that have found each other."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final, Self

import psutil
import pytest

from tests.end_to_end.node import LOOPBACK, PATIENCE_S, ROOT, Raw, ServerError, Word, free_port, until

COUNT: Final = 3


class Local:
    """The program, and what it has shown."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.ports = range(0)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Start it and wait until its nodes have found each other; a port that was taken meanwhile is no failure."""
        until(self._starts, "three ports in a row")
        until(lambda: "have found each other" in self.shown(), "the nodes to find each other")
        return self

    def _starts(self) -> bool:
        first = self.ports.start or free_port()
        self.ports = range(first, first + COUNT)
        words = ["--nodes", str(COUNT), "--port", str(first), "--data", str(self.directory / "data")]
        words += ["--gateway", "0"]
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "disque.cli.local", *words],
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
        until(lambda: "ready to accept" in self.shown() or self.ended(), "the first node")
        if self.ended():
            assert "in use" in self.shown(), self.shown()
            self.ports = range(0)
            return False
        return True

    def ended(self) -> bool:
        assert self.process is not None
        return self.process.poll() is not None

    def stop(self, number: signal.Signals) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)

    def nodes(self) -> list[psutil.Process]:
        """The processes of the nodes, in the order of their ports."""
        assert self.process is not None
        return sorted(psutil.Process(self.process.pid).children(), key=lambda child: child.pid)

    def discard(self) -> None:
        """End it by all means, and the nodes first: nobody else would."""
        if self.process is not None and not self.ended():
            for node in self.nodes():
                with suppress(psutil.NoSuchProcess):
                    node.kill()
            self.process.kill()
            self.process.wait()

    @property
    def log_path(self) -> Path:
        return self.directory / "shown.txt"

    def shown(self) -> str:
        return self.log_path.read_text()

    def ask(self, number: int, *words: Word) -> Any:
        """Send one request to node 0, 1 or 2."""
        with closing(Raw((LOOPBACK, self.ports[number]))) as raw:
            return raw.ask(*words)


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Local]:
    one = Local(tmp_path)
    yield one.start()
    one.discard()


def test_a_job_is_added_got_and_acknowledged_at_three_different_nodes(local: Local) -> None:
    job_id = local.ask(0, "ADDJOB", "mails", "to: ada", 10_000, "REPLICATE", COUNT)
    assert local.ask(2, "GETJOB", "TIMEOUT", 10_000, "FROM", "mails") == [[b"mails", job_id, b"to: ada"]]
    assert local.ask(1, "ACKJOB", job_id) == 1
    until(lambda: not any(local.ask(number, "SHOW", job_id) for number in range(COUNT)), "all to forget the job")


def test_jobs_are_there_again_after_a_stop_and_a_start(local: Local) -> None:
    added = {local.ask(n % COUNT, "ADDJOB", "mails", f"to: {n}", 10_000, "REPLICATE", 2) for n in range(30)}
    assert local.stop(signal.SIGINT) == 0
    assert local.shown().splitlines()[-1].startswith("*** All nodes have stopped cleanly.")
    local.start()
    got: set[bytes] = set()
    while len(got) < len(added):
        jobs = local.ask(0, "GETJOB", "TIMEOUT", 30_000, "COUNT", 100, "FROM", "mails")
        assert jobs, f"{len(added - got)} jobs did not come"
        got |= {job_id for _, job_id, _ in jobs}
    assert got == added


def test_one_node_may_die_and_be_started_again_by_the_command_that_is_shown(local: Local) -> None:
    job_id = local.ask(2, "ADDJOB", "mails", "to: grace", 10_000, "REPLICATE", COUNT, "RETRY", 1)
    local.nodes()[2].kill()
    until(lambda: f"The node at {local.ports[2]} was killed by SIGKILL" in local.shown(), "the news")
    assert local.ask(0, "GETJOB", "TIMEOUT", 30_000, "FROM", "mails") == [[b"mails", job_id, b"to: grace"]]
    again = until(lambda: commands(local), "the command")[-1]
    node = subprocess.Popen(again.split(), stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(ROOT)})
    try:
        until(lambda: knows(local, job_id), "the node to be back with its copy")
    finally:
        node.terminate()
        assert node.wait(PATIENCE_S) == 0


def commands(local: Local) -> list[str]:
    """The commands that are shown to start a node again."""
    return [line for line in local.shown().splitlines() if line.startswith("    ") and " -m disque.cli.serve " in line]


def knows(local: Local, job_id: bytes) -> bool:
    """Whether the last node has a copy of the job."""
    try:
        shown = local.ask(2, "SHOW", job_id)
    except (OSError, EOFError):
        return False
    return shown is not None and not isinstance(shown, ServerError)


def test_a_second_one_on_the_same_ports_says_so_and_starts_nothing(local: Local) -> None:
    words = ["--port", str(local.ports[1]), "--nodes", "1", "--data", str(local.directory / "other")]
    second = subprocess.run(
        [sys.executable, "-m", "disque.cli.local", *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert second.returncode == 1
    assert f"ports {local.ports[1]}, {local.ports[1] + 10000} in use" in second.stderr
    assert not (local.directory / "other").exists()
