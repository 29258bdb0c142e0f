"""What tasks ask of the cluster: one small interface, with the clients behind it, or the memory of a test."""

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol, TypeVar

from disque.client import AsyncDisque, CommandError, Disque, DisqueError, Ended, NewJob, Result
from disque.client.errors import NoPermError
from disque.client.limits import WORD
from disque.client.values import Duration

T = TypeVar("T")

#: The user may have no right to ask for a setting, and the command may be renamed.
MAY_NOT_ASK: Final = (CommandError, NoPermError)


class Door(Protocol):
    """Adds jobs and asks after them. Raises `DisqueError`."""

    async def add(self, job: NewJob) -> str:
        """Add a job: its ID."""

    async def add_many(self, jobs: Sequence[NewJob]) -> list[str]:
        """Add several: their IDs."""

    async def wait(
        self,
        ids: Sequence[str],
        timeout: Duration | None,  # noqa: ASYNC109 - the node waits
    ) -> list[Ended | None]:
        """How jobs have ended, as soon as all have; None for those that have not when the time is over."""

    async def result(self, job_id: str) -> Result | None:
        """What has become of a job."""

    async def cancel(self, *ids: str) -> int:
        """End jobs: how many this ended."""

    async def find(self, queue: str, key: str) -> str | None:
        """The ID of the job with this UNIQUE key."""

    async def longest(self) -> int | None:
        """How long a job may be, in bytes; None where nobody says."""


class ServerDoor:
    """The door to a cluster, with asyncio."""

    def __init__(self, client: AsyncDisque) -> None:
        self.client = client

    async def add(self, job: NewJob) -> str:
        """See `Door`."""
        [added] = await self.client.add_many([job])
        return added

    async def add_many(self, jobs: Sequence[NewJob]) -> list[str]:
        """See `Door`."""
        return await self.client.add_many(jobs)

    async def wait(
        self,
        ids: Sequence[str],
        timeout: Duration | None,  # noqa: ASYNC109 - see `Door`
    ) -> list[Ended | None]:
        """See `Door`."""
        return await self.client.wait(*ids, timeout=timeout)

    async def result(self, job_id: str) -> Result | None:
        """See `Door`."""
        return await self.client.result(job_id)

    async def cancel(self, *ids: str) -> int:
        """See `Door`."""
        return await self.client.cancel(*ids)

    async def find(self, queue: str, key: str) -> str | None:
        """See `Door`."""
        return await self.client.find(queue, key)

    async def longest(self) -> int | None:
        """See `Door`."""
        with suppress(*MAY_NOT_ASK):
            return int((await self.client.config_get(WORD)).get(WORD, 0)) or None
        return None


class BlockingDoor:
    """The same over the blocking client: its coroutines never wait, so that `door.finish` runs them without a loop."""

    def __init__(self, client: Disque) -> None:
        self.client = client

    async def add(self, job: NewJob) -> str:
        """See `Door`."""
        [added] = self.client.add_many([job])
        return added

    async def add_many(self, jobs: Sequence[NewJob]) -> list[str]:
        """See `Door`."""
        return self.client.add_many(jobs)

    async def wait(
        self,
        ids: Sequence[str],
        timeout: Duration | None,  # noqa: ASYNC109 - see `Door`
    ) -> list[Ended | None]:
        """See `Door`."""
        return self.client.wait(*ids, timeout=timeout)

    async def result(self, job_id: str) -> Result | None:
        """See `Door`."""
        return self.client.result(job_id)

    async def cancel(self, *ids: str) -> int:
        """See `Door`."""
        return self.client.cancel(*ids)

    async def find(self, queue: str, key: str) -> str | None:
        """See `Door`."""
        return self.client.find(queue, key)

    async def longest(self) -> int | None:
        """See `Door`."""
        with suppress(*MAY_NOT_ASK):
            return int(self.client.config_get(WORD).get(WORD, 0)) or None
        return None


class Gathering:
    """Adds jobs, and those that are added in the same turn of the event loop travel together."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._waiting: list[tuple[NewJob, asyncio.Future[str]]] = []
        self._sending: set[asyncio.Task[None]] = set()

    async def add(self, job: NewJob) -> str:
        """Add a job: its ID. Raises DisqueError, each job its own."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._begin)
        future: asyncio.Future[str] = loop.create_future()
        self._waiting.append((job, future))
        return await future

    def _begin(self) -> None:
        part, self._waiting = self._waiting, []
        sending = asyncio.get_running_loop().create_task(self._send(part))
        self._sending.add(sending)
        sending.add_done_callback(self._sending.discard)

    async def _send(self, part: list[tuple[NewJob, asyncio.Future[str]]]) -> None:
        error: BaseException = asyncio.CancelledError()
        came: Sequence[object] = ()
        try:
            came = await self._door.add_many([job for job, _ in part])
        except DisqueError as raised:
            error, came = raised, list(raised.results)
        except Exception as raised:  # noqa: BLE001 - whoever has added hears of it
            error = raised
        finally:
            for at, (_, future) in enumerate(part):
                one = came[at] if at < len(came) else None
                if future.done():
                    continue
                if isinstance(one, str):
                    future.set_result(one)
                else:
                    future.set_exception(one if isinstance(one, DisqueError) else error)


def finish(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits: those of `BlockingDoor` do not. Raises RuntimeError where one does."""
    try:
        work.send(None)
    except StopIteration as stop:
        value: T = stop.value
        return value
    work.close()
    raise RuntimeError("this waits for an event loop: a middleware that awaits something works only with enqueue()")
