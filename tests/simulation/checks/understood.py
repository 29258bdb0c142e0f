"""I13: a node is sent nothing that it does not understand; and nothing is done that a node it knows does not follow."""

from typing import Any, Final

from cluster.capabilities import JOBS, QUEUES
from cluster.messages import NEEDS
from tests.simulation.cluster import Cluster
from tests.simulation.connection import Request
from tests.simulation.process import Process
from tests.simulation.world import Violation

#: What commands need of all nodes, and those options of ADDJOB that need the same.
NEEDING: Final = {
    **dict.fromkeys((b"MOVE", b"REVIVEJOB", b"QMOVE", b"REVIVE", b"QFLUSH", b"CANCEL", b"WAITJOB"), JOBS),
    b"QCONFIG": QUEUES,
}
OPTIONS: Final = frozenset({b"TRIES", b"BACKOFF", b"DEADLETTER", b"HEADER", b"RETAIN"})


class Understood:
    """A kind that needs a capability comes from nodes that have it, and goes to nodes that have it.

    A command that needs a capability is refused while the node that is asked knows another one of which it has heard
    that it lacks it, whether or not that one is there. What the last handshake said counts, whoever began it.
    """

    promise = "I13"

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.world = cluster.world
        #: By process and ID of another node, what that one said last that it understands.
        self.masks: dict[tuple[Process, bytes], int] = {}

    def learnt(self, process: Process, node_id: bytes, capabilities: int) -> None:
        """A handshake has told ``process`` what another node understands."""
        self.masks[process, node_id] = capabilities

    def taken(self, process: Process, src: Process, message: tuple[Any, ...]) -> None:
        """A message arrives."""
        needs = NEEDS.get(message[0], 0)
        if not needs:
            return
        self.world.count("messages that need a capability")
        for one, does in ((src, "sends"), (process, "is sent")):
            if needs & ~one.node.membership.myself.capabilities:
                raise Violation("I13", f"{one.name} {does} a {message[0]}, which it does not know")

    def ran(self, process: Process, request: Request, reply: bytes) -> None:
        """A command was executed."""
        needs = needed(request)
        if not needs or not self.world.options.mixed or not reply or reply.startswith(b"-"):
            return  # no reply yet: an error may wait behind the replies to requests before it
        for peer in process.node.peers.values():
            mask = self.masks.get((process, peer.id), needs)
            if needs & ~mask:
                raise Violation("I13", f"{process.name} does {request.args!r}, which {peer.id!r} does not know")
        self.world.count("commands that need a capability")


def needed(request: Request) -> int:
    """What a command needs of all nodes."""
    if request.verb == b"ADDJOB":
        return 0 if OPTIONS.isdisjoint(request.args[4:]) else JOBS
    if request.verb == b"QCONFIG" and request.args[1] != b"SET":
        return 0
    return NEEDING.get(request.verb, 0)
