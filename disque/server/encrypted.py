"""One TLS client, between the bytes of its socket and its `Connection`.

An `Encrypted` has two roles. For the event loop it is the protocol of a TCP connection. For the `Connection` it is the
transport. OpenSSL works in memory between the two. The event loop has TLS of its own. It is not used, for four reasons:

- There, a connection in its handshake is counted nowhere. Here it counts towards `maxclients` and has ten seconds.
  OpenSSL begins with its first byte, so a client that sends nothing costs no more than a socket.
- There, encrypted bytes that were not sent yet are not counted, so output limits see only a part. Here all bytes are
  encrypted when they are written, and are kept by the transport of the loop. Its limits, pauses and sizes mean the same
  as for a plain connection.
- There, a client that has sent `close_notify` gets no more replies. Here it still gets the last ones.
- There, a handshake that fails is not reported. Here it is in the log, once a minute for each address.

Decrypted bytes are not kept here. Each piece is handed on whole. So when a connection is not read, its socket is not
read either. If OpenSSL rejects bytes of the other side, the connection ends.

OpenSSL takes about the same time for a record of one byte and for a large one, and nobody else is served meanwhile. So
it is given what came in slices. When the turn of the loop is long enough, the rest waits for later turns, in which each
client that has a rest takes one slice after the other ones. Until it is through, its socket is not read.
"""

import asyncio
import contextlib
import ssl
import traceback
from collections import OrderedDict
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, cast

from cluster.complaints import Complaints
from disque.core.auth import login
from disque.core.base import resp
from disque.server import listen
from disque.server.connection import Connection
from disque.server.pump import HANDSHAKES_BESIDE
from disque.server.tls import common_name, reason

if TYPE_CHECKING:
    from disque.server.pump import Pump

#: Seconds for the handshake.
HANDSHAKE_S: Final = 10.0
#: The first byte of a TLS connection.
HANDSHAKE_RECORD: Final = 0x16
#: What is encrypted in one go, in bytes: a larger reply is not in memory three times.
SLICE_BYTES: Final = 1 << 18
READ_BYTES: Final = 1 << 16
#: What OpenSSL is given in one go, in bytes. The first of what has just come is small: however long a turn is already,
#: each client may have one.
FIRST_BYTES: Final = 1 << 10
TAKE_BYTES: Final = 1 << 13
#: Seconds of a turn in which what is left of earlier ones is decrypted.
LEFT_S: Final = 0.002
PLAIN: Final = resp.error(b"ERR this port speaks TLS, and the client does not")


class TlsListener:
    """Where clients with TLS come in.

    ``waiting`` are those whose handshake is under way, the oldest first. ``left`` are those of whom something was read
    that is not decrypted yet, in the order of their turns.
    """

    def __init__(self, pump: "Pump", context: ssl.SSLContext) -> None:
        self.pump = pump
        self.context = context
        self.complaints = Complaints()
        self.waiting: dict[Encrypted, None] = {}
        self.left: OrderedDict[Encrypted, None] = OrderedDict()
        self._servers: list[asyncio.AbstractServer] = []

    async def listen(self, addresses: tuple[str, ...], port: int, backlog: int) -> None:
        """Take connections. Raises ListenError."""
        for sock in listen.tcp_sockets(addresses, port, backlog):
            loop = self.pump.loop
            self._servers.append(await loop.create_server(lambda: Encrypted(self), sock=sock, backlog=backlog))

    def close(self) -> None:
        """Take no more, and end all handshakes; clients stay."""
        for server in self._servers:
            server.close()
        self._servers.clear()
        for one in list(self.waiting):
            one.abort()

    def enter(self, one: "Encrypted") -> bool:
        """A handshake begins, if there is room."""
        pump = self.pump
        if pump.stopping or len(pump.connections) + pump.handshakes >= pump.maxclients + HANDSHAKES_BESIDE:
            pump.node.stats.rejected += 1
            return False
        self.waiting[one] = None
        pump.handshakes += 1
        return True

    def leave(self, one: "Encrypted") -> None:
        """A handshake has ended in whatever way. Doing it twice does no harm."""
        if one in self.waiting:
            del self.waiting[one]
            self.pump.handshakes -= 1

    def later(self, one: "Encrypted") -> None:
        """Let ``one`` go on in a later turn of the loop."""
        if not self.left:
            self.pump.loop.call_soon(self._go_on)
        self.left[one] = None

    def _go_on(self) -> None:
        """Let those go on that have something left, each for a slice, for a short time: the rest waits."""
        waiting, self.left = self.left, OrderedDict()
        until_s = perf_counter() + LEFT_S
        while waiting:
            one, _ = waiting.popitem(last=False)
            if one.go_on():
                waiting[one] = None
            if perf_counter() >= until_s:
                break
        for one in waiting:
            self.later(one)

    def complain(self, address: str, text: str) -> None:
        """Tell the log what a client does wrong, once a minute for each address."""
        if self.complaints.add(address, self.pump.loop.time()):
            self.pump.log.notice(f"{text} (addr={address})")


