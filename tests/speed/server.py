"""Servers that are measured: ours in either form, redis-server, beanstalkd; each a process with a folder of its own."""

import os
import shutil
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, NamedTuple

import psutil

from disque.cli.bench_target import cpu_s_of
from tests.end_to_end.cluster import Cluster, Place
from tests.end_to_end.node import LOOPBACK, Node, ServerError

#: After a server has forgotten everything, in seconds: it goes on freeing for a moment.
REST_S: Final = 0.3
REDIS: Final = "redis"
BEANSTALKD: Final = "beanstalkd"


class Form(NamedTuple):
    """One form of this server: its name, and the interpreter that has it installed; none for the one that runs this."""

    name: str
    python: str = ""

    @property
    def words(self) -> list[str]:
        """What a command line begins with."""
        # The path would bring the plain files before those that are installed there.
        return ["env", "-u", "PYTHONPATH", self.python] if self.python else [sys.executable]


PLAIN: Final = Form("plain")


class Server(Node):
    """What all of them have."""

    name = ""

    def cpu_s(self) -> float:
        """Seconds of CPU that the process has had."""
        return cpu_s_of(psutil.Process(self.pid))

    def flush(self) -> None:
        """Forget everything."""
        time.sleep(REST_S)


class Ours(Server):
    """A node of this project."""

    def __init__(self, directory: Path, form: Form, *options: str) -> None:
        super().__init__(directory, "--maxmemory", "100gb", "--loglevel", "warning", *options)
        self.form = form
        self.name = form.name

    @property
    def command(self) -> list[str]:
        own = ["--port", str(self.port), "--dir", str(self.directory), "--bind", self.host]
        return [*self.form.words, "-m", "disque.cli.serve", *own, *self.options]

    def flush(self) -> None:
        answer = self.ask("DEBUG", "FLUSHALL")
        assert not isinstance(answer, ServerError), answer
        super().flush()


class Redis(Server):
    """redis-server, without a journal unless the options say so."""

    name = REDIS

    @property
    def command(self) -> list[str]:
        own = ["--port", str(self.port), "--dir", str(self.directory), "--bind", self.host]
        return ["redis-server", "--save", "", "--loglevel", "warning", *own, *self.options]

    def flush(self) -> None:
        self.ask("FLUSHALL")
        super().flush()


class Beanstalkd(Server):
    """beanstalkd, without a journal; it has nothing to forget everything with."""

    name = BEANSTALKD

    @property
    def command(self) -> list[str]:
        return ["beanstalkd", "-l", self.host, "-p", str(self.port), *self.options]

    def _ready(self) -> bool:
        with suppress(OSError), closing(socket.create_connection((self.host, self.port))):
            return True
        return False


class Nodes(Cluster):
    """Nodes of one form that make a cluster, with the timeout that nodes have by default.

    They have no journals unless the options say so.
    """

    def __init__(self, directory: Path, size: int, form: Form, *options: str) -> None:
        self.form = form
        directory.mkdir()
        super().__init__(directory, size, "--appendonly", "no", "--cluster-node-timeout", "15000", *options)

    def make(self, place: Place | None = None) -> Node:
        assert place in {None, Place()}
        directory = self.directory / f"node{len(self._all)}"
        directory.mkdir()
        taken = {other.port for other in self._all}
        while (node := Ours(directory, self.form, *self.options)).port in taken:
            pass
        self._all.append(node)
        return node

    def nodes(self) -> list[Ours]:
        return [node for node in self.members if isinstance(node, Ours)]

    def cpu_s(self) -> float:
        return sum(node.cpu_s() for node in self.nodes())

    def flush(self) -> None:
        for node in self.nodes():
            node.ask("DEBUG", "FLUSHALL")
        time.sleep(REST_S)


def missing(programs: Sequence[str], path: str | None = None) -> list[str]:
    """Which of these programs are not installed in `path`, by default the one of the system."""
    return [program for program in programs if shutil.which(program, path=path) is None]


def new_server(name: str, folder: Path, forms: Sequence[Form], *options: str) -> Server:
    """Give a server by name that is not started, in a new folder below `folder`."""
    directory = folder / f"{name}-{os.urandom(4).hex()}"
    directory.mkdir()
    if name == REDIS:
        return Redis(directory, *options)
    if name == BEANSTALKD:
        return Beanstalkd(directory, *options)
    [form] = [form for form in forms if form.name == name]
    return Ours(directory, form, *options)


def address(server: Server) -> tuple[str, int]:
    return LOOPBACK, server.port
