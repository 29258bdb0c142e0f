"""The broker: a message is a job, which is acknowledged when taskiq says so, and kept by WORKING until then."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from taskiq import AckableMessage, AsyncBroker
from taskiq.message import BrokerMessage

from disque.client import AsyncDisque, AsyncJob, Config, DisqueError
from disque.client.async_pool import AsyncInterrupt
from disque.client.async_stream import AsyncAcknowledger
from disque.client.job import by_node
from disque.client.requests import how_words
from disque.client.values import ttl_beyond
from disque.taskiq.marks import with_own_id

LOG: Final = logging.getLogger("disque.taskiq")
QUEUE: Final = "taskiq"
LEASE_S: Final = 60.0
#: So often a lease is renewed while it lasts.
RENEWALS: Final = 3
#: Messages that are taken at once.
BATCH: Final = 10
#: After an error of all nodes, in seconds.
PAUSE_S: Final = 1.0
#: How long a message lives, in seconds, beyond its delay.
TTL_S: Final = 30 * 86_400


class DisqueBroker(AsyncBroker):
    """Sends tasks to a queue, and takes them from it.

    ``url`` is a URL of the cluster, or a `Config`. ``queue`` is where tasks go that do not say ``queue_name`` in their
    labels; workers take from it, and from ``also``. A message stays with its worker as long as that lives. When it
    dies, its messages come to others after ``lease`` seconds, at most ``tries`` times (None: without end); then they
    are dead letters. ``ttl`` is how long a message lives, in seconds, from when it is not put off any more.
    ``replicate``: how many nodes have it.

    Labels of a task: ``queue_name``; ``delay``, in seconds, which it waits in the server; ``priority``, 0 to 255,
    higher ones first.
    """

    def __init__(
        self,
        url: str | Config = "disque://127.0.0.1:7711",
        queue: str = QUEUE,
        *,
        also: Sequence[str] = (),
        lease: float = LEASE_S,
        tries: int | None = None,
        ttl: float = TTL_S,
        replicate: int | None = None,
    ) -> None:
        super().__init__()
        self.client = AsyncDisque(url)
        self.queue = queue
        self.queues = [queue, *also]
        self.options: dict[str, Any] = {"ttl": ttl, "tries": tries, "replicate": replicate}
        self._lease_s = lease
        self._how = how_words(lease=lease)
        self._held: dict[str, AsyncJob] = {}
        self._acknowledger: AsyncAcknowledger | None = None
        self._renewing: asyncio.Task[None] | None = None

    async def kick(self, message: BrokerMessage) -> None:
        """Add a message. Raises DisqueError, and ValueError for labels that are no numbers."""
        queue, words = addressed(message.labels, self.queue)
        await self.client.add(queue, message.message, **self.job_options(words, words.get("delay", 0.0)))

    def job_options(self, words: Mapping[str, Any], delay_s: float) -> dict[str, Any]:
        """All options of a job that is put off for so long."""
        return {**self.options, **words, "ttl": ttl_beyond(self.options["ttl"], delay_s)}

    async def listen(self) -> AsyncGenerator[AckableMessage, None]:
        """Give messages as they come. What was taken and not given goes back at the end, and uses up no try."""
        acknowledger = self._acknowledger = self._acknowledger or AsyncAcknowledger(self.client)
        self._renewing = self._renewing or asyncio.create_task(self._renew(), name="disque-leases")
        waiting: list[AsyncJob] = []
        try:
            while True:
                waiting = await self._take(acknowledger)
                while waiting:
                    job = waiting.pop(0)
                    yield AckableMessage(data=with_own_id(job.body, job.id), ack=self._ack(job))
        finally:
            await self.client.see_through(self._give_back(waiting))

    async def _take(self, acknowledger: AsyncAcknowledger) -> list[AsyncJob]:
        """Some messages, when there are some. None is lost when this is cancelled."""
        interrupt = AsyncInterrupt()
        while True:
            taking = asyncio.ensure_future(
                self.client.take(list(self.queues), BATCH, interrupt, acknowledger, None, self._how)
            )
            try:
                jobs = await asyncio.shield(taking)
            except asyncio.CancelledError:
                interrupt.end()
                await self.client.see_through(self._give_back_taken(taking))
                raise
            except DisqueError as error:
                LOG.error("no message can be had: %s", error)  # noqa: TRY400 - no bug here
                await asyncio.sleep(PAUSE_S)
                continue
            self._held |= {job.id: job for job in jobs}
            return jobs

    def _ack(self, job: AsyncJob) -> Callable[[], Awaitable[None]]:
        return partial(self._settle, job)

    async def _settle(self, job: AsyncJob) -> None:
        self._held.pop(job.id, None)
        await job.ack()

    async def _give_back_taken(self, taking: "asyncio.Future[list[AsyncJob]]") -> None:
        with suppress(DisqueError):
            await self._give_back(await taking)

    async def _give_back(self, jobs: Sequence[AsyncJob]) -> None:
        for job in jobs:
            self._held.pop(job.id, None)
        for node, ids in by_node(jobs).items():
            await self.client.give_back_quietly(ids, node, count=False)

    async def _renew(self) -> None:
        """Say WORKING for all that is not acknowledged. What cannot be kept is said once."""
        warned: set[str] = set()
        while True:
            await asyncio.sleep(self._lease_s / RENEWALS)
            warned &= self._held.keys()
            for node, ids in by_node(list(self._held.values())).items():
                with suppress(DisqueError):
                    answers = await self.client.working_at(node, ids)
                    for job_id, answer in zip(ids, answers, strict=True):
                        if isinstance(answer, DisqueError) and job_id in self._held and job_id not in warned:
                            warned.add(job_id)
                            LOG.warning("message %s can be kept for this worker no longer: %s", job_id, answer)

    async def shutdown(self) -> None:
        """Give back what is not acknowledged, which uses up no try, and close all connections."""
        acknowledger, self._acknowledger = self._acknowledger, None
        try:
            await self.client.see_through(self._end(acknowledger))
        finally:
            await self.client.aclose()
        if acknowledger is not None:
            acknowledger.check()

    async def _end(self, acknowledger: AsyncAcknowledger | None) -> None:
        await super().shutdown()
        if self._renewing is not None:
            self._renewing.cancel()
            self._renewing = None
        if acknowledger is not None:
            await acknowledger.close()
        await self._give_back(list(self._held.values()))


def addressed(labels: Mapping[str, Any], queue: str) -> tuple[str, dict[str, Any]]:
    """Where a message with these labels goes, and options of its job. Raises ValueError, TypeError."""
    words: dict[str, Any] = {}
    if labels.get("delay") is not None:
        words["delay"] = float(labels["delay"])
    if labels.get("priority") is not None:
        words["priority"] = int(labels["priority"])
    return str(labels.get("queue_name") or queue), words
