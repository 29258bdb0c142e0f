"""I6: what is over leaves nothing behind."""

from operator import attrgetter
from typing import Any

from disque.core.base.timers import IDLE
from disque.core.model.job import ACKED, WAIT_REPL
from disque.core.model.moves import Move
from disque.core.replication.moves import AGAIN_SPREAD_MS, SECOND_MS
from tests.core.support import all_jobs
from tests.simulation.cluster import Cluster
from tests.simulation.process import Process
from tests.simulation.world import Violation

#: Tables of a node that must be empty, where the core has them.
TABLES = (
    *("acks.by_id", "copies.wanted", "copies.short", "moves.by_id", "tombstones", "retries", "chores", "resting"),
    *("messages", "early"),
)


class Collected:
    """Within 5 s and two node timeouts after healing, with nobody doing anything, nothing is left of what is over.

    Not an acknowledged job, not a bare acknowledgement, not a tombstone, not an ADDJOB without an answer, not a pointer
    to a node without the job, not a timer without an item. A job may still die later, when its tries are used up: a
    holder that has heard of that move in these seconds tells the others later.
    """

    promise = "I6"

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def end(self) -> None:
        """The time is over."""
        for process in self.cluster.processes():
            self.look(process)

    def look(self, process: Process) -> None:
        """Look at one node."""
        node: Any = process.node
        for job in all_jobs(node):
            if job.state in {ACKED, WAIT_REPL}:
                raise Violation("I6", f"{process.name} still has {job.id!r} in state {job.state} of {job.holders}")
            if job.slot == IDLE:
                raise Violation("I6", f"{process.name} has {job.id!r} without a timer")
            self.look_at_holders(process, job)
        for job_id, claim in node.votes.by_id.items():  # questions about jobs that live are asked for ever
            if node.find(job_id) is not claim.job:
                raise Violation("I6", f"{process.name} asks about {job_id!r}, which it does not have")
        for name in TABLES:
            left = self.left_in(process, name)
            if name in {"chores", "resting", "copies.wanted"} and node.repairs.walk is not None:
                continue  # as long as copies are missing that no node can take, this goes on now and then
            if len(left) > 0:
                some = [described(left[key]) for key in list(left)[:3]] if isinstance(left, dict) else []
                raise Violation("I6", f"{process.name} still has {len(left)} in {name}: {some}")

    def left_in(self, process: Process, name: str) -> Any:
        """What is in one of the tables, without that which may be there."""
        node: Any = process.node
        left: Any = attrgetter(name)(node)
        if name.startswith("copies."):
            return {job_id: spread for job_id, spread in left.items() if not self.is_all_there_is(node, spread)}
        if name == "moves.by_id":
            return {job_id: move for job_id, move in left.items() if not self.is_news(process, move)}
        return left

    @staticmethod
    def is_all_there_is(node: Any, spread: Any) -> bool:
        """Whether an ASYNC job has a copy at every node, and waits for nodes that may still come."""
        return spread.add is None and set(node.peers) <= set(spread.confirmed)

    @staticmethod
    def is_news(process: Process, move: Move) -> bool:
        """Whether a node heard of this move so lately that it was not yet its turn to tell others."""
        left_ms = move.due_ms - process.now_ms()
        return move.tries == 0 and move.slot != IDLE and 0 < left_ms <= SECOND_MS + AGAIN_SPREAD_MS

    def look_at_holders(self, process: Process, job: Any) -> None:
        """Whoever is said to have a job is a node of the cluster."""
        for holder in job.holders:
            if holder not in process.node.membership.nodes:
                raise Violation("I6", f"{process.name} thinks that {holder!r}, which it does not know, has {job.id!r}")


def described(item: Any) -> str:
    """What the slots of an object hold."""
    names = [name for kind in type(item).__mro__ for name in getattr(kind, "__slots__", ())]
    return ", ".join(f"{name}={getattr(item, name, None)!r}" for name in names)
