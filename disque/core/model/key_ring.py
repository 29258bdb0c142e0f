"""Which nodes keep a UNIQUE key.

Rendezvous hashing: every node has a rank for every slot of keys, which all nodes compute alike, and the first ones
among those that can be reached keep it. So nothing need be computed for each key. The keepers for a smaller REPLICATE
are the first of those for a larger one, so they meet. When a node comes or goes, only the slots move of which it is, or
was, among the first.

Nodes that are leaving or full keep keys as well; those that fail or are only half met do not.
"""

from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from cluster.member import DELETED, FAIL, HANDSHAKE, PFAIL

if TYPE_CHECKING:
    from cluster.membership import Membership

#: The keys are spread over so many slots by the first bits of their digests: those of a slot have the same keepers.
SLOTS: Final = 4096
#: Numbers of copies whose keepers are remembered, slot by slot.
KNOWN_MOST: Final = 16
AWAY: Final = PFAIL | FAIL | HANDSHAKE | DELETED
#: A rank is a number of so many bits.
RANK_MASK: Final = 2**64 - 1

#: What the rank of each node, and of each slot, is made of: few exist, so each is made once.
_numbers: dict[bytes, int] = {}
NUMBERS_MOST: Final = 10_000
_slots: Final[list[int]] = [0] * SLOTS


def number_of(name: bytes) -> int:
    """An odd number of 64 bits that looks like chance, the same wherever it is computed."""
    return int.from_bytes(blake2b(name, digest_size=8).digest(), "big") | 1


def number_of_node(node: bytes) -> int:
    """The number of the node with this ID."""
    number = _numbers.get(node)
    if number is None:
        if len(_numbers) >= NUMBERS_MOST:
            _numbers.clear()
        number = _numbers[node] = number_of(node)
    return number


def slot_of(digest: bytes) -> int:
    """The slot of the key with this digest, which is as good as chance."""
    return digest[0] << 4 | digest[1] >> 4


def ranked(nodes: tuple[bytes, ...], digest: bytes, count: int) -> tuple[bytes, ...]:
    """The first ``count`` of ``nodes`` for the key with this digest, best first.

    A product of two numbers that look like chance ranks as evenly as a hash of both, for a tenth of its time.
    """
    if len(nodes) <= 1:
        return nodes
    slot = slot_of(digest)
    number = _slots[slot]
    if not number:
        number = _slots[slot] = number_of(b"%d" % slot)
    ranks = [(number * number_of_node(node) & RANK_MASK, node) for node in nodes]
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

    __slots__ = ("_known", "_last", "_last_repl", "_version", "moved", "moving", "nodes", "sure_ms")

    def __init__(self, membership: "Membership") -> None:
        self._version = membership.version
        #: By number of copies, the keepers of each slot, as far as somebody has asked for them; and those of the number
        #: that was asked for last: mostly it is the same.
        self._known: dict[int, list[tuple[bytes, ...]]] = {}
        self._last: list[tuple[bytes, ...]] = []
        self._last_repl = -1
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
        self._last_repl = -1
        return True

    def is_unsure(self, now_ms: int) -> bool:
        """Whether this node may have to keep keys that it does not know yet."""
        return now_ms < self.sure_ms or self.sure_ms < 0

    def is_alone(self, digest: bytes, node_id: bytes, now_ms: int) -> bool:
        """Whether ``node_id``, which is this node, is the only keeper of a key with one, and nobody must be asked."""
        if len(self.nodes) == 1:
            return True
        return not self.is_unsure(now_ms) and self.keepers(digest, 1) == (node_id,)

    def keepers(self, digest: bytes, repl: int) -> tuple[bytes, ...]:
        """The nodes that keep this key, best first."""
        known = self._last if repl == self._last_repl else self._of(repl)
        slot = slot_of(digest)
        keepers = known[slot]
        if not keepers:
            keepers = known[slot] = ranked(self.nodes, digest, repl)
        return keepers

    def _of(self, repl: int) -> list[tuple[bytes, ...]]:
        """What is known of the keepers for so many copies."""
        known = self._known.get(repl)
        if known is None:
            if len(self._known) >= KNOWN_MOST:
                self._known = {}
            known = self._known[repl] = [()] * SLOTS
        self._last = known
        self._last_repl = repl
        return known
