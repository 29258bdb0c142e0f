"""A job of a task, as whoever has enqueued it sees it: its result, its status, its end."""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Generic, Protocol, TypeVar, cast

from disque.client import Ended, MaxlenError, NewJob, NoReplError, OomError, PausedError, Result
from disque.client.values import Duration
from disque.tasks.convert import ConvertError
from disque.tasks.door import Door, finish
from disque.tasks.errors import JobFailedError, MessageError, NotDoneError, ResultLostError, seconds
from disque.tasks.message import Message

R_co = TypeVar("R_co", covariant=True)

#: The status of a job that was cancelled, and how one has ended whose end nobody has kept.
CANCELLED: Final = "cancelled"
LOST: Final = frozenset({"gone", "unknown"})
#: Why a chain has no result. `Discard` ends a job like success does, but nothing is called after it.
NOTHING_FOLLOWS: Final = "its chain ended here by Discard, or what came next is not known any more (it is for a day)"


#: Seconds for which the key of a next job is kept.
WINDOW_S: Final = 86_400
#: How often `cancel` tries to take such a key.
ADDS_MOST: Final = 4


def next_key(job_id: str) -> str:
    """The UNIQUE key of the job that comes after this one: however often a worker adds it, there is one."""
    return f"then:{job_id}"


def stand_in(queue: str, job_id: str) -> NewJob:
    """A job that takes the key of the one that would come after this one, so that no worker can add that any more.

    It is cancelled at once. Should that fail, it is held back for nearly as long as it lives, and is a group of nobody.
    One node is enough for it: where one is away, a chain can still be cancelled.
    """
    body = Message("disque:group", [[], 0], {}).encode("json")
    return NewJob(
        queue,
        body,
        delay=WINDOW_S - 60,
        ttl=WINDOW_S,
        retain=WINDOW_S,
        replicate=1,
        unique=next_key(job_id),
        window=WINDOW_S,
    )


async def added(door: Door, job: NewJob) -> str:
    """Add it, again if its key is kept by a job that a worker cannot add now: between two tries of that it is free."""
    for _ in range(ADDS_MOST - 1):
        with suppress(NoReplError):
            return await door.add(job)
    return await door.add(job)


def check(job_id: str, ended: Ended | None) -> Ended:
    """The end of a job that is done. Raises NotDoneError, JobFailedError, ResultLostError."""
    if ended is None:
        raise NotDoneError(f"job {job_id} has not ended yet")
    if ended.status in LOST:
        raise ResultLostError(job_id, ended.status, "no node remembers how it ended; give its task a retain")
    if not ended.done:
        raise JobFailedError(job_id, ended.status, ended.error)
    return ended


class NotSentError(Exception):
    """A worker sends no result of a call without ``retain``, so nobody knows what it was."""


class Home(Protocol):
    """Where a job of a task can be asked for: the app."""

    def door(self) -> Door:
        """The door for asyncio."""

    def blocking_door(self) -> Door:
        """The one that blocks."""


