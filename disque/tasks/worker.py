"""The worker: takes jobs, runs their functions, says what became of them, and stops so that nothing is lost.

One event loop does it all. `_fetch` keeps the worker supplied (`taking` says for how many and from where). What arrives
is read, and begins as soon as there is a place (`slots`); jobs of batch tasks gather first (`batches`). Each call is a
task of asyncio that runs `Execution.run` and never raises. What becomes of the job goes to the `Settler`. Ten times a
second `_look` ends calls whose time is over, and lets `Leases` renew what the worker has.

A job is in exactly one place: gathering, ready, running, or settled and not yet told. `held` is all of these, and each
of them has its lease renewed; a job leaves when it was told, or when its lease is lost.

Stopping: take no more; give back what has not begun, which counts as no try; let run what runs, for ``grace`` seconds;
then cancel it and give it back, uncounted, too; tell everything. A second signal ends the grace.
"""

import asyncio
import logging
import math
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from random import SystemRandom
from typing import Any, Final

from disque.client import AsyncDisque, CommandError, DisqueError, IncompleteError, NewJob, UnavailableError
from disque.client.async_client import TLS_WAIT_MS
from disque.client.async_pool import AsyncInterrupt
from disque.client.config import Address
from disque.client.errors import NoAuthError, WrongPassError
from disque.tasks import cron
from disque.tasks.app import App
from disque.tasks.batches import BatchTask, Bucket, Buckets
from disque.tasks.cpu import CpuPool
from disque.tasks.door import ServerDoor
from disque.tasks.errors import MessageError
from disque.tasks.execute import Execution, begin, left_s, limit, read, wall_s
from disque.tasks.health import HealthServer
from disque.tasks.held import Held, Run
from disque.tasks.leases import Leases
from disque.tasks.metrics import Metrics
from disque.tasks.outcome import Back, Done, Gone, Outcome, of_error
from disque.tasks.settle import Settler
from disque.tasks.slots import Slots
from disque.tasks.taking import Order, Pace, flow
from disque.tasks.taking import held as held_of
from disque.tasks.task import Task
from disque.tasks.threads import Threads, let_children_end
from disque.tasks.watchdog import Watchdog

LOG: Final = logging.getLogger("disque.tasks")

