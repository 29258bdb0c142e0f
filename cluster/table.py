"""The node table: which nodes there are, their addresses, and which of them may be chosen.

It is read for each job that is added, and seldom changes. So all changes go through its methods, which keep the answers
ready: the nodes that a job may be copied to (`reachable`), how many nodes the default of REPLICATE counts (`size`), and
the order in which clients should try the nodes (`priority`). Everyone may read the fields of a `Member`. Only the table
and `membership` write them. A table with only `myself` is a cluster of one, without any special case.
"""

from collections.abc import Iterable
from typing import Final, cast

from cluster.capabilities import MINE
from cluster.member import (
    FAIL,
    FAILING,
    HANDSHAKE,
    LEAVING,
    MYSELF,
    NOADDR,
    PFAIL,
    STOPPED,
    UNREACHABLE,
    Member,
    node_line,
)
from cluster.messages import NEEDS, Message

#: Messages, each with the ID of the node that it goes to.
Outbox = list[tuple[bytes, Message]]

PRIORITY_BEST: Final = 1
PRIORITY_UNLINKED: Final = 5
PRIORITY_SUSPECT: Final = 10
PRIORITY_LAST: Final = 100
#: How many nodes that have been forgotten are remembered as such.
DEPARTED_MOST: Final = 1000
#: How many nodes may be waited for that others have named and that are not met yet.
STRANGERS_MOST: Final = 100
#: For how long, in seconds, beyond the node timeout.
STRANGER_S: Final = 5


