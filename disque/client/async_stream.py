"""Iterating over jobs with asyncio: a task fetches the next ones while the consumer works, another acknowledges.

See `stream`; the state is the same.
"""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

from disque.client.async_job import AsyncJob
from disque.client.async_pool import AsyncInterrupt
from disque.client.errors import DisqueError
from disque.client.job import by_node
from disque.client.requests import USUALLY
from disque.client.shelf import PREFETCH, Pile, Shelf
from disque.client.values import Duration, Name, milliseconds, queue_words, text_of

if TYPE_CHECKING:
    from disque.client.async_client import AsyncDisque


class AsyncAcknowledger:
    """Sends acknowledgements from a task of its own, which begins with the first of them."""

    def __init__(self, client: "AsyncDisque") -> None:
        self._client = client
        self._pile = Pile()
        self._came = asyncio.Event()
        self._sent = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def put(self, job_id: str) -> bool:
        """Take one; False when it is closed. Waits while too many have gathered. Raises what went wrong with others."""
        pile = self._pile
        while pile.full and not pile.ended:
            self._begin()
            self._sent.clear()
            await self._sent.wait()
        if pile.ended:
            return False
        pile.ids.append(job_id)
        self._came.set()
        self._begin()
        fault = pile.fault()
        if fault is not None:
            raise fault
        return True

    async def close(self) -> None:
        """Send what is there and end the task; `check` says how it went. It must be seen through.

        Somebody may have cancelled all tasks of the loop: then another one sends the rest.
        """
        self._pile.ended = True
        self._came.set()
        while self._task is not None:
            await asyncio.wait([self._task])
            self._task = None
            if self._pile.ids:
                self._begin()

    def check(self) -> None:
        """Raise what went wrong since this was asked last."""
        fault = self._pile.fault()
        if fault is not None:
            raise fault

    def _begin(self) -> None:
        """Let there be a task. One that somebody else has cancelled is no more."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="disque-acknowledge")
            self._task.add_done_callback(lambda _: self._sent.set())  # whoever waits begins anew

    async def _run(self) -> None:
        pile = self._pile
        while True:
            while not pile.ids and not pile.ended:
                self._came.clear()
                await self._came.wait()
            ids = pile.take()
            if not ids:
                return
            error: BaseException | None = None
            try:
                await self._client.ack_many(ids)
            except asyncio.CancelledError:
                pile.ids[:0] = ids  # what was sent of them may be sent again
                raise
            except Exception as wrong:  # noqa: BLE001 - the consumer gets it, whatever it is
                error = wrong
            pile.sent(error)
            self._sent.set()


class AsyncFetcher:
    """Keeps jobs ready, from a task of its own."""

    def __init__(
        self,
        client: "AsyncDisque",
        queues: list[Name],
        shelf: Shelf[AsyncJob],
        acknowledger: AsyncAcknowledger,
        how: tuple[bytes, ...],
    ) -> None:
        self._client = client
        self._queues = queues
        self._acknowledger = acknowledger
        self._how = how
        self._interrupt = AsyncInterrupt()
        self._wanted = asyncio.Event()
        self._came = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.shelf = shelf

    def start(self) -> None:
        """Begin to fetch."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="disque-prefetch")

    async def take(self, timeout_s: float | None) -> AsyncJob | None:
        """The next job, or None when none came in time or it is closed. Raises what ended the fetching."""
        shelf = self.shelf
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not shelf.ready and not shelf.ended:
                    self._came.clear()
                    await self._came.wait()
        job = shelf.next()
        if job is None and shelf.ended:
            await self._finish()  # it may receive something yet, in spite of a stop
            job = shelf.next()
        if job is not None:
            if shelf.wanted():
                self._wanted.set()
            return job
        error, shelf.error = shelf.error, None
        if error is not None:
            raise error
        return None

    async def take_now(self, timeout_s: float | None) -> AsyncJob | None:
        """The next job without a task: those that are asked for here are acknowledged one by one."""
        shelf = self.shelf
        if not shelf.ready and not shelf.ended:
            shelf.ready += await self._client.take(
                self._queues, shelf.count, self._interrupt, None, timeout_s, self._how
            )
        return shelf.next()

    def stop(self) -> None:
        """Fetch nothing more. Whoever waits gets only what cannot be given back."""
        self.shelf.stop()
        self._wanted.set()
        self._came.set()
        self._interrupt.end()

    async def close(self) -> list[AsyncJob]:
        """End the task: what was not handed out. It must be seen through, also when somebody has cancelled the task."""
        self.stop()
        await self._finish()
        self._task = None
        return self.shelf.rest()

    async def _finish(self) -> None:
        """Wait for the end of the task."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        shelf = self.shelf
        try:
            while not shelf.ended:
                wanted = shelf.wanted()
                if wanted:
                    shelf.ready += await self._client.take(
                        self._queues, wanted, self._interrupt, self._acknowledger, how=self._how
                    )
                    self._came.set()
                else:
                    self._wanted.clear()
                    await self._wanted.wait()
        except Exception as error:  # noqa: BLE001 - the consumer gets it, whatever it is
            shelf.error = error
        finally:
            shelf.ended = True
            self._came.set()


class AsyncJobs:
    """An iteration over the jobs of some queues, as they come: see `stream.Jobs`, which is the same.

    It must be closed: as an asynchronous context manager, or with `aclose`; leaving an ``async for`` does not.
    """

    def __init__(
        self,
        client: "AsyncDisque",
        queues: Name | Iterable[Name],
        *,
        count: int | None = None,
        prefetch: int = PREFETCH,
        timeout: Duration | None = None,
        how: tuple[bytes, ...] = USUALLY,
    ) -> None:
        self._client = client
        self._queues: list[Name] = list(queue_words(queues))
        self._timeout_s = None if timeout is None else milliseconds(timeout, "timeout") / 1000
        self._shelf: Shelf[AsyncJob] = Shelf(prefetch, count)
        self._acknowledger = AsyncAcknowledger(client)
        self._fetcher = AsyncFetcher(client, self._queues, self._shelf, self._acknowledger, how)
        self._closing: asyncio.Task[None] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AsyncJob:
        if self._closing is not None:
            raise StopAsyncIteration
        try:
            job = await self._next()
        except DisqueError:
            with suppress(DisqueError):
                await self.aclose()
            raise
        if job is None:
            await self.aclose()
            raise StopAsyncIteration
        return job

    def stop(self) -> None:
        """The same as `stream.Jobs.stop`: for ``loop.add_signal_handler``, or another task."""
        self._fetcher.stop()

    async def aclose(self) -> None:
        """Give back what was not handed out, and wait for acknowledgements. Raises what went wrong with these.

        When this is cancelled it goes on in the background, and who calls it again waits for the same end.
        """
        if self._closing is None:
            self._closing = self._client.begin_ending(self._close())
        await asyncio.shield(self._closing)
        self._acknowledger.check()

    async def _close(self) -> None:
        rest = await self._fetcher.close()
        await self._acknowledger.close()
        for node, ids in by_node(rest).items():
            await self._client.give_back_quietly(ids, node, count=False)

    async def _next(self) -> AsyncJob | None:
        if self._shelf.prefetch:
            self._fetcher.start()
            return await self._fetcher.take(self._timeout_s)
        return await self._fetcher.take_now(self._timeout_s)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            await self.aclose()
        else:
            with suppress(DisqueError):
                await self.aclose()

    def __repr__(self) -> str:
        return f"<AsyncJobs of {', '.join(map(text_of, self._queues))}>"
