"""The blocking client."""

import math
import os
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from random import SystemRandom
from types import TracebackType
from typing import Any, Concatenate, Final, Literal, ParamSpec, Self, TypeVar, Unpack, overload

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from disque.client import admin, batch, ends, requests, sweeps, upkeep
from disque.client import schedules as cron
from disque.client.batch import AnyNewJob, BatchOptions, Errors, Packer
from disque.client.config import Address, Config
from disque.client.delivery import Exchange, Flow, Outcome, Step, look
from disque.client.ends import Ended
from disque.client.errors import BadIdError, CommandError, DisqueError, IncompleteError
from disque.client.heartbeat import KeepWorking
from disque.client.job import AnyJob, Job
from disque.client.listening import (
    Event,
    Listening,
    Message,
    event_patterns,
    read_event,
    read_message,
    subscriptions,
)
from disque.client.methods import describe
from disque.client.pipeline import Pipeline
from disque.client.pool import Interrupt, Pool, connection_options
from disque.client.requests import Request
from disque.client.router import Router
from disque.client.shelf import PREFETCH
from disque.client.stream import Acknowledger, Jobs
from disque.client.url import DEFAULT_PORT
from disque.client.values import Body, Duration, Name, Value

P = ParamSpec("P")
T = TypeVar("T")

_CLIENTS: Final["weakref.WeakSet[Disque]"] = weakref.WeakSet()


