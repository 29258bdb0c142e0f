"""I2: once everything works again, what is held is delivered."""

from disque.core.replication import returned
from tests.simulation.checks.kept import Kept
from tests.simulation.cluster import Cluster
from tests.simulation.history import Known
from tests.simulation.world import Violation

SLACK_MS = 5000


class Delivered:
    """After healing, with all nodes up, consumers on every queue and nothing paused, each promised job comes.

    It comes within its DELAY + its RETRY (or a longer LEASE) + the node timeout + 5 s. Which jobs are promised is what
    `Kept` says.
    """

    promise = "I2"

    def __init__(self, cluster: Cluster, kept: Kept) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.history = cluster.watch.history
        self.kept = kept

    def deadline_ms(self, known: Known) -> int:
        """When the job must have been delivered at the latest."""
        plan = known.plan
        since_ms = max(self.history.healed_ms, known.answered_ms)
        delay_s = max(plan.delay, known.nack_delay)
        lease_ms = max([plan.retry * 1000, *[claim.lease_ms for claim in known.claims]])
        return since_ms + delay_s * 1000 + lease_ms + self.world.options.timeout_ms + SLACK_MS

    def end(self) -> None:
        """The time is over."""
        for known in self.kept.live.values():
            if self.kept.is_promised(known) and not self.is_exempt(known):
                times = [claim.left_ms for claim in known.deliveries()]
                raise Violation(
                    "I2",
                    f"{known.id!r} from {known.plan.queue!r} (REPLICATE {known.plan.repl} RETRY {known.plan.retry}) "
                    f"was not delivered by {self.deadline_ms(known)}, healed at {self.history.healed_ms}; "
                    f"delivered before at {times}",
                )

    def is_exempt(self, known: Known) -> bool:
        """Whether it came in time, or may come later."""
        deadline_ms = self.deadline_ms(known)
        came = any(self.history.healed_ms <= claim.left_ms <= deadline_ms for claim in known.deliveries())
        if came or self.world.now < deadline_ms:
            return True
        if self.is_put_away(known):
            return True
        # With ASYNC it was answered before it was anywhere, and may have been lost on its way: see `Kept`.
        unsafe = known.dequeued or (known.plan.asynchronous and not self.kept.is_held(known.id))
        return unsafe and not known.plan.retry

    def is_put_away(self, known: Known) -> bool:
        """Whether a node that was away for long has put it into a queue where nobody takes it from."""
        jobs = [process.node.find(known.id) for process in self.cluster.processes()]
        return any(job is not None and job.queue == returned.QUEUE for job in jobs)


class Orderly:
    """In runs in which nothing ends but by clean stops, a job that has reached nobody does not wait for its RETRY.

    It was given back by a connection, handed over, or on its way to a node that stopped: it comes within its DELAY +
    the node timeout + 5 s. Not so without a journal, where some node does not understand who asks for its copies: those
    that it lost when it started again count as being there, so the last node that has the job in its queue may hand it
    over to that one.
    """

    promise = "I2"

    def __init__(self, cluster: Cluster, kept: Kept) -> None:
        self.world = cluster.world
        self.history = cluster.watch.history
        self.kept = kept

    def end(self) -> None:
        """The time is over."""
        options = self.world.options
        if not options.orderly or (options.mixed and options.policy == "off"):
            return
        for known in self.kept.live.values():
            deadline_ms = max(self.history.healed_ms, known.answered_ms) + options.timeout_ms + SLACK_MS
            deadline_ms += max(known.plan.delay, known.nack_delay) * 1000
            unsafe = known.dequeued or known.plan.asynchronous or not known.plan.retry
            if unsafe or not self.kept.is_promised(known) or self.world.now < deadline_ms:
                continue
            if not any(claim.left_ms <= deadline_ms for claim in known.claims):
                raise Violation(
                    "I2",
                    f"{known.id!r} from {known.plan.queue!r} (REPLICATE {known.plan.repl} RETRY {known.plan.retry}) "
                    f"reached nobody by {deadline_ms}: healed at {self.history.healed_ms}, answered at "
                    f"{known.answered_ms}, the first time {min([one.left_ms for one in known.claims], default=0)}",
                )
