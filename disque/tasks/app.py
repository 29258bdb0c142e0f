"""`App`: where tasks are registered, and how they reach the cluster."""

import asyncio
import inspect
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from itertools import islice
from types import TracebackType
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar, Unpack, overload

from disque.client import AsyncDisque, Backoff, Config, Disque, DisqueError, NewJob
from disque.client.values import Duration, seconds_word
from disque.tasks import groups, tracing
from disque.tasks.backoff import exponential
from disque.tasks.batches import BatchTask
from disque.tasks.cron import Catchup, CronDecorator, Planned
from disque.tasks.door import BlockingDoor, Door, Gathering, ServerDoor, finish
from disque.tasks.handle import Job
from disque.tasks.inspector import Inspector, JobView, QueueView
from disque.tasks.memory import Memory
from disque.tasks.message import Format
from disque.tasks.middleware import Event, Middleware, enqueue
from disque.tasks.options import CallOptions, Options
from disque.tasks.task import AsyncTask, Bound, SyncTask, Task
from disque.tasks.testing import Testing

P = ParamSpec("P")
R = TypeVar("R")
I = TypeVar("I")  # noqa: E741 - an item
M = TypeVar("M", bound=Middleware)
Lifespan = Callable[["App"], AsyncIterator[None]]
L = TypeVar("L", bound=Lifespan)

#: What a job has that says nothing: ten tries, a second after the first failure and an hour after late ones.
TRIES: Final = 10
BACKOFF: Final = exponential(1, 3600)
#: A function that runs longer is taken for one that hangs.
TIMEOUT_S: Final = 1800
#: So long after the death of a worker its jobs run elsewhere.
LEASE_S: Final = 60
#: Jobs of `enqueue_many` that travel together; their calls go through middleware side by side.
TOGETHER: Final = 1000


class TaskOptions(CallOptions, total=False):
    """What `App.task` takes besides: see `Options`."""

    at_most_once: bool


class Decorator:
    """What `App.task` with options gives: makes a task of a function."""

    def __init__(self, make: Callable[[Callable[..., Any]], Any]) -> None:
        self._make = make

    @overload
    def __call__(  # type: ignore[overload-overlap]  # a coroutine is awaited
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> SyncTask[P, R]: ...
    def __call__(self, function: Callable[..., Any], /) -> Any:
        """Register the function."""
        return self._make(function)


class BatchDecorator:
    """What `App.batch` gives: makes a batch task of a function of a list."""

    def __init__(self, make: Callable[[Callable[..., Any]], Any]) -> None:
        self._make = make

    @overload
    def __call__(self, function: Callable[Concatenate[list[I], P], Coroutine[Any, Any, R]], /) -> BatchTask[I, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[list[I], P], R], /) -> BatchTask[I, R]: ...
    def __call__(self, function: Callable[..., Any], /) -> Any:
        """Register the function."""
        return self._make(function)


