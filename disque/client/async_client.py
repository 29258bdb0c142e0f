"""The client for asyncio. Its behaviour is defined where the blocking client's is. Here it is only awaited."""

import asyncio
import math
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from random import SystemRandom
from types import TracebackType
from typing import Any, Concatenate, Literal, ParamSpec, Self, TypeVar, Unpack, overload

from disque.client import admin, batch, ends, requests, sweeps, upkeep
from disque.client import schedules as cron
from disque.client.async_heartbeat import AsyncKeepWorking
from disque.client.async_job import AsyncJob
from disque.client.async_listening import AsyncListening
from disque.client.async_pool import AsyncInterrupt, AsyncPool
from disque.client.async_stream import AsyncAcknowledger, AsyncJobs
from disque.client.batch import AnyNewJob, BatchOptions, Errors, Packer
from disque.client.config import Address, Config
from disque.client.delivery import Exchange, Flow, Outcome, Step, look
from disque.client.ends import Ended
from disque.client.errors import BadIdError, CommandError, DisqueError, IncompleteError
from disque.client.job import AnyJob
from disque.client.listening import Event, Message, event_patterns, read_event, read_message, subscriptions
from disque.client.methods import describe
from disque.client.pipeline import AsyncPipeline
from disque.client.requests import Request
from disque.client.router import Router
from disque.client.shelf import PREFETCH
from disque.client.values import Body, Duration, Name, Value

P = ParamSpec("P")
T = TypeVar("T")

#: A wait that cannot be ended from outside, over TLS, ends by itself after so long.
TLS_WAIT_MS = 1000


