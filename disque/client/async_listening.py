"""Listening to channels, and to what happens to jobs, with asyncio: a task for each node. See `listening`."""

import asyncio
import math
from collections.abc import Callable
from contextlib import suppress
from random import SystemRandom
from types import TracebackType
from typing import TYPE_CHECKING, Final, Generic, Self

from redis.asyncio.connection import Connection, SSLConnection
from redis.exceptions import TimeoutError as RedisTimeoutError

from disque.client.config import Address, Config
from disque.client.errors import UnavailableError, typed
from disque.client.listening import KEPT_BYTES, KEPT_MOST, LOOK_S, PING, QUIET_S, T, refusal, size_of, wait_s
from disque.client.packing import pack
from disque.client.pool import TROUBLE_AT_FIRST, connection_options
from disque.client.values import Duration, milliseconds

if TYPE_CHECKING:
    from disque.client.async_client import AsyncDisque

#: Messages that are taken before others have their turn: reading does not wait while there is more in its buffer.
TURN_MOST: Final = 16


class Kept(asyncio.Queue[T | Exception | None]):
    """What waits for a consumer that is busy: a number of messages, and of bytes."""

    def _init(self, maxsize: int) -> None:
        super()._init(maxsize)
        self._bytes = 0

    def full(self) -> bool:
        """Whether nothing more should come."""
        return super().full() or self._bytes >= KEPT_BYTES

    def _put(self, item: T | Exception | None) -> None:
        super()._put(item)
        self._bytes += size_of(item)

    def _get(self) -> T | Exception | None:
        item = super()._get()
        self._bytes -= size_of(item)
        return item


