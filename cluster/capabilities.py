"""What nodes understand: the one table of capabilities.

A node says at the handshake what it understands, as a number in which each capability is a bit. Bits are for ever. A
bit that the table does not have comes from a later version: it is kept as it is, and nothing follows from it.

A later version that says something new gives it a bit here. Such a message needs its capability (`NEEDS` in
`messages`) and goes to nobody who lacks it (`Table.understood`). Whoever relies on what a peer will do asks first
whether it understands that (`Peer.understands` of the core). So versions work side by side, and nodes are upgraded one
by one.
"""

from typing import Final

#: A node takes LIMIT: its peers may change the longest body that they take while the link stands.
SIZES: Final = 1 << 0
#: A node keeps the entries of the replicated registry, and talks about them.
REGISTRY: Final = 1 << 1
#: A node keeps with a job what few jobs have (headers, tries, errors), follows a job that moves to another queue, and
#: answers questions that one asks all.
JOBS: Final = 1 << 2
#: A node applies the options that are set for queues.
QUEUES: Final = 1 << 3

#: A node passes on what clients of other nodes publish.
PUBSUB: Final = 1 << 4
#: A node adds the jobs of schedules at their time, and says how long it has been up.
SCHEDULES: Final = 1 << 5
#: A node keeps users and holds their clients to what they may.
USERS: Final = 1 << 6
#: A node says which jobs it has a copy of, and takes copies that are made again.
REPAIR: Final = 1 << 7
#: A node drops the oldest jobs of queues that are too long, where that is set, and knows that jobs can end so.
OVERFLOW: Final = 1 << 8
#: A node takes over jobs of one that leaves, which are delivered at most once.
TAKEOVER: Final = 1 << 9
#: A node says which ends of jobs it keeps, and keeps copies of those that others have lost.
ENDS: Final = 1 << 10
#: A node says of one that stopped which jobs consumers have, and which wait.
STEAD: Final = 1 << 11

#: The capabilities by bit: the name that the log shows, and what a node without it does not understand.
CAPABILITIES: Final[dict[int, tuple[str, str]]] = {
    SIZES: ("sizes", "LIMIT: the longest body that a node takes has changed"),
    REGISTRY: ("registry", "the entries of the replicated registry"),
    JOBS: ("jobs", "headers, tries, dead letters, and questions to all nodes"),
    QUEUES: ("queues", "options of queues, which count where ADDJOB says nothing"),
    PUBSUB: ("pubsub", "PUBLISHED: what clients publish"),
    SCHEDULES: ("schedules", "schedules, which add jobs at certain times"),
    REPAIR: ("repair", "ASKCOPY, COPYIS: who has a copy, so that lost ones are made again"),
    OVERFLOW: ("overflow", "jobs that are dropped since their queue is too long"),
    USERS: ("users", "users, and what they may"),
    TAKEOVER: ("takeover", "TAKEJOB: jobs of a node that leaves, which are delivered at most once"),
    ENDS: ("ends", "ASKEND, KEEPEND: who keeps how a job has ended, so that lost copies are made again"),
    STEAD: ("stead", "HOLD of a node that stops: which jobs consumers have, and which wait"),
}

#: What this version says at the handshake. A capability is added here when all that it promises is there.
MINE: Final = (
    SIZES | REGISTRY | JOBS | QUEUES | PUBSUB | SCHEDULES | USERS | REPAIR | OVERFLOW | TAKEOVER | ENDS | STEAD
)

#: A mask on the wire is no number from here on.
MASK_END: Final = 1 << 63


def names(mask: int) -> str:
    """Give the names of the capabilities in a mask, in the order of their bits; unknown ones are told by their bit."""
    found = [bit for bit in range(mask.bit_length()) if mask >> bit & 1]
    return ", ".join([CAPABILITIES[1 << bit][0] if 1 << bit in CAPABILITIES else f"bit {bit}" for bit in found])
