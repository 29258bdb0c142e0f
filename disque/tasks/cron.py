"""Tasks that run at certain times: `App.cron`. The servers keep the schedules and fire them; a worker only says them.

Each worker that starts says all schedules of its app (CRON SET). To say what is there already changes nothing, so any
number of workers may start at once, and a schedule that somebody has paused stays paused. What the app does not have
any more stays at the servers, for an older worker may still want it: the worker names it in its log.
"""

import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, Literal, ParamSpec, TypeAlias, TypeVar, overload

from disque.client import AsyncDisque
from disque.tasks.task import AsyncTask, Bound, SyncTask, Task

LOG: Final = logging.getLogger("disque.tasks")

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T", bound=Task[Any, Any])

#: What becomes of times that passed while no node was up.
Catchup: TypeAlias = Literal["none", "last", "all"]


@dataclass(frozen=True, slots=True)
class Planned:
    """A schedule of an app. ``bound`` is the call that it makes."""

    name: str
    spec: str
    bound: Bound[Any]
    tz: str | None
    catchup: Catchup


class CronDecorator:
    """What `App.cron` gives: takes a task, or makes one of a function, and plans it."""

    def __init__(
        self, make: Callable[[Callable[..., Any]], Task[..., Any]], plan: Callable[[Task[..., Any]], None]
    ) -> None:
        self._make = make
        self._plan = plan

    @overload
    def __call__(self, function: T, /) -> T: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]  # a coroutine is awaited
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> SyncTask[P, R]: ...
    def __call__(self, function: Any, /) -> Any:
        """Plan the task."""
        task = function if isinstance(function, Task) else self._make(function)
        self._plan(task)
        return task


async def say(client: AsyncDisque, app: str, planned: list[Planned]) -> None:
    """Say the schedules of an app to the cluster. Raises DisqueError."""
    for one in planned:
        job = one.bound.job()
        if job.unique is not None:
            LOG.warning("schedule %s: unique does not count for it, each tick adds a job", one.name)
            job = job._replace(unique=None, window=None)
        await client.set_schedule(one.name, one.spec, job, tz=one.tz, catchup=one.catchup)
    if not planned:
        return
    names = {one.name for one in planned}
    cursor = 0
    while True:
        cursor, found = await client.schedules(cursor)
        for schedule in found:
            if schedule.name.startswith(f"{app}:") and schedule.name not in names:
                text = "schedule %s is not in this app any more; `disque cron DEL %s` ends it"
                LOG.warning(text, schedule.name, schedule.name)
        if not cursor:
            return
