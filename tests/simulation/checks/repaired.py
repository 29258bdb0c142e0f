"""I21: copies that were lost are made again."""

from typing import Final

from cluster.capabilities import REPAIR
from disque.core.model.job import ACKED, WAIT_REPL
from tests.simulation.checks.kept import Kept
from tests.simulation.cluster import Cluster
from tests.simulation.history import Known
from tests.simulation.process import Process
from tests.simulation.world import Violation

#: With clocks that jump, copies of jobs that live no longer, in s, end at other times than the jobs.
SHORT_S: Final = 3600


class Repaired:
    """After `cluster-repair-after` + 60 s in which nothing happens, each promised job has as many copies as it should.

    That is REPLICATE, or the number of nodes that can take one, if that is less; none of them is on a node that is gone
    for good. Jobs that are delivered at most once have one copy at most, and are not looked at. Nor are jobs of which a
    copy may have expired by a clock that was ahead when its node started.
    """

    promise = "I21"

    def __init__(self, cluster: Cluster, kept: Kept) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.kept = kept

    def rested(self) -> None:
        """So long nothing has happened."""
        for process in self.cluster.processes():
            self.world.counts["jobs repaired"] += process.node.repairs.made
        lacking = self.lacking()
        if lacking:
            raise Violation("I21", lacking)

    def has_all(self) -> bool:
        """Whether no copy is missing at this moment."""
        return not self.lacking()

    def lacking(self) -> str:
        """A job that has too few copies."""
        processes = self.cluster.processes()
        if not all(process.node.membership.myself.capabilities & REPAIR for process in processes):
            return ""
        for known in self.kept.live.values():
            if not known.plan.retry or not self.kept.is_promised(known):
                continue
            if self.world.options.jumps and known.plan.ttl <= SHORT_S:
                continue
            copies = [process.name for process in processes if has_copy(process, known.id)]
            able = [process.name for process in processes if takes(process, known)]
            if len(copies) < min(known.plan.repl, len({*able, *copies})):
                return f"{known.id!r} (REPLICATE {known.plan.repl}) has only the copies {copies} of {able}"
        return ""


def has_copy(process: Process, job_id: bytes) -> bool:
    """Whether a node has a copy that lasts."""
    job = process.node.find(job_id)
    return job is not None and job.state not in {ACKED, WAIT_REPL}


def takes(process: Process, known: Known) -> bool:
    """Whether a node takes copies of a job."""
    node = process.node
    return len(known.plan.body) <= node.membership.myself.body_most and not node.membership.leaving
