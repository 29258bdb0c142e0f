"""`async with app.testing() as t`: jobs in memory, run when the test says so, with time that is moved by hand.

    async with app.testing() as t:
        job = await welcome.enqueue(7)
        await t.run()
        assert await job.result() == ...
        await t.advance(60)

Functions are really called, with what they depend on and with middleware. Limits of time do not count.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, Protocol

from disque.client.values import Duration
from disque.tasks.batches import BatchTask, Buckets
from disque.tasks.cron import Planned
from disque.tasks.errors import seconds
from disque.tasks.execute import Execution, Registry, begin, read
from disque.tasks.held import Run
from disque.tasks.memory import Entry, Memory
from disque.tasks.outcome import Back, of_error
from disque.tasks.task import Task
from disque.tasks.threads import Threads

#: More runs than this without end are a circle.
RUNS_MOST: Final = 100_000


class Planning(Registry, Protocol):
    """An app with schedules."""

    planned: list[Planned]


class Testing:
    """What `App.testing` gives. ``runs`` counts the calls so far."""

    __test__ = False  # pytest need not look for tests in here

    def __init__(self, app: Planning) -> None:
        self.memory = Memory()
        self.runs = 0
        self._app = app
        self._buckets = Buckets()
        self._threads = Threads(4)
        self._execution = Execution(app, self._threads, None, self.memory.add)

    async def run(self) -> int:
        """Run everything that is due now, and what comes of it: how many calls that were."""
        before = self.runs
        while True:
            if self.runs - before > RUNS_MOST:
                raise RuntimeError("the jobs of this test add jobs without end")
            held = self.memory.take()
            if held is None:
                self._buckets.look(self.memory.now_s)
                if not await self._call_batches():
                    return self.runs - before
                continue
            try:
                read(self._app, held)
                if isinstance(held.task, BatchTask):
                    self._buckets.put(held, self.memory.now_s)
                    await self._call_batches()
                else:
                    await self._call(begin(held, self.memory.now_s, self.memory.now_s))
            except Exception as error:  # noqa: BLE001 - as in the worker
                outcome = of_error(error)
                self.memory.settle(held, Back(outcome.error, dead=True) if isinstance(outcome, Back) else outcome)

    async def advance(self, duration: Duration) -> int:
        """Let so much time pass, and run what becomes due, each at its time: how many calls that were."""
        until_s = self.memory.now_s + seconds(duration, "duration")
        count = await self.run()
        while (next_s := self._next_s()) is not None and next_s <= until_s:
            self.memory.now_s = max(self.memory.now_s, next_s)
            count += await self.run()
        self.memory.now_s = until_s
        return count + await self.run()

    def close(self) -> None:
        """Let the threads end."""
        self._threads.close()

    async def tick(self, task: Task[..., Any]) -> str:
        """Let a schedule of this task fire now, whatever its times are: the ID of the job. Raises ValueError."""
        for planned in self._app.planned:
            if planned.bound.task is task:
                return await self.memory.add(planned.bound.job()._replace(unique=None, window=None))
        raise ValueError(f"{task!r} has no schedule")

    def jobs(self, queue: str | None = None) -> list[Entry]:
        """The jobs that are queued or held back, oldest first."""
        return self._which(lambda one: one.status == "queued" and one.origin is None, queue)

    def dead(self, queue: str | None = None) -> list[Entry]:
        """The dead letters, of the queue in which they died, oldest first."""
        found = self._which(lambda one: one.origin is not None and one.status == "queued", None)
        return [one for one in found if queue is None or one.origin == queue]

    def revive(self, entry: Entry) -> None:
        """Put a dead letter back into its queue."""
        self.memory.revive(entry.id)

    def _which(self, wanted: Callable[[Entry], bool], queue: str | None) -> list[Entry]:
        return [one for one in self.memory.entries.values() if wanted(one) and (queue is None or one.queue == queue)]

    def _next_s(self) -> float | None:
        times = [self.memory.next_s(), self._buckets.next_s()]
        return min((one for one in times if one is not None), default=None)

    async def _call(self, run: Run) -> None:
        self.runs += 1
        outcome = await asyncio.create_task(self._execution.run(run))
        for held in run.jobs:
            self.memory.settle(held, outcome)

    async def _call_batches(self) -> bool:
        """Call those that are ready: whether there were any."""
        before = self.runs
        while (bucket := self._buckets.next()) is not None:
            await self._call(Run(bucket.task, bucket.jobs, [bucket.items], {}, self.memory.now_s))
        return self.runs > before
