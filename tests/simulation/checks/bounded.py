"""I22: a queue with `overflow drop-oldest` is as long as `maxlen` allows, and loses no job for nothing."""

from disque.core.jobs import overflow
from disque.core.model.defaults import Defaults
from disque.core.model.job import ACKED, DEFERRED, WAIT_REPL
from disque.core.model.pubsub import ADDED, DEAD, DROPPED, Event
from disque.core.replication import queue_options
from tests.simulation.cluster import Cluster
from tests.simulation.process import Process
from tests.simulation.world import Violation


class Bounded:
    """When ADDJOB has made a job at a node, or one has died into a queue, that has at most `maxlen` jobs at the flush.

    And when jobs were dropped, it has exactly so many. What a node has been told of options is what counts there.
    Excused is a node that is frozen, whose journal cannot be written, or that keeps no jobs itself; and a queue that
    has got its bound, or a smaller one, since the last flush: the job may have come before. What was set then counts.
    So is what is left when as many jobs were dropped as one turn drops; the next one goes on.
    """

    promise = "I22"

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.history = cluster.watch.history
        #: What is set for queues, by process, as it was at its last flush.
        self.options: dict[str, Defaults] = {}

    def flushed(self, process: Process) -> None:
        """The next turn begins."""
        options = process.node.registry.defaults.by_name
        before = self.options.get(process.name)
        if before is None or before.by_name != options:
            before = self.options[process.name] = Defaults()
            for name, words in options.items():
                for option, word in words.items():
                    before.set(name, option, word)

    def before(self, process: Process, name: bytes) -> int:
        """The bound that a queue had when this turn began; 0: none."""
        options = self.options.get(process.name)
        found = queue_options.resolve(options, name) if options is not None else None
        return max(0, found.maxlen) if found is not None and found.drops else 0

    def happened(self, process: Process, events: list[Event]) -> None:
        """All that is due in this turn has been done, and nothing has left."""
        node = process.node
        if node.reconciling or node.misconf or node.membership.leaving or node.used > node.limits.warn:
            return
        grown = {queue for event, queue, job_id in events if event == ADDED and may_be_queued(process, job_id)}
        grown |= {queue for event in events if (queue := self.died_into(process, event))}
        drops = [queue for event, queue, _ in events if event == DROPPED]
        dropped, goes_on = set(drops), len(drops) >= overflow.DROPS_MOST
        for name in sorted(grown | dropped):
            found = queue_options.of(node, name)
            length = node.queues[name].length if name in node.queues else 0
            if found is None or not found.drops or found.maxlen <= 0:
                if name in dropped:
                    raise Violation(self.promise, f"{process.name} dropped jobs of {name!r}, which has no bound")
                continue
            self.cluster.world.count("queues with a bound")
            before = self.before(process, name)
            if before and length > max(before, found.maxlen) and not goes_on:
                raise Violation(self.promise, f"{name!r} of {process.name} has {length} jobs, not {found.maxlen}")
            if name in dropped and length < found.maxlen:
                raise Violation(self.promise, f"{process.name} dropped all but {length} jobs of {name!r}")

    def died_into(self, process: Process, event: Event) -> bytes:
        """The queue that a job has come into by its death; nothing where that is not certain, or there is none.

        Jobs that nobody else knows when their node comes back become dead letters too, but of a queue of their own.
        """
        what, queue, job_id = event
        known = self.history.jobs.get(job_id)
        if what != DEAD or known is None or known.moved or known.plan.queue != queue or known.plan.retry <= 0:
            return b""
        job = process.node.find(job_id)
        return b"" if job is None or job.queue != known.plan.dead else known.plan.dead


def may_be_queued(process: Process, job_id: bytes) -> bool:
    """Whether a job that was added is here, and not delayed.

    Where memory ran short, another node has it instead, or is to have it. One that was done elsewhere before it was
    known here to have its copies has come into no queue here.
    """
    job = process.node.find(job_id)
    return job is not None and job.state not in {WAIT_REPL, ACKED} and job.flags & DEFERRED == 0
