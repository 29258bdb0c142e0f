"""Long texts of one answer, up to a bound: a client may ask for the results of very many jobs at once.

The reply of a node has all of them. So it is read piece by piece, and what is too much is dropped as it comes: it is
never in memory as a whole. redis-py reads a reply as a whole, so it is done here, for what is asked under a ration.
"""

import asyncio
from contextvars import ContextVar
from typing import ClassVar, Final

from redis.asyncio.connection import Connection
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import InvalidResponse, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from disque.client.async_pool import AsyncInterrupt, AsyncPool
from disque.client.delivery import Exchange, Outcome

#: Texts that do not count, in bytes: errors of jobs are not longer.
SHORT: Final = 4096
#: Bytes of all that is kept under rations at one time.
ALL_MOST = 64 << 20  # not Final: tests want less
#: So much of what is dropped is read at a time.
DROPPED: Final = 1 << 16
#: What stands in a reply for a text that was left out: this very object.
LEFT_OUT: Final = bytes(bytearray(b"left out"))


class Ration:
    """Bytes of long texts that one answer has, and may have. The first of them is there, however long it is."""

    #: What is kept under all rations together.
    held: ClassVar[int] = 0

    def __init__(self, most: int) -> None:
        self.most = most
        self.used = 0

    def take(self, size: int) -> bool:
        """Whether a text of so many bytes is to be there."""
        if size <= SHORT:
            return True
        fits = not self.used or self.used + size <= self.most
        if not fits or (self.used and Ration.held + size > ALL_MOST):
            return False
        self.used += size
        Ration.held += size
        return True

    def back_to(self, used: int) -> None:
        """Only so much is kept any more; nothing of it, if all was given back already."""
        used = min(used, self.used)
        Ration.held -= self.used - used
        self.used = used


#: The ration under which this task asks.
RATION: Final[ContextVar[Ration | None]] = ContextVar("RATION", default=None)


class RationedPool(AsyncPool):
    """Connections whose replies are read by the ration of who asks, if there is one."""

    async def _talk(
        self, connection: Connection, step: Exchange, outcome: Outcome, interrupt: AsyncInterrupt | None
    ) -> None:
        ration = RATION.get()
        if ration is None:
            await super()._talk(connection, step, outcome, interrupt)
            return
        await super()._talk(connection, step._replace(replies=0), outcome, interrupt)
        used = ration.used
        try:
            async with asyncio.timeout(step.timeout_s):
                replies = [await read(connection, ration) for _ in range(step.replies)]
        except BaseException as error:
            ration.back_to(used)  # another node will be asked for the same
            if isinstance(error, TimeoutError):
                host, port = step.address
                raise RedisTimeoutError(f"Timeout reading from {host}:{port}") from None
            raise
        outcome.replies += replies


async def read(connection: Connection, ration: Ration) -> object:
    """One reply; error replies are given, not raised. Raises what redis-py does."""
    stream: asyncio.StreamReader | None = getattr(connection, "_reader", None)  # redis-py has no other way to it
    if stream is None:
        raise RedisConnectionError("Connection is closed")
    try:
        return await value(stream, ration)
    except (EOFError, asyncio.LimitOverrunError):
        raise RedisConnectionError("Connection closed by server.") from None


async def value(stream: asyncio.StreamReader, ration: Ration) -> object:
    """One value of a reply, in either protocol."""
    line = await stream.readuntil(b"\r\n")
    kind, rest = line[:1], line[1:-2]
    if kind == b"*":
        return [await value(stream, ration) for _ in range(int(rest))] if int(rest) >= 0 else None
    if kind == b"$":
        return await text(stream, ration, int(rest)) if int(rest) >= 0 else None
    if kind == b":":
        return int(rest)
    if kind == b"_":
        return None
    if kind == b"-":
        return ResponseError(rest.decode("utf-8", "replace"))
    raise InvalidResponse(f"Protocol Error: {line[:100]!r}")


async def text(stream: asyncio.StreamReader, ration: Ration, size: int) -> bytes:
    """A text of so many bytes, or LEFT_OUT."""
    if ration.take(size):
        return (await stream.readexactly(size + 2))[:-2]
    left = size + 2
    while left:
        part = await stream.read(min(left, DROPPED))
        if not part:
            raise EOFError
        left -= len(part)
    return LEFT_OUT
