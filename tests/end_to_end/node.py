"""A real server process for a test: started, asked, killed, stopped and started again, always gone at the end."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from random import SystemRandom
from typing import Any, Final, Self, TypeVar

import hiredis
import psutil
import redis

from tests.end_to_end import forks
from tests.end_to_end.forks import Forked

ROOT: Final = Path(__file__).resolve().parents[2]
PATIENCE_S: Final = 60.0  # how long anything may take before a test is given up: nothing is measured by it
POLL_S: Final = 0.005
SLOW_POLL_S: Final = 0.05  # where asking costs the server something
LOOPBACK: Final = "127.0.0.1"
PORTS: Final = range(12000, 22000)  # below those that the system gives to clients, and so is port + 10000, the bus
#: Tests that run side by side have ports of their own: a node that is killed finds its port free when it starts again.
WORKERS: Final = 8
WORKER: Final = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % WORKERS

Word = str | bytes | int
T = TypeVar("T")


def until(
    ask: Callable[[], T], what: str | Callable[[], str], poll_s: float = POLL_S, patience_s: float = PATIENCE_S
) -> T:
    """Ask until the answer is true, and give it. `what` was waited for in vain is found out last."""
    deadline = time.monotonic() + patience_s
    while not (answer := ask()):
        if time.monotonic() > deadline:
            message = f"still waiting for {what if isinstance(what, str) else what()}"
            raise AssertionError(message)
        time.sleep(poll_s)
    return answer


def free_port() -> int:
    """Give a port that nobody uses, on all addresses, and whose bus port is free too."""
    while True:
        port = SystemRandom().choice(PORTS[WORKER::WORKERS])  # hypothesis seeds the common one
        with suppress(OSError), closing(socket.socket()) as one, closing(socket.socket()) as other:
            one.bind(("", port))
            other.bind(("", port + 10000))
            return port


def request(*words: Word) -> bytes:
    """Encode a request as clients do."""
    encoded = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(encoded) + b"".join([b"$%d\r\n%b\r\n" % (len(word), word) for word in encoded])


class ServerError(Exception):
    """An error reply."""


class Raw:
    """A socket, for what no client library would send. Replies: bytes, int, None, lists; ServerError is returned."""

    def __init__(self, address: tuple[str, int] | str, patience_s: float = PATIENCE_S) -> None:
        if isinstance(address, str):
            self.socket = socket.socket(socket.AF_UNIX)
            try:
                self.socket.connect(address)
            except OSError:
                self.socket.close()
                raise
        else:
            self.socket = socket.create_connection(address, patience_s)
        self.socket.settimeout(patience_s)
        self._reader = hiredis.Reader(replyError=ServerError, notEnoughData=...)

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def reply(self) -> Any:
        """Give the next reply; EOFError when the server has closed the connection."""
        while (reply := self._reader.gets()) is ...:
            data = self.receive()
            if not data:
                raise EOFError
            self._reader.feed(data)
        return reply

    def receive(self) -> bytes:
        """Give some bytes as they come, b"" at the end, however that came about."""
        try:
            return self.socket.recv(1 << 20)
        except ConnectionError:
            return b""

    def ask(self, *words: Word) -> Any:
        self.send(request(*words))
        return self.reply()

    def all(self) -> bytes:
        """Give everything that comes until the server closes the connection."""
        return b"".join(iter(self.receive, b""))

    def end(self) -> None:
        """Say that nothing more will be sent, unless the server has ended the connection already."""
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self.socket.close()


class Node:
    """A server with a directory of its own. Options are words of the command line, without the port.

    It listens at `host`; `prefix` are words before its command, such as those that enter a network namespace.
    """

    def __init__(self, directory: Path, *options: str, host: str = LOOPBACK, prefix: tuple[str, ...] = ()) -> None:
        self.directory = directory
        self.options = options
        self.host = host
        self.prefix = prefix
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | Forked | None = None
        self._clients: list[redis.Redis] = []
        self._raws: list[Raw] = []

    # -- the process -----------------------------------------------------------------------------------------------

    @property
    def command(self) -> list[str]:
        own = ["--port", str(self.port), "--dir", str(self.directory), "--bind", self.host]
        return [*self.prefix, *forks.SERVE, *own, *self.options]

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def launch(self, *options: str, command: list[str] | None = None) -> Self:
        """Start the process and do not wait for anything."""
        assert self.process is None
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
        words = [*(command or self.command), *options]
        environment = {**os.environ, "PYTHONPATH": path}
        with self.log_path.open("ab") as log:
            if forks.can_start(words):
                self.process = forks.start(words, self.directory, environment, log.fileno())
            else:
                self.process = subprocess.Popen(
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    cwd=self.directory,
                    env=environment,
                )
        return self

    def start(self, *options: str) -> Self:
        """Start the process and wait until it has loaded its journal and answers."""
        self.launch(*options)
        return self.await_ready()

    def await_ready(self) -> Self:
        until(self._ready, f"port {self.port}")
        return self

    def _ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, f"the server has ended:\n{self.log()}"
        try:
            with closing(Raw((self.host, self.port))) as raw:
                reply = raw.ask("PING")
        except (OSError, EOFError):
            return False
        return not (isinstance(reply, ServerError) and str(reply).startswith("LOADING"))

    def kill(self) -> None:
        """Kill -9."""
        assert self.process is not None
        self.process.kill()
        self.ended()

    def stop(self) -> int:
        """End it with SIGTERM; give the exit code."""
        self.signal(signal.SIGTERM)
        return self.ended()

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def ended(self) -> int:
        """Wait for the end of the process and give its exit code."""
        assert self.process is not None
        code = self.process.wait(PATIENCE_S)
        self.process = None
        self.hang_up()
        return code

    def hang_up(self) -> None:
        """Close all clients that the test has not closed."""
        for client in self._clients:
            client.close()
        for raw in self._raws:
            raw.close()
        self._clients.clear()
        self._raws.clear()

    def discard(self) -> None:
        """End it by all means."""
        self.hang_up()
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def rss(self) -> int:
        memory: int = psutil.Process(self.pid).memory_info().rss
        return memory

    # -- its clients -----------------------------------------------------------------------------------------------

    def client(self, **options: Any) -> Any:
        """Give a client of redis-py; it is Any here, since its types know nothing of Disque's replies."""
        words: dict[str, Any] = {"host": self.host, "port": self.port, "socket_timeout": PATIENCE_S}
        client = redis.Redis(**(words | options))
        self._clients.append(client)
        return client

    def raw(self) -> Raw:
        raw = Raw((self.host, self.port))
        self._raws.append(raw)
        return raw

    def ask(self, *words: Word) -> Any:
        """Send one request on a connection of its own; give its reply as `Raw` does."""
        with closing(Raw((self.host, self.port))) as raw:
            return raw.ask(*words)

    def info(self, key: str) -> str:
        """Give a field of INFO."""
        for line in self.ask("INFO").decode().splitlines():
            name, _, value = line.partition(":")
            if name == key:
                found: str = value
                return found
        raise KeyError(key)

    # -- its files -------------------------------------------------------------------------------------------------

    @property
    def log_path(self) -> Path:
        return self.directory / "log.txt"

    def log(self) -> str:
        return self.log_path.read_text() if self.log_path.exists() else ""

    def await_log(self, text: str) -> None:
        until(lambda: text in self.log(), f"{text!r} in the log")

    def segments(self) -> list[Path]:
        """Give the files of the journal, oldest first."""
        return sorted(self.directory.glob("disque.aof.*"))


def drain(ask: Callable[..., Any], queue: str) -> Iterator[tuple[bytes, bytes]]:
    """Take all that is queued; give (id, body)."""
    while jobs := ask("GETJOB", "NOHANG", "COUNT", 1000, "FROM", queue):
        for _, job_id, body in jobs:
            yield job_id, body
