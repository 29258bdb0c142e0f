"""Jobs as consumers see them."""

import json
import logging
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from disque.client.config import Address
from disque.client.replies import Delivered, Meta
from disque.client.values import Body, Duration, milliseconds

if TYPE_CHECKING:
    from disque.client.client import Disque
    from disque.client.heartbeat import KeepWorking
    from disque.client.stream import Acknowledger


LOG: Final = logging.getLogger("disque.client")

#: `attempt` holds a job back for so long after its first failure, and twice as long after each further one, up to the
#: second.
BACKOFF_S: Final = 1.0
LONGEST_S: Final = 300.0
#: Doublings that are counted.
DOUBLINGS_MOST: Final = 32


class AnyJob:
    """What all jobs have: ``queue`` is text, ``body`` are bytes, counters are 0 where they were not wanted.

    ``meta`` is what else is known of a job, if that was asked for with ``meta=True``; then the properties ``tries``,
    ``tries_left``, ``priority``, ``headers``, ``error`` and ``origin`` are a short way to it, otherwise they raise
    AttributeError.
    """

    __slots__ = ("additional_deliveries", "body", "id", "meta", "nacks", "node", "queue")

    def __init__(self, delivered: Delivered, node: Address | None) -> None:
        self.id, self.queue, self.body, self.nacks, self.additional_deliveries, self.meta = delivered
        self.node = node

    def delivered(self) -> Delivered:
        """What the node gave."""
        return Delivered(self.id, self.queue, self.body, self.nacks, self.additional_deliveries, self.meta)

    @property
    def _known(self) -> Meta:
        if self.meta is None:
            raise AttributeError("this is known only of jobs that were taken with meta=True")
        return self.meta

    @property
    def tries(self) -> int:
        """How many tries have ended."""
        return self._known.tries

    @property
    def tries_left(self) -> int | None:
        """How many tries there are, with this one; None: without end."""
        return self._known.tries_left

    @property
    def priority(self) -> int:
        """The priority, from 0 to 255."""
        return self._known.priority

    @property
    def headers(self) -> dict[str, str]:
        """The headers by name."""
        return self._known.headers

    @property
    def error(self) -> str | None:
        """Why it failed last, in the words of the consumer that said so."""
        return self._known.error

    @property
    def origin(self) -> str | None:
        """Of a dead letter, the queue in which it died."""
        return self._known.origin

    def json(self) -> Any:  # noqa: ANN401 - that is what JSON is
        """The body read as JSON. Raises ValueError."""
        return json.loads(self.body)

    def text(self) -> str:
        """The body as UTF-8. Raises UnicodeDecodeError, which is a ValueError."""
        return self.body.decode()

    def pause_after_failure(self, error: Exception, backoff_s: float | None, longest_s: float) -> float | None:
        """How many seconds a job that failed with ``error`` is held back, None: as it says; says so in the log."""
        failures = self.nacks + 1
        if backoff_s is None or (self.meta is not None and self.meta.backoff):
            LOG.error("job %s of queue %r failed (failures: %d)", self.id, self.queue, failures, exc_info=error)
            return None
        pause_s = min(backoff_s * float(2 ** min(self.nacks, DOUBLINGS_MOST)), longest_s)
        LOG.error(
            "job %s of queue %r failed (failures: %d), delayed for %g s", self.id, self.queue, failures, pause_s,
            exc_info=error,
        )  # fmt: skip
        return pause_s

    def __repr__(self) -> str:
        body = self.body if len(self.body) <= 40 else self.body[:40] + b"..."
        return f"<{type(self).__name__} {self.id} of {self.queue!r}: {body!r}>"


def by_node(jobs: Iterable[AnyJob]) -> dict[Address | None, list[str]]:
    """The IDs of jobs, by the node that gave them."""
    groups: dict[Address | None, list[str]] = {}
    for job in jobs:
        groups.setdefault(job.node, []).append(job.id)
    return groups


def pauses(backoff: Duration | None, longest: Duration) -> tuple[float | None, float]:
    """The first and the longest pause after failures in seconds. Raises ValueError for negative ones."""
    first_ms = 0 if backoff is None else milliseconds(backoff, "backoff")
    longest_ms = milliseconds(longest, "longest")
    if first_ms < 0 or longest_ms < 0:
        raise ValueError("backoff and longest must not be negative")
    return None if backoff is None else first_ms / 1000, longest_ms / 1000


