"""What the jobs of a queue take of memory, about: asynq's exporter tells that, and nodes only know it of all queues.

As asynq does, a few jobs are looked at, and the others are taken to be like them. What was seen counts for a while, and
one scrape looks at some queues only: first at those that it never saw, then at those that it saw longest ago.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from disque.client import AsyncDisque, DisqueError, NodeInfo
from disque.gateway.cluster import Cluster
from disque.gateway.compat import STATES, Sample, totals

#: What a node keeps of a job besides its body, in bytes: BENCHMARKS.md has 398 for one with a body of 100.
JOB_BYTES: Final = 300
#: Jobs of a queue that are looked at, and the seconds for which this counts.
JOBS: Final = 20
FRESH_S: Final = 60.0
#: What one scrape looks at: queues, and about so many bytes of bodies at each node, for so many seconds at most.
QUEUES: Final = 100
BYTES_MOST: Final = 16 << 20
PATIENCE_S: Final = 5.0


class Seen(NamedTuple):
    """What was seen of a queue: when, and the bytes of a job; None if no job could be looked at yet."""

    at_s: float
    job_bytes: float | None


class Sizes:
    """Sizes of jobs, with the rights of one user. A queue that the user may not look at has none."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._seen: dict[str, Seen] = {}

    async def of(self, cluster: Cluster, told: Sequence[Sample]) -> dict[str, float]:
        """Bytes by queue, from metrics of nodes: of what is queued, delayed and in flight."""
        jobs: dict[str, float] = {}
        for source in STATES.values():
            for queue, count in totals(told, source).items():
                jobs[queue] = jobs.get(queue, 0.0) + count
        self._seen = {queue: seen for queue, seen in self._seen.items() if queue in jobs}
        with suppress(DisqueError):  # what was seen before is still true enough
            await self._look(cluster, told)
        averages = {queue: seen.job_bytes for queue, seen in self._seen.items()}
        return {
            queue: count * (averages.get(queue) or 0.0)
            for queue, count in jobs.items()
            if not count or averages.get(queue) is not None
        }

    async def _look(self, cluster: Cluster, told: Sequence[Sample]) -> None:
        """Look at the queues whose turn it is, each at the node that has most of it. Raises DisqueError."""
        longest: dict[str, tuple[float, str]] = {}
        for name, labels, value in told:
            if name == "disque_queue_length" and value:
                queue = labels["queue"]
                longest[queue] = max(longest.get(queue, (0.0, "")), (value, labels["node"]))
        before_s = self._clock_s() - FRESH_S
        ages = {queue: self._seen[queue].at_s if queue in self._seen else float("-inf") for queue in longest}
        due = sorted([queue for queue, at_s in ages.items() if at_s <= before_s], key=lambda queue: ages[queue])
        by_node: dict[str, list[str]] = {}
        for queue in due[:QUEUES]:
            by_node.setdefault(longest[queue][1], []).append(queue)
        if by_node:
            nodes = {f"{node.host}:{node.port}": node for node in await cluster.nodes()}
            asked = [self._look_at(cluster, nodes[one], queues) for one, queues in by_node.items() if one in nodes]
            await asyncio.gather(*asked)

    async def _look_at(self, cluster: Cluster, node: NodeInfo, queues: list[str]) -> None:
        """Look at queues of one node, one after the other. One that does not answer is left for the next time."""

        async def peek(client: AsyncDisque) -> None:
            left = BYTES_MOST
            for queue in queues:
                left -= await self._peek(client, queue)
                if left <= 0:
                    break

        with suppress(DisqueError, TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                await cluster.ask_at(node, peek)

    async def _peek(self, client: AsyncDisque, queue: str) -> int:
        """Look at one queue; the bytes of its bodies. Raises DisqueError, but not where the user may not look."""
        known = self._seen.get(queue)
        job_bytes = known.job_bytes if known else None
        size = 0
        try:
            jobs = await client.peek(queue, JOBS)
        except DisqueError as error:
            if error.code != "NOPERM":
                raise
        else:
            size = sum(len(job.body) for job in jobs)
            job_bytes = JOB_BYTES + size / len(jobs) if jobs else job_bytes
        self._seen[queue] = Seen(self._clock_s(), job_bytes)
        return size


_known: WeakKeyDictionary[Cluster, Sizes] = WeakKeyDictionary()


async def of_queues(cluster: Cluster, told: Sequence[Sample]) -> dict[str, float]:
    """Bytes by queue, about: see `Sizes`."""
    found = _known.get(cluster)
    if found is None:
        found = _known[cluster] = Sizes()
    return await found.of(cluster, told)
