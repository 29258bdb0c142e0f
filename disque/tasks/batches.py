"""Tasks that take many jobs in one call: `App.batch`.

Jobs gather in the worker, those with the same group together, until there are ``max_size`` of them or the first has
waited for ``max_wait``; then the function is called with a list, as soon as there is a place for one more call. If it
succeeds all of them are acknowledged, if it fails all go back, each with its own count of tries. While they gather
their leases are renewed. Each worker process gathers by itself.

What gathers is bounded: while there are very many, or some wait for a place, no more of their queues is taken.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, ParamSpec, TypeVar

from disque.client.values import Duration
from disque.tasks.errors import seconds
from disque.tasks.held import Held
from disque.tasks.options import Options
from disque.tasks.shape import Shape
from disque.tasks.task import Sender, Task

P = ParamSpec("P")
I = TypeVar("I")  # noqa: E741 - an item
R = TypeVar("R")

#: Items of one call.
MOST: Final = 10_000
#: So many jobs, and bytes, gather before no more are taken.
GATHER_MOST: Final = 10_000
GATHER_BYTES: Final = 64 << 20


class BatchTask(Task[[I], R]):
    """A task that is enqueued with one item, and whose function gets a list of them."""

    __slots__ = ("group_by", "max_size", "max_wait_s")

    def __init__(
        self,
        app: Sender,
        function: Callable[..., Any],
        name: str,
        options: Options,
        *,
        max_size: int,
        max_wait: Duration,
        group_by: Callable[[Any], object] | None,
    ) -> None:
        super().__init__(app, function, name, options)
        if not 1 <= max_size <= MOST:
            raise ValueError(f"max_size of {name} must be from 1 to {MOST}, not {max_size}")
        self.max_size = max_size
        self.max_wait_s = seconds(max_wait, "max_wait")
        self.group_by = group_by
        self.shape = Shape.of_items(function, name)

    def __call__(self, items: list[I], /) -> Any:  # noqa: ANN401 - what the function gives, awaited or not
        """Call the function here and now, with a list."""
        return self.function(items)


class Bucket:
    """Jobs of one group."""

    __slots__ = ("items", "jobs", "since_s", "task")

    def __init__(self, task: BatchTask[Any, Any], since_s: float) -> None:
        self.task = task
        self.since_s = since_s
        self.jobs: list[Held] = []
        self.items: list[object] = []


class Buckets:
    """All jobs that gather, or wait for a place."""

    def __init__(self) -> None:
        self._gathering: dict[tuple[str, object], Bucket] = {}
        self._ready: deque[Bucket] = deque()
        self._queues: set[str] = set()
        self._jobs = 0
        self._bytes = 0

    def put(self, held: Held, now_s: float) -> None:
        """Take a job; a bucket that it makes full is ready. Raises MessageError, and whatever ``group_by`` raises."""
        task, message = held.task, held.message
        assert isinstance(task, BatchTask)
        assert message is not None
        args, kwargs = task.shape.read(message.args, message.kwargs)
        item = [*args, *kwargs.values()][0]
        key = (task.name, None if task.group_by is None else task.group_by(item))
        bucket = self._gathering.get(key)
        if bucket is None:
            bucket = self._gathering[key] = Bucket(task, now_s)
        bucket.jobs.append(held)
        bucket.items.append(item)
        self._queues.add(held.queue)
        self._count([held], 1)
        if len(bucket.jobs) >= task.max_size:
            self._ready.append(self._gathering.pop(key))

    def look(self, now_s: float) -> None:
        """Buckets whose first job has waited long enough are ready."""
        due = [key for key, bucket in self._gathering.items() if now_s - bucket.since_s >= bucket.task.max_wait_s]
        self._ready += [self._gathering.pop(key) for key in due]

    def next(self) -> Bucket | None:
        """A bucket that is ready, to be called now: it is not here any more."""
        if not self._ready:
            return None
        bucket = self._ready.popleft()
        self._count(bucket.jobs, -1)
        return bucket

    def next_s(self) -> float | None:
        """When the next one is due."""
        return min((one.since_s + one.task.max_wait_s for one in self._gathering.values()), default=None)

    def blocked(self) -> set[str]:
        """Queues from which nothing more should be taken, since enough is here."""
        is_enough = self._ready or self._jobs >= GATHER_MOST or self._bytes >= GATHER_BYTES
        return self._queues if is_enough else set()

    def waiting(self) -> list[Held]:
        """The jobs that are here."""
        return [held for bucket in (*self._gathering.values(), *self._ready) for held in bucket.jobs]

    def drain(self) -> list[Bucket]:
        """All buckets, and they are not here any more."""
        buckets = [*self._ready, *self._gathering.values()]
        for bucket in buckets:
            self._count(bucket.jobs, -1)
        self._ready.clear()
        self._gathering.clear()
        return buckets

    def _count(self, jobs: Sequence[Held], sign: int) -> None:
        self._jobs += sign * len(jobs)
        self._bytes += sign * sum(len(held.body) for held in jobs)
