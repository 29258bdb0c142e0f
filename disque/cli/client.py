"""One blocking connection to a server: connect, log in, ask, read.

A shell does one thing at a time, so plain blocking sockets are enough. Two cases need care because *no* reply comes:
after CLIENT REPLY OFF or SKIP (the connection keeps count), and when the server closed the connection in the meantime
(`alive` checks that before a request is sent, so that a request is never sent twice).
"""

import select
import socket
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, Final, cast

from disque.cli.client_tls import Trust, TrustError, reason, secure
from disque.cli.shell_reply import ErrorReply, Push, ReplyError, read_reply

DEFAULT_PORT: Final = 7711


@dataclass(slots=True)
class Target:
    """Where to connect and as whom. The first of `addresses` that answers is taken; `path` is a unix socket instead.

    `resp` is 2 or 3; with `resp_wish` a server that refuses RESP3 is no reason for a warning. `timeout_s` bounds
    connecting, never waiting for a reply: GETJOB may wait for as long as it likes. With `trust` TLS is spoken over TCP.
    """

    addresses: list[tuple[str, int]] = field(default_factory=lambda: [("127.0.0.1", DEFAULT_PORT)])
    path: str | None = None
    user: str | None = None
    password: str | None = None
    resp: int = 2
    resp_wish: bool = False
    timeout_s: float | None = None
    trust: Trust | None = None


class ConnectError(Exception):
    """No address of the target could be reached; the message says which and why."""


class NotSentError(ConnectionError):
    """The connection was gone before a request was complete on it."""


class NoReply:
    """The server was told not to answer this request."""


NO_REPLY: Final = NoReply()


