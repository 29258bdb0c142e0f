"""One TCP connection between two nodes. A node sends its messages to another one over the link that it opened itself.

A link begins with the handshake (`handshake`), with short frames and a time limit. Then frames of messages go from the
side that connected to the other one, and nothing comes back. It always ends hard: the system drops at once what was not
sent (SO_LINGER 0). So nothing of it arrives after a new link has begun to send.

Outgoing. A frame is handed to the transport. If the transport is full (the other node does not read, or the network is
slow), frames wait here, up to a limit. Beyond the limit the link is closed. Large bodies have a limit of their own, as
much as all jobs may take: beyond it some must be of jobs that are done, and those are not sent over a new link. When a
link ends, no byte of the frames that waited here was sent. For those that the transport had, it is unknown. PING and
PONG do not wait behind jobs: they go before all frames of which no byte was sent. Large frames are sent in pieces, a
bounded amount in each event loop iteration.

Incoming. A connection is counted from the accept on, before TLS too, and has one time limit for both handshakes
together. A link counts from its first frame on, see `bus`. Messages are handed on in slices: after some milliseconds
the link stops reading and goes on in the next event loop iteration. So a peer that sends much does not block others.
"""

import asyncio
import socket
import ssl
import struct
from collections import deque
from contextlib import suppress
from time import perf_counter
from typing import TYPE_CHECKING, Final, cast

from cluster.complaints import tls_reason
from cluster.frames import FrameReader, FrameTooLongError, enclosed
from cluster.handshake import FRAME_MOST, Acceptor, Dialer, HandshakeError, Identity, refusal
from cluster.large import LARGE_BODY, BadFrameError
from cluster.messages import Message, decode

if TYPE_CHECKING:
    from cluster.bus import Bus
    from cluster.peer import Peer

#: A frame with its length: whole, or in pieces if it is large.
Frame = bytes | list[bytes]

#: Seconds for the handshake.
HANDSHAKE_S: Final = 5.0
#: The host of a connection whose other side is gone.
UNKNOWN: Final = "?"
#: Seconds that a link hands on messages before others have their turn. Between two looks at the clock are so many
#: messages, or so many bytes of them: as long as those of their frame are on average.
SLICE_S: Final = 0.004
SLICE_MESSAGES: Final = 16
SLICE_BYTES: Final = 1 << 14
#: Seconds that a frame is under way before it is looked at whether it can be one.
LONG_S: Final = 1.0
#: Bytes that the transport may hold before frames wait in the link, and when they go on.
HIGH_WATER: Final = 1 << 20
LOW_WATER: Final = 1 << 18
#: Bytes of large frames that one write has, and one turn of the loop.
PIECE_BYTES = 1 << 18  # not Final: tests want less
TURN_BYTES = 1 << 22  # not Final: tests want less
#: Close at once and throw away what was not sent.
NO_LINGER: Final = struct.pack("ii", 1, 0)


class Link(asyncio.Protocol):
    """What both directions have in common. ``address`` is that of the other side, ``peer`` who it is once proven."""

    __slots__ = ("_timer", "address", "bus", "closed", "proven", "reader", "transport")

    transport: asyncio.Transport
    peer: Identity

    def __init__(self, bus: "Bus") -> None:
        self.bus = bus
        self.reader = FrameReader(FRAME_MOST)
        self.address = UNKNOWN
        self.proven = False
        self.closed = False
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake."""
        self.transport = cast("asyncio.Transport", transport)
        self.address = host_of(transport.get_extra_info("peername"))
        sock = transport.get_extra_info("socket")
        with suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._timer = self.bus.loop.call_later(HANDSHAKE_S, self._too_slow)
        self.begin()

    def begin(self) -> None:
        """The connection stands."""

    def data_received(self, data: bytes) -> None:
        """Take what the other side sent."""
        if self.closed:
            return
        self.bus.bytes_received += len(data)
        try:
            self.reader.feed(data)
        except BadFrameError as wrong:
            self.bus.complain(self.address, f"Closed the link with {self.address}: {wrong}")
            self.close()
            return
        if self.proven:
            self.work()
        else:
            self._shake_hands()

    def _shake_hands(self) -> None:
        try:
            payload = self.reader.next()
            if payload is not None:
                self._check_end()
                self.step(payload)
        except FrameTooLongError:
            self.refuse(HandshakeError("this is not a handshake"))
        except HandshakeError as wrong:
            self.refuse(wrong)

    def _check_end(self) -> None:
        """A peer must wait for an answer before it sends the next step. Raises HandshakeError."""
        if len(self.reader):
            raise HandshakeError("unexpected bytes after a step of the handshake")

    def step(self, payload: bytes) -> None:
        """Take one step of the handshake. Raises HandshakeError."""
        raise NotImplementedError

    def work(self) -> None:
        """Take frames of a peer that has proven itself."""
        raise NotImplementedError

    def write(self, payload: bytes) -> None:
        """Send a step of the handshake."""
        self.transport.write(enclosed(payload))

    def passed(self) -> None:
        """The handshake is over."""
        self.proven = True
        self.reader.most = self.bus.frame_most
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def refuse(self, wrong: HandshakeError) -> None:
        """End the link because of what the other side did; tell it why if it can understand that."""
        if self.closed:
            return
        self.bus.complain(self.address, f"Refused a link with {self.address}: {wrong}")
        if wrong.tell:
            self.write(refusal(wrong.tell))
            self.closed = True
            self.transport.close()
        else:
            self.close()

    def _too_slow(self) -> None:
        self._timer = None
        self.refuse(HandshakeError(f"no handshake within {HANDSHAKE_S:.0f} s"))

    def close(self) -> None:
        """End the link here and now: nothing that was not sent arrives later."""
        self.closed = True
        sock = self.transport.get_extra_info("socket")
        if sock is not None:
            with suppress(OSError, ValueError):  # ValueError: closed a moment ago, the transport has no socket any more
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the bus. To be told twice does no harm: that happens when a connection ends within the TLS handshake."""
        del exc
        self.closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.lost()

    def lost(self) -> None:
        """The link has ended."""
        raise NotImplementedError


