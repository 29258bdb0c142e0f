"""One other node, and how messages leave for it.

What is said again to a node, over a new link or since it has not answered, is bounded: so much a beat, whatever there
is to say. Else a million acknowledgements would be one burst, which no link takes.
"""

from typing import TYPE_CHECKING

from cluster.member import BODY_USUAL

if TYPE_CHECKING:
    from disque.core.model.session import Spread


#: What one node is told again in one beat: IDs, or kilobytes of bodies.
TOLD_MOST = 5000  # not Final: tests want less, compiled too


class Peer:
    """One other node.

    ``waiting`` are the jobs whose copy it was asked for and has not confirmed, in the order of asking; ``heard_ms`` is
    when it last confirmed anything, or when the first of them was asked. One that refuses is left alone until
    ``refused_until_ms``, longer each time, until it confirms something again. ``owed`` is how many jobs it may still
    send, since it was asked for them. ``told`` is how much it was told again since the last beat, ``saying`` the number
    of the last time that this began anew. ``zone`` is as in `zones`; ``lost_ms`` when it lost its link, or came.
    ``stopping``: its process has said that it stops, so it is given nothing more. ``parted``: it knows that this one
    stops, and has sent all that it will send.
    ``comparing``: it is told what it lacks of the registry; what it says of its own meanwhile is ``digest``, and it may
    want one in return (``wants_digest``).
    ``body_most`` is the longest body that it takes: no longer one is sent to it. ``capabilities`` is the mask of what
    both it and this node understand.
    """

    __slots__ = (
        "body_most",
        "capabilities",
        "comparing",
        "digest",
        "heard_ms",
        "id",
        "linked",
        "lost_ms",
        "owed",
        "parted",
        "refusals",
        "refused_until_ms",
        "saying",
        "start",
        "stopping",
        "told",
        "waiting",
        "wants_digest",
        "zone",
    )

    def __init__(self, node_id: bytes, now_ms: int = 0) -> None:
        self.id = node_id
        self.zone = b"\0" + node_id
        self.body_most = BODY_USUAL
        self.capabilities = 0
        self.comparing = self.wants_digest = False
        self.digest: bytes | None = None
        self.linked = False
        self.lost_ms = now_ms
        self.start = 0
        self.stopping = False
        self.parted = False
        self.waiting: dict[bytes, Spread] = {}
        self.heard_ms = 0
        self.refusals = 0
        self.refused_until_ms = 0
        self.owed = 0
        self.told = 0
        self.saying = 0

    def takes(self, size: int) -> bool:
        """Whether it takes bodies of this length."""
        return size <= self.body_most

    def understands(self, capability: int) -> bool:
        """Whether it has this capability of `cluster.capabilities`, and this node as well.

        Ask before anything is left to what it will do. A message that needs a capability may be sent without asking:
        it goes to nobody who lacks that.
        """
        return not capability & ~self.capabilities

    def tell(self, size: int = 0) -> bool:
        """Count what it is told again: bytes beside an ID. Whether that is enough for this beat."""
        self.told += 1 + (size >> 10)
        return self.told >= TOLD_MOST
