"""I16: what has moved is in one queue, for all nodes."""

from typing import Any

from cluster.capabilities import JOBS
from disque.core.model.job import ACKED, EXTRA, WAIT_REPL
from tests.core.support import all_jobs
from tests.simulation.cluster import Cluster
from tests.simulation.process import Process
from tests.simulation.world import Violation

EVERY_MS = 500
#: So long may nodes that reach each other be of different minds.
TALK_MS = 4000

Place = tuple[str, int, bytes]


class Moved:
    """When the nodes reach each other, all that have a job that moved agree in which queue it is.

    A node that has missed a move hears of it over the first link that stands. Without faults that is always so.
    """

    promise = "I16"

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.history = cluster.watch.history
        self.calm = cluster.world.options.calm
        self._next_ms = 0
        #: Since when nodes are of which different minds, by job.
        self._since: dict[bytes, tuple[list[Place], int]] = {}

    def beat(self, process: Process) -> None:
        """Look now and then."""
        del process
        if self.world.now >= self._next_ms and (self.calm or self.history.healed_ms >= 0):
            self._next_ms = self.world.now + EVERY_MS
            self.look()

    def end(self) -> None:
        """The run is over."""
        self.look()

    def look(self) -> None:
        """Compare what all nodes know of jobs that have moved."""
        now = self.world.now
        since: dict[bytes, tuple[list[Place], int]] = {}
        for job_id, places in self.places().items():
            if max([generation for _, generation, _ in places]) == 0:
                continue
            self.world.count("jobs that moved")
            if len({(generation, queue) for _, generation, queue in places}) == 1:
                continue
            before, since_ms = self._since.get(job_id, (places, now))
            since[job_id] = (places, since_ms if before == places else now)
            if now - since[job_id][1] > TALK_MS:
                raise Violation("I16", f"{job_id!r} is in different queues since {since_ms}: {places}")
        self._since = since

    def places(self) -> dict[bytes, list[Place]]:
        """By job, which node has it in which generation and queue."""
        found: dict[bytes, list[Place]] = {}
        for process in [process for process in self.cluster.processes() if follows(process)]:
            for job in all_jobs(process.node):
                if job.state not in {ACKED, WAIT_REPL}:
                    extra: Any = process.node.extra_of(job) if job.flags & EXTRA else None
                    generation = 0 if extra is None else extra.generation
                    found.setdefault(job.id, []).append((process.name, generation, job.queue))
        return found


def follows(process: Process) -> bool:
    """Whether a node is of a version that knows of moves."""
    return bool(process.node.membership.myself.capabilities & JOBS)
