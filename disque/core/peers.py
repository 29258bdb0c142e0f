"""One other node, and how messages leave for it."""

from typing import TYPE_CHECKING

from cluster.node import FAIL, PFAIL

if TYPE_CHECKING:
    from disque.core.node import Message, Node
    from disque.core.session import Spread


class Peer:
    """One other node.

    ``waiting`` are the jobs whose copy it was asked for and has not confirmed, in the order of asking; ``heard_ms`` is
    when it last confirmed anything, or when the first of them was asked. One that refuses is left alone until
    ``refused_until_ms``, longer each time, until it confirms something again.
    """

    __slots__ = ("heard_ms", "id", "linked", "refusals", "refused_until_ms", "start", "waiting")

    def __init__(self, node_id: bytes) -> None:
        self.id = node_id
        self.linked = False
        self.start = 0
        self.waiting: dict[bytes, Spread] = {}
        self.heard_ms = 0
        self.refusals = 0
        self.refused_until_ms = 0


def failed(node: "Node", peer_id: bytes) -> bool:
    """Whether nothing can be expected of this node: it fails, or is not (or no more) of the cluster."""
    known = node.membership.nodes.get(peer_id)
    return known is None or known.flags & (PFAIL | FAIL) != 0


def broadcast(node: "Node", message: "Message") -> None:
    """Send ``message`` to every node to which there is a link."""
    for peer in node.peers.values():
        if peer.linked:
            node.messages.append((peer.id, message))
