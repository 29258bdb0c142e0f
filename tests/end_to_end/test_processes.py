"""`disque-server --processes 3`: real nodes of one host, looked after by one process."""

import os
import signal
import socket
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


class Service:
    """The service, and what it has shown."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.ports = range(0)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Start it and wait until its nodes have found each other; a port that was taken meanwhile is no failure."""
        until(self._starts, "ports in a row")
        until(self.are_whole, lambda: f"the nodes to find each other:\n{self.shown()}")
        return self

    def _starts(self) -> bool:
        first = self.ports.start or free_port()
        self.ports = range(first, first + COUNT)
        conf = self.directory / "disque.conf"
        conf.write_text(f"bind {LOOPBACK}\nport {first}\nprocesses {COUNT}\nappendonly yes\ndir data\n")
        (self.directory / "data").mkdir(exist_ok=True)
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "disque.cli.serve", "disque.conf", "--appendfsync", "always"],
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
        until(lambda: self.shown().count("ready to accept") >= COUNT or self.ended(), "the nodes")
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

    def children(self) -> dict[int, psutil.Process]:
        """The processes by port, as far as they have got that far."""
        assert self.process is not None
        found = {}
        for child in psutil.Process(self.process.pid).children():
            with suppress(psutil.Error):
                number = child.environ().get("DISQUE_PROCESS", "")
                if number:
                    found[self.ports[int(number)]] = child
        return found

    def ask(self, port: int, *words: Word) -> Any:
        with closing(Raw((LOOPBACK, port))) as connection:
            return connection.ask(*words)

    def info(self, port: int) -> dict[str, str]:
        reply = self.ask(port, "CLUSTER", "INFO")
        return dict(line.split(":", 1) for line in reply.decode().split())

    def reaches(self, port: int) -> int:
        """How many others a node reaches; -1 while it does not answer."""
        try:
            return int(self.info(port)["cluster_reachable_nodes"])
        except (OSError, EOFError, ServerError, AttributeError):
            return -1

    def are_whole(self) -> bool:
        return all(self.reaches(port) == COUNT - 1 for port in self.ports)

    @property
    def log_path(self) -> Path:
        return self.directory / "shown"

    def shown(self) -> str:
        return self.log_path.read_text()

    def kill(self) -> None:
        if self.process is not None:
            crowd = psutil.Process(self.process.pid).children(recursive=True) if not self.ended() else []
            self.process.kill()
            for one in crowd:
                with suppress(psutil.Error):
                    one.kill()
            self.process.wait(PATIENCE_S)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    running = Service(tmp_path)
    yield running
    running.kill()


def test_a_process_that_is_killed_comes_back_with_its_jobs_and_all_stop_cleanly(service: Service) -> None:
    service.start()
    first, second, third = service.ports
    zone = service.info(first)["cluster_zone"]
    assert zone
    assert [len(service.info(port)[f"cluster_zone_{zone}"].split(",")) for port in service.ports] == [COUNT] * COUNT
    shared = [service.ask(first, "ADDJOB", "shared", f"job {n}", 5000, "REPLICATE", 2) for n in range(20)]
    alone = [service.ask(second, "ADDJOB", "alone", f"job {n}", 5000, "REPLICATE", 1) for n in range(5)]
    node_id = service.ask(second, "CLUSTER", "MYID")
    before = service.children()
    assert sorted(before) == [first, second, third]

    before[second].kill()
    until(lambda: "was killed by SIGKILL. It is started again" in service.shown(), service.shown)
    until(service.are_whole, service.shown)
    after = service.children()
    assert after[second].pid != before[second].pid
    assert (after[first].pid, after[third].pid) == (before[first].pid, before[third].pid)
    assert service.ask(second, "CLUSTER", "MYID") == node_id
    assert {job[1] for job in service.ask(second, "GETJOB", "COUNT", 10, "FROM", "alone")} == set(alone)
    assert {job[1] for job in service.ask(third, "GETJOB", "COUNT", 30, "TIMEOUT", 5000, "FROM", "shared")} <= set(
        shared
    )

    assert f"{second} | " in service.shown()
    assert sorted(path.name for path in (service.directory / "data").iterdir()) == [str(port) for port in service.ports]
    refusal = "ERR The config file is shared by all processes: edit it, and restart the service"
    assert str(service.ask(first, "CONFIG", "REWRITE")) == refusal
    assert service.stop(signal.SIGTERM) == 0
    assert service.shown().count("ready to exit") == COUNT


def test_processes_stop_when_the_service_is_killed(service: Service) -> None:
    service.start()
    left = list(service.children().values())
    assert service.process is not None
    service.process.kill()
    gone, alive = psutil.wait_procs(left, timeout=PATIENCE_S)
    assert (len(gone), alive) == (COUNT, [])


def test_a_process_without_its_port_ends_the_service(service: Service) -> None:
    first = free_port()
    command = [sys.executable, "-m", "disque.cli.serve", "--processes", "2", "--bind", LOOPBACK, "--port"]
    with closing(socket.create_server((LOOPBACK, first + 1))):
        done = subprocess.run(
            [*command, str(first)],
            cwd=service.directory,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
    assert done.returncode == 1
    assert f"The process at port {first + 1} cannot start" in done.stdout.decode()
