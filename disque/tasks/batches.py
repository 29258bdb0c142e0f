"""Tasks that take many jobs in one call: `App.batch`.

Jobs gather in the worker, those with the same group together, until there are ``max_size`` of them or the first has
waited for ``max_wait``; then the function is called with a list. If it succeeds all of them are acknowledged, if it
fails all go back, each with its own count of tries. While they gather their leases are renewed. Each worker process
gathers by itself.
"""

from collections.abc import Callable
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

MOST: Final = 10_000


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
    """All jobs that gather."""

    def __init__(self) -> None:
        self._buckets: dict[tuple[str, object], Bucket] = {}

    def put(self, held: Held, now_s: float) -> Bucket | None:
        """Take a job: the bucket that it has made full, which is not here any more.

        Raises MessageError, and whatever ``group_by`` raises.
        """
        task, message = held.task, held.message
        assert isinstance(task, BatchTask)
        assert message is not None
        args, kwargs = task.shape.read(message.args, message.kwargs)
        item = [*args, *kwargs.values()][0]
        key = (task.name, None if task.group_by is None else task.group_by(item))
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = Bucket(task, now_s)
        bucket.jobs.append(held)
        bucket.items.append(item)
        return self._buckets.pop(key) if len(bucket.jobs) >= task.max_size else None

    def due(self, now_s: float) -> list[Bucket]:
        """Buckets whose first job has waited long enough; they are not here any more."""
        due = [key for key, bucket in self._buckets.items() if now_s - bucket.since_s >= bucket.task.max_wait_s]
        return [self._buckets.pop(key) for key in due]

    def next_s(self) -> float | None:
        """When the next one is due."""
        return min((one.since_s + one.task.max_wait_s for one in self._buckets.values()), default=None)

    def waiting(self) -> list[Held]:
        """The jobs that gather."""
        return [held for bucket in self._buckets.values() for held in bucket.jobs]

    def drop(self, held: Held) -> None:
        """This job is not ours any more."""
        for key, bucket in list(self._buckets.items()):
            if held in bucket.jobs:
                at = bucket.jobs.index(held)
                del bucket.jobs[at], bucket.items[at]
                if not bucket.jobs:
                    del self._buckets[key]

    def drain(self) -> list[Held]:
        """The jobs that gather, and they are not here any more."""
        waiting = self.waiting()
        self._buckets.clear()
        return waiting
