"""Connections of redis-py to many nodes, and exchanges over them, with asyncio. See `pool`.

Time limits are set here, around a whole step, since those of redis-py would cost a task for each send. An exchange that
is cancelled closes its connection.

Thousands of tasks may ask at once. Were each to open a connection, their handshakes would hold up each other until the
time of all is over. So there are `Lines` for each node.
"""

import asyncio
import math
import socket
from collections import deque
from contextlib import suppress
from typing import Final, Literal

from redis.asyncio.connection import Connection, SSLConnection
from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from disque.client.config import Address, Config
from disque.client.delivery import HELLO, Exchange, Kind, Outcome
from disque.client.packing import pieces
from disque.client.pool import IDLE_MOST, TROUBLE, TROUBLE_AT_FIRST, Learn, connection_options

#: So many replies are read before the time limit begins anew.
REPLIES_A_LIMIT: Final = 64
#: Requests under way at one node, by what it may wait for. Those that are answered at once have as many connections as
#: are kept idle. Those that wait for other clients have one each.
PLACES: Final = {Kind.NOTHING: IDLE_MOST, Kind.COPIES: 256, Kind.OTHERS: 256}
#: Connections to one node that are opened at one time for requests that wait.
OPENED_MOST: Final = 32


class AsyncInterrupt:
    """Ends the wait of another task for jobs, without losing one: see `pool.Interrupt`."""

    def __init__(self) -> None:
        self.ended = False
        self._connection: Connection | None = None

    def enter(self, connection: Connection) -> None:
        """This connection is about to wait."""
        self._connection = connection
        if self.ended:
            half_close(connection)

    def leave(self) -> None:
        """It does not wait any more."""
        self._connection = None

    def end(self) -> None:
        """End the wait, and those that would follow."""
        self.ended = True
        if self._connection is not None:
            half_close(self._connection)


def half_close(connection: Connection) -> None:
    """Send nothing more on a connection that another task reads; TLS of asyncio cannot, there the wait just ends."""
    writer: asyncio.StreamWriter | None = getattr(connection, "_writer", None)  # redis-py has no other way to it
    if writer is not None and writer.can_write_eof():
        with suppress(OSError, RuntimeError):
            writer.write_eof()


def close_socket(connection: Connection) -> None:
    """Close the socket of a connection whose loop is closed: asyncio would do it there, or when it is collected."""
    writer: asyncio.StreamWriter | None = getattr(connection, "_writer", None)
    shown = None if writer is None else writer.get_extra_info("socket")
    sock: socket.socket | None = getattr(shown, "_sock", None)  # uvloop has none: it has closed it with the loop
    if sock is not None:
        sock.close()


class Line:
    """So many places, given out in the order in which they are asked for."""

    def __init__(self, places: int) -> None:
        self._places = asyncio.Semaphore(places)
        #: How much has come of what had a place: whoever stands in line knows by this that it moves.
        self.moved = 0
        #: How long what has a place may take for it, in s.
        self._longest_s = 0.0

    async def enter(self, timeout_s: float) -> None:
        """Wait for a place, in which something should come of it in ``timeout_s``.

        Raises RedisTimeoutError when nothing has come of anything here for as long as those in front may take.
        """
        self._longest_s = max(self._longest_s, timeout_s)
        if not self._places.locked():
            await self._places.acquire()
            return
        place = asyncio.ensure_future(self._places.acquire())
        moved = -1
        try:
            while not place.done() and moved != self.moved:
                moved = self.moved
                await asyncio.wait([place], timeout=self._longest_s)
        except BaseException:
            self._let_go(place)
            raise
        if not place.done():
            self._let_go(place)
            raise RedisTimeoutError("Timeout waiting for a connection: those in use get no answer")
        await place  # somebody may have cancelled all tasks of the loop

    def _let_go(self, place: "asyncio.Future[Literal[True]]") -> None:
        """Ask for this place no more; give it back if it has come just now."""
        if not place.cancel() and not place.cancelled():
            self._places.release()

    def leave(self, came: int) -> None:
        """Give the place back. ``came``: how much has come of it."""
        self.moved += came
        self._places.release()


class Lines:
    """Who may use a connection to a node.

    Requests that wait for other clients (GETJOB, WAITJOB) have a connection each, and only stand in line to open it.
    All others share some, those of each kind their own. So none keeps another kind waiting: not the one that adds the
    job for which others wait, and not the one that says WORKING while a machine restarts for which others wait.
    """

    def __init__(self) -> None:
        self.opening = Line(OPENED_MOST)
        self.asking = {kind: Line(places) for kind, places in PLACES.items()}