#: How often the worker looks at what is over.
LOOK_S: Final = 0.1
#: A GETJOB waits so long at the node; where some queues are left out for the moment, only shortly.
WAIT_MS: Final = 10_000
SHORT_WAIT_MS: Final = 200
#: After a failed GETJOB.
AGAIN_S: Final = 0.5
#: A function that was cancelled may take so long to end, before its job is settled without it; at a hard stop less.
CANCEL_S: Final = 5.0
#: What became of jobs is told for so long at the end.
FLUSH_S: Final = 10.0
#: Characters of the names of app and host in what a worker calls itself.
NAME_MOST: Final = 200
#: Errors that no other node would mend, so that a worker that has just begun says so and ends.
HOPELESS: Final = (NoAuthError, WrongPassError, CommandError)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a worker works.

    ``queues`` with their weights (None: all queues of the app's tasks), ``strict`` order, ``concurrency`` calls at
    once, ``grace_s`` for what runs when it stops, ``cpus`` processes for tasks that compute, ``place`` of the app for
    these, ``health`` port (None: none).
    """

    queues: Mapping[str, int] | None = None
    strict: bool = False
    concurrency: int = 100
    grace_s: float = 30.0
    cpus: int = os.cpu_count() or 1
    place: str | None = None
    health: int | None = None
    health_host: str = "127.0.0.1"


class Worker:
    """Runs the tasks of an app. `run` returns when it was stopped, by `stop` or by a signal."""

    def __init__(
        self, app: App, settings: Settings | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.app = app
        self.settings = settings or Settings()
        self.clock = clock
        self.metrics = Metrics()
        self.slots = Slots(self.settings.concurrency, self.settings.cpus)
        self.buckets = Buckets()
        self.running: set[Run] = set()
        self.ready = asyncio.Event()
        self.quiet = False
        self.order = Order(self._queues(), SystemRandom(), strict=self.settings.strict)
        self._asked: list[Task[Any, Any] | None] = [None]
        self.health = HealthServer({"/healthz": self._healthz, "/readyz": self._readyz, "/metrics": self._metrics})
        self._once = any(task.options.at_most_once for task in app.tasks.values())
        self._pace = Pace(0) if self._once else Pace()
        self._room = asyncio.Event()
        self._is_full = False
        self._stopping = asyncio.Event()
        self._stops = 0
        self._over = asyncio.Event()
        self._interrupt = AsyncInterrupt()
        self._said = False
        self._beginning: asyncio.Task[Any] | None = None
        self._pid = os.getpid()
        self._is_connected = False

    def _queues(self) -> dict[str, int]:
        if self.settings.queues is not None:
            return dict(self.settings.queues)
        return dict.fromkeys(sorted({task.queue for task in self.app.tasks.values()}), 1)

    def _tasks_of(self, queues: list[str]) -> list[Task[Any, Any] | None]:
        """What comes from these queues: tasks, where all of them have a limit; else None, which stands for any."""
        tasks = [task for task in self.app.tasks.values() if task.queue in queues]
        if {task.queue for task in tasks} == set(queues) and all(is_limited(task) for task in tasks):
            return list(tasks) or [None]
        return [None]

    # -- life ------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Work until it is stopped. Raises DisqueError where it cannot even begin: a wrong password, an old node."""
        config = replace(self.app.config, client_name=client_name(self.app.name))
        self.client = AsyncDisque(config)
        self.settler = Settler(self.client, self.clock)
        self.leases = Leases(self.client, self.app.lease_s, self.held, self._lost, self._cancelled, self.clock)
        cpu = self._cpu_pool()
        threads = Threads(self.settings.concurrency)
        self.execution = Execution(self.app, threads, cpu, self._add, self.leases.ask)
        self._beginning = asyncio.current_task()
        try:
            if self.settings.health is not None:
                await self.health.start(self.settings.health_host, self.settings.health)
            await self._live(cpu)
        except asyncio.CancelledError:
            if not self._stops or self.ready.is_set():
                raise  # else it was stopped before it had begun
        finally:
            threads.close()
            await self.health.close()
            await self.client.aclose()
            await self.app.aclose()

    async def _live(self, cpu: CpuPool | None) -> None:
        watchdog = Watchdog()
        async with self.app.alive():
            await self._prepare()
            self._beginning = None
            self.ready.set()
            LOG.info("%r works on %s, %d at once", self.app, ", ".join(self.order.weights), self.slots.most)
            watchdog.start()
            looking = asyncio.create_task(self._look_often(watchdog), name="disque-look")
            try:
                await self._work()
            finally:
                looking.cancel()
                watchdog.stop()
                await self.leases.close()
                if cpu is not None:
                    await cpu.close()

    @property
    def leaves_threads(self) -> bool:
        """Whether functions still run that could not be cancelled."""
        return self.slots.running > 0

    def _cpu_pool(self) -> CpuPool | None:
        if not any(task.cpu for task in self.app.tasks.values()):
            return None
        place = self.settings.place or self.app.place()
        if place is None or place.startswith("__main__"):
            raise ValueError("tasks with cpu=True need an app that can be imported: a global of a module")
        return CpuPool(place, self.settings.cpus)

    async def _prepare(self) -> None:
        """Find a node. Raises DisqueError if that is hopeless; else it is tried again later."""
        try:
            await self.client.ping()
        except HOPELESS:
            raise
        except DisqueError as error:
            LOG.warning("no node can be reached yet: %s", error)
        else:
            self._is_connected = True
            await self._say_schedules()

    async def _say_schedules(self) -> None:
        """Say the schedules of the app, when a node can be reached. Raises CommandError for a spec that is none."""
        try:
            await cron.say(self.client, self.app.name, self.app.planned)
        except (UnavailableError, IncompleteError) as error:
            LOG.warning("the schedules cannot be said now: %s", error)
        except DisqueError as error:
            if not self.ready.is_set():
                raise
            self._said = True  # the node has refused: it works without them, as it has since it began
            LOG.error("the schedules are refused: %s", error)  # noqa: TRY400 - the text says it all
        else:
            self._said = True

    async def _work(self) -> None:
        fetching = asyncio.create_task(self._fetch(), name="disque-fetch")
        stopping = asyncio.create_task(self._stopping.wait())
        await asyncio.wait([fetching, stopping], return_when=asyncio.FIRST_COMPLETED)
        self._stopping.set()
        self._interrupt.end()
        stopping.cancel()
        await asyncio.wait([fetching])
        await self._finish()
        fetching.result()

    async def _finish(self) -> None:
        """Give back what has not begun, wait for what runs, and tell everything."""
        self._hand_back()
        deadline_s = self.clock() + self.settings.grace_s
        while self.running and self._stops < 2 and self.clock() < deadline_s:
            self._over.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._over.wait()
        for run in list(self.running):
            run.cancel("stop")
        patience_s = self.clock() + (CANCEL_S if self._stops < 2 else 1.0)
        while self.running and self.clock() < patience_s:
            self._over.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._over.wait()
        for run in list(self.running):
            LOG.warning("task %s, job %s does not end; it goes back", run.task.name, run.jobs[0].id)
            self._settle(run, Back(counts=False), self.clock())
        if not await self.settler.flushed(FLUSH_S):
            LOG.error("what became of %d jobs could not be told: they run again", len(self.settler))

    def _hand_back(self) -> None:
        """Give back what has not begun, uncounted; what cannot go back begins."""
        for held in self.slots.drain():
            if held.task is not None and held.task.options.at_most_once:
                self.slots.force(held.task)  # it cannot go back
                self._begin(held)
            else:
                self.settler.put(held, Back(counts=False))
        for bucket in self.buckets.drain():
            if bucket.task.options.at_most_once:
                self._begin_batch(bucket)
            else:
                for held in bucket.jobs:
                    self.settler.put(held, Back(counts=False))

    def stop(self) -> None:
        """Take no more, let run what runs, end. Called twice, it ends at once."""
        self._stops += 1
        self._stopping.set()
        self._over.set()
        if self._beginning is not None:
            self._beginning.cancel()
            self._beginning = None
        if self._stops == 1:
            LOG.info("takes no more jobs and stops; %d run, and have %g s", len(self.running), self.settings.grace_s)
        else:
            LOG.info("stops at once")

    def hush(self) -> None:
        """Take no more, until `resume`."""
        if self.quiet or self._stops:
            return
        self.quiet = True
        interrupt, self._interrupt = self._interrupt, AsyncInterrupt()
        interrupt.end()
        LOG.info("takes no more jobs until SIGCONT; %d run", len(self.running))

    def resume(self) -> None:
        """Take jobs again. Systems say SIGCONT also to what runs, or stops: then it changes nothing."""
        if not self.quiet or self._stops:
            return
        self.quiet = False
        self._room.set()
        LOG.info("takes jobs again")

    def listen(self, again: Callable[[], object] = lambda: None) -> None:
        """Stop and be quiet on signals: SIGTERM, SIGINT; SIGTSTP, SIGCONT. Only from the main thread.

        ``again`` is called at a second signal to stop, also when a function blocks the event loop: so these two are
        signals of Python, and not of the loop.
        """
        loop = asyncio.get_running_loop()
        signals = 0

        def stop(_number: int, _frame: object) -> None:
            nonlocal signals
            signals += 1
            if signals > 1:
                again()
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self.stop)

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)
        let_children_end(stop)
        loop.add_signal_handler(signal.SIGTSTP, self.hush)
        loop.add_signal_handler(signal.SIGCONT, self.resume)

    # -- jobs come -------------------------------------------------------------------------------------------------

    async def _fetch(self) -> None:
        """Keep the worker supplied until it stops."""
        while not self._stopping.is_set():
            blocked = self.slots.blocked() | self.buckets.blocked()
            queues = self.order.draw(blocked)
            self._asked = self._tasks_of(queues)
            room = self._wanted()
            if self.quiet or room < 1 or not queues:
                self._room.clear()
                self._is_full = True
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_S):
                        await self._room.wait()
                self._is_full = False
                continue
            try:
                await self._take(queues, room, SHORT_WAIT_MS if blocked else WAIT_MS)
            except DisqueError as error:
                if isinstance(error, HOPELESS) and not self._is_connected:
                    raise
                self._is_connected = isinstance(error, HOPELESS)
                LOG.warning("no jobs can be taken now: %s", error)
                await asyncio.sleep(AGAIN_S)

    async def _take(self, queues: list[str], room: int, wait_ms: int) -> None:
        client = self.client
        if client.config.tls:  # a wait over TLS cannot be ended from here
            wait_ms = min(wait_ms, TLS_WAIT_MS)
        taking = flow(client.router, client.config, queues, room, wait_ms, self.app.lease_s)
        taken = await client.drive(taking, self._interrupt)
        self._is_connected = True
        if taken is not None:
            self._receive(*taken)
        if not self._said:
            await self._say_schedules()

    def _receive(self, node: Address | None, rows: list[list[Any]]) -> None:
        """Jobs have come."""
        now_s = self.clock()
        until_s = now_s + self.app.lease_s
        self.metrics.fetched += len(rows)
        for row in rows:
            self._accept(held_of(row, node, until_s), now_s)
        if not self._stopping.is_set():
            self._pump()

    def _wanted(self) -> int:
        """How many jobs to take now from the queues whose turn it is."""
        ahead = self._pace.ahead(self.clock())
        room = self.slots.room(self._asked) + ahead - len(self.slots.ready)
        return room if room > ahead // 2 else 0

    def _accept(self, held: Held, now_s: float) -> None:
        """A job has come: it is read, and waits for its turn."""
        try:
            read(self.app, held)
            if held.task is not None and held.task.options.at_most_once:
                held.lease_until_s = math.inf
            if isinstance(held.task, BatchTask):
                self.buckets.put(held, now_s)
            else:
                self.slots.put(held)
        except BaseException as error:  # noqa: BLE001 - whatever group_by raises, the worker goes on
            self._refuse(held, error)

    def _refuse(self, held: Held, error: BaseException) -> None:
        """A job that cannot be run: what it says never changes, so it is a dead letter now."""
        LOG.error("job %s of queue %s cannot be run: %s", held.id, held.queue, error)
        outcome = of_error(error)
        name = held.task.name if held.task is not None else ""
        self.metrics.over(name, "dead", 0.0)
        self.settler.put(held, replace(outcome, dead=True) if isinstance(outcome, Back) else outcome)

    # -- jobs run --------------------------------------------------------------------------------------------------

    def _pump(self) -> None:
        """Begin what can begin."""
        while self.slots.free > 0 and (bucket := self.buckets.next()) is not None:
            self._begin_batch(bucket)
        while (held := self.slots.next()) is not None:
            self._begin(held)

    def _begin(self, held: Held) -> None:
        if held.lost:
            self.slots.ended(held.task)
            return
        now_s = self.clock()
        self.metrics.began(held.queue, held.waited_s)
        try:
            run = begin(held, now_s, wall_s())
        except (MessageError, TimeoutError) as error:
            self.slots.ended(held.task)
            self._refuse(held, error)
            return
        self._start(run)

    def _begin_batch(self, bucket: Bucket) -> None:
        now_s, wall = self.clock(), wall_s()
        jobs: list[Held] = []
        items: list[object] = []
        for held, item in zip(bucket.jobs, bucket.items, strict=True):
            if held.lost:
                continue
            try:
                left_s(held, wall)
            except TimeoutError as error:
                self._refuse(held, error)
            else:
                jobs.append(held)
                items.append(item)
        if not jobs:
            return
        self.slots.force(bucket.task)
        run = Run(bucket.task, jobs, [items], {}, now_s)
        limit(run, bucket.task.timeout_s, now_s)
        for held in jobs:
            held.run = run
            self.metrics.began(held.queue, held.waited_s)
        self._start(run)

    def _start(self, run: Run) -> None:
        self.running.add(run)
        run.handle = asyncio.get_running_loop().create_task(self._call(run))

    async def _call(self, run: Run) -> None:
        outcome = await self.execution.run(run)
        if os.getpid() != self._pid:
            os._exit(1)  # a child that a function has forked: the parent has the jobs
        now_s = self.clock()
        if run in self.running:
            self._settle(run, outcome, now_s)
        self.slots.ended(run.task)
        self._pace.done()
        if not self._stopping.is_set():
            self._pump()
            if self._is_full and self._wanted():
                self._room.set()

    def _settle(self, run: Run, outcome: Outcome, now_s: float) -> None:
        """The call is over, or is given up."""
        self.running.discard(run)
        self._over.set()
        self.metrics.over(run.task.name, label(outcome), now_s - run.began_s)
        for held in run.jobs:
            if isinstance(outcome, Done) or not held.lost:
                self.settler.put(held, outcome)

    # -- jobs are kept ---------------------------------------------------------------------------------------------

    def held(self) -> Iterator[Held]:
        """All jobs that the worker has."""
        yield from self.slots.all_waiting()
        yield from self.buckets.waiting()
        for run in self.running:
            yield from run.jobs
        yield from self.settler.waiting()

    async def _look_often(self, watchdog: Watchdog) -> None:
        while True:
            watchdog.sign()
            try:
                self._look(self.clock())
            except Exception:
                LOG.exception("a look at the jobs has failed")
            await asyncio.sleep(LOOK_S)

    def _look(self, now_s: float) -> None:
        """End what takes too long, renew leases, call batches that are due."""
        for run in [one for one in self.running if one.until_s is not None and one.until_s <= now_s]:
            if run.why is None:
                run.cancel("timeout")
                run.until_s = now_s + CANCEL_S
            else:
                LOG.warning("task %s, job %s: does not let itself be cancelled", run.task.name, run.jobs[0].id)
                timed_out = f"TimeoutError: ran longer than {run.timeout_s or 0:g} s, and could not be cancelled"
                self._settle(run, Back(timed_out) if run.why == "timeout" else Gone(), now_s)
        self.leases.look(now_s)
        self.leases.say()
        self.buckets.look(now_s)
        if not self._stopping.is_set():
            self._pump()

    def _lost(self, held: Held) -> None:
        """The lease of a job is over."""
        run = held.run
        if run is not None and all(one.lost for one in run.jobs):
            self._cancel(run, "lost")

    def _cancelled(self, held: Held) -> None:
        """Somebody has cancelled a job."""
        run = held.run
        held.lost = True
        if run is not None and all(one.lost for one in run.jobs):
            LOG.info("job %s was cancelled", held.id)
            self._cancel(run, "cancelled")

    def _cancel(self, run: Run, why: Any) -> None:  # noqa: ANN401 - a Why
        if run.why is None:
            run.cancel(why)
            run.until_s = self.clock() + CANCEL_S

    async def _add(self, job: NewJob) -> str:
        return await (self.app.instead or ServerDoor(self.client)).add(job)

    # -- what others may ask ---------------------------------------------------------------------------------------

    def _healthz(self) -> tuple[int, str]:
        return 200, "ok\n"

    def _readyz(self) -> tuple[int, str]:
        if self._stopping.is_set() or self.quiet:
            return 503, "stopping\n" if self._stopping.is_set() else "quiet\n"
        return (200, "ok\n") if self._is_connected else (503, "no node can be reached\n")

    def _metrics(self) -> tuple[int, str]:
        gauges = {
            "disque_worker_running": ("Calls that run.", len(self.running)),
            "disque_worker_waiting": ("Jobs that were taken and have not begun.", self.slots.waiting),
            "disque_worker_concurrency": ("Calls that may run at once.", self.slots.most),
            "disque_worker_refused": ("Outcomes that no node took.", self.settler.refused),
        }
        return 200, self.metrics.text({name: (meaning, float(value)) for name, (meaning, value) in gauges.items()})


def is_limited(task: Task[Any, Any]) -> bool:
    """Whether not all places may be taken by a task."""
    return task.cpu or task.limit is not None


def label(outcome: Outcome) -> str:
    """What became of a job, in a word."""
    if isinstance(outcome, Done):
        return "done"
    if isinstance(outcome, Gone):
        return "gone"
    if outcome.dead:
        return "dead"
    return "failed" if outcome.counts else "back"


def client_name(app: str) -> str:
    """How a worker calls itself in CLIENT LIST: nodes take ASCII without spaces, and no long names."""
    return f"worker:{plain(app)}:{plain(socket.gethostname())}:{os.getpid()}"


def plain(name: str) -> str:
    """A name as a part of that."""
    return "".join(one if one.isascii() and (one.isalnum() or one in "-_.") else "_" for one in name[:NAME_MOST])
