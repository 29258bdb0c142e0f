"""Which nodes take which bodies.

Each node has a longest body that it takes (`proto-max-bulk-len`). It says so at the handshake of a link, and to all
when it changes (LIMIT). A job that a node does not take is not sent there: for its copies that node counts as one that
has refused it, and it stays here when consumers there want jobs. What is on its way when a limit is lowered comes all
the same: a copy is refused then, a job that was handed on is taken, since it may be in no other place. So it is with a
node that does not understand LIMIT, until the next link to it.

As long as no body is longer than `Node.body_least`, the least that any node takes, nothing here is asked.
"""

from typing import TYPE_CHECKING

from cluster.messages import LIMIT
from disque.core import links
from disque.core.federation import supply

if TYPE_CHECKING:
    from disque.core.node import Node


def announce(node: "Node", most: int) -> None:
    """From now on this node takes bodies of this length at most."""
    myself = node.membership.myself
    if myself.body_most != most:
        node.membership.set_body_most(myself.id, most)
        node.tell_all((LIMIT, most))


def told(node: "Node", peer: bytes, message: tuple[int, int], now_ms: int) -> None:
    """LIMIT: ``peer`` takes bodies of this length at most."""
    node.membership.set_body_most(peer, message[1])
    links.review(node, now_ms)
    supply.wake_all(node)
