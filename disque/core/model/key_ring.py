"""Which nodes keep a UNIQUE key.

Rendezvous hashing: every node has a rank for every key, which all nodes compute alike, and the first ones among those
that can be reached keep it. The keepers for a smaller REPLICATE are the first of those for a larger one, so they meet.
When a node comes or goes, only the keys move of which it is, or was, among the first.

Nodes that are leaving or full keep keys as well; those that fail or are only half met do not.
"""

from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from cluster.member import DELETED, FAIL, HANDSHAKE, PFAIL

if TYPE_CHECKING:
    from cluster.membership import Membership

#: Keys whose keepers are remembered: as many as are asked for at a time.
KNOWN_MOST: Final = 5000
AWAY: Final = PFAIL | FAIL | HANDSHAKE | DELETED
#: A rank is a number of so many bits.
RANK_MASK: Final = 2**64 - 1

#: What the rank of each node is made of: few exist, so each is made once.
_numbers: dict[bytes, int] = {}
NUMBERS_MOST: Final = 10_000


def number_of(node: bytes) -> int:
    """An odd number of 64 bits that looks like chance, the same wherever it is computed."""
    number = _numbers.get(node)
    if number is None:
        if len(_numbers) >= NUMBERS_MOST:
            _numbers.clear()
        number = _numbers[node] = int.from_bytes(blake2b(node, digest_size=8).digest(), "big") | 1
    return number


def ranked(nodes: tuple[bytes, ...], digest: bytes, count: int) -> tuple[bytes, ...]:
    """The first ``count`` of ``nodes`` for the key with this digest, best first.

    The digest is as good as chance already, so a product ranks as evenly as a hash of both, for a tenth of its time.
    """
    if len(nodes) <= 1:
        return nodes
    number = int.from_bytes(digest[:8], "big")
    ranks = [(number * number_of(node) & RANK_MASK, node) for node in nodes]
    ranks.sort(reverse=True)
    return tuple([node for _, node in ranks[:count]])


def reachable(membership: "Membership") -> tuple[bytes, ...]:
    """The IDs of the nodes that are there, sorted."""
    return tuple(sorted([node.id for node in membership.nodes.values() if not node.flags & AWAY]))


class KeyRing:
    """The nodes that can keep keys, as this node sees them.

    ``moved`` are those among which the keys were last spread, ``moving`` says whether that is being done. Until
    ``sure_ms`` (node time; -1: nobody has looked yet) keys may be on their way to nodes that must keep them now.
    """

    __slots__ = ("_known", "_version", "moved", "moving", "nodes", "sure_ms")

    def __init__(self, membership: "Membership") -> None:
        self._version = membership.version
        self._known: dict[tuple[bytes, int], tuple[bytes, ...]] = {}
        self.nodes = reachable(membership)
        self.moving = False
        self.sure_ms = -1
        self.moved = self.nodes

    def refresh(self, membership: "Membership") -> bool:
        """Look who can be reached; whether that has changed."""
        if membership.version == self._version:
            return False
        self._version = membership.version
        nodes = reachable(membership)
        if nodes == self.nodes:
            return False
        self.nodes = nodes
        self._known = {}
        return True

    def is_unsure(self, now_ms: int) -> bool:
        """Whether this node may have to keep keys that it does not know yet."""
        return now_ms < self.sure_ms or self.sure_ms < 0

    def is_alone(self, digest: bytes, node_id: bytes, now_ms: int) -> bool:
        """Whether ``node_id``, which is this node, is the only keeper of a key with one, and nobody must be asked."""
        if len(self.nodes) == 1:
            return True
        return not self.is_unsure(now_ms) and ranked(self.nodes, digest, 1) == (node_id,)

    def keepers(self, digest: bytes, repl: int) -> tuple[bytes, ...]:
        """The nodes that keep this key, best first."""
        known = self._known.get((digest, repl))
        if known is None:
            if len(self._known) >= KNOWN_MOST:
                self._known = {}
            known = self._known[digest, repl] = ranked(self.nodes, digest, repl)
        return known
