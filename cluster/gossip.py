"""What a node tells others about third nodes, with each PING, PONG and MEET.

So nodes find each other: whoever hears of a node that it does not know greets it. And so they agree on who fails: each
says of the others whether it can reach them, and counts what it is told. Failing nodes go first, since everybody should
hear of them soon. A node that is linked is told of as it is; one that is neither linked nor failing is not told of
at all, because nothing is known about it.
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
