"""Jobs that a worker has, and what runs on them. Plain data: who changes it is the worker."""

import asyncio
from typing import Any, Literal, TypeAlias

from disque.client.config import Address
from disque.client.replies import Meta, meta
from disque.tasks.context import Context
from disque.tasks.message import Message
from disque.tasks.task import Task
from disque.tasks.threads import ThreadRun

#: Why a run was cancelled: its time was over, somebody has cancelled its job, all its leases were lost, or the worker
#: stops.
Why: TypeAlias = Literal["timeout", "cancelled", "lost", "stop"]


class Held:
    """A job that was delivered to this worker, until it is settled. Times are those of a monotonic clock."""

    __slots__ = ("_meta", "body", "id", "lease_until_s", "lost", "message", "node", "progress", "queue", "run", "task")

    def __init__(
        self, job_id: str, queue: str, body: bytes, known: object, node: Address | None, lease_until_s: float
    ) -> None:
        self.id = job_id
        self.queue = queue
        self.body = body
        self.node = node
        self.lease_until_s = lease_until_s
        self.message: Message | None = None
        self.task: Task[Any, Any] | None = None
        self.run: Run | None = None
        self.lost = False
        self.progress: str | None = None
        self._meta = known

    @property
    def meta(self) -> Meta | None:
        """What the node told of it, read when it is asked for."""
        if self._meta is not None and not isinstance(self._meta, Meta):
            self._meta = meta(self._meta)
        return self._meta

    @property
    def waited_s(self) -> float:
        """How long it was due when it was delivered."""
        known = self._meta
        if isinstance(known, dict):
            waited = known.get(b"due-ms-ago", 0)
            return waited / 1000 if isinstance(waited, int) else 0.0
        found = self.meta
        return found.due_ms_ago / 1000 if found is not None else 0.0


class Run:
    """One call of a function: for one job, or for several of a batch task."""

    __slots__ = ("args", "began_s", "handle", "jobs", "kwargs", "task", "thread", "timeout_s", "until_s", "why")

    def __init__(
        self, task: Task[Any, Any], jobs: list[Held], args: list[Any], kwargs: dict[str, Any], began_s: float
    ) -> None:
        self.task = task
        self.jobs = jobs
        self.args = args
        self.kwargs = kwargs
        self.began_s = began_s
        self.timeout_s: float | None = None
        self.until_s: float | None = None
        self.why: Why | None = None
        self.handle: asyncio.Task[None] | None = None
        self.thread: ThreadRun | None = None

    def cancel(self, why: Why) -> None:
        """End the function, if it lets itself be ended."""
        if self.why is None:
            self.why = why
            if self.thread is not None and not self.thread.is_over:
                self.thread.cancel()  # and what waits for it hears of it when it has ended
            elif self.handle is not None:
                self.handle.cancel()

    def context(self) -> Context:
        """What the function can ask for."""
        job = self.jobs[0]
        return Context(job.id, job.queue, self.task.name, lambda: job.meta, self._say)

    def _say(self, text: str) -> None:
        for one in self.jobs:
            one.progress = text