class App:
    """Tasks, and the cluster that has their jobs.

    ``url`` is `disque://host,host`, see `disque.client.Config.from_url`. ``lease`` is how long after the death of a
    worker its jobs run elsewhere, in whole seconds; a living worker renews it. ``format`` is that of messages: "json",
    which any program reads, or "msgpack". What else is said counts for all tasks that do not say otherwise, see
    `Options`: ``tries`` (10), ``backoff`` (exponential(1, 3600)), ``timeout`` (1800 seconds; 0: none), ``retain``,
    ``ttl`` (30 days), ``replicate``, ``queue`` ("default"), ``deadletter``.
    """

    def __init__(
        self,
        url: str | Config | None = None,
        *,
        name: str = "app",
        lease: Duration = LEASE_S,
        format: Format = "json",  # noqa: A002 - the word for it
        tries: int = TRIES,
        backoff: Backoff | str = BACKOFF,
        timeout: Duration = TIMEOUT_S,
        queue: str = "default",
        retain: Duration | None = None,
        ttl: Duration | None = None,
        replicate: int | None = None,
        deadletter: str | None = None,
    ) -> None:
        if format not in {"json", "msgpack"}:
            raise ValueError(f"format must be json or msgpack, not {format!r}")
        self.name = name
        self.config = Config.from_url(url) if isinstance(url, str) else url or Config()
        self.format: Format = format
        self.lease_s = int(seconds_word(lease, "lease"))
        if self.lease_s < 1:
            raise ValueError("lease must be at least a second")
        self.options = Options(
            tries=tries, backoff=backoff, timeout=timeout, queue=queue, retain=retain, ttl=ttl,
            replicate=replicate, deadletter=deadletter,
        )  # fmt: skip
        self.tasks: dict[str, Task[Any, Any]] = {}
        self.planned: list[Planned] = []
        self.middlewares: list[Middleware] = []
        self.instead: Door | None = None
        self._lifespan: Lifespan | None = None
        self._clients: dict[asyncio.AbstractEventLoop, AsyncDisque] = {}
        self._blocking: Disque | None = None
        collecting = groups.collector(self, self.door, self.now_s, Options(tries=TRIES, timeout=TIMEOUT_S))
        self.builtins: dict[str, Task[Any, Any]] = {groups.NAME: collecting}

    # -- tasks -----------------------------------------------------------------------------------------------------

    @overload
    def task(  # type: ignore[overload-overlap]  # a coroutine is awaited
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncTask[P, R]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> SyncTask[P, R]: ...
    @overload
    def task(
        self,
        *,
        name: str | None = None,
        cpu: bool = False,
        limit: int | None = None,
        **options: Unpack[TaskOptions],
    ) -> Decorator: ...
    def task(  # type: ignore[misc]  # mypy does not see that ** takes what Unpack names
        self, function: Callable[..., Any] | None = None, /, **how: Any
    ) -> Any:
        """Make a task of a function.

        ``name`` is what messages say, by default the name of the function; rename the function and keep it. ``cpu``: a
        plain function that computes runs in a process of its own. ``limit``: at most so many run at once in a worker
        process. The rest: see `Options`.
        """

        def make(function: Callable[..., Any]) -> Task[..., Any]:
            return self.register(self._task(function, **how))

        return Decorator(make) if function is None else make(function)

    def _task(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        cpu: bool = False,
        limit: int | None = None,
        **options: Unpack[TaskOptions],
    ) -> Task[..., Any]:
        kind = AsyncTask if inspect.iscoroutinefunction(function) else SyncTask
        if cpu and kind is AsyncTask:
            raise TypeError("a task with cpu=True must be a plain function")
        return kind(self, function, name or function.__name__, Options(**options), cpu=cpu, limit=limit)

    def batch(
        self,
        *,
        name: str | None = None,
        max_size: int = 100,
        max_wait: Duration = 1,
        group_by: Callable[[Any], object] | None = None,
        **options: Unpack[TaskOptions],
    ) -> BatchDecorator:
        """Make a task of a function that takes a list: it is enqueued with single items.

        Items gather in a worker until there are ``max_size`` or the first has waited for ``max_wait``, those for which
        ``group_by`` gives the same together. If the call fails, all of them are tried again.
        """

        def make(function: Callable[..., Any]) -> Task[..., Any]:
            said = Options(**options)
            own = name or function.__name__
            task: BatchTask[Any, Any] = BatchTask(
                self, function, own, said, max_size=max_size, max_wait=max_wait, group_by=group_by
            )
            return self.register(task)

        return BatchDecorator(make)

    def register(self, task: Task[P, R]) -> Task[P, R]:
        """Take a task in. Raises ValueError for a name that is taken."""
        if task.name in self.tasks:
            raise ValueError(f"there are two tasks {task.name!r}: give one of them another name=")
        self.tasks[task.name] = task
        return task

    def cron(
        self,
        spec: str,
        /,
        *,
        tz: str | None = None,
        catchup: Catchup = "none",
        name: str | None = None,
        **options: Unpack[TaskOptions],
    ) -> CronDecorator:
        """Run a task at certain times; the task, or a function that becomes one, is decorated with it.

        ``spec`` is "minute hour day month weekday" in the time zone ``tz`` (UTC), "@hourly" and its like, or "@every
        30s". ``catchup`` says what becomes of times that passed while no node was up: nothing, the last one, or all.
        ``name`` is that of the schedule behind the app's, by default the task's. The servers keep the schedules: any
        number of workers may run, or none.
        """

        def make(function: Callable[..., Any]) -> Task[..., Any]:
            return self.register(self._task(function, **options))

        def plan(task: Task[..., Any]) -> None:
            own = f"{self.name}:{name or task.name}"
            if any(one.name == own for one in self.planned):
                raise ValueError(f"there are two schedules {own!r}: give one of them another name=")
            self.planned.append(Planned(own, spec, task.bind(), tz, catchup))

        return CronDecorator(make, plan)

    def group(self, calls: Iterable[Bound[R]]) -> "groups.Group[list[R]]":
        """Calls that run side by side, with something behind all of them: see `disque.tasks.groups`."""
        return groups.group(self, calls)

    def now_s(self) -> float:
        """The time of day: that of the test, inside of `testing`."""
        return self.instead.now_s if isinstance(self.instead, Memory) else groups.now_s()

    def layers(self) -> Sequence[Middleware]:
        """All middleware, tracing among it where somebody listens."""
        return [tracing.tracing, *self.middlewares] if tracing.is_active() else self.middlewares

    def middleware(self, middleware: M) -> M:
        """Let this run around each enqueue and each run: see `disque.tasks.middleware`. The first one is outermost."""
        self.middlewares.append(middleware)
        return middleware

    def lifespan(self, lifespan: L) -> L:
        """Let this asynchronous generator run once in each process of a worker, around everything."""
        self._lifespan = lifespan
        return lifespan

    def alive(self) -> AbstractAsyncContextManager[None]:
        """The lifespan as a context."""
        if self._lifespan is None:
            return nullcontext()
        return asynccontextmanager(self._lifespan)(self)

    # -- jobs ------------------------------------------------------------------------------------------------------

    async def send(self, bound: Bound[Any]) -> str:
        """Add the job of a call, through the middleware: its ID."""
        return await self._send(self.door().add, bound)

    def send_now(self, bound: Bound[Any]) -> str:
        """The same, blocking. A middleware that waits for something raises RuntimeError here."""
        return finish(self._send(self.blocking_door().add, bound))

    async def _send(self, add: Callable[[NewJob], Awaitable[str]], bound: Bound[Any]) -> str:
        layers = self.layers()
        if not layers:
            return await add(bound.job())
        kwargs = dict(bound.kwargs)
        headers = dict(bound.options.headers or {})
        event = Event("enqueue", bound.task.name, bound.queue, list(bound.args), kwargs, headers)

        async def last() -> str:
            return await add(bound.job(event.headers))

        return await enqueue(layers, event, last)

    async def enqueue_many(self, calls: Iterable[Bound[R]]) -> list[Job[R]]:
        """Add the jobs of many calls, a thousand at a time: their handles in order.

        Raises DisqueError; what came of the jobs so far, IDs and errors, is in its ``results``.
        """
        handles: list[Job[R]] = []
        calls = iter(calls)
        door = self.door()
        while part := list(islice(calls, TOGETHER)):
            try:
                ids = await self._add_part(door, part)
            except DisqueError as error:
                error.results = [*(one.id for one in handles), *error.results]
                raise
            handles += [one.handle(job_id) for one, job_id in zip(part, ids, strict=True)]
        return handles

    async def _add_part(self, door: Door, part: Sequence[Bound[Any]]) -> list[str]:
        if self.middlewares:
            add = Gathering(door).add
            came = await asyncio.gather(*[self._send(add, one) for one in part], return_exceptions=True)
            for one in came:
                if isinstance(one, DisqueError):
                    one.results = came
                if isinstance(one, BaseException):
                    raise one
            return [one for one in came if isinstance(one, str)]
        if tracing.is_active():
            with tracing.many(len(part)) as headers:
                return await door.add_many([one.job(headers) for one in part])
        return await door.add_many([one.job() for one in part])

    def door(self) -> Door:
        """The door to the cluster for the running event loop."""
        return self.instead or ServerDoor(self.client)

    def blocking_door(self) -> Door:
        """The one that blocks."""
        return self.instead or BlockingDoor(self.blocking_client)

    @property
    def client(self) -> AsyncDisque:
        """The client of the running event loop."""
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            self._let_go()
            client = self._clients[loop] = AsyncDisque(self.config)
        return client

    def _let_go(self) -> None:
        """Close clients whose event loops are closed: `asyncio.run` and `async_to_sync` have one for each call."""
        for loop in list(self._clients):
            client = self._clients.pop(loop, None) if loop.is_closed() else None
            if client is not None:
                client.abandon()

    @property
    def inspect(self) -> Inspector:
        """Questions and orders about queues, jobs and workers, with asyncio: see `Inspector`."""
        return Inspector(self.client)

    async def queues(self, pattern: str = "*") -> list[QueueView]:
        """Figures of the queues whose names match, of all nodes together."""
        return await self.inspect.queues(pattern)

    async def jobs(self, queue: str | None = None, status: str | None = None, limit: int = 100) -> list[JobView]:
        """Some jobs of a queue in a state: see `Inspector.jobs`."""
        return await self.inspect.jobs(queue, status, limit)

    async def job(self, job_id: str) -> JobView | None:
        """One job, wherever it is known."""
        return await self.inspect.job(job_id)

    @property
    def blocking_client(self) -> Disque:
        """The client for threads."""
        if self._blocking is None:
            self._blocking = Disque(self.config)
        return self._blocking

    async def aclose(self) -> None:
        """Close the connections of this event loop, and the blocking ones. The app can be used again."""
        self._let_go()
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()
        if self._blocking is not None:
            self._blocking.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    @asynccontextmanager
    async def testing(self) -> AsyncIterator["Testing"]:
        """Keep jobs in memory inside of this block, without a server, and run them when the test says so."""
        testing = Testing(self)
        before, self.instead = self.instead, testing.memory
        try:
            async with self.alive():
                yield testing
        finally:
            self.instead = before
            testing.close()

    def place(self) -> str | None:
        """Where this app can be imported, as "module:name", if it is a global of the module of one of its tasks."""
        for name in dict.fromkeys(task.__module__ for task in self.tasks.values()):
            module = sys.modules.get(name)
            for key, value in vars(module).items() if module is not None else ():
                if value is self:
                    spec = getattr(module, "__spec__", None)
                    return f"{spec.name if spec else name}:{key}"
        return None

    def __repr__(self) -> str:
        return f"<App {self.name}: {len(self.tasks)} task{'s' * (len(self.tasks) != 1)}>"