class Job(AnyJob):
    """A job that was delivered, with what can be done with it.

    As a context manager it is acknowledged when the block ends, and given back (NACK) when an exception leaves it,
    which goes on; what was acknowledged or given back inside is left alone. What ends the program (KeyboardInterrupt,
    SystemExit) gives it back without counting a failure. In a loop that shall survive a failure, see `attempt`.
    """

    __slots__ = ("_acknowledger", "_client", "_settled")

    def __init__(
        self,
        client: "Disque",
        delivered: Delivered,
        node: Address | None = None,
        acknowledger: "Acknowledger | None" = None,
    ) -> None:
        super().__init__(delivered, node)
        self._client = client
        self._acknowledger = acknowledger
        self._settled = False

    def __reduce__(self) -> tuple[type[Self], tuple["Disque", Delivered, Address | None]]:
        return type(self), (self._client, self.delivered(), self.node)

    def ack(self, result: Body | None = None) -> None:
        """The job is done. Inside `Disque.jobs` with prefetch it is sent soon, together with others.

        ``result`` is what has come of it, see `Disque.result` and `Disque.wait`; then it is sent at once.
        """
        self._settled = True
        if result is not None or self._acknowledger is None or not self._acknowledger.put(self.id):
            self._client.settle(self.id, self.node, result)

    def nack(self, *, delay: Duration | None = None, count: bool = True) -> None:
        """Give the job back to its queue, now or after a delay. ``count``: it failed, not only its worker stops."""
        self._settled = True
        self._client.give_back([self.id], self.node, delay, count=count)

    def fail(self, error: str | BaseException, delay: Duration | None = None) -> None:
        """The job has failed, and this is why: it goes back to its queue after ``delay`` (None: after its BACKOFF).

        It is a dead letter when its tries are used up. The text, or class and text of the exception, stays with it.
        """
        self._settled = True
        self._client.give_back([self.id], self.node, delay, error=error)

    def dead(self, error: str | BaseException | None = None) -> None:
        """The job can never succeed: it is a dead letter now (NACK DEAD)."""
        self._settled = True
        self._client.give_back([self.id], self.node, error=error, dead=True)

    def attempt(self, *, backoff: Duration | None = BACKOFF_S, longest: Duration = LONGEST_S) -> "Attempt":
        """Work on the job in a block that does not let its exceptions out, so that a loop goes on with other jobs.

        The job is acknowledged when the block ends. If an `Exception` leaves it, that is logged and told to the node
        as the job's last error, and the job is held back: for ``backoff`` after its first failure, twice as long after
        each further one, but not for longer than ``longest``. If the job has a BACKOFF of its own, that counts instead:
        of jobs that were taken with ``meta=True``, which tells it. With None nothing but that counts; a job without one
        comes back at once. What was acknowledged or given back inside is left alone. At-most-once jobs do not come
        again.
        """
        return Attempt(self, *pauses(backoff, longest))

    def working(self) -> int:
        """Start the RETRY again: its seconds. Raises NoJobError, TooLateError, JobCancelledError."""
        return self._client.working_one(self.id, self.node)

    def progress(self, text: str) -> int:
        """The same, and say how far the work is: at most 1 KB, which `Disque.result` shows."""
        return self._client.working_one(self.id, self.node, progress=text)

    def keep_working(self) -> "KeepWorking":
        """Say WORKING in the background, as often as needed, while the block of this context manager runs."""
        return self._client.keep_working([self])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._settled:
            return
        if error is None:
            self.ack()
        else:
            failure = error if isinstance(error, Exception) else None
            self._client.give_back_quietly([self.id], self.node, count=failure is not None, error=failure)

    def failed(self, error: Exception, pause_s: float | None) -> None:
        """Give the job back after a failure, if that was not done already."""
        if not self._settled:
            self._client.give_back_quietly([self.id], self.node, pause_s, count=True, error=error)


class Attempt:
    """See `Job.attempt`."""

    __slots__ = ("_backoff_s", "_job", "_longest_s")

    def __init__(self, job: Job, backoff_s: float | None, longest_s: float) -> None:
        self._job = job
        self._backoff_s = backoff_s
        self._longest_s = longest_s

    def __enter__(self) -> Job:
        return self._job

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception):
            self._job.__exit__(kind, error, traceback)
            return False
        self._job.failed(error, self._job.pause_after_failure(error, self._backoff_s, self._longest_s))
        return True
