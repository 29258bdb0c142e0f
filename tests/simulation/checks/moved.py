"""I16: what has moved is in one queue, for all nodes."""

from typing import Any

from cluster.capabilities import JOBS, REPAIR
from disque.core.model.job import ACKED, ACTIVE, EXTRA, WAIT_REPL, Job
from tests.core.support import all_jobs
from tests.simulation.cluster import Cluster
from tests.simulation.process import Process
from tests.simulation.world import Violation

EVERY_MS = 500
#: So long may nodes that reach each other be of different minds.
TALK_MS = 4000

Place = tuple[str, int, bytes]
Copy = tuple[Process, int, Job]


class Moved:
    """When the nodes reach each other, all that have a job that moved agree in which queue it is.

    A node that has missed a move hears of it over the first link that stands. Without faults that is always so. One
    that was taken out of the holders, so that nobody knows of its copy, hears of it when it asks whether it may queue
    the job: after FORGET, or when it was away for long and cannot ask before. So does one that got its copy while
    another one was away for long, if that one could not ask it.
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
        copies: dict[bytes, list[Copy]] = {}
        for process in [process for process in self.cluster.processes() if follows(process)]:
            for job in all_jobs(process.node):
                if job.state not in {ACKED, WAIT_REPL}:
                    extra: Any = process.node.extra_of(job) if job.flags & EXTRA else None
                    copies.setdefault(job.id, []).append((process, 0 if extra is None else extra.generation, job))
        return {
            job_id: [
                (process.name, generation, job.queue)
                for process, generation, job in found
                if not self.waits_unknown(process, generation, job, found)
            ]
            for job_id, found in copies.items()
        }

    def waits_unknown(self, process: Process, generation: int, job: Job, copies: list[Copy]) -> bool:
        """Whether this copy need not be where the job is: its time is still to come, and then its node asks.

        None of those that are ahead knows of it, since one that had the job forgot a node: it was told to, or this
        node was away for long.
        """
        newest = max([number for _, number, _ in copies])
        if generation == newest or job.state != ACTIVE or job.requeue_ms <= process.now_ms():
            return False
        node_id = process.node.node_id
        if any(node_id in other.holders for _, number, other in copies if number == newest):
            return False
        copied = self.history.copied.get(job.id, {})
        since_ms = copied.get(process.machine.number, self.world.now)
        if self.history.forgot_nodes(copied.keys() - {process.machine.number}, since_ms, self.world.now):
            return True
        ahead = [other for other, number, _ in copies if number == newest]
        return self.came_back(process, job, ahead, since_ms) or self.could_not_be_asked(process, job, since_ms)

    def came_back(self, process: Process, job: Job, ahead: list[Process], since_ms: int) -> bool:
        """Whether a node was off until others had forgotten it, and cannot ask them about its copies (Rule 52).

        From its return on it lacks the capability, or all of those that are ahead do which it knows as holders. It
        knows one of these, or one that names them, and so hears of the move when it asks whether it may queue the job.
        """
        number, now = process.machine.number, self.world.now
        absences = self.history.absences(number, since_ms, now)
        if not absences:
            return False
        asked = [other for other in ahead if other.node.node_id in job.holders]
        known = [other.machine.number for other in asked or self.older_ones(job, ahead)]
        if not known:
            return False
        back_ms = absences[-1][1]
        if not self.history.understood(number, REPAIR, back_ms, now):
            return True
        return not any(self.history.understood(other, REPAIR, back_ms, now) for other in known)

    def older_ones(self, job: Job, ahead: list[Process]) -> list[Process]:
        """Holders, for who has ``job``, that are of a version without moves now, and know of some that are ahead."""
        found = []
        for other in self.cluster.processes():
            theirs = other.node.find(job.id)
            if theirs is not None and other.node.node_id in job.holders and not follows(other):
                found += [other] if any(one.node.node_id in theirs.holders for one in ahead) else []
        return found

    def could_not_be_asked(self, process: Process, job: Job, since_ms: int) -> bool:
        """Whether a node that was back put the job away when this one had its copy, and could not say so."""
        known, number = self.history.jobs.get(job.id), process.machine.number
        return known is not None and any(
            since_ms <= at_ms and not self.history.understood(number, REPAIR, at_ms, at_ms)
            for at_ms in known.returned_ms
        )


def follows(process: Process) -> bool:
    """Whether a node is of a version that knows of moves."""
    return bool(process.node.membership.myself.capabilities & JOBS)
