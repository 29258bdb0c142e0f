"""Jobs as consumers with asyncio see them."""

from types import TracebackType
from typing import TYPE_CHECKING, Self

from disque.client.config import Address
from disque.client.job import BACKOFF_S, LONGEST_S, AnyJob, pauses
from disque.client.replies import Delivered
from disque.client.values import Body, Duration

if TYPE_CHECKING:
    from disque.client.async_client import AsyncDisque
    from disque.client.async_heartbeat import AsyncKeepWorking
    from disque.client.async_stream import AsyncAcknowledger


class AsyncJob(AnyJob):
    """A job that was delivered, with what can be done with it: see `Job`; here what asks a node is awaited.

    What ends the work on it, such as `ack` and `nack`, is sent also when who awaits it is cancelled meanwhile.
    """

    __slots__ = ("_acknowledger", "_client", "_settled")

    def __init__(
        self,
        client: "AsyncDisque",
        delivered: Delivered,
        node: Address | None = None,
        acknowledger: "AsyncAcknowledger | None" = None,
    ) -> None:
        super().__init__(delivered, node)
        self._client = client
        self._acknowledger = acknowledger
        self._settled = False

    def __reduce__(self) -> tuple[type[Self], tuple["AsyncDisque", Delivered, Address | None]]:
        return type(self), (self._client, self.delivered(), self.node)

    async def ack(self, result: Body | None = None) -> None:
        """The job is done. Inside `AsyncDisque.jobs` with prefetch it is sent soon, together with others.

        ``result`` is what has come of it, see `AsyncDisque.result` and `AsyncDisque.wait`; then it is sent at once.
        """
        self._settled = True
        if result is not None or self._acknowledger is None or not await self._acknowledger.put(self.id):
            await self._client.see_through(self._client.settle(self.id, self.node, result))

    async def nack(self, *, delay: Duration | None = None, count: bool = True) -> None:
        """Give the job back to its queue, now or after a delay. ``count``: it failed, not only its worker stops."""
        self._settled = True
        await self._client.see_through(self._client.give_back([self.id], self.node, delay, count=count))

    async def fail(self, error: str | BaseException, delay: Duration | None = None) -> None:
        """The job has failed, and this is why: see `Job.fail`."""
        self._settled = True
        await self._client.see_through(self._client.give_back([self.id], self.node, delay, error=error))

    async def dead(self, error: str | BaseException | None = None) -> None:
        """The job can never succeed: it is a dead letter now (NACK DEAD)."""
        self._settled = True
        await self._client.see_through(self._client.give_back([self.id], self.node, error=error, dead=True))

    def attempt(self, *, backoff: Duration | None = BACKOFF_S, longest: Duration = LONGEST_S) -> "AsyncAttempt":
        """Work on the job in a block that does not let its exceptions out: see `Job.attempt`."""
        return AsyncAttempt(self, *pauses(backoff, longest))

    async def working(self) -> int:
        """Start the RETRY again: its seconds. Raises NoJobError, TooLateError, JobCancelledError."""
        return await self._client.working_one(self.id, self.node)

    async def progress(self, text: str) -> int:
        """The same, and say how far the work is: at most 1 KB, which `AsyncDisque.result` shows."""
        return await self._client.working_one(self.id, self.node, progress=text)

    def keep_working(self) -> "AsyncKeepWorking":
        """Say WORKING in the background, as often as needed, while the block of this context manager runs."""
        return self._client.keep_working([self])

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._settled:
            return
        if error is None:
            await self.ack()
        else:
            failure = error if isinstance(error, Exception) else None
            await self._give_back_quietly(None, failure)

    async def failed(self, error: Exception, pause_s: float | None) -> None:
        """Give the job back after a failure, if that was not done already."""
        if not self._settled:
            await self._give_back_quietly(pause_s, error)

    async def _give_back_quietly(self, pause_s: float | None, error: Exception | None) -> None:
        client, is_failure = self._client, error is not None
        await client.see_through(client.give_back_quietly([self.id], self.node, pause_s, count=is_failure, error=error))


class AsyncAttempt:
    """See `Job.attempt`. A task that is cancelled gives its job back without counting a failure."""

    __slots__ = ("_backoff_s", "_job", "_longest_s")

    def __init__(self, job: AsyncJob, backoff_s: float | None, longest_s: float) -> None:
        self._job = job
        self._backoff_s = backoff_s
        self._longest_s = longest_s

    async def __aenter__(self) -> AsyncJob:
        return self._job

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception):
            await self._job.__aexit__(kind, error, traceback)
            return False
        await self._job.failed(error, self._job.pause_after_failure(error, self._backoff_s, self._longest_s))
        return True