class Incoming(Link):
    """A link over which another node speaks. ``heard_s`` is when it last did, ``busy`` that it has more to say."""

    __slots__ = ("_at", "_count", "_early", "_encrypting", "_looked", "_messages", "_shake", "_silent", "_since_s",
                 "_step", "busy", "came", "heard_s", "peer")  # fmt: skip

    def __init__(self, bus: "Bus") -> None:
        super().__init__(bus)
        self._shake: Acceptor | None = None
        #: The TLS handshake, while it is under way.
        self._encrypting: asyncio.Task[None] | None = None
        #: What has come before that could begin; None: it has begun.
        self._early: bytearray | None = None
        self._messages: list[Message] = []
        self._at = 0
        self._step = SLICE_MESSAGES
        self._silent = True
        self.busy = False
        self.heard_s = 0.0
        #: Bytes have come since the bus was asked (`Bus.sending`).
        self.came = False
        #: The number of the frame that is under way, since when, and whether it was looked at.
        self._count = 0
        self._since_s = 0.0
        self._looked = False

    def begin(self) -> None:
        """A process has connected."""
        if self.address == UNKNOWN:
            self.close()  # it has gone before anybody could ask where it is
            return
        wrong = self.bus.knock(self)
        if wrong:
            self.refuse(HandshakeError(wrong))
        elif self.bus.server_tls is not None:
            self.transport.pause_reading()  # uvloop is not stopped by that: it begins to read after this call
            self._early = bytearray()
            self._encrypting = self.bus.loop.create_task(self._encrypt(self.bus.server_tls))

    async def _encrypt(self, tls: ssl.SSLContext) -> None:
        """Do the TLS handshake. The link is there from the start, so that it counts, and its timer ends it."""
        if self.closed:
            return
        found: asyncio.Transport | None = None
        early, self._early = self._early, None
        if early:
            self.bus.loop.call_soon(self._hand_over, early)
        try:
            found = await self.bus.loop.start_tls(self.transport, self, tls, server_side=True)
        except OSError as wrong:
            self.refuse(HandshakeError(f"TLS failed: {tls_reason(wrong)}"))
        finally:
            self._encrypting = None
        if found is not None:
            self.transport = found
        if self.closed or found is None:  # the loop tells nobody of a connection that ends within the handshake
            self.close()
            self.connection_lost(None)
        elif len(self.reader):
            self._shake_hands()

    def _hand_over(self, early: bytearray) -> None:
        """Give what came too early to the TLS handshake, which takes it when it begins."""
        protocol = cast("asyncio.BufferedProtocol", self.transport.get_protocol())
        while early and not self.closed:
            room = memoryview(protocol.get_buffer(len(early)))
            count = min(len(room), len(early))
            room[:count] = early[:count]
            protocol.buffer_updated(count)
            del early[:count]

    def data_received(self, data: bytes) -> None:
        """Take what the other side sent; what comes with the end of the TLS handshake waits for its last step."""
        if self._encrypting is None:
            super().data_received(data)
        elif self._early is not None:
            self._early += data
        elif not self.closed:
            self.bus.bytes_received += len(data)
            self.reader.feed(data)

    def step(self, payload: bytes) -> None:
        """HELLO, then PROOF."""
        bus = self.bus
        if self._shake is None:
            self._shake = Acceptor(bus.owner.identity(), bus.secret, bus.nonce())
            self.write(self._shake.greeted(payload))
            return
        welcome = self._shake.proven(payload)
        self.peer = self._shake.peer
        wrong = bus.objection(self)
        if wrong:
            raise HandshakeError(wrong, wrong)
        self.write(welcome)
        self._shake = None
        self.passed()

    def work(self) -> None:
        """Hand on what is complete, as far as this turn goes."""
        self.came = True
        self.heard_s = self.bus.loop.time()
        if self._silent:
            self._silent = False
            self.bus.entered(self)
        if not self.busy:
            self._hand_on()

    def _go_on(self) -> None:
        self.busy = False
        if not self.closed:
            self.transport.resume_reading()
            self._hand_on()

    def _hand_on(self) -> None:
        received = self.bus.owner.received
        until_s = perf_counter() + SLICE_S
        try:
            while not self.closed:
                messages, at = self._messages, self._at
                if at >= len(messages):
                    payload = self.reader.next()
                    if payload is None:
                        return
                    self._messages = decode(payload, self.reader.bodies)
                    self._at = 0
                    in_bytes = SLICE_BYTES * len(self._messages) // max(1, len(payload))
                    self._step = max(1, min(SLICE_MESSAGES, in_bytes))
                    continue
                some = messages if len(messages) <= self._step else messages[at : at + self._step]
                self._at = at + len(some)
                received(self.peer.id, some)
                if perf_counter() >= until_s:
                    self._pause()
                    return
        except (BadFrameError, FrameTooLongError) as wrong:
            self._give_up(wrong)

    def look(self, now_s: float) -> None:
        """See whether the frame that is under way can be one, if it takes long. Its length may be damaged."""
        reader = self.reader
        if self.busy or not len(reader) or self._count != reader.count:
            self._count, self._since_s, self._looked = reader.count, now_s, False
        elif not self._looked and now_s - self._since_s >= LONG_S:
            self._looked = True
            try:
                reader.check()
            except BadFrameError as wrong:
                self._give_up(wrong)

    def _give_up(self, wrong: Exception) -> None:
        self.bus.complain(self.address, f"Closed the link of node {self.peer.id.decode()}: {wrong}")
        self.close()

    def _pause(self) -> None:
        """Let others have their turn."""
        if not self.closed and (self._at < len(self._messages) or len(self.reader)):
            self.busy = True
            self.transport.pause_reading()
            self.bus.loop.call_soon(self._go_on)

    def lost(self) -> None:
        """The other node has ended the link, or this one."""
        self._messages = []
        self.bus.incoming_lost(self)