class Encrypted(asyncio.Transport, asyncio.Protocol):
    """One client with TLS."""

    __slots__ = (
        "_address",
        "_closing",
        "_connection",
        "_ended",
        "_eof",
        "_incoming",
        "_left",
        "_listener",
        "_outgoing",
        "_raw",
        "_reading",
        "_timer",
        "_tls",
        "_wanted",
    )

    _raw: asyncio.Transport

    def __init__(self, listener: TlsListener) -> None:
        super().__init__()
        self._listener = listener
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls: ssl.SSLObject | None = None
        self._connection: Connection | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._address = "?"
        #: The client sends nothing more.
        self._ended = False
        self._closing = False
        #: What was read and OpenSSL was not given yet, and whether there was an end behind it.
        self._left: bytes | memoryview = b""
        self._eof = False
        #: Whether the connection wants to read, and whether the socket is read.
        self._wanted = True
        self._reading = True

    # -- what the loop calls ---------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Let the handshake begin, or turn the client away without a word that it could not understand."""
        self._raw = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        self._address = str(peer[0]) if peer else "?"
        if self._listener.enter(self):
            self._timer = self._listener.pump.loop.call_later(HANDSHAKE_S, self._too_slow)
        else:
            self.abort()

    def data_received(self, data: bytes) -> None:
        """Take what the client sent, as far as this turn goes."""
        if self._closing or self._ended:
            return
        if self._left:
            self._left = bytes(self._left) + data  # a loop that did not stop at once
            return
        self._left = data
        pump = self._listener.pump
        pump.begin_turn()
        self._try_take(FIRST_BYTES, pump.turn_s + pump.turn_most_s)
        if self._left:
            self._listener.later(self)
            self._regulate()
        pump.end_turn()

    def go_on(self) -> bool:
        """Take a slice of what is left; whether there is more."""
        if self._closing:
            self._left = b""
            return False
        pump = self._listener.pump
        pump.begin_turn()
        self._try_take(TAKE_BYTES, 0.0)
        if not self._left:
            if self._eof and not self._closing and not self.eof_received():
                self._raw.close()
            self._regulate()
        pump.end_turn()
        return bool(self._left)

    def _try_take(self, size: int, enough_s: float) -> None:
        """Take something; no exception leaves, since the loop would only close the connection then."""
        try:
            self._take(size, enough_s)
        except ssl.SSLError as wrong:
            self._refuse(f"TLS failed: {reason(wrong)}")
        except Exception:  # noqa: BLE001 - whatever is wrong with one client, the others are served
            self._listener.pump.log.warning(f"A TLS client failed and is disconnected\n{traceback.format_exc()}")
            self.abort()

    def eof_received(self) -> bool:
        """The client sends nothing more, with goodbye or without: for requests it makes no difference."""
        if self._left:
            self._eof = True
            return True
        if self._connection is None:
            if self._tls is not None and not self._closing:
                self._listener.complain(self._address, "A client broke off the TLS handshake")
            return False
        return self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        """Take everything apart, so that nothing is left that refers to itself."""
        self._closing = True
        self._left = b""
        self._leave()
        connection, self._connection, self._tls = self._connection, None, None
        if connection is not None:
            connection.connection_lost(exc)

    def pause_writing(self) -> None:
        """The client does not read."""
        if self._connection is not None:
            self._connection.pause_writing()

    def resume_writing(self) -> None:
        """The client reads again."""
        if self._connection is not None:
            self._connection.resume_writing()

    # -- the handshake, and what is behind it ----------------------------------------------------------------------

    def _take(self, size: int, enough_s: float) -> None:
        """Decrypt what is left, slice by slice until the time is over, and hand it on in one piece."""
        left, self._left = self._left, b""  # nothing is left behind an error
        tls = self._tls or self._begin(left[0])
        if tls is None:
            return
        pieces: list[bytes] = []
        ended = False
        if len(left) > size:
            left = memoryview(left)
        while left and not ended:
            self._incoming.write(left[:size])
            left = left[size:]
            if self._connection is not None or self._shake_hands(tls):
                ended = self._read(tls, pieces)
            if self._closing:
                return
            if left and perf_counter() > enough_s:
                break
            size = TAKE_BYTES
        self._left = b"" if ended else left
        if self._outgoing.pending:
            self._send()
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        if data and self._connection is not None:
            self._connection.data_received(data)
        if ended:
            self._end()

    def _begin(self, first: int) -> ssl.SSLObject | None:
        """Have OpenSSL begin, or turn away who speaks no TLS: ``first`` is the first byte."""
        if first != HANDSHAKE_RECORD:
            self._raw.write(PLAIN)
            self._refuse("A client without TLS connected to the TLS port")
            return None
        self._tls = self._listener.context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        return self._tls

    def _shake_hands(self, tls: ssl.SSLObject) -> bool:
        """Go on with the handshake; whether it is done and the client was let in."""
        try:
            tls.do_handshake()
        except ssl.SSLWantReadError:
            self._send()
            return False
        self._send()
        self._leave()
        self._connection = Connection(self._listener.pump, "")
        self._connection.connection_made(self)
        if not self._closing and self._listener.pump.node.config.text("tls-auth-clients-user") == "CN":
            self._log_in(tls)
        return not self._closing

    def _log_in(self, tls: ssl.SSLObject) -> None:
        """Make the client the user that its certificate names."""
        name = common_name(tls.getpeercert() or {})
        if name and self._connection is not None:
            login.by_certificate(self._listener.pump.node, self._connection.session, name.encode())

    def _read(self, tls: ssl.SSLObject, pieces: list[bytes]) -> bool:
        """Decrypt all that OpenSSL was given; whether the client has said goodbye."""
        incoming, ended = self._incoming, False
        with contextlib.suppress(ssl.SSLWantReadError):  # the rest of a record is on its way
            while not ended and (incoming.pending or tls.pending()):
                pieces.append(tls.read(READ_BYTES))
                ended = not pieces[-1]
        return ended

    def _end(self) -> bool:
        """Let the connection know once that nothing more comes; whether it has still something to say."""
        if self._ended or self._connection is None:
            return True
        self._ended = True
        goes_on = self._connection.eof_received()
        if not goes_on:
            self.close()
        return goes_on

    def _too_slow(self) -> None:
        self._timer = None
        self._refuse(f"A client did not finish the TLS handshake within {HANDSHAKE_S:g} s")

    def _refuse(self, text: str) -> None:
        """Close at once, behind what OpenSSL has to say about it, and tell the log."""
        self._listener.complain(self._address, text)
        self._closing = True
        self._leave()
        self._send()
        if self._connection is None:
            self._raw.close()
        else:
            self._raw.abort()

    def _leave(self) -> None:
        """The handshake is over."""
        self._listener.leave(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _send(self) -> None:
        """Send what OpenSSL has made."""
        if self._outgoing.pending:
            self._raw.write(self._outgoing.read())

    # -- what the connection calls ---------------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt and send. Nothing is raised: others are served in the same turn."""
        if self._tls is None or self.is_closing():
            return
        try:
            for start in range(0, len(data), SLICE_BYTES):
                self._tls.write(data if len(data) <= SLICE_BYTES else memoryview(data)[start : start + SLICE_BYTES])
                self._send()
        except ssl.SSLError as wrong:
            self._refuse(f"TLS failed: {reason(wrong)}")

    def close(self) -> None:
        """Say goodbye behind what was written, and close without waiting for the other side's."""
        if self._closing:
            return
        self._closing = True
        if self._tls is not None and not self._raw.is_closing():
            with contextlib.suppress(ssl.SSLError):
                self._tls.unwrap()
            self._send()
        self._raw.close()

    def abort(self) -> None:
        """Close at once."""
        self._closing = True
        self._leave()
        self._raw.abort()

    def is_closing(self) -> bool:
        """Whether nothing more can be written."""
        return self._closing or self._raw.is_closing()

    def pause_reading(self) -> None:
        """Leave what the client sends to the system."""
        self._wanted = False
        self._regulate()

    def resume_reading(self) -> None:
        """Read again, behind what is left."""
        self._wanted = True
        self._regulate()

    def _regulate(self) -> None:
        """Read on, or not: the connection may not want to, or something is left."""
        reading = self._wanted and not self._left
        if reading != self._reading and not self._raw.is_closing():
            self._reading = reading
            if reading:
                self._raw.resume_reading()
            else:
                self._raw.pause_reading()

    def get_write_buffer_size(self) -> int:
        """Bytes that the system has not taken yet, as they are sent: some more than was written."""
        return self._raw.get_write_buffer_size()

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 - the shape of asyncio
        """What the TCP connection knows of itself."""
        return self._raw.get_extra_info(name, default)