class AsyncListening(Generic[T]):
    """An iteration over what is said, as it comes: see `listening.Listening`. One task may use it."""

    def __init__(
        self,
        client: "AsyncDisque",
        requests: list[list[bytes]],
        make: Callable[[object], T | None],
        *,
        timeout: Duration | None = None,
        everywhere: bool = False,
        kept: int = KEPT_MOST,
    ) -> None:
        self.config: Config = client.config
        self.requests = requests
        self.lost = 0
        self._make = make
        self._client = client
        self._timeout_s = None if timeout is None else milliseconds(timeout, "timeout") / 1000
        self._everywhere = everywhere
        self._came: Kept[T] = Kept(kept)
        #: What stopped `take`.
        self._next: Exception | None = None
        self._ended = False
        self._random = SystemRandom()
        self._tried: set[Address] = set()
        #: Nodes at which listening began, since the last attempt there ended.
        self._worked: set[Address] = set()
        #: Nodes that have confirmed it, and what is set when there is one more.
        self._listens: set[Address] = set()
        self._changed = asyncio.Event()
        self._tasks: dict[Address | None, asyncio.Task[None]] = {}
        self._looked_s = -LOOK_S

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        loop = asyncio.get_running_loop()
        until_s = None if self._timeout_s is None else loop.time() + self._timeout_s
        while not self._ended:
            await self._begin()
            left_s = LOOK_S if until_s is None else until_s - loop.time()
            if left_s <= 0 and self._came.empty():
                break
            value: T | Exception | None = self._next
            try:
                if value is None:
                    value = await asyncio.wait_for(self._came.get(), max(0.001, min(left_s, LOOK_S)))
            except TimeoutError:
                continue
            if isinstance(value, Exception):
                await self.aclose()
                raise value
            if value is not None:
                return value
        await self.aclose()
        raise StopAsyncIteration

    def take(self, most: int) -> list[T]:
        """Give what has come already, at most so much of it: without waiting, and without an error."""
        taken: list[T] = []
        while len(taken) < most and self._next is None and not self._came.empty():
            value = self._came.get_nowait()
            if isinstance(value, Exception):
                self._next = value
            elif value is not None:
                taken.append(value)
        return taken

    async def ready(self, timeout: Duration) -> bool:  # noqa: ASYNC109 - as the blocking one has it
        """Wait until all nodes that are there have confirmed that they are listened to; whether they have."""
        with suppress(TimeoutError):
            async with asyncio.timeout(milliseconds(timeout, "timeout") / 1000):
                await self._begin()
                while len(self._listens) < len(self._tasks):
                    self._changed.clear()
                    await self._changed.wait()
                return True
        return False

    async def aclose(self) -> None:
        """Listen no more."""
        self._ended = True
        with suppress(asyncio.QueueFull):
            self._came.put_nowait(None)  # whoever waits
        tasks, self._tasks = list(self._tasks.values()), {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _begin(self) -> None:
        """Listen at a node, or at all that there are now."""
        if not self._everywhere:
            if None not in self._tasks:
                self._tasks[None] = asyncio.create_task(self._run(self._choose), name="disque-listen")
            return
        now_s = asyncio.get_running_loop().time()
        if now_s - self._looked_s < LOOK_S:
            return
        first = not self._tasks
        self._looked_s = now_s
        try:
            await self._client.look()
        except UnavailableError:
            if first:
                raise
            return
        there = self._client.router.addresses()
        for address in there:
            if address not in self._tasks or self._tasks[address].done():
                self._tasks[address] = asyncio.create_task(self._run(self._of(address)), name="disque-listen")
        for known in [one for one in self._tasks if one is not None and one not in there]:
            self._tasks.pop(known).cancel()

    async def _run(self, choose: Callable[[], Address | None]) -> None:
        """Listen at one node, again and again."""
        failures: list[tuple[str, Exception]] = []
        tries = 0
        while (address := choose()) is not None:
            try:
                await self._listen(address)
            except TROUBLE_AT_FIRST as error:
                failures.append((f"{address[0]}:{address[1]}", typed(error) or error))
                wrong = refusal(error)
                if wrong is not None:
                    await self._came.put(wrong)
                    return
            tries = 1 if address in self._worked else tries + 1
            self.lost += address in self._worked
            self._worked.discard(address)
            self._tried.add(address)
            self._client.router.failed(address)
            if not self._everywhere and tries >= max(self.config.attempts, self._client.router.count()):
                await self._came.put(UnavailableError.of("no node lets us listen", failures[-20:]))
                return
            await asyncio.sleep(wait_s(self.config, tries, self._random))

    async def _listen(self, address: Address) -> None:
        """Listen at a node until that ends in an error."""
        config = self.config
        kind = SSLConnection if config.tls else Connection
        connection = kind(socket_timeout=None, **connection_options(config, address) | {"protocol": 2})
        try:
            async with asyncio.timeout((config.timeout_ms + config.connect_timeout_ms) / 1000):
                await connection.connect()
                for words in self.requests:
                    await connection.send_packed_command([pack(words)])
                for _ in [word for words in self.requests for word in words[1:]]:
                    await self._take(await connection.read_response(timeout=math.inf, disconnect_on_error=False))
            self._tried.clear()
            self._worked.add(address)
            self._listens.add(address)
            self._changed.set()
            self._client.router.worked(address)
            await self._read(connection)
        except TimeoutError:
            raise RedisTimeoutError(f"Timeout reading from {address[0]}:{address[1]}") from None
        finally:
            self._listens.discard(address)
            await connection.disconnect(nowait=True)

    async def _read(self, connection: Connection) -> None:
        """Take what comes; a node that is silent is asked whether it is there."""
        asked = False
        turn = 0
        while True:
            turn += 1
            if turn % TURN_MOST == 0:
                await asyncio.sleep(0)
            patience_s = self.config.timeout_ms / 1000 if asked else QUIET_S
            words = await connection.read_response(timeout=patience_s, disconnect_on_error=False)
            if words is None and asked:
                raise TimeoutError
            asked = words is None
            if asked:
                await connection.send_packed_command([PING])
            else:
                await self._take(words)

    async def _take(self, words: object) -> None:
        value = self._make(words)
        if value is not None:
            await self._came.put(value)

    def _choose(self) -> Address | None:
        """A node that was not tried in vain, or any."""
        router = self._client.router
        chosen = router.choose(self._tried)
        if chosen is None:
            self._tried.clear()
            chosen = router.choose(())
        return chosen

    def _of(self, address: Address) -> Callable[[], Address | None]:
        return lambda: address if address in self._client.router.addresses() else None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"<AsyncListening {b' '.join(b' '.join(words) for words in self.requests)!r}>"
