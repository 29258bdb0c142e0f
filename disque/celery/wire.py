"""One connection to a node, for an event loop: requests go out, and replies are read when they are there.

redis-py makes the connection: TLS, the login, the protocol. From then on its socket never blocks.
"""

import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any, Final

import hiredis
from kombu.utils.eventio import ERR, READ, WRITE, poll
from redis.connection import Connection, SSLConnection
from redis.exceptions import ResponseError

from disque.client import UnavailableError
from disque.client.config import Address, Config
from disque.client.packing import pack
from disque.client.pool import TROUBLE_AT_FIRST, connection_options, half_close
from disque.client.router import Router

#: Bytes that are read at once.
CHUNK: Final = 1 << 16
#: What a socket says that has nothing to read, or no room.
NOT_NOW: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_MISSING: Final = object()


class Wire:
    """A connection to ``address``. ``on_close`` hears of its file descriptor before that is closed."""

    def __init__(self, config: Config, address: Address, on_close: Callable[[int], None]) -> None:
        kind = SSLConnection if config.tls else Connection
        self.address = address
        self.ended = False
        self._timeout_s = config.timeout_ms / 1000
        self._on_close = on_close
        self._reader = hiredis.Reader(replyError=ResponseError, notEnoughData=_MISSING)
        self._connection = kind(socket_timeout=self._timeout_s, **connection_options(config, address))
        try:
            self._connection.connect()
        except BaseException:
            self._connection.disconnect()
            raise
        self._socket: Any = getattr(self._connection, "_sock")  # noqa: B009 - redis-py has no other way to its socket
        self._socket.setblocking(False)

    def fileno(self) -> int:
        """What a poller needs."""
        fd: int = self._socket.fileno()
        return fd

    def send(self, words: Sequence[bytes]) -> None:
        """Send a request. Raises OSError."""
        left = memoryview(pack(words))
        deadline_s = monotonic() + self._timeout_s
        while left:
            try:
                left = left[self._socket.send(left) :]
            except NOT_NOW:
                if not is_ready(self, WRITE, deadline_s - monotonic()):
                    raise TimeoutError("the node takes nothing") from None

    def replies(self) -> list[Any]:
        """What has come, errors among it as values; ``ended`` says that nothing more will. Raises nothing."""
        try:
            while data := self._socket.recv(CHUNK):
                self._reader.feed(data)
            self.ended = True
        except NOT_NOW:
            pass
        except (OSError, ValueError):
            self.ended = True
        found: list[Any] = []
        with suppress(hiredis.ProtocolError):
            while (reply := self._reader.gets()) is not _MISSING:
                found.append(reply)
            return found
        self.ended = True
        return found

    def finish(self, patience_s: float) -> list[Any]:
        """Say that nothing more will be asked, and give what still comes; a node that waits for jobs stops waiting."""
        half_close(self._connection)
        found = self.replies()
        deadline_s = monotonic() + patience_s
        while not self.ended and is_ready(self, READ | ERR, deadline_s - monotonic()):
            found += self.replies()
        return found

    def abandon(self) -> None:
        """In a child process: close our copy of the socket. The connection of the parent stays as it is."""
        self._socket.close()

    def close(self) -> None:
        """Close it."""
        fd = self.fileno()
        if fd >= 0:
            self._on_close(fd)
        self._connection.disconnect()


def is_ready(wire: Wire, event: int, timeout_s: float) -> bool:
    """Whether a connection can be read or written within so many seconds."""
    poller = poll()
    try:
        poller.register(wire.fileno(), event)
        return bool(poller.poll(max(0.0, timeout_s)))
    finally:
        poller.close()


def opened(config: Config, router: Router, on_close: Callable[[int], None]) -> Wire:
    """A connection to the node in use, or to the next one that can be reached. Raises UnavailableError."""
    tried: list[Address] = []
    failures: list[tuple[str, Exception]] = []
    while (address := router.choose(tried)) is not None:
        try:
            return Wire(config, address, on_close)
        except TROUBLE_AT_FIRST as error:
            tried.append(address)
            router.failed(address)
            failures.append((f"{address[0]}:{address[1]}", error))
    raise UnavailableError.of("no node could be reached", failures)
