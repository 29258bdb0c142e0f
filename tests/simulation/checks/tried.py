"""I15: a job is tried as often as TRIES says, and no more."""

from tests.simulation.cluster import Cluster
from tests.simulation.history import Claim, Known
from tests.simulation.options import HARMLESS
from tests.simulation.world import Violation


class Tried:
    """A job with TRIES n is delivered from its queue at most n times before it is a dead letter, and not fewer.

    A delivery that ends with NOCOUNT, ENQUEUE or DEQUEUE is no try; a NACK at another node than that which delivered it
    last, or has handed it on since, may come late, and end a try that has begun since, or none. What a node was told to
    delete it does not know any more. In runs with faults, each crash, each time that a process stands still, and each
    cut may cost the count of one. Who moves a job by hand begins anew.
    """

    promise = "I15"

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.history = cluster.watch.history
        self.calm = set(cluster.world.options.faults) <= HARMLESS and not cluster.world.options.jumps

    def delivered(self, known: Known, claim: Claim) -> None:
        """A reply with the job begins to leave."""
        plan = known.plan
        if not plan.tries or known.moved or known.deleted or plan.dead == plan.queue:
            return
        tries = [one for one in known.deliveries() if one.queue == plan.queue]
        if claim.queue != plan.queue:
            self.cluster.world.count("dead letters")
            least = plan.tries - known.nacked_elsewhere - self.lost()
            if len(tries) < least:
                raise Violation("I15", f"{known.id!r} (TRIES {plan.tries}) is dead after {len(tries)} deliveries")
            return
        most = plan.tries + known.uncounted + known.dequeued * len(tries) + self.lost()
        if len(tries) > most:
            times = [(one.at_ms, one.machine) for one in tries]
            raise Violation("I15", f"{known.id!r} (TRIES {plan.tries}) was delivered more than {most} times: {times}")

    def lost(self) -> int:
        """How many tries may not have been counted: in runs with faults, any number."""
        return 0 if self.calm else 1 << 30