class AnyJob(Generic[R_co]):
    """What both kinds have. Equal if the IDs are."""

    __slots__ = ("_ended", "_home", "_next_queues", "_value_of", "id", "queue", "task")

    def __init__(
        self,
        home: Home,
        job_id: str,
        task: str,
        queue: str,
        value: Callable[[bytes | None], Any],
        next_queues: tuple[str, ...] = (),
    ) -> None:
        self._home = home
        self._value_of = value
        self._next_queues = next_queues
        self._ended: frozenset[str] = frozenset()
        self.id = job_id
        self.task = task
        self.queue = queue

    async def _result(self, door: Door, timeout: Duration | None) -> R_co:  # noqa: ASYNC109 - the node waits
        """What the last job of the chain has returned. Raises what it, or one before, has come to instead."""
        until_s = None if timeout is None else time.monotonic() + seconds(timeout, "timeout")

        async def end_of(job_id: str) -> Ended | None:
            [ended] = await door.wait([job_id], None if until_s is None else max(0.0, until_s - time.monotonic()))
            return ended

        job_id = self.id
        for queue in self._next_queues:
            following = await door.find(queue, next_key(job_id))
            if following is None:  # only then: that a job is forgotten takes nodes a second to say
                ended = await end_of(job_id)
                following = await door.find(queue, next_key(job_id)) if ended is not None else None
                if following is None:
                    check(job_id, ended)
                    raise ResultLostError(job_id, "done", NOTHING_FOLLOWS)
            job_id = following
        return self._value(job_id, await end_of(job_id))

    async def _cancel(self, door: Door) -> bool:
        """End it, and what has come after it: a worker adds that before the job itself is done.

        It may be about to add it just now. Of a job that was ended here, the key of the next one is taken, so whoever
        comes first adds the only one. What a call has ended that then failed, the next one knows.
        """
        job_id = self.id
        ended = await self._end(door, job_id)
        for queue in self._next_queues:
            following = await self._following(door, queue, job_id)
            if following is None:
                break
            job_id = following
            ended |= await self._end(door, job_id)
        return ended

    async def _following(self, door: Door, queue: str, job_id: str) -> str | None:
        """The job that comes after this one, or what takes its place.

        Where nodes take no new job into that queue, they take none of a worker either: it asks whether this one was
        cancelled before it tries again.
        """
        if job_id in self._ended:
            with suppress(PausedError, OomError, MaxlenError):
                return await added(door, stand_in(queue, job_id))
        return await door.find(queue, next_key(job_id))

    async def _end(self, door: Door, job_id: str) -> bool:
        ended = await door.cancel(job_id) > 0
        if ended or await self._was_cancelled(door, job_id):
            self._ended |= {job_id}
        return ended

    async def _was_cancelled(self, door: Door, job_id: str) -> bool:
        """Whether this was cancelled before: by its ID, or by a call whose answer was lost."""
        if not self._next_queues:
            return False
        found = await door.result(job_id)
        return found is not None and found.status == CANCELLED

    def _value(self, job_id: str, ended: Ended | None) -> R_co:
        done = check(job_id, ended)
        try:
            return cast("R_co", self._value_of(done.result))
        except NotSentError:
            reason = "what it has returned was not sent, since the call has no retain"
            raise ResultLostError(job_id, done.status, reason) from None
        except ConvertError as error:
            raise MessageError(f"the result of job {job_id} does not fit: {error}") from error

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AnyJob) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} of {self.task}>"


class Job(AnyJob[R_co]):
    """A job that was enqueued with asyncio."""

    __slots__ = ()

    async def result(self, timeout: Duration | None = None) -> R_co:  # noqa: ASYNC109 - the node waits
        """What the task has returned, as soon as it has; of a chain, what its last task has.

        Raises NotDoneError when ``timeout`` is over, JobFailedError for a job that died, was cancelled or expired, and
        ResultLostError where the call has no ``retain``: then the worker does not send what was returned, and nobody
        keeps how the job has ended. To wait until a call is over, without ``retain``, works for a task that says that
        it returns nothing (``-> None``).
        """
        return await self._result(self._home.door(), timeout)

    async def status(self) -> Result | None:
        """What has become of it: status, tries, error, progress; None if no node knows it any more."""
        return await self._home.door().result(self.id)

    async def cancel(self) -> bool:
        """End it, whatever its state. A worker that runs it is told, and its function is cancelled.

        Of a chain, the job that runs or waits now is ended, and nothing comes after it. Of a group, the members run on:
        nothing comes after them. Gives whether anything was left to be ended. When this raises DisqueError, the job may
        have ended, and what comes after it may come: call it again, on this handle.
        """
        return await self._cancel(self._home.door())

    async def next_id(self) -> str | None:
        """The ID of the job that came after this one by `then`; None if it has not come to that. Known for a day.

        Of a chain that was cancelled it may be a job that only takes the place of the next one, and is cancelled, too.
        """
        if not self._next_queues:
            return None
        return await self._home.door().find(self._next_queues[0], next_key(self.id))


class SyncJob(AnyJob[R_co]):
    """A job that was enqueued without asyncio: the same, and its methods block."""

    __slots__ = ()

    def result(self, timeout: Duration | None = None) -> R_co:
        """See `Job.result`."""
        return finish(self._result(self._home.blocking_door(), timeout))

    def status(self) -> Result | None:
        """See `Job.status`."""
        return finish(self._home.blocking_door().result(self.id))

    def cancel(self) -> bool:
        """See `Job.cancel`."""
        return finish(self._cancel(self._home.blocking_door()))
