"""Keeps the leases of jobs: WORKING for all of them together, three times in a lease.

A lease is ours until a moment of the worker's own monotonic clock: when the node delivered the job, or when it was last
asked to renew, plus the lease. It is never later than what the node has, however long a reply takes. After that moment
the node may have given the job to somebody else, and WORKING would renew *their* lease: so it is not said any more, the
function is cancelled, and what it does until it notices is done twice. Changes of the wall clock change nothing here.

NOJOB and TOOLATE end nothing by themselves: the node that knows the job may be back before the lease is over. CANCELLED
ends the function at once.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Iterable
from typing import Final

from disque.client import AsyncDisque, DisqueError, JobCancelledError
from disque.client.config import Address
from disque.tasks.held import Held

LOG: Final = logging.getLogger("disque.tasks")

#: WORKING is said so often in a lease, and sooner again when no node has answered.
BEATS: Final = 3
MISSED: Final = 10
#: IDs in one WORKING.
IDS_MOST: Final = 500


class Leases:
    """Renews leases. ``held`` gives all jobs that the worker has, ``lost`` and ``cancelled`` hear of single ones."""

    def __init__(
        self,
        client: AsyncDisque,
        lease_s: float,
        held: Callable[[], Iterable[Held]],
        lost: Callable[[Held], None],
        cancelled: Callable[[Held], None],
        clock: Callable[[], float],
    ) -> None:
        self._client = client
        self._lease_s = lease_s
        self._held = held
        self._lost = lost
        self._cancelled = cancelled
        self._clock = clock
        self._next_s = -math.inf
        self._beating: asyncio.Task[None] | None = None

    def look(self, now_s: float) -> None:
        """End what is over, and begin a beat if one is due. Called several times a second."""
        for held in [one for one in self._held() if one.lease_until_s <= now_s and not one.lost]:
            held.lost = True
            LOG.warning("job %s of queue %s: the lease is lost, somebody else may have it", held.id, held.queue)
            self._lost(held)
        if now_s >= self._next_s and self._beating is None:
            self._next_s = now_s + self._lease_s / BEATS
            if any(True for _ in self._held()):
                self._beating = asyncio.get_running_loop().create_task(self._beat(), name="disque-working")

    def say(self) -> None:
        """Send what functions have said of their progress."""
        said = [(held, held.progress) for held in self._held() if held.progress is not None and not held.lost]
        for held, text in said:
            held.progress = None
            self._client_task(held, text)

    def ask(self, job_id: str) -> None:
        """Renew the lease of one job now: whether somebody has cancelled it is heard at once."""
        for held in [one for one in self._held() if one.id == job_id and not one.lost]:
            self._client_task(held, None)

    def _client_task(self, held: Held, text: str | None) -> None:
        task = asyncio.get_running_loop().create_task(self._say(held, text))
        TALKING.add(task)
        task.add_done_callback(TALKING.discard)

    async def _say(self, held: Held, text: str | None) -> None:
        now_s = self._clock()
        try:
            [answer] = await self._client.working_at(held.node, [held.id], text)
        except DisqueError as error:
            LOG.debug("progress of job %s was not taken: %s", held.id, error)
        else:
            self._answered(held, answer, now_s)

    async def _beat(self) -> None:
        try:
            jobs = [held for held in self._held() if not held.lost]
            groups: dict[Address | None, list[Held]] = {}
            for held in jobs:
                groups.setdefault(held.node, []).append(held)
            parts = [
                (node, group[at : at + IDS_MOST])
                for node, group in groups.items()
                for at in range(0, len(group), IDS_MOST)
            ]
            await asyncio.gather(*[self._renew(node, part) for node, part in parts])
        finally:
            self._beating = None

    async def _renew(self, node: Address | None, jobs: list[Held]) -> None:
        now_s = self._clock()
        try:
            answers = await self._client.working_at(node, [held.id for held in jobs])
        except DisqueError as error:
            LOG.warning("the leases of %d jobs cannot be renewed now: %s", len(jobs), error)
            self._next_s = min(self._next_s, self._clock() + self._lease_s / MISSED)
            return
        for held, answer in zip(jobs, answers, strict=True):
            self._answered(held, answer, now_s)

    def _answered(self, held: Held, answer: int | DisqueError, asked_s: float) -> None:
        if isinstance(answer, JobCancelledError):
            self._cancelled(held)
        elif isinstance(answer, DisqueError):
            LOG.debug("the lease of job %s is not renewed: %s", held.id, answer)
        elif not held.lost:
            held.lease_until_s = asked_s + answer if answer else math.inf

    async def close(self) -> None:
        """End a beat that is on its way."""
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.wait([self._beating])


TALKING: Final[set[asyncio.Task[None]]] = set()