class Outgoing(Link):
    """A link over which this node speaks to ``whom``. ``choked``: what is sent now waits behind other frames."""

    __slots__ = ("_finishing", "_full", "_pieces", "_resting", "_shake", "choked", "large_bytes", "peer", "queue",
                 "queued_bytes", "up_s", "urgent", "whom", "why")  # fmt: skip

    def __init__(self, bus: "Bus", whom: "Peer") -> None:
        super().__init__(bus)
        self.whom = whom
        self._shake: Dialer | None = None
        self._finishing = False
        #: What is wrong with the other side if the link ends now; "" once it has proven itself.
        self.why = "it closed the connection instead of a handshake, so it is not a node of this kind"
        self.choked = False
        #: The transport has enough; and: this turn of the loop has had enough, the next one goes on.
        self._full = False
        self._resting = False
        #: Frames that wait for the transport, with the messages in them; those in ``urgent`` go first.
        self.queue: deque[tuple[list[Message], Frame]] = deque()
        self.urgent: deque[Frame] = deque()
        #: What is left of the frame that has begun to leave.
        self._pieces: deque[bytes | memoryview] = deque()
        #: What waits: large bodies, which are those of jobs, as long as these are there; and all the rest.
        self.large_bytes = 0
        self.queued_bytes = 0
        #: When the link was there, in seconds of the loop; 0 before.
        self.up_s = 0.0

    def begin(self) -> None:
        """The other side has accepted the connection."""
        self.transport.set_write_buffer_limits(HIGH_WATER, LOW_WATER)
        self._shake = Dialer(self.bus.owner.identity(), self.bus.secret, self.bus.nonce())

    def introduce(self) -> None:
        """Say who wants to talk: the link is of use."""
        assert self._shake is not None
        self.write(self._shake.hello)

    def step(self, payload: bytes) -> None:
        """CHALLENGE, then WELCOME."""
        shake = self._shake
        assert shake is not None
        if not shake.is_challenged:
            self.write(shake.challenged(payload))
            return
        shake.welcomed(payload)
        self.why = ""
        self.peer = shake.peer
        self._shake = None
        self.passed()
        self.bus.reached(self)

    def refuse(self, wrong: HandshakeError) -> None:
        """Keep the reason: it may have to be said with the name under which this node was looked for."""
        self.why = str(wrong)
        super().refuse(wrong)

    def work(self) -> None:
        """Nothing comes this way."""
        self.bus.complain(self.address, f"Closed the link to node {self.peer.id.decode()}: it sent unexpected data")
        self.close()

    def send(self, messages: list[Message], frame: Frame, *, urgent: bool = False) -> None:
        """Send a frame, or keep it until the transport takes more."""
        if not self.choked and isinstance(frame, bytes):
            self.bus.bytes_sent += len(frame)
            self.transport.write(frame)
            return
        size = counted(frame)
        if urgent:
            self.urgent.append(frame)
        else:
            self.queue.append((messages, frame))
        large = size_of(frame) - size
        self.queued_bytes += size
        self.large_bytes += large
        if not self.choked:
            self._let_go()
        elif self.queued_bytes - size > self.bus.queue_most:
            self._give_up("it does not read what it is sent")
        elif self.large_bytes - large > self.bus.large_most:
            self._give_up("more bodies wait for it than jobs may take memory")

    def _give_up(self, why: str) -> None:
        """Too much waits: begin anew, with what still matters then."""
        self.bus.owner.notice(f"Gave up the link to node {self.peer.id.decode()}: {why}")
        self.close()

    def pause_writing(self) -> None:
        """The transport has enough."""
        self._full = self.choked = True

    def resume_writing(self) -> None:
        """The transport takes more."""
        self._full = False
        self._let_go()

    def _let_go(self) -> None:
        """Hand over what waits, until the transport has enough or this turn of the loop."""
        if self._resting:
            return
        self.choked = True
        left = TURN_BYTES
        while left > 0 and not self._full and not self.closed:
            piece = self._next_piece()
            if piece is None:
                self.choked = False
                return
            left -= len(piece)
            self.bus.bytes_sent += len(piece)
            self.transport.write(piece)
        if not self._full and not self.closed:
            self._resting = True
            self.bus.loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._resting = False
        if not self.closed:
            self._let_go()

    def _next_piece(self) -> bytes | memoryview | None:
        """What leaves next: nothing comes between the pieces of a frame."""
        pieces = self._pieces
        if not pieces:
            if self.urgent:
                frame = self.urgent.popleft()
            elif self.queue:
                _, frame = self.queue.popleft()
            else:
                return None
            size = counted(frame)
            self.queued_bytes -= size
            self.large_bytes -= size_of(frame) - size
            if isinstance(frame, bytes):
                return frame
            pieces += cut(frame)
        return pieces.popleft()

    def finish(self) -> None:
        """Let go what waits, then end the link: for a node that stops."""
        self.closed = True
        while (piece := self._next_piece()) is not None:
            self.transport.write(piece)
        self.transport.close()

    def lost(self) -> None:
        """The other node has ended the link, or this one."""
        self.bus.outgoing_lost(self)