class AsyncPool:
    """Connections to all nodes, of one event loop."""

    def __init__(self, config: Config, learn: Learn) -> None:
        self.config = config
        self.learn = learn
        self._open_s = (config.connect_timeout_ms + config.timeout_ms) / 1000
        self._idle: dict[Address, deque[Connection]] = {}
        self._lines: dict[Address, Lines] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    async def exchange(
        self, step: Exchange, interrupt: AsyncInterrupt | None = None, outcome: Outcome | None = None
    ) -> Outcome:
        """Send and read. Raises nothing of what goes wrong with the node: that is part of the outcome.

        Who gives the ``outcome`` finds there what had come when this was cancelled.
        """
        outcome = Outcome() if outcome is None else outcome
        self._check_loop()
        lines = self._lines.get(step.address)
        if lines is None:
            lines = self._lines[step.address] = Lines()
        line = lines.asking.get(step.kind)
        if line is None or step.timeout_s is None:
            return await self._exchange(step, interrupt, outcome, lines)
        try:
            await line.enter(step.timeout_s)
        except RedisTimeoutError as error:
            outcome.failure = error
            return outcome
        try:
            return await self._exchange(step, interrupt, outcome, lines)
        finally:
            line.leave(len(outcome.replies))

    async def _exchange(
        self, step: Exchange, interrupt: AsyncInterrupt | None, outcome: Outcome, lines: Lines
    ) -> Outcome:
        try:
            connection = await self._take(step, lines)
        except TROUBLE_AT_FIRST as error:
            outcome.failure = error
            return outcome
        try:
            outcome.sent = True
            await self._talk(connection, step, outcome, interrupt)
        except TROUBLE as error:
            outcome.failure = error
            await connection.disconnect(nowait=True)
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        finally:
            if interrupt is not None:
                interrupt.leave()
        if interrupt is not None and interrupt.ended:
            await connection.disconnect(nowait=True)
        elif outcome.failure is None:
            await self._give_back(step.address, connection)
        return outcome

    async def close(self) -> None:
        """Close what is idle; what is in use is closed when it comes back."""
        idle, self._idle = self._idle, {}
        self._lines = {}
        self._loop = None
        for connections in idle.values():
            while connections:
                await connections.pop().disconnect()

    def abandon(self) -> None:
        """Close what is idle where nothing can be awaited: its event loop is closed."""
        idle, self._idle = self._idle, {}
        self._lines = {}
        self._loop = None
        for connections in idle.values():
            while connections:
                close_socket(connections.pop())

    async def _talk(
        self, connection: Connection, step: Exchange, outcome: Outcome, interrupt: AsyncInterrupt | None
    ) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(step.timeout_s) as limit:
                for piece in pieces(step.data):
                    if step.timeout_s is not None:
                        limit.reschedule(loop.time() + step.timeout_s)
                    await connection.send_packed_command([piece])
                if interrupt is not None:
                    interrupt.enter(connection)
                for number in range(step.replies):
                    if step.timeout_s is not None and number % REPLIES_A_LIMIT == 0:
                        limit.reschedule(loop.time() + step.timeout_s)
                    outcome.replies.append(await read(connection))
        except TimeoutError:
            host, port = step.address
            raise RedisTimeoutError(f"Timeout reading from {host}:{port}") from None

    async def _take(self, step: Exchange, lines: Lines) -> Connection:
        found = await self._take_idle(step.address)
        if found is not None:
            return found
        if step.kind is Kind.NOTHING:
            return await self._open(step.address)
        await lines.opening.enter(self._open_s)
        opened = 0
        try:
            connection = await self._take_idle(step.address) or await self._open(step.address)
            opened = 1
            return connection
        finally:
            lines.opening.leave(opened)

    async def _take_idle(self, address: Address) -> Connection | None:
        idle = self._idle.get(address)
        while idle:
            connection = idle.pop()
            if await usable(connection):
                return connection
            await connection.disconnect(nowait=True)
        return None

    async def _open(self, address: Address) -> Connection:
        kind = SSLConnection if self.config.tls else Connection
        connection = kind(socket_timeout=None, **connection_options(self.config, address))
        try:
            async with asyncio.timeout(self._open_s):
                await connection.connect()
                await connection.send_packed_command([HELLO])
                reply = await read(connection)
        except TimeoutError:
            await connection.disconnect(nowait=True)
            raise RedisTimeoutError("Timeout connecting to server") from None
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        self.learn(address, reply)
        return connection

    async def _give_back(self, address: Address, connection: Connection) -> None:
        idle = self._idle.setdefault(address, deque())
        if self._loop is not None and len(idle) < IDLE_MOST:
            idle.append(connection)
        else:
            await connection.disconnect()

    def _check_loop(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        elif self._loop is not loop:
            raise RuntimeError("an AsyncDisque belongs to one event loop: close it there, or make one for each")


async def read(connection: Connection) -> object:
    """One reply; error replies are given, not raised."""
    try:
        reply: object = await connection.read_response(timeout=math.inf)
    except ResponseError as error:
        return error
    return reply


async def usable(connection: Connection) -> bool:
    """Whether an idle connection is open and has nothing to read."""
    try:
        return bool(connection.is_connected) and not await connection.can_read()
    except TROUBLE:
        return False
