"""I3: a job without RETRY is never delivered twice."""

from tests.simulation.cluster import Cluster
from tests.simulation.history import Claim, Known
from tests.simulation.world import Violation


class AtMostOnce:
    """Of the replies that contain a job with RETRY 0, at most one begins to leave a node.

    That counts over all nodes and all their lives, and nothing excuses a second one.
    """

    promise = "I3"

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def delivered(self, known: Known, claim: Claim) -> None:
        """A reply with the job begins to leave."""
        if not known.plan.retry and len(known.deliveries()) > 1:
            where = [(one.left_ms, f"n{one.machine}.{one.life}") for one in known.deliveries()]
            raise Violation("I3", f"{known.id!r} was delivered {len(where)} times: {where}, now at {claim.left_ms}")
