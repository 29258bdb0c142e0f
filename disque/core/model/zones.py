"""Zones: which nodes fail together (`cluster-zone`), and what follows for the copies of a job.

Nodes of one zone are on one host, in one rack, behind one power supply: two copies there are lost together. So when a
job wants copies on R nodes, they are asked in the order of how many copies their zones have already. And they are
counted so: while a zone without a copy has a node that can be reached and has not refused this very job, two copies of
one zone are one. The ADDJOB waits for that node, as it waits for a node that hangs, until it confirms, refuses, fails,
or the client's timeout is over. Only then does a second copy in a zone count.

Whom a link has told no zone is a zone of its own. A node to which there is no link yet, or no more, can be reached for
two seconds: links that just begin, or are made anew, do not move copies together. After that it counts as away.

As long as no two nodes share a zone, or all are in one, nothing here is asked.
"""

from cluster.member import Member


class Zones:
    """``mine`` is the zone of this node; ``shared``: some nodes share one, but not all the same."""

    __slots__ = ("mine", "shared")

    def __init__(self) -> None:
        self.mine = b""
        self.shared = False


def zone_of(known: Member) -> bytes:
    """What is the same for nodes of one zone, and for no others."""
    return known.zone or b"\0" + known.id
