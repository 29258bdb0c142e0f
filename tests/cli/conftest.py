"""For the tests of the command line: a loopback server whose replies come from a function, a small command table."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from disque.cli.client import Target
from disque.cli.shell_help import Table
from disque.cli.shell_reply import read_reply

Answer = Callable[[list[bytes]], bytes | None]


class FakeServer:
    """Answers each request with what `answer` gives; None hangs up. Everything received is in `requests`."""

    def __init__(self, answer: Answer) -> None:
        self.requests: list[list[bytes]] = []
        self._answer = answer
        self._connection: socket.socket | None = None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def target(self) -> Target:
        return Target(addresses=[("127.0.0.1", self.port)])

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self._connection, _ = self._listener.accept()
                with self._connection, contextlib.suppress(OSError):
                    self._converse(self._connection)

    def _converse(self, connection: socket.socket) -> None:
        with connection.makefile("rb") as stream:
            while first := stream.peek(1)[:1]:
                if first in b"\r\n":
                    stream.read(1)
                    continue
                request = read_reply(stream)
                assert isinstance(request, list)
                self.requests.append(request)
                reply = self._answer(request)
                if reply is None:
                    connection.shutdown(socket.SHUT_RDWR)
                    return
                connection.sendall(reply)

    def hang_up(self) -> None:
        """Close the present connection, as a server does that is stopped."""
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.shutdown(socket.SHUT_RDWR)

    def stop(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.hang_up()
        self._thread.join()


@pytest.fixture
def serve() -> Iterator[Callable[[Answer], FakeServer]]:
    """Start fake servers; they stop with the test."""
    started: list[FakeServer] = []

    def start(answer: Answer) -> FakeServer:
        started.append(FakeServer(answer))
        return started[-1]

    yield start
    for server in started:
        server.stop()


class Row(NamedTuple):
    """A row of the command table."""

    name: bytes
    usage: str
    summary: str
    group: str
    subcommands: tuple[tuple[str, str, str], ...] = ()


CLIENT = (
    ("LIST", "", "List the connections."),
    ("KILL", "ip:port | [ID id] [SKIPME yes|no]", "Close connections."),
    ("REPLY", "ON|OFF|SKIP", "Choose whether to be answered."),
)

PAUSE = (("in", "", "Take no jobs."), ("out", "", "Give no jobs."), ("all", "", "Both."))

ROWS = (
    Row(b"addjob", "queue body ms-timeout [REPLICATE n] [UNIQUE key seconds] [ASYNC]", "Add a job.", "jobs"),
    Row(b"getjob", "[NOHANG] [TIMEOUT ms] [COUNT n] FROM queue [queue ...]", "Get jobs.", "jobs"),
    Row(b"ackjob", "id [id ...]", "Acknowledge jobs.", "jobs"),
    Row(b"qscan", "[cursor] [COUNT n] [BUSYLOOP]", "List queues.", "queues"),
    Row(b"pause", "queue option [option ...]", "Pause a queue.", "queues", PAUSE),
    Row(b"hello", "[2|3 [AUTH user password] [SETNAME name]]", "Introduce a client.", "connection"),
    Row(b"client", "subcommand [argument ...]", "Connections of clients.", "server", CLIENT),
    Row(b"ping", "[message]", "Answer PONG.", "connection"),
)


@pytest.fixture
def table() -> Table:
    return {row.name: row for row in ROWS}