def _method(
    build: Callable[Concatenate[Config, P], Request[T]],
) -> "Callable[Concatenate[AsyncDisque, P], Coroutine[Any, Any, T]]":
    """A method out of the function that makes its request."""

    async def method(self: "AsyncDisque", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.run(build(self.config, *args, **kwargs))

    describe(method, build)
    return method


class AsyncDisque:
    """A client of a cluster, with asyncio. Connects when it must, and to another node when one fails.

    Any number of tasks of one event loop may share one. It may be pickled: only the configuration travels. Close it
    with `aclose`, or use it as an asynchronous context manager.
    """

    def __init__(self, config: Config | str | None = None) -> None:
        self.config = Config.from_url(config) if isinstance(config, str) else config or Config()
        self.router = Router(self.config, time.monotonic, SystemRandom())
        self._pool = AsyncPool(self.config, self.router.learned)
        #: What is seen through, so that the collector lets it be.
        self._ending: set[asyncio.Task[Any]] = set()

    @classmethod
    def from_url(cls, url: str) -> Self:
        """A client of the cluster that a URL names; see `Config.from_url`. Raises ValueError."""
        return cls(Config.from_url(url))

    # -- jobs ------------------------------------------------------------------------------------------------------

    add = _method(requests.add)
    ack = _method(requests.ack)
    fast_ack = _method(requests.fast_ack)
    nack = _method(requests.nack)
    working = _method(requests.working)
    enqueue = _method(requests.enqueue)
    dequeue = _method(requests.dequeue)
    move = _method(requests.move)
    revive = _method(requests.revive)
    cancel = _method(ends.cancel)
    result = _method(ends.result)
    delete = _method(requests.delete)
    show = _method(requests.show)
    peek = _method(requests.peek)

    async def get(
        self,
        queues: Name | Iterable[Name],
        *,
        count: int = 1,
        timeout: Duration | None = None,  # noqa: ASYNC109 - it is the node that waits
        nohang: bool = False,
        counters: bool = True,
        lease: Duration | None = None,
        strict: bool = False,
        meta: bool = False,
    ) -> list[AsyncJob]:
        """Take up to ``count`` jobs out of queues, waiting for the first: see `Disque.get`.

        When this is cancelled, a job that was on its way comes again after its RETRY.
        """
        how = requests.how_words(lease=lease, strict=strict, counters=counters, meta=meta)
        flow = requests.get_flow(self.router, self.config, queues, count=count, timeout=timeout, nohang=nohang, how=how)
        node, jobs = await self.drive(flow)
        return [AsyncJob(self, one, node) for one in jobs]

    async def take(
        self,
        queues: list[Name],
        count: int,
        interrupt: AsyncInterrupt,
        acknowledger: AsyncAcknowledger | None,
        timeout_s: float | None = None,
        how: tuple[bytes, ...] = requests.USUALLY,
    ) -> list[AsyncJob]:
        """What `jobs` does to fetch: wait for jobs, whose acknowledgements may travel together. None if interrupted."""
        wait_ms = TLS_WAIT_MS if self.config.tls else requests.WAIT_MOST_MS
        flow = requests.get_flow(
            self.router, self.config, queues, count=count, timeout=timeout_s, how=how, wait_most_ms=wait_ms
        )
        taken = await self.drive(flow, interrupt)
        return [] if taken is None else [AsyncJob(self, one, taken[0], acknowledger) for one in taken[1]]

    def jobs(
        self,
        queues: Name | Iterable[Name],
        *,
        count: int | None = None,
        prefetch: int = PREFETCH,
        timeout: Duration | None = None,
        lease: Duration | None = None,
        strict: bool = False,
        meta: bool = False,
    ) -> AsyncJobs:
        """Iterate over jobs as they come, the next ones fetched meanwhile; see `AsyncJobs`."""
        how = requests.how_words(lease=lease, strict=strict, meta=meta)
        return AsyncJobs(self, queues, count=count, prefetch=prefetch, timeout=timeout, how=how)

    async def wait(
        self,
        *ids: Name,
        timeout: Duration | None = None,  # noqa: ASYNC109 - it is the node that waits
        any: bool = False,  # noqa: A002 - the word of the command
    ) -> list[Ended | None]:
        """Wait until jobs have ended, or with ``any`` until one has: see `Disque.wait`."""
        return await self.drive(ends.wait_flow(self.router, self.config, ids, timeout, any_one=any))

    @overload
    async def add_many(
        self,
        jobs: Iterable[AnyNewJob],
        *,
        pipeline: int = ...,
        errors: Literal["raise"] = ...,
        **options: Unpack[BatchOptions],
    ) -> list[str]: ...

    @overload
    async def add_many(
        self,
        jobs: Iterable[AnyNewJob],
        *,
        pipeline: int = ...,
        errors: Literal["return"],
        **options: Unpack[BatchOptions],
    ) -> list[str | DisqueError]: ...

    async def add_many(
        self,
        jobs: Iterable[AnyNewJob],
        *,
        pipeline: int = batch.PIPELINE,
        errors: Errors = "raise",
        **options: Unpack[BatchOptions],
    ) -> list[str] | list[str | DisqueError]:
        """Add jobs, ``pipeline`` of them at a time; their IDs in order: see `Disque.add_many`."""
        packer = Packer(self.config, options)
        return await self.drive(batch.add_parts(self.router, self.config, jobs, packer, pipeline, errors))

    async def ack_many(self, ids: Iterable[Name]) -> int:
        """Acknowledge any number of jobs, pipelined. How many were known and not done.

        Raises NoPermError for a job in a queue to which the user has no right, when the others are acknowledged.
        """
        return await self.drive(batch.ack_parts(self.router, self.config, ids))

    async def working_one(self, job_id: Name, node: Address | None = None, *, progress: str | None = None) -> int:
        """Start the RETRY of a job again: its seconds. ``node`` is asked first.

        Raises NoJobError, TooLateError, JobCancelledError.
        """
        return await self.run(requests.working_one(self.config, job_id, progress=progress).to(node))

    async def working_at(
        self, node: Address | None, ids: Sequence[Name], progress: str | None = None
    ) -> list[int | DisqueError]:
        """The same as `working`, at ``node`` if it can be asked; each that it does not know is looked for at all."""
        return await self.drive(requests.working_flow(self.router, self.config, node, ids, progress))

    async def enqueue_at(self, node: Address | None, ids: Sequence[Name]) -> None:
        """Put jobs back that are out, at ``node`` if it can be asked: one more delivery of each, and no try used up."""

        def enqueue(some: Sequence[Name]) -> Request[int]:
            return requests.enqueue(self.config, *some).to(node)

        await self.drive(requests.say_counted(self.router, self.config, [ids], enqueue))

    def keep_working(self, jobs: Sequence[AnyJob | str]) -> AsyncKeepWorking:
        """Say WORKING for these jobs, or IDs, in the background while the block of this context manager runs."""
        return AsyncKeepWorking(self, jobs)

    async def settle(self, job_id: str, node: Address | None, result: Body | None = None) -> None:
        """Acknowledge a job, at ``node`` if it can be asked: it knows the job."""
        await self.run(requests.ack(self.config, job_id, result=result).to(node))

    async def give_back(
        self,
        ids: Sequence[Name],
        node: Address | None,
        delay: Duration | None = None,
        *,
        count: bool = True,
        error: str | BaseException | None = None,
        dead: bool = False,
    ) -> None:
        """Give jobs back, at ``node`` if it can be asked: others may not know them, and leave them to their RETRY."""

        def nack(some: Sequence[Name]) -> Request[int]:
            return requests.nack(self.config, *some, delay=delay, count=count, error=error, dead=dead).to(node)

        await self.drive(requests.say_counted(self.router, self.config, [ids], nack))

    async def give_back_quietly(
        self,
        ids: Sequence[Name],
        node: Address | None,
        delay_s: float | None = None,
        *,
        count: bool,
        error: Exception | None = None,
    ) -> None:
        """Give jobs back as well as can be; what fails here comes again after its RETRY."""
        with suppress(DisqueError):
            try:
                await self.give_back(ids, node, delay_s, count=count, error=error)
            except (BadIdError, CommandError):  # versions before know neither ERROR nor decimals
                await self.give_back(ids, node, None if delay_s is None else math.ceil(delay_s), count=count)

    # -- queues, nodes, any command ---------------------------------------------------------------------------------

    queue_length = _method(admin.queue_length)
    queue_stat = _method(admin.queue_stat)
    queue_history = _method(admin.queue_history)
    find = _method(admin.find)
    move_queue = _method(sweeps.move_queue)
    revive_queue = _method(sweeps.revive_queue)
    flush_queue = _method(sweeps.flush_queue)
    scan_queues = _method(admin.scan_queues)
    scan_jobs = _method(admin.scan_jobs)
    scan_job_infos = _method(admin.scan_job_infos)
    pause = _method(admin.pause)
    queue_options = _method(admin.queue_options)
    set_queue_options = _method(admin.set_queue_options)
    unset_queue_options = _method(admin.unset_queue_options)
    set_schedule = _method(cron.set_schedule)
    schedule = _method(cron.schedule)
    schedules = _method(cron.schedules)
    delete_schedule = _method(cron.delete_schedule)
    pause_schedule = _method(cron.pause_schedule)
    resume_schedule = _method(cron.resume_schedule)
    run_schedule = _method(cron.run_schedule)
    next_ticks = _method(cron.next_ticks)
    ping = _method(admin.ping)
    publish = _method(admin.publish)
    nodes = _method(admin.nodes)
    node_time = _method(admin.node_time)
    info = _method(admin.info)
    config_get = _method(admin.config_get)
    config_set = _method(admin.config_set)
    cluster_info = _method(admin.cluster_info)
    cluster_nodes = _method(admin.cluster_nodes)
    cluster_id = _method(admin.cluster_id)
    cluster_meet = _method(admin.cluster_meet)
    cluster_forget = _method(admin.cluster_forget)
    cluster_repair = _method(admin.cluster_repair)
    cluster_leaving = _method(admin.cluster_leaving)
    echo = _method(upkeep.echo)
    commands = _method(upkeep.commands)
    compact = _method(upkeep.compact)
    flush_all = _method(upkeep.flush_all)
    config_rewrite = _method(upkeep.config_rewrite)
    config_resetstat = _method(upkeep.config_resetstat)
    cluster_reset = _method(upkeep.cluster_reset)
    cluster_save = _method(upkeep.cluster_save)
    slowlog = _method(upkeep.slowlog)
    slowlog_length = _method(upkeep.slowlog_length)
    slowlog_reset = _method(upkeep.slowlog_reset)
    latency_latest = _method(upkeep.latency_latest)
    latency_history = _method(upkeep.latency_history)
    latency_graph = _method(upkeep.latency_graph)
    latency_doctor = _method(upkeep.latency_doctor)
    latency_reset = _method(upkeep.latency_reset)
    client_list = _method(upkeep.client_list)
    client_kill = _method(upkeep.client_kill)
    client_pause = _method(upkeep.client_pause)
    client_unpause = _method(upkeep.client_unpause)

    async def shutdown(self, *, compact: bool = False) -> None:
        """Stop the node cleanly, and compact its journal before if wanted: use `at` to say which node (SHUTDOWN)."""
        with suppress(IncompleteError):  # there is no reply
            await self.run(upkeep.end(self.config, compact=compact))

    async def execute_command(self, *args: Value) -> Any:  # noqa: ANN401 - replies are of any kind, as in redis-py
        """Send any command, as redis-py does; the reply as it comes. See `Disque.execute_command`."""
        return await self.run(admin.any_command(self.config, *args))

    def listen(
        self, *channels: Name, patterns: Iterable[Name] = (), timeout: Duration | None = None
    ) -> AsyncListening[Message]:
        """Iterate over what is published on channels, or on those that fit patterns, as it comes: see `AsyncListening`.

        One node is listened to, and another one when it fails: what is published reaches all nodes. Raises ValueError
        without a channel and a pattern, UnavailableError, CommandError.
        """
        return AsyncListening(self, subscriptions(channels, patterns), read_message, timeout=timeout)

    def events(self, *events: str, queue: Name = "*", timeout: Duration | None = None) -> AsyncListening[Event]:
        """Iterate over what happens to jobs as it happens: `Event`s of these kinds, or of all.

        They are added, ready, delivered, acked, nacked, retried, dead, expired, cancelled, dropped and moved, of queues
        whose names look like ``queue`` (PSUBSCRIBE). All nodes are listened to, also those that come later. See
        `AsyncListening`. Raises ValueError for others, UnavailableError, CommandError.
        """
        wanted = subscriptions((), event_patterns(events, queue))
        return AsyncListening(self, wanted, read_event, timeout=timeout, everywhere=True)

    async def look(self) -> None:
        """Ask which nodes there are now, before all of them are asked something. Raises UnavailableError."""
        await self.drive(look(self.router, self.config))

    def pipeline(self, transaction: bool = False) -> AsyncPipeline:
        """Gather commands that travel together. There are no transactions; the argument is for old code."""
        if transaction:
            raise ValueError("there are no transactions")
        return AsyncPipeline(self)

    def at(self, host: str, port: int) -> "AsyncDisque":
        """A client of this one node, without others to fall back on: for commands that are about a node."""
        return AsyncDisque(replace(self.config, nodes=((host, port),), discover=False))

    # -- how it is done --------------------------------------------------------------------------------------------

    async def run(self, request: Request[T]) -> T:
        """Bring one request to a node and give the value of its reply."""
        return await self.drive(requests.run(self.router, self.config, request))

    @overload
    async def drive(self, flow: Flow[T]) -> T: ...

    @overload
    async def drive(self, flow: Flow[T], interrupt: AsyncInterrupt) -> T | None: ...

    async def drive(self, flow: Flow[T], interrupt: AsyncInterrupt | None = None) -> T | None:
        """Do what a flow yields until it returns, or nothing more when it is interrupted: then None."""
        try:
            step = next(flow)
            while interrupt is None or not interrupt.ended:
                outcome = await self.perform(step, interrupt)
                if interrupt is not None and interrupt.ended and outcome.failure is not None:
                    break
                step = flow.send(outcome)
        except StopIteration as stop:
            value: T = stop.value
            return value
        flow.close()
        return None

    async def perform(
        self, step: Step, interrupt: AsyncInterrupt | None = None, outcome: Outcome | None = None
    ) -> Outcome:
        """Do one step of a flow. What has come when this is cancelled is in ``outcome``."""
        if isinstance(step, Exchange):
            return await self._pool.exchange(step, interrupt, outcome)
        await asyncio.sleep(step.seconds)
        return Outcome()

    def begin_ending(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Begin what must end, whoever is cancelled meanwhile. `aclose` waits for it, so it must not call `aclose`."""
        task = asyncio.get_running_loop().create_task(work, name="disque-end")
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        return task

    async def see_through(self, work: Coroutine[Any, Any, T]) -> T:
        """Do work that goes on to its end when this is cancelled."""
        return await asyncio.shield(self.begin_ending(work))

    async def aclose(self) -> None:
        """Close all connections that are not in use, when what was given back and acknowledged has been sent.

        The client can be used again, with new ones.
        """
        loop = asyncio.get_running_loop()
        before = [task for task in self._ending if task.get_loop() is loop]
        await self.see_through(self._close(before))

    def abandon(self) -> None:
        """Close the connections of a client whose event loop is closed: there, `aclose` has nowhere to run."""
        self._pool.abandon()

    async def _close(self, before: list[asyncio.Task[Any]]) -> None:
        if before:
            await asyncio.wait(before)
        await self._pool.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def __reduce__(self) -> tuple[type[Self], tuple[Config]]:
        return type(self), (self.config,)

    def __repr__(self) -> str:
        return f"<AsyncDisque {', '.join(f'{host}:{port}' for host, port in self.router.addresses())}>"
