"""A server on loopback that answers as it is told, one thread for all its connections, with TLS if wanted."""

import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

import hiredis

from disque.client.packing import pack

PATIENCE_S: Final = 30
HELLO_3: Final = b"%2\r\n$6\r\nserver\r\n$6\r\ndisque\r\n$5\r\nproto\r\n:3\r\n"

#: Replies to a request: bytes to send, None to close the connection, nothing to stay silent.
Answer = Callable[[list[bytes]], bytes | None]
SILENCE: Final = b""


class Served:
    """Accepts connections and answers each request with ``answer``; HELLO by itself, ``handshake`` to logins."""

    def __init__(self, answer: Answer, context: ssl.SSLContext | None = None, handshake: bytes = b"") -> None:
        self.answer = answer
        self.handshake = handshake
        self.context = context
        self.requests: list[list[bytes]] = []
        self.connections = 0
        self.hello = b"*2\r\n:1\r\n$2\r\nid\r\n"
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._accept = threading.Thread(target=self._serve, daemon=True)

    @property
    def address(self) -> tuple[str, int]:
        host, port = self._listener.getsockname()
        return host, port

    def named(self, name: bytes) -> list[list[bytes]]:
        """The requests with this name."""
        return [words for words in self.requests if words[0] == name]

    def tells(self, *nodes: tuple[str, int]) -> None:
        """Let HELLO tell of these nodes."""
        rows = [pack([b"node %d" % port, host.encode(), b"%d" % port, b"1"]) for host, port in nodes]
        self.hello = b"*%d\r\n:1\r\n$2\r\nid\r\n" % (2 + len(rows)) + b"".join(rows)

    def drop(self) -> None:
        """Close all connections."""
        while self._open:
            connection = self._open.pop()
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._talk, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _talk(self, plain: socket.socket) -> None:
        plain.settimeout(PATIENCE_S)
        try:
            connection = self.context.wrap_socket(plain, server_side=True) if self.context else plain
        except OSError:
            plain.close()
            return
        self.connections += 1
        self._open.append(connection)
        with connection, suppress(OSError, hiredis.ProtocolError):
            self._converse(connection, hiredis.Reader(notEnoughData=...))

    def _converse(self, connection: socket.socket, reader: Any) -> None:
        while True:
            data = connection.recv(65536)
            reader.feed(data)
            while (words := reader.gets()) is not ...:
                self.requests.append(words)
                reply = self._reply(words)
                if reply is None:
                    return
                connection.sendall(reply)
            if not data:
                return

    def _reply(self, words: list[bytes]) -> bytes | None:
        if words[0] == b"HELLO" and len(words) > 1:
            return self.handshake or HELLO_3
        if words[0] == b"AUTH":
            return self.handshake or b"+OK\r\n"
        if words == [b"HELLO"]:
            return self.hello
        return self.answer(words)

    def __enter__(self) -> Self:
        self._accept.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.drop()
        for thread in [self._accept, *self._threads]:
            thread.join(PATIENCE_S)
