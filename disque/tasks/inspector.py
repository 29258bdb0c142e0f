"""Looks at queues, jobs and workers of a cluster, and puts jobs right.

It is `App.inspect`, and behind `disque queues`, `jobs`, `dead`, `workers`, `top`. What is about one node is asked at
each that is known; one that does not answer is left out. Nothing here loads more than it was asked for: lists have
bounds.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Final, NamedTuple, TypeVar

from disque.client import AsyncDisque, DisqueError, Swept
from disque.client.config import Address
from disque.client.held import enqueue, held_back, run_now
from disque.client.replies import JobInfo
from disque.client.schedules import Schedule
from disque.tasks.errors import MessageError
from disque.tasks.message import decode

T = TypeVar("T")

#: Queues and jobs in one answer, unless said otherwise; names and jobs that a node looks at in one step.
QUEUES_MOST: Final = 1000
JOBS_MOST: Final = 100
STEP: Final = 500
#: So many steps are gone through the ended jobs of a queue to find one: nodes have no other way to its body.
STEPS_MOST: Final = 20
#: Questions that are asked side by side.
SIDE_BY_SIDE: Final = 32
#: What is noted of what answers do not have, until somebody shows it.
LEFT_OUT_MOST: Final = 100
#: States of jobs that have ended.
ENDED: Final = frozenset({"done", "cancelled", "dead", "expired", "dropped"})
#: States by which jobs are asked for: of those that are there, and of those that have ended.
STATES: Final = ("queued", "delayed", "in-flight", "dead-letter", *sorted(ENDED))
#: How workers call themselves: see `worker.client_name`.
WORKER: Final = re.compile(r"worker:(?P<app>[^:]*):(?P<host>.*):(?P<pid>\d+)")


class QueueView(NamedTuple):
    """Figures of a queue, of all nodes together. ``dead`` is how many dead letters it has; times are in ms."""

    name: str
    length: int
    delayed: int
    in_flight: int
    dead: int
    added: int
    acked: int
    nacked: int
    died: int
    oldest_ms: int
    wait_p95_ms: int
    run_p95_ms: int
    paused: str


class JobView(NamedTuple):
    """What is known of a job. ``task`` and ``args`` are those of its message, if it is one."""

    id: str
    queue: str
    status: str
    task: str | None
    args: str
    tries: int
    error: str | None
    origin: str | None
    progress: str | None
    body: bytes | None
    result: bytes | None


class WorkerView(NamedTuple):
    """A worker process, and how many connections it has to which nodes."""

    app: str
    host: str
    pid: int
    connections: int
    age_s: int
    idle_s: int
    nodes: tuple[str, ...]


class Inspector:
    """Questions and orders about queues, jobs and workers. They raise DisqueError where no node answers.

    ``left_out`` says what answers do not have: nodes, with the reason, and queues beyond a bound. Whoever shows it
    clears it; it has a bound.
    """

    def __init__(self, client: AsyncDisque) -> None:
        self.client = client
        self.left_out: dict[str, None] = {}

    # -- looking ---------------------------------------------------------------------------------------------------

    async def queues(self, pattern: str = "*", limit: int = QUEUES_MOST) -> list[QueueView]:
        """The queues whose names match, in order of names; queues of dead letters are counted with their own."""
        names = sorted({name for found in await self._each(names_of) for name in found})
        wanted = [name for name in names if fnmatchcase(name, pattern)]
        if len(wanted) > limit:
            self._leave_out(f"{len(wanted)} queues match {pattern}, of which these are the first {limit} by name")
            del wanted[limit:]
        dead = {name for name in names if name.endswith(":dead")}
        stats = await self._many([self.queue(name, count_dead=f"{name}:dead" in dead) for name in wanted])
        return [one for one in stats if one is not None]

    async def queue(self, name: str, *, count_dead: bool = True) -> QueueView | None:
        """One queue, or None if no node has figures of it."""
        found = await self.client.queue_stat(name, cluster=True)
        if found is None:
            return None
        dead = await self.client.queue_length(f"{name}:dead", cluster=True) if count_dead else 0

        def number(key: str) -> int:
            value = found.get(key, 0)
            return value if isinstance(value, int) else 0

        return QueueView(
            name, number("len"), number("delayed"), number("in_flight"), dead, number("added"), number("acked"),
            number("nacked"), number("died"), number("oldest_ms"), number("wait_p95_ms"), number("run_p95_ms"),
            str(found.get("pause", "none")),
        )  # fmt: skip

    async def jobs(self, queue: str | None = None, status: str | None = None, limit: int = JOBS_MOST) -> list[JobView]:
        """Some jobs of a queue, or of all.

        ``status`` is queued, delayed, in-flight, dead-letter, or, of those that are kept by RETAIN, done, cancelled,
        dead, expired or dropped; without it all that have not ended.
        """
        if status == "dead-letter":
            if queue is None:
                raise ValueError("dead letters are looked at queue by queue")
            queue, status = queue if queue.endswith(":dead") else f"{queue}:dead", "queued"
        found: dict[str, JobView] = {}

        async def look(node: AsyncDisque) -> None:
            cursor = 0
            while len(found) < limit:
                states = () if status is None else (status,)
                cursor, infos = await node.scan_job_infos(cursor, count=STEP, queue=queue, states=states)
                for info in infos:
                    view = view_of(info, status)
                    if len(found) < limit or view.id in found:
                        found[view.id] = view
                if not cursor:
                    return

        await self._each(look)
        return list(found.values())

    async def job(self, job_id: str) -> JobView | None:
        """One job, wherever it is known; None if it is not."""
        told = await self.client.result(job_id)
        shown = [info for info in await self._each(lambda node: node.show(job_id)) if info is not None]
        if told is None and not shown:
            return None
        view = view_of(shown[0], None) if shown else None
        if told is None:
            return view
        body = view.body if view is not None else await self._body_of_ended(job_id, told.queue, told.status)
        task, args = call_of(body)
        origin = view.origin if view is not None else None
        progress, result = told.progress, told.result
        return JobView(
            job_id, told.queue, told.status, task, args, told.tries, told.error, origin, progress, body, result
        )

    async def _body_of_ended(self, job_id: str, queue: str, status: str) -> bytes | None:
        """The body of a job that has ended, if a node keeps it and it is met among the first ones; else None."""
        found: list[bytes] = []

        async def look(node: AsyncDisque) -> None:
            cursor = 0
            for _ in range(STEPS_MOST):
                cursor, infos = await node.scan_job_infos(cursor, count=STEP, queue=queue, states=(status,))
                for info in infos:
                    body = info.get("body")
                    if info["id"] == job_id and isinstance(body, bytes):
                        found.append(body)
                if found or not cursor:
                    return

        if status in ENDED:
            await self._each(look)
        return found[0] if found else None

    async def workers(self) -> list[WorkerView]:
        """The workers that have connections to nodes, by host and process."""
        found: dict[tuple[str, str, int], WorkerView] = {}
        for address, clients in await self._each(clients_of):
            for one in clients:
                name = WORKER.fullmatch(one.get("name", ""))
                if name is None:
                    continue
                key = (name["app"], name["host"], int(name["pid"]))
                age_s, idle_s = int(one.get("age", 0)), int(one.get("idle", 0))
                before = found.get(key, WorkerView(*key, 0, 0, idle_s, ()))
                nodes = before.nodes if address in before.nodes else (*before.nodes, address)
                found[key] = WorkerView(
                    *key, before.connections + 1, max(before.age_s, age_s), min(before.idle_s, idle_s), nodes
                )
        return sorted(found.values())

    async def schedules(self) -> list[Schedule]:
        """All schedules, by name."""
        found: list[Schedule] = []
        cursor = 0
        while True:
            cursor, some = await self.client.schedules(cursor)
            found += some
            if not cursor:
                return sorted(found)

    # -- putting right ---------------------------------------------------------------------------------------------

    async def run_now(self, *ids: str) -> int:
        """Let jobs that are held back run now: how many that were. What waits in its queue or runs is left alone."""
        held = await held_back(self.client, ids)
        return await run_now(held, await self._each(address_of), self._enqueue) if held else 0

    async def _enqueue(self, address: Address, ids: list[str]) -> list[object]:
        """ENQUEUE at one node."""
        async with self._at(address) as node:
            return await enqueue(node, ids)

    def _at(self, address: Address) -> AsyncDisque:
        """A client of one node, which is asked once: one that hangs must not hold up what the others say."""
        return AsyncDisque(replace(self.client.config, nodes=(address,), discover=False, attempts=1))

    async def revive(self, *ids: str) -> int:
        """Put dead letters back into their queues, with tries as at first: how many."""
        return await self.client.revive(*ids)

    async def revive_all(self, queue: str, count: int | None = None) -> Swept:
        """Put back all dead letters of a queue, or the ``count`` oldest."""
        return await self.client.revive_queue(queue if queue.endswith(":dead") else f"{queue}:dead", count=count)

    async def cancel(self, *ids: str) -> int:
        """End jobs, whatever their state: how many. Workers that run them are told."""
        return await self.client.cancel(*ids)

    async def delete(self, *ids: str) -> int:
        """The same: a job that has been ended is nowhere any more, but for its end where that is kept."""
        return await self.client.cancel(*ids)

    async def delete_all(self, queue: str, count: int | None = None) -> Swept:
        """End all jobs that wait in a queue, or the ``count`` oldest."""
        return await self.client.flush_queue(queue, count=count)

    async def pause(self, queue: str) -> str:
        """Give no jobs of this queue out, at all nodes, until `resume`."""
        return await self.client.pause(queue, "out", "bcast")

    async def resume(self, queue: str) -> str:
        """Give jobs out again."""
        return await self.client.pause(queue, "none", "bcast")

    # -- how -------------------------------------------------------------------------------------------------------

    async def _each(self, ask: Callable[[AsyncDisque], Awaitable[T]]) -> list[T]:
        """What each node answers, those left out that do not. Raises DisqueError if none does: that of the first."""
        await self.client.ping()
        seen: set[str] = set()
        failures: dict[str, DisqueError] = {}

        async def one(address: Address) -> list[T]:
            node = self._at(address)
            try:
                node_id = await node.cluster_id()
                if node_id in seen:
                    return []
                seen.add(node_id)
                return [await ask(node)]
            except DisqueError as error:
                failures[f"{address[0]}:{address[1]}"] = error
                return []
            finally:
                with suppress(DisqueError):
                    await node.aclose()

        answers = await asyncio.gather(*[one(address) for address in self.client.router.addresses()])
        if failures and not any(answers):
            raise next(iter(failures.values()))
        for address, error in failures.items():
            self._leave_out(f"without {address}: {error}")
        return [answer for found in answers for answer in found]

    def _leave_out(self, text: str) -> None:
        """Note what the answer does not have."""
        if len(self.left_out) < LEFT_OUT_MOST:
            self.left_out[text] = None

    async def _many(self, work: Iterable[Awaitable[T]]) -> list[T]:
        """The values of many questions, some side by side."""
        places = asyncio.Semaphore(SIDE_BY_SIDE)

        async def one(question: Awaitable[T]) -> T:
            async with places:
                return await question

        return list(await asyncio.gather(*map(one, work)))


async def names_of(node: AsyncDisque) -> list[str]:
    """The names of all queues of a node."""
    names: list[str] = []
    cursor = 0
    while True:
        cursor, found = await node.scan_queues(cursor, count=STEP)
        names += found
        if not cursor:
            return names


async def address_of(node: AsyncDisque) -> Address:
    """Where a node is."""
    [address] = node.config.nodes
    return address


async def clients_of(node: AsyncDisque) -> tuple[str, list[dict[str, str]]]:
    """A node, and its clients."""
    host, port = await address_of(node)
    return f"{host}:{port}", await node.client_list()


def call_of(body: bytes | None) -> tuple[str | None, str]:
    """Task and arguments of a body, as far as it is a message."""
    if body is None:
        return None, ""
    try:
        message = decode(body)
    except MessageError:
        return None, repr(body[:60])
    words = [repr(one) for one in message.args] + [f"{name}={value!r}" for name, value in message.kwargs.items()]
    return message.task, ", ".join(words)


def view_of(info: JobInfo, status: str | None) -> JobView:
    """A job of JSCAN or SHOW. ``status`` is known where it was asked for."""
    body = info.get("body")
    task, args = call_of(body if isinstance(body, bytes) else None)
    origin = text_of(info.get("origin"))
    state = str(info.get("state") or info.get("status") or "")
    tries, result = info.get("tries", 0), info.get("result")
    return JobView(
        str(info["id"]),
        str(info.get("queue", "")),
        "dead-letter" if origin and state not in ENDED else status or state,
        task,
        args,
        tries if isinstance(tries, int) else 0,
        text_of(info.get("error")),
        origin,
        text_of(info.get("progress")),
        body if isinstance(body, bytes) else None,
        result if isinstance(result, bytes) else result.encode() if isinstance(result, str) else None,
    )


def text_of(value: object) -> str | None:
    """A text, or None for what is none or empty."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return value if isinstance(value, str) and value else None
