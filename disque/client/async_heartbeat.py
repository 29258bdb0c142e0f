"""Work that takes longer than RETRY, with asyncio: see `heartbeat`."""

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from disque.client.errors import DisqueError
from disque.client.heartbeat import Pulse, check, ids_of, node_of
from disque.client.job import AnyJob

if TYPE_CHECKING:
    from disque.client.async_client import AsyncDisque


class AsyncKeepWorking:
    """Keeps jobs while a block runs, with a task that ends with the block: see `KeepWorking`."""

    def __init__(self, client: "AsyncDisque", jobs: Sequence[AnyJob | str]) -> None:
        self._client = client
        self._node = node_of(jobs)
        self._pulse = Pulse(ids_of(jobs))
        self._task: asyncio.Task[None] | None = None

    @property
    def errors(self) -> dict[str, DisqueError]:
        """Why which jobs are not kept any more."""
        return dict(self._pulse.errors)

    def check(self) -> None:
        """Raise if a job can be kept no longer: `NoJobError`, `TooLateError`, `JobCancelledError`."""
        check(self.errors)

    def progress(self, text: str) -> None:
        """Say with the next beat how far the work is: at most 1 KB, which `AsyncDisque.result` shows."""
        self._pulse.progress = text

    async def beat(self) -> None:
        """Say WORKING once."""
        pulse = self._pulse
        if pulse.ids:
            try:
                pulse.answered(await self._client.working_at(self._node, pulse.ids, pulse.news()))
            except DisqueError as error:
                pulse.missed(error)

    async def start(self) -> Self:
        """Say WORKING now, and begin to say it in the background."""
        await self.beat()
        self._task = asyncio.create_task(self._run(), name="disque-keep-working")
        return self

    async def stop(self) -> None:
        """End it, and wait for the task."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                task.result()

    async def _run(self) -> None:
        while self._pulse.ids:
            await asyncio.sleep(self._pulse.interval_s)
            await self.beat()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()