def counted(frame: Frame) -> int:
    """The bytes of a frame without its large bodies."""
    return len(frame) if isinstance(frame, bytes) else sum([len(one) for one in frame if len(one) < LARGE_BODY])


def size_of(frame: Frame) -> int:
    """All bytes of a frame."""
    return len(frame) if isinstance(frame, bytes) else sum(map(len, frame))


def cut(frame: list[bytes]) -> list[bytes | memoryview]:
    """A large frame in pieces of a length that one write may have. No byte is copied."""
    pieces: list[bytes | memoryview] = []
    for part in frame:
        if len(part) <= PIECE_BYTES:
            pieces.append(part)
        else:
            view = memoryview(part)
            pieces += [view[at : at + PIECE_BYTES] for at in range(0, len(part), PIECE_BYTES)]
    return pieces


async def connected(loop: asyncio.AbstractEventLoop, sock: socket.socket, address: tuple[object, ...]) -> socket.socket:
    """Connect a new socket, or close it. Raises OSError."""
    try:
        sock.setblocking(False)
        await loop.sock_connect(sock, address)
    except BaseException:
        sock.close()
        raise
    return sock


def host_of(address: object) -> str:
    """The host in an address of asyncio's."""
    return str(address[0]).removeprefix("::ffff:") if isinstance(address, tuple) and address else UNKNOWN
