"""What happens in a cluster, a sample every two seconds, as long as somebody looks; and which queues are used most.

Rates are differences of what nodes count since their start. A node that was started anew counts from 0, so a step down
is taken for no news. Nobody looks: nothing is asked.
"""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from disque.client import AsyncDisque, DisqueError, NodeInfo
from disque.client.replies import text
from disque.gateway import compat
from disque.gateway.cluster import Cluster

EVERY_S: Final = 2.0
#: Samples that are kept: ten minutes.
KEPT: Final = 300
#: How long samples are taken after the last look, in seconds.
LOOKS_S: Final = 30.0
#: How many queues are the busiest ones, and for how long they are, in seconds.
BUSIEST: Final = 10
BUSIEST_S: Final = 30.0
#: What is counted, by its name in INFO.
TOTALS: Final = {
    "added": "total_jobs_added",
    "delivered": "total_jobs_delivered",
    "acked": "total_jobs_acknowledged",
    "nacked": "total_jobs_nacked",
    "retried": "total_jobs_requeued",
    "died": "total_jobs_died",
    "expired": "total_jobs_expired",
}

Info = dict[str, Any]
Found = list[tuple[NodeInfo, Info | DisqueError]]


class Sample(NamedTuple):
    """Rates a second of all nodes together, at a time by the clock in seconds."""

    at_s: float
    rates: dict[str, float]


class Sampler:
    """Samples of one cluster."""

    def __init__(self, cluster: Cluster, clock_s: Callable[[], float] = time.time) -> None:
        self._cluster = cluster
        self._clock_s = clock_s
        self.samples: deque[Sample] = deque(maxlen=KEPT)
        self.nodes: Found = []
        #: The queues that were used most, the first of all in front; none where the user may not ask for METRICS.
        self.busiest: list[str] = []
        #: Of which list of these queues the figures are, and those.
        self.told_of: list[str] = []
        self.told: list[dict[str, Any]] = []
        self._ranked_s = -BUSIEST_S
        self._last: dict[str, dict[str, int]] = {}
        self._last_s = 0.0
        self._looked_s = 0.0
        self._task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()

    async def look(self) -> None:
        """Somebody looks: there is a sample afterwards that is no older than a few seconds. Raises DisqueError."""
        self._looked_s = self._clock_s()
        if self._task is None or self._task.done():
            await self.sample()
            self._task = asyncio.get_running_loop().create_task(self._go_on())

    async def _go_on(self) -> None:
        while self._clock_s() - self._looked_s < LOOKS_S:
            await asyncio.sleep(EVERY_S)
            try:
                await self.sample()
            except DisqueError as error:
                self.nodes = [(node, error) for node, _ in self.nodes]

    async def sample(self) -> None:
        """Ask all nodes. Raises DisqueError if none tells who they are."""
        self.take(await self._cluster.at_each(info_of), self._clock_s())
        if self._clock_s() - self._ranked_s >= BUSIEST_S:
            self._ranked_s = self._clock_s()
            answers = await self._cluster.at_each(metrics_of)
            self.busiest = ranked([answer for _, answer in answers if isinstance(answer, str)])

    def take(self, found: Found, now_s: float) -> None:
        """Note what nodes have said."""
        totals = {
            node.id: {name: number(info, key) for name, key in TOTALS.items()}
            for node, info in found
            if isinstance(info, dict)
        }
        passed_s = now_s - self._last_s
        if self._last and passed_s > 0:
            rates = dict.fromkeys(TOTALS, 0.0)
            for node_id, counted in totals.items():
                before = self._last.get(node_id)
                for name, value in counted.items() if before else ():
                    rates[name] += max(0, value - before[name]) / passed_s if before else 0
            self.samples.append(Sample(now_s, rates))
        self.nodes, self._last, self._last_s = found, totals, now_s

    def stop(self) -> None:
        """Take no more samples."""
        if self._task is not None:
            self._task.cancel()


async def info_of(client: AsyncDisque) -> Info:
    """INFO of a node."""
    return await client.info()


async def metrics_of(client: AsyncDisque) -> str:
    """METRICS of a node, with the queues that were used most there."""
    return text(await client.execute_command("METRICS", "COUNT", BUSIEST))


def ranked(told: Iterable[str]) -> list[str]:
    """The queues to which most jobs were added, and from which most were delivered, at all nodes together."""
    samples = [sample for answer in told for sample in compat.samples(answer)]
    used: Counter[str] = Counter()
    for name in ("disque_jobs_added_total", "disque_jobs_delivered_total"):
        used.update({queue: int(value) for queue, value in compat.totals(samples, name).items()})
    return [name for name, jobs in used.most_common(BUSIEST) if jobs]


def number(info: Info, key: str) -> int:
    """A figure of INFO; 0 if it is not there."""
    value = info.get(key)
    return value if isinstance(value, int) else 0
