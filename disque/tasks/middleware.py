"""What runs around each enqueue and each run: `App.middleware`. A worker enqueues, too: the next jobs of chains.

A middleware is an asynchronous function of an event and of ``go``, which does the rest: the next middleware, and behind
the last one the work itself. It returns what ``go`` has returned, or something else in its place.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from disque.tasks.errors import TaskError

Go: TypeAlias = Callable[[], Awaitable[Any]]


@dataclass(slots=True)
class Event:
    """What is about to happen.

    - ``phase``: "enqueue", where ``go`` gives the ID of the job, or "run", where it gives what the task returns.
    - ``task``, ``queue``, ``args``, ``kwargs``: the call. ``headers``: those of the job; at "enqueue" more
      can be added.
    - ``job_id``: at "run" the ID of the job, else "". ``tries``: at "run", how many tries have ended before.
    """

    phase: Literal["enqueue", "run"]
    task: str
    queue: str
    args: list[object]
    kwargs: dict[str, object]
    headers: dict[str, str] = field(default_factory=dict)
    job_id: str = ""
    tries: int = 0


Middleware: TypeAlias = Callable[[Event, Go], Awaitable[Any]]


def around(middlewares: Sequence[Middleware], event: Event, last: Go) -> Go:
    """``last`` with all of these around it, the first one outermost."""
    go = last
    for middleware in reversed(middlewares):
        go = _layer(middleware, event, go)
    return go


async def enqueue(middlewares: Sequence[Middleware], event: Event, last: Callable[[], Awaitable[str]]) -> str:
    """Add a job by ``last`` with all of these around it: its ID. Raises TaskError for a middleware that drops it."""
    job_id = await around(middlewares, event, last)()
    if not isinstance(job_id, str):
        raise TaskError("a middleware must return the ID that go() gives it at enqueue")
    return job_id


def _layer(middleware: Middleware, event: Event, go: Go) -> Go:
    return lambda: middleware(event, go)
