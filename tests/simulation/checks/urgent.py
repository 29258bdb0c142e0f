"""I18: the most urgent jobs leave a queue first."""

from cluster.messages import ROW_BODY, YOURJOBS, YOURJOBS_JOBS
from disque.core.model.job import Job
from tests.simulation.cluster import Cluster
from tests.simulation.connection import Request
from tests.simulation.process import Process
from tests.simulation.world import Violation


class Urgent:
    """No job leaves a queue while one with a higher priority is queued there, at one node.

    Jobs leave with replies, and to other nodes. Those that another node does not take, since they are too long, do not
    count for what goes to that one. How urgent a job is, is what its ADDJOB said, whatever the node knows.
    """

    promise = "I18"

    def __init__(self, cluster: Cluster) -> None:
        self.plans = cluster.watch.history.plans
        #: How many of the messages of a process that wait to leave were looked at.
        self.seen: dict[Process, int] = {}

    def priority(self, body: bytes) -> int:
        """What was asked for."""
        plan = self.plans.get(body)
        return 0 if plan is None else plan.priority

    def popped(self, process: Process, jobs: list[Job]) -> None:
        """A session has just got these jobs."""
        by_queue: dict[bytes, list[bytes]] = {}
        for job in jobs:
            by_queue.setdefault(job.queue, []).append(job.body)
        for name, bodies in by_queue.items():
            self.look(process, name, bodies, b"")

    def ran(self, process: Process, request: Request, reply: bytes) -> None:
        """A request was executed."""
        del request, reply
        self.look_at_messages(process)

    def flushing(self, process: Process) -> None:
        """Those who wait were served, and nothing has left."""
        self.look_at_messages(process)
        self.seen.pop(process, None)

    def look_at_messages(self, process: Process) -> None:
        """Look at the jobs that go to other nodes."""
        outbox = process.node.messages
        seen = self.seen.get(process, 0)
        self.seen[process] = len(outbox)
        for peer, message in outbox[seen if seen <= len(outbox) else 0 :]:
            if message[0] == YOURJOBS:
                rows = message[YOURJOBS_JOBS]
                assert isinstance(rows, tuple)
                assert isinstance(message[1], bytes)
                self.look(process, message[1], [row[ROW_BODY] for row in rows], peer)

    def look(self, process: Process, name: bytes, bodies: list[bytes], peer_id: bytes) -> None:
        """Jobs with these bodies have left a queue, in this order: for a node, or for a client (b"")."""
        queue = process.node.queues.get(name)
        peer = process.node.peers.get(peer_id)
        stay = [] if queue is None else [job for job in queue.jobs() if peer is None or peer.takes(len(job.body))]
        left = [self.priority(body) for body in bodies]
        if left != sorted(left, reverse=True):
            raise Violation(self.promise, f"jobs of priorities {left} left {name!r} of {process.name} in this order")
        most = max([self.priority(job.body) for job in stay], default=0)
        if left[-1] < most:
            raise Violation(
                self.promise, f"{bodies[-1]!r} (priority {left[-1]}) left {name!r} of {process.name} before {most}"
            )

    def died(self, process: Process, what: str) -> None:
        """It sends nothing any more."""
        del what
        self.seen.pop(process, None)
