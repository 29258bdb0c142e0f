"""I13: a node is sent nothing that it does not understand."""

from typing import Any

from cluster.messages import NEEDS
from tests.simulation.cluster import Cluster
from tests.simulation.process import Process
from tests.simulation.world import Violation


class Understood:
    """A kind that needs a capability comes from nodes that have it, and goes to nodes that have it."""

    promise = "I13"

    def __init__(self, cluster: Cluster) -> None:
        self.world = cluster.world

    def taken(self, process: Process, src: Process, message: tuple[Any, ...]) -> None:
        """A message arrives."""
        needs = NEEDS.get(message[0], 0)
        if not needs:
            return
        self.world.count("messages that need a capability")
        for one, does in ((src, "sends"), (process, "is sent")):
            if needs & ~one.node.membership.myself.capabilities:
                raise Violation("I13", f"{one.name} {does} a {message[0]}, which it does not know")