def address_name(host: str, port: int) -> str:
    """Write an address as `host:port`, with brackets around IPv6."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def pack(args: Sequence[bytes]) -> bytes:
    """Encode a request: an array of bulk strings."""
    parts = [b"*%d\r\n" % len(args)]
    parts.extend(b"$%d\r\n%s\r\n" % (len(arg), arg) for arg in args)
    return b"".join(parts)


class Connection:
    """A connection that can be closed and opened again; it is not open before `connect`.

    Pushes (RESP3) are handed to `on_push`, complaints of the handshake to `warn`.
    """

    def __init__(self, target: Target, warn: Callable[[str], None], on_push: Callable[[Push], None]) -> None:
        self.target = target
        self.name = target.path or address_name(*target.addresses[0])
        self._warn = warn
        self._on_push = on_push
        self._socket: socket.socket | None = None
        self._stream: BinaryIO | None = None
        self._silent = False
        self._skips_next = False

    @property
    def is_open(self) -> bool:
        """Whether there is a connection, as far as is known."""
        return self._socket is not None

    def connect(self) -> None:
        """Open the connection anew, authenticate and choose the protocol. Raises ConnectError."""
        self.close()
        opened = self._open_path() if self.target.path else self._open_address()
        opened.settimeout(None)
        self._socket = opened
        self._stream = cast("BinaryIO", opened.makefile("rb"))
        self._silent = self._skips_next = False
        self._introduce()

    def _open_path(self) -> socket.socket:
        opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        opened.settimeout(self.target.timeout_s)
        try:
            opened.connect(self.target.path or "")
        except OSError as error:
            opened.close()
            place = Path(self.target.path or "").absolute()
            raise ConnectError(f"Could not connect to Disque at {place}: {reason(error)}") from None
        return opened

    def _open_address(self) -> socket.socket:
        problems = []
        for host, port in self.target.addresses:
            try:
                opened = self._open_tcp(host, port)
            except (OSError, UnicodeError) as error:
                problems.append(f"Could not connect to Disque at {address_name(host, port)}: {reason(error)}")
                continue
            self.name = address_name(host, port)
            return opened
        raise ConnectError("\n".join(problems))

    def _open_tcp(self, host: str, port: int) -> socket.socket:
        opened = socket.create_connection((host, port), self.target.timeout_s)
        try:
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return opened if self.target.trust is None else secure(opened, host, self.target.trust)
        except TrustError as error:
            opened.close()
            raise ConnectError(str(error)) from None
        except OSError:
            opened.close()
            raise

    def _introduce(self) -> None:
        target = self.target
        try:
            if target.password is not None:
                words = [target.user, target.password] if target.user else [target.password]
                self._expect("AUTH", [b"AUTH", *(word.encode("utf-8", "surrogateescape") for word in words)])
            if target.resp == 3:
                self._expect("HELLO 3", [b"HELLO", b"3"], quiet=target.resp_wish)
        except (OSError, ReplyError) as error:
            self.close()
            raise ConnectError(f"Could not connect to Disque at {self.name}: {reason(error)}") from None

    def _expect(self, what: str, args: Sequence[bytes], *, quiet: bool = False) -> None:
        reply = self.call(args)
        if isinstance(reply, ErrorReply) and not quiet:
            self._warn(f"{what} failed: {reply.decode('utf-8', 'replace')}")

    def close(self) -> None:
        """Close the connection, if it is open."""
        if self._stream is not None:
            self._stream.close()
        if self._socket is not None:
            self._socket.close()
        self._socket = self._stream = None

    def alive(self) -> bool:
        """Look, without waiting, whether the server is still there; close this end if it is not."""
        if self._socket is None:
            return False
        try:
            readable, _, _ = select.select([self._socket], [], [], 0)
            if not readable or self._says_something():
                return True
        except OSError:
            pass
        self.close()
        return False

    def _says_something(self) -> bool:
        """Whether what there is to read is more than the end; with TLS it may be nothing that anybody would see."""
        if not isinstance(self._socket, ssl.SSLSocket):
            return self._socket is not None and bool(self._socket.recv(1, socket.MSG_PEEK))
        assert isinstance(self._stream, BufferedReader)
        self._socket.setblocking(False)
        try:
            return bool(self._stream.peek(1))
        except ssl.SSLWantReadError:
            return True
        finally:
            self._socket.setblocking(True)

    def send(self, args: Sequence[bytes]) -> None:
        """Send one request. Raises NotSentError when not all of it could be sent: then it does not run either."""
        if self._socket is None:
            raise NotSentError("Not connected")
        try:
            self._socket.sendall(pack(args))
        except OSError as error:
            raise NotSentError(f"Error writing to the server: {reason(error)}") from None

    def receive(self) -> object:
        """Wait for the next reply; pushes on the way go to `on_push`.

        Raises ConnectionResetError at the end of the stream, ReplyError for what is no RESP.
        """
        if self._stream is None:
            raise ConnectionResetError("Not connected")
        while True:
            reply = read_reply(self._stream)
            if not isinstance(reply, Push):
                return reply
            self._on_push(reply)

    def call(self, args: Sequence[bytes]) -> object:
        """Send one request and give its reply, or NO_REPLY when there will be none. Raises as send and receive do."""
        self.send(args)
        return self.receive() if self._is_answered(args) else NO_REPLY

    def _is_answered(self, args: Sequence[bytes]) -> bool:
        words = [word.upper() for word in args]
        if words[:2] == [b"CLIENT", b"REPLY"] and words[2:] in _REPLY_MODES:
            self._silent = words[2] == b"OFF" or (self._silent and words[2] == b"SKIP")
            self._skips_next = words[2] == b"SKIP"
            return words[2] == b"ON"
        answered = not (self._silent or self._skips_next)
        self._skips_next = False
        return answered

    def take_socket(self) -> socket.socket:
        """Give the bare socket to someone who speaks for themselves (`--pipe`). Nothing may be on its way."""
        if self._socket is None:
            raise ConnectionResetError("Not connected")
        return self._socket


_REPLY_MODES: Final = ([b"ON"], [b"OFF"], [b"SKIP"])
