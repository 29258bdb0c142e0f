"""Gossip: what a node tells others about third nodes, with each PING, PONG and MEET.

Nodes find each other by gossip: a node that hears of a node it does not know greets it. By gossip they also agree on
failures: each node reports which others it cannot reach, and counts these reports. Failing nodes come first, since all
nodes should hear of them soon. A linked node is reported with its state. A node that is neither linked nor failing is
not reported, because nothing is known about it.
"""

from collections.abc import Iterable
from random import Random
from typing import Final

from cluster.member import FAILING, HANDSHAKE, MYSELF, NOADDR, Member

Row = tuple[bytes, bytes, int, int, int]

#: Nodes told of in one message, those that do well and those that fail each: a tenth of all, but not fewer than these.
FEWEST: Final = 10
#: The most rows that are made, and the most that are looked at when another node sends them.
ROWS_MOST: Final = 200

UNTOLD: Final = MYSELF | HANDSHAKE | NOADDR


def choose(nodes: Iterable[Member], listener: Member, random: Random) -> tuple[Row, ...]:
    """Give the rows (ID, ip, port, bus port, PFAIL and FAIL) to tell `listener` now."""
    failing: list[Member] = []
    well: list[Member] = []
    for node in nodes:
        if node is listener or node.flags & UNTOLD or not node.ip:
            continue
        if node.flags & FAILING:
            failing.append(node)
        elif node.linked:
            well.append(node)
    most = min(max(FEWEST, (len(failing) + len(well)) // 10), ROWS_MOST // 2)
    chosen = _some(failing, most, random) + _some(well, most, random)
    return tuple([(node.id, node.ip, node.port, node.bus_port, node.flags & FAILING) for node in chosen])


def _some(nodes: list[Member], most: int, random: Random) -> list[Member]:
    return nodes if len(nodes) <= most else random.sample(nodes, most)