class Table:
    """The nodes of a cluster as `myself` sees them.

    `nodes` maps IDs to nodes, `myself` among them and first. `dirty` is set by each change that a restart must not
    forget; who writes nodes.conf clears it. `departed` are the IDs of nodes that were forgotten last. `version` grows
    with each change of nodes, flags, addresses or links. `lacking` has the nodes that do not understand all that this
    one does, or the other way round, and what is missing.
    `messages_sent` and `messages_received` count what goes over the bus, and are counted there.
    """

    __slots__ = (
        "_announced",
        "_ip_learnt",
        "_reachable",
        "_size",
        "departed",
        "dirty",
        "lacking",
        "messages_received",
        "messages_sent",
        "myself",
        "nodes",
        "saved_ms",
        "strangers",
        "version",
    )

    def __init__(self, myself: Member) -> None:
        myself.flags |= MYSELF
        myself.capabilities = MINE
        self.myself = myself
        self.lacking: dict[bytes, int] = {}
        self.nodes: dict[bytes, Member] = {myself.id: myself}
        self.departed: dict[bytes, None] = {}
        #: Nodes that others have named and that are not met yet, and for how many seconds.
        self.strangers: dict[bytes, int] = {}
        self.dirty = False
        #: When the nodes.conf was written from which this table was read; 0 if it does not say.
        self.saved_ms = 0
        self.version = 0
        self.messages_sent = 0
        self.messages_received = 0
        self._announced = b""
        self._ip_learnt = False
        self._reachable: list[Member] = []
        self._size = 1

    @property
    def known(self) -> int:
        """How many nodes are in the table, this one and those half met included."""
        return len(self.nodes)

    @property
    def size(self) -> int:
        """How many nodes the cluster has, this one and failing ones included, those half met not."""
        return self._size

    def expects(self, node_id: bytes) -> bool:
        """Whether this is a node of the cluster, or may be one that this node meets soon; not one that was forgotten.

        One that is not met in the time that takes counts as forgotten.
        """
        if node_id in self.nodes or node_id in self.strangers:
            return True
        if node_id in self.departed or len(self.strangers) >= STRANGERS_MOST:
            return False
        self.strangers[node_id] = 0
        return True

    def reachable(self) -> list[Member]:
        """Give the nodes that a job may be sent to: not this one, not failing, not leaving, not half met.

        The list belongs to the table: read it, do not change it.
        """
        return self._reachable

    def expected(self, now_ms: int, grace_ms: int) -> tuple[bytes, ...]:
        """Give the IDs of the nodes to which a job may be sent now or, as far as can be expected, soon.

        These are the reachable ones, and those that fail for less than `grace_ms`: most of them are being restarted.
        """
        since_ms = now_ms - grace_ms
        return tuple([node.id for node in self.nodes.values() if _is_expected(node, since_ms)])

    def wanted(self) -> list[Member]:
        """Give the nodes to which there should be a link: all that have an address, those half met included."""
        return [node for node in self.nodes.values() if node.ip and not node.flags & (MYSELF | NOADDR)]

    def priority(self, node: Member) -> int:
        """Give the rank of a node in HELLO, best first: 1, no link 5, perhaps failing 10, failing or leaving 100."""
        if node.flags & (FAIL | LEAVING | STOPPED):
            return PRIORITY_LAST
        if node.flags & PFAIL:
            return PRIORITY_SUSPECT
        return PRIORITY_BEST if node.linked or node is self.myself else PRIORITY_UNLINKED

    def nodes_lines(self, now_ms: int) -> bytes:
        """Give the text of CLUSTER NODES: a line a node, this node first."""
        return b"".join([node_line(node, b"%s:%d" % (node.ip, node.port), now_ms) for node in self.nodes.values()])

    def hello(self, _now_ms: int) -> list[tuple[bytes, bytes, int, int]]:
        """Give (id, ip, port, priority) of each known node for HELLO, this node first.

        The time is part of the question because the answer is about a moment; for now the flags alone decide.
        """
        return [(node.id, node.ip, node.port, self.priority(node)) for node in self.nodes.values()]

    def info(self) -> list[tuple[bytes, int]]:
        """Give the numbers of CLUSTER INFO, in the order in which they follow the line cluster_state:ok."""
        return [
            (b"cluster_known_nodes", self.known),
            (b"cluster_reachable_nodes", len(self._reachable)),
            (b"cluster_size", self._size),
            (b"cluster_stats_messages_sent", self.messages_sent),
            (b"cluster_stats_messages_received", self.messages_received),
        ]

    def grow_old(self, timeout_ms: int) -> list[bytes]:
        """A second has passed: give the strangers that were not met for too long, and count them as forgotten."""
        most_s = STRANGER_S + timeout_ms // 1000
        for stranger in self.strangers:
            self.strangers[stranger] += 1
        old = [stranger for stranger, age_s in self.strangers.items() if age_s > most_s]
        for stranger in old:
            del self.strangers[stranger]
            self.depart(stranger)
        return old

    def depart(self, node_id: bytes) -> None:
        """Remember that a node was forgotten: what others still say of it counts no more, until it is met again."""
        if len(self.departed) >= DEPARTED_MOST:
            del self.departed[next(iter(self.departed))]
        self.departed[node_id] = None

    def add(self, node: Member) -> None:
        """Take a node into the table. Its ID must be new."""
        assert node.id not in self.nodes, node.id
        assert not node.flags & MYSELF
        self.nodes[node.id] = node
        self.departed.pop(node.id, None)
        self.strangers.pop(node.id, None)
        self.changed(node)

    def set_flags(self, node: Member, flags: int) -> None:
        """Replace the flags of a node of this table."""
        if node.flags != flags:
            node.flags = flags
            self.changed(node)

    def set_address(self, node: Member, ip: bytes, port: int, bus_port: int) -> None:
        """Replace the address of a node of this table, this node's own included."""
        if (node.ip, node.port, node.bus_port) != (ip, port, bus_port):
            node.ip = ip
            node.port = port
            node.bus_port = bus_port
            self.changed(node)

    def set_zone(self, node_id: bytes, zone: bytes) -> None:
        """A link has told the zone of a node, or this node's own is set. Of nodes that are not known, nothing happens.

        It is not kept over a restart: no job is placed on a node before a link to it has told the zone anew.
        """
        node = self.nodes.get(node_id)
        if node is not None and node.zone != zone:
            node.zone = zone
            self.version += 1

    def set_body_most(self, node_id: bytes, most: int) -> None:
        """A node has said what the longest body is that it takes. Of nodes that are not known, nothing happens."""
        node = self.nodes.get(node_id)
        if node is not None and node.body_most != most:
            node.body_most = most
            self.version += 1

    def set_capabilities(self, node_id: bytes, mask: int) -> None:
        """A link has told what a node understands, or this node's own is set. Of nodes not known, nothing happens.

        A node that has not said it has no link yet, so nothing is sent to it.
        """
        node = self.nodes.get(node_id)
        if node is None:
            return
        if node.capabilities != mask:
            node.capabilities = mask
            self.version += 1
            self.dirty |= node is not self.myself
        if node is not self.myself:
            mine = self.myself.capabilities
            needed = mine
            for needs in NEEDS.values():
                needed |= needs
            missing = needed & ~(mine & mask)
            if missing:
                self.lacking[node_id] = missing
            else:
                self.lacking.pop(node_id, None)

    def understood(self, outbox: Outbox) -> Outbox:
        """Give what of these messages may leave: all but those that their receivers do not understand.

        Everything that leaves goes through here. As long as all nodes understand the same, nothing is looked at.
        """
        lacking = self.lacking
        if not lacking:
            return outbox
        return [one for one in outbox if not NEEDS.get(cast("int", one[1][0]), 0) & lacking.get(one[0], 0)]

    def zones(self) -> dict[bytes, list[bytes]]:
        """Give the IDs of the nodes of each zone that has a label, those half met left out."""
        found: dict[bytes, list[bytes]] = {}
        for node in self.nodes.values():
            if node.zone and not node.flags & HANDSHAKE:
                found.setdefault(node.zone, []).append(node.id)
        return found

    def announce(self, ip: bytes, port: int, bus_port: int) -> None:
        """Say where others reach this node. With `ip` b"" they use the address from which it calls them."""
        self._announced = ip
        self.set_address(self.myself, ip or self.myself.ip, port, bus_port)

    def learn_own_ip(self, ip: bytes) -> None:
        """Take the address at which another node has reached this one, unless a better one is known.

        What is announced is better, then what was learnt since the start, then what an earlier life left behind. But
        loopback is no good once anything else is known.
        """
        myself = self.myself
        if self._announced or (self._ip_learnt and not _is_loopback(myself.ip)):
            return
        if not self._ip_learnt or not _is_loopback(ip):
            self.set_address(myself, ip, myself.port, myself.bus_port)
        self._ip_learnt = True

    def changed(self, node: Member) -> None:
        """A node has come, gone or changed: everything that follows from the table follows anew."""
        nodes: Iterable[Member] = self.nodes.values()
        self._reachable = [other for other in nodes if not other.flags & UNREACHABLE]
        self._size = sum([not other.flags & HANDSHAKE for other in nodes])
        self.version += 1
        self.dirty |= not node.flags & HANDSHAKE


def _is_expected(node: Member, since_ms: int) -> bool:
    """Whether a node can be reached, or cannot since `since_ms` or later for no other reason than that it fails."""
    missing = node.flags & UNREACHABLE
    if not missing & ~STOPPED:
        return True
    return not missing & ~(FAILING | STOPPED) and (node.ping_sent_ms or node.failing_ms) > since_ms


def _is_loopback(ip: bytes) -> bool:
    return ip.startswith(b"127.") or ip in {b"", b"::1", b"localhost"}