def _method(build: Callable[Concatenate[Config, P], Request[T]]) -> "Callable[Concatenate[Disque, P], T]":
    """A method out of the function that makes its request."""

    def method(self: "Disque", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.run(build(self.config, *args, **kwargs))

    describe(method, build)
    return method


class Disque:
    """A client of a cluster, blocking. Connects when it must, and to another node when one fails.

    Any number of threads may share one: each request takes a connection of its own out of a pool. It may be used after
    a fork, where the child makes its own connections, and pickled, where only the configuration travels. Close it, or
    use it as a context manager.
    """

    def __init__(self, config: Config | str | None = None) -> None:
        self.config = Config.from_url(config) if isinstance(config, str) else config or Config()
        self.router = Router(self.config, time.monotonic, SystemRandom())
        self._pool = Pool(self.config, self.router.learned)
        _CLIENTS.add(self)

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

    def get(
        self,
        queues: Name | Iterable[Name],
        *,
        count: int = 1,
        timeout: Duration | None = None,
        nohang: bool = False,
        counters: bool = True,
        lease: Duration | None = None,
        strict: bool = False,
        meta: bool = False,
    ) -> list[Job]:
        """Take up to ``count`` jobs out of queues, waiting for the first (GETJOB).

        Waits as long as ``timeout`` says (None: for ever), or with ``nohang`` not at all; then the list is empty.
        Jobs that are not acknowledged within their RETRY, or the ``lease`` of this delivery, come again. ``strict``
        empties the queues in the order given, instead of taking one job of each in turn. ``meta`` wants all that is
        known of each job: see `Job.meta`. Raises UnavailableError, CommandError.
        """
        how = requests.how_words(lease=lease, strict=strict, counters=counters, meta=meta)
        flow = requests.get_flow(self.router, self.config, queues, count=count, timeout=timeout, nohang=nohang, how=how)
        node, jobs = self.drive(flow)
        return [Job(self, one, node) for one in jobs]

    def take(
        self,
        queues: list[Name],
        count: int,
        interrupt: Interrupt,
        acknowledger: Acknowledger | None,
        timeout_s: float | None = None,
        how: tuple[bytes, ...] = requests.USUALLY,
    ) -> list[Job]:
        """What `jobs` does to fetch: wait for jobs, whose acknowledgements may travel together. None if interrupted."""
        flow = requests.get_flow(self.router, self.config, queues, count=count, timeout=timeout_s, how=how)
        taken = self.drive(flow, interrupt)
        return [] if taken is None else [Job(self, one, taken[0], acknowledger) for one in taken[1]]

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
    ) -> Jobs:
        """Iterate over jobs as they come, the next ones fetched meanwhile: see `Jobs`, and `get` for the others.

        A ``lease`` begins when a job is fetched, not when it is handed out.
        """
        how = requests.how_words(lease=lease, strict=strict, meta=meta)
        return Jobs(self, queues, count=count, prefetch=prefetch, timeout=timeout, how=how)

    def wait(
        self,
        *ids: Name,
        timeout: Duration | None = None,
        any: bool = False,  # noqa: A002 - the word of the command
    ) -> list[Ended | None]:
        """Wait until jobs have ended, or with ``any`` until one has: for each how, or None (WAITJOB).

        Waits as long as ``timeout`` says (None: for ever), and gives what is known by then. Dead letters count as
        ended, too. When a node is lost, another one is asked, and what is known already is kept; so say ``retain`` when
        adding jobs, otherwise one that ends in between is only "gone". Raises UnavailableError, with what is known in
        ``results``, and CommandError, also for more than 1000 jobs.
        """
        return self.drive(ends.wait_flow(self.router, self.config, ids, timeout, any_one=any))

    @overload
    def add_many(
        self,
        jobs: Iterable[AnyNewJob],
        *,
        pipeline: int = ...,
        errors: Literal["raise"] = ...,
        **options: Unpack[BatchOptions],
    ) -> list[str]: ...

    @overload
    def add_many(
        self,
        jobs: Iterable[AnyNewJob],
        *,
        pipeline: int = ...,
        errors: Literal["return"],
        **options: Unpack[BatchOptions],
    ) -> list[str | DisqueError]: ...

    def add_many(
        self,
        jobs: Iterable[AnyNewJob],
        *,
        pipeline: int = batch.PIPELINE,
        errors: Errors = "raise",
        **options: Unpack[BatchOptions],
    ) -> list[str] | list[str | DisqueError]:
        """Add jobs, each a `NewJob` or a pair of queue and body, ``pipeline`` of them at a time; their IDs in order.

        Options are those of `add`, for jobs that do not say otherwise. Jobs are taken from the iterable as they are
        sent. ``errors``: the first refusal is raised once its part is answered, or refusals stand in the list. An error
        that is raised has in ``results`` what came of the jobs before; see `add` for what happens to the others.
        """
        packer = Packer(self.config, options)
        return self.drive(batch.add_parts(self.router, self.config, jobs, packer, pipeline, errors))

    def ack_many(self, ids: Iterable[Name]) -> int:
        """Acknowledge any number of jobs, pipelined. How many were known and not done.

        Raises NoPermError for a job in a queue to which the user has no right, when the others are acknowledged.
        """
        return self.drive(batch.ack_parts(self.router, self.config, ids))

    def working_one(self, job_id: Name, node: Address | None = None, *, progress: str | None = None) -> int:
        """Start the RETRY of a job again: its seconds. ``node`` is asked first.

        Raises NoJobError, TooLateError, JobCancelledError.
        """
        return self.run(requests.working_one(self.config, job_id, progress=progress).to(node))

    def working_at(
        self, node: Address | None, ids: Sequence[Name], progress: str | None = None
    ) -> list[int | DisqueError]:
        """The same as `working`, at ``node`` if it can be asked; each that it does not know is looked for at all."""
        return self.drive(requests.working_flow(self.router, self.config, node, ids, progress))

    def enqueue_at(self, node: Address | None, ids: Sequence[Name]) -> None:
        """Put jobs back that are out, at ``node`` if it can be asked: one more delivery of each, and no try used up."""

        def enqueue(some: Sequence[Name]) -> Request[int]:
            return requests.enqueue(self.config, *some).to(node)

        self.drive(requests.say_counted(self.router, self.config, [ids], enqueue))

    def keep_working(self, jobs: Sequence[AnyJob | str]) -> KeepWorking:
        """Say WORKING for these jobs, or IDs, in the background while the block of this context manager runs."""
        return KeepWorking(self, jobs)

    def settle(self, job_id: str, node: Address | None, result: Body | None = None) -> None:
        """Acknowledge a job, at ``node`` if it can be asked: it knows the job."""
        self.run(requests.ack(self.config, job_id, result=result).to(node))

    def give_back(
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

        self.drive(requests.say_counted(self.router, self.config, [ids], nack))

    def give_back_quietly(
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
                self.give_back(ids, node, delay_s, count=count, error=error)
            except (BadIdError, CommandError):  # versions before know neither ERROR nor decimals
                self.give_back(ids, node, None if delay_s is None else math.ceil(delay_s), count=count)

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

    def shutdown(self, *, compact: bool = False) -> None:
        """Stop the node cleanly, and compact its journal before if wanted: use `at` to say which node (SHUTDOWN)."""
        with suppress(IncompleteError):  # there is no reply
            self.run(upkeep.end(self.config, compact=compact))

    def execute_command(self, *args: Value) -> Any:  # noqa: ANN401 - replies are of any kind, as in redis-py
        """Send any command, as redis-py does; the reply as it comes. Errors are those of this client.

        It goes to another node when one fails; what may do harm when it is done twice is not sent again once it was
        sent: then IncompleteError is raised. ValueError for commands about one connection: see `redis`.
        """
        return self.run(admin.any_command(self.config, *args))

    def listen(
        self, *channels: Name, patterns: Iterable[Name] = (), timeout: Duration | None = None
    ) -> Listening[Message]:
        """Iterate over what is published on channels, or on those that fit patterns, as it comes: see `Listening`.

        One node is listened to, and another one when it fails: what is published reaches all nodes. Raises ValueError
        without a channel and a pattern, UnavailableError, CommandError.
        """
        return Listening(self, subscriptions(channels, patterns), read_message, timeout=timeout)

    def events(self, *events: str, queue: Name = "*", timeout: Duration | None = None) -> Listening[Event]:
        """Iterate over what happens to jobs as it happens: `Event`s of these kinds, or of all.

        They are added, ready, delivered, acked, nacked, retried, dead, expired, cancelled, dropped and moved, of queues
        whose names look like ``queue`` (PSUBSCRIBE). All nodes are listened to, also those that come later. See
        `Listening`. Raises ValueError for others, UnavailableError, CommandError.
        """
        wanted = subscriptions((), event_patterns(events, queue))
        return Listening(self, wanted, read_event, timeout=timeout, everywhere=True)

    def look(self) -> None:
        """Ask which nodes there are now, before all of them are asked something. Raises UnavailableError."""
        self.drive(look(self.router, self.config))

    def pipeline(self, transaction: bool = False) -> Pipeline:
        """Gather commands that travel together. There are no transactions; the argument is for old code."""
        if transaction:
            raise ValueError("there are no transactions")
        return Pipeline(self)

    def at(self, host: str, port: int) -> "Disque":
        """A client of this one node, without others to fall back on: for commands that are about a node."""
        return Disque(replace(self.config, nodes=((host, port),), discover=False))

    def redis(self, host: str | None = None, port: int | None = None) -> redis.Redis:
        """A plain client of redis-py for one node, with the same credentials and TLS: MONITOR, and what else it has.

        Without an address it is the node in use. It neither fails over nor repeats. Close it.
        """
        chosen = self.router.choose(()) if host is None else (host, port or DEFAULT_PORT)
        assert chosen is not None
        options = connection_options(self.config, chosen)
        return redis.Redis(**options, ssl=self.config.tls, socket_timeout=None, retry=Retry(NoBackoff(), 0))

    # -- how it is done --------------------------------------------------------------------------------------------

    def run(self, request: Request[T]) -> T:
        """Bring one request to a node and give the value of its reply."""
        return self.drive(requests.run(self.router, self.config, request))

    @overload
    def drive(self, flow: Flow[T]) -> T: ...

    @overload
    def drive(self, flow: Flow[T], interrupt: Interrupt) -> T | None: ...

    def drive(self, flow: Flow[T], interrupt: Interrupt | None = None) -> T | None:
        """Do what a flow yields until it returns, or nothing more when it is interrupted: then None."""
        try:
            step = next(flow)
            while interrupt is None or not interrupt.ended:
                outcome = self._perform(step, interrupt)
                if interrupt is not None and interrupt.ended and outcome.failure is not None:
                    break
                step = flow.send(outcome)
        except StopIteration as stop:
            value: T = stop.value
            return value
        flow.close()
        return None

    def _perform(self, step: Step, interrupt: Interrupt | None) -> Outcome:
        if isinstance(step, Exchange):
            return self._pool.exchange(step, interrupt)
        time.sleep(step.seconds)
        return Outcome()

    def close(self) -> None:
        """Close all connections that are not in use. The client can be used again, with new ones."""
        self._pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[type[Self], tuple[Config]]:
        return type(self), (self.config,)

    def __repr__(self) -> str:
        return f"<Disque {', '.join(f'{host}:{port}' for host, port in self.router.addresses())}>"


def _after_fork() -> None:
    for client in list(_CLIENTS):
        client.router.renew_lock()


if hasattr(os, "register_at_fork"):  # where there is no fork, nothing is to be done
    os.register_at_fork(after_in_child=_after_fork)
