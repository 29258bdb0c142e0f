"""Buses on loopback, and owners that note what they are told. Nothing here sleeps: tests wait for what must happen."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from random import Random
from typing import Any, ClassVar, Final, Self

import uvloop

from cluster.bus import Bus
from cluster.frames import enclosed
from cluster.handshake import Dialer, Identity
from cluster.membership import Member
from cluster.messages import Message, frame

PATIENCE_S: Final = 10.0  # only a test that fails waits so long
LOOPBACK: Final = "127.0.0.1"


def in_loop(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a scene in a loop of its own.

    When it fails, its buses are closed first: a loop of uvloop's waits at its end for as long as something in it goes
    on, and a bus that has lost a peer tries to reach it for ever.
    """
    Station.all.clear()

    async def bounded() -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                await scene()
        except BaseException:
            for station in Station.all:
                await station.bus.close(0.0)
            raise

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(bounded())


async def turn() -> None:
    """Let the loop take one turn."""
    await asyncio.sleep(0)


class Notes:
    """An owner: notes everything."""

    def __init__(self, me: Identity) -> None:
        self.me = me
        self.events: list[tuple[Any, ...]] = []
        self.messages: list[tuple[bytes, Message]] = []
        self.returned: list[tuple[bytes, Message]] = []
        self.lines: list[str] = []
        self.use_link: Callable[[bytes, Identity], bool] = lambda _expected, _peer: True
        self.greet: Callable[[bytes], object] = lambda _peer: None
        self.on_received: Callable[[bytes, list[Message]], None] = lambda _peer, _messages: None

    def identity(self) -> Identity:
        return self.me

    def identified(self, expected_id: bytes, peer: Identity, ip: bytes) -> bool:
        self.events.append(("identified", expected_id, peer, ip))
        return self.use_link(expected_id, peer)

    def link_up(self, peer_id: bytes, start: int) -> None:
        self.events.append(("up", peer_id, start))
        self.greet(peer_id)

    def link_down(self, peer_id: bytes, *, refused: bool) -> None:
        self.events.append(("down", peer_id, refused))

    def heard(self, peer: Identity, ip: bytes, own_ip: bytes) -> None:
        self.events.append(("heard", peer.id, peer.start, ip, own_ip))

    def received(self, peer_id: bytes, messages: list[Message]) -> None:
        self.messages += [(peer_id, message) for message in messages]
        self.on_received(peer_id, messages)

    def undelivered(self, peer_id: bytes, messages: list[Message]) -> None:
        self.returned += [(peer_id, message) for message in messages]
        self.events.append(("undelivered", peer_id))

    def unreached(self, place: str, reason: str) -> None:
        self.events.append(("unreached", place, reason))

    def notice(self, text: str) -> None:
        self.lines.append(text)

    def verbose(self, text: str) -> None:
        self.notice(text)

    def kinds(self) -> list[str]:
        return [event[0] for event in self.events]

    def said(self, text: str) -> bool:
        return any(text in line for line in self.lines)

    async def until(self, there: Callable[[], object]) -> None:
        """Take turns of the loop until something is so."""
        while not there():
            await turn()

    async def until_event(self, *event: Any) -> None:
        await self.until(lambda: event in [one[: len(event)] for one in self.events])


class Station:
    """A bus that listens, with its owner."""

    all: ClassVar[list["Station"]] = []

    def __init__(self, letter: str, *, start: int = 0, secret: bytes = b"") -> None:
        node_id = letter.encode() * 40
        self.sock = socket.create_server((LOOPBACK, 0))
        self.port: int = self.sock.getsockname()[1]
        self.notes = Notes(Identity(node_id, start or ord(letter), 7711, self.port))
        self.bus = Bus(self.notes, asyncio.get_running_loop(), Random(1), os.urandom)
        self.bus.configure(secret, 15000, 1 << 20, 0)
        self.notes.greet = self._greet
        self.all.append(self)

    @property
    def id(self) -> bytes:
        return self.notes.me.id

    def _greet(self, peer_id: bytes) -> None:
        """Begin to speak, as nodes do at once."""
        link = self.bus.link(peer_id)
        assert link is not None
        link.send([], frame([]))

    async def listen(self) -> Self:
        await self.bus.listen([self.sock], 10)
        return self

    def node(self, node_id: bytes = b"") -> Member:
        """This station as others know it."""
        return Member(node_id or self.id, LOOPBACK.encode(), 7711, self.port)

    async def end(self) -> None:
        await self.bus.close(1.0)
        self.sock.close()


async def stations(letters: str, secret: bytes = b"") -> list[Station]:
    return [await Station(letter, secret=secret).listen() for letter in letters]


async def end(*ends: Station) -> None:
    for one in ends:
        await one.end()


async def join(one: Station, other: Station) -> None:
    """Link two stations, both ways."""
    one.bus.reconcile([other.node()])
    other.bus.reconcile([one.node()])
    await one.notes.until_event("up", other.id)
    await other.notes.until_event("up", one.id)
    await one.notes.until_event("heard", other.id)
    await other.notes.until_event("heard", one.id)


class Stranger:
    """A socket that says what it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def to(cls, station: Station) -> Self:
        return cls(*await asyncio.open_connection(LOOPBACK, station.port))

    def say(self, data: bytes) -> None:
        self.writer.write(data)

    async def payload(self) -> bytes:
        """Give the payload of the next frame. Raises IncompleteReadError when the connection ends before."""
        return await self.reader.readexactly(int.from_bytes(await self.reader.readexactly(4), "big"))

    async def rest(self) -> bytes:
        """Give what comes until the other side ends the connection, however it does that."""
        data = b""
        with suppress(ConnectionError):
            while some := await self.reader.read(1 << 16):
                data += some
        return data

    async def enter(self, me: Identity, secret: bytes = b"") -> None:
        """Do the handshake as a node does, and begin to speak."""
        dialer = Dialer(me, secret, os.urandom(32))
        self.say(enclosed(dialer.hello))
        self.say(enclosed(dialer.challenged(await self.payload())))
        dialer.welcomed(await self.payload())
        self.say(frame([]))

    def close(self) -> None:
        self.writer.transport.abort()


class Impostor:
    """A server that answers each connection as it likes."""

    def __init__(self, answer: Callable[[Stranger], Awaitable[None]]) -> None:
        self._answer = answer
        self._server: asyncio.Server | None = None
        self.guests: list[Stranger] = []
        self.port = 0

    async def listen(self) -> Self:
        self._server = await asyncio.start_server(self._serve, LOOPBACK, 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        guest = Stranger(reader, writer)
        self.guests.append(guest)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await self._answer(guest)

    def node(self, node_id: bytes) -> Member:
        return Member(node_id, LOOPBACK.encode(), 7711, self.port)

    def end(self) -> None:
        assert self._server is not None
        self._server.close()
        for guest in self.guests:
            guest.close()
