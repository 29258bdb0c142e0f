"""The node table: which nodes this one knows, how they do, and which may be chosen.

A node is known by its ID, 40 lower-case hexadecimal digits that it drew when it first started; its address may change,
the ID stays. What is known of a node is a set of flags, the last ping that is unanswered, the last pong, and whether a
link to it stands. Everything else follows from these: whom a job may be copied to (`reachable`), how many nodes the
default of REPLICATE counts (`size`), and in which order clients should try the nodes (`priority`).

The table is asked with every job that is added and changes seldom. So all changes go through `Membership`, which keeps
the answers ready; the fields of a `Node` that these answers rest on (`flags`) are read by all and written by nobody
else. The times and the link of a node are free: its link writes them.

A table with nothing but `myself` is a cluster of one, and nothing here is special about it.
"""

from collections.abc import Iterable
from typing import Final

PFAIL: Final = 1  # no answer for longer than the node timeout, in the eyes of this node
FAIL: Final = 2  # the majority says so
MYSELF: Final = 4
HANDSHAKE: Final = 8  # met, but its ID is not yet known
NOADDR: Final = 16  # known by its ID only
MEET: Final = 32  # greet it with MEET instead of PING
DELETED: Final = 64
LEAVING: Final = 128  # asks clients and nodes to use others

UNREACHABLE: Final = PFAIL | FAIL | MYSELF | HANDSHAKE | DELETED | LEAVING

FLAG_NAMES: Final[tuple[tuple[int, bytes], ...]] = (
    (MYSELF, b"myself"),
    (PFAIL, b"fail?"),
    (FAIL, b"fail"),
    (HANDSHAKE, b"handshake"),
    (NOADDR, b"noaddr"),
    (LEAVING, b"leaving"),
)
NO_FLAGS: Final = b"noflags"

NODE_ID_LENGTH: Final = 40
BUS_PORT_OFFSET: Final = 10000
HEX_DIGITS: Final = frozenset(b"0123456789abcdef")

PRIORITY_BEST: Final = 1
PRIORITY_UNLINKED: Final = 5
PRIORITY_SUSPECT: Final = 10
PRIORITY_LAST: Final = 100


def is_node_id(text: bytes) -> bool:
    """Tell whether `text` is a node ID: 40 lower-case hexadecimal digits."""
    return len(text) == NODE_ID_LENGTH and HEX_DIGITS.issuperset(text)


def default_bus_port(port: int) -> int:
    """Give the port on which a node that serves clients at `port` talks to other nodes, unless it is told otherwise."""
    return port + BUS_PORT_OFFSET


class Node:
    """What is known of one node. Times are node time in milliseconds, 0 for never; `ip` is b"" until it is learnt.

    `ping_sent_ms` is the time of the oldest ping that has no answer yet, 0 if none is on its way.
    """

    __slots__ = ("bus_port", "flags", "id", "ip", "linked", "ping_sent_ms", "pong_received_ms", "port")

    def __init__(self, node_id: bytes, ip: bytes, port: int, bus_port: int = 0, flags: int = 0) -> None:
        assert is_node_id(node_id), node_id
        self.id = node_id
        self.ip = ip
        self.port = port
        self.bus_port = bus_port or default_bus_port(port)
        self.flags = flags
        self.ping_sent_ms = 0
        self.pong_received_ms = 0
        self.linked = False


def flags_text(flags: int) -> bytes:
    """Give the comma list of flag names that CLUSTER NODES shows, or `noflags`."""
    return b",".join([name for flag, name in FLAG_NAMES if flags & flag]) or NO_FLAGS


def node_line(node: Node, address: bytes, now_ms: int) -> bytes:
    r"""Give the line of CLUSTER NODES for `node`, ended by `\n`. No time is shown as later than `now_ms`."""
    linked = node.linked or node.flags & MYSELF
    return b"%s %s %s %d %d %s\n" % (
        node.id,
        address,
        flags_text(node.flags),
        min(node.ping_sent_ms, now_ms),
        min(node.pong_received_ms, now_ms),
        b"connected" if linked else b"disconnected",
    )


class Membership:
    """The nodes of a cluster as `myself` sees them.

    `nodes` maps IDs to nodes, `myself` among them and first. `dirty` is set by each change that a restart must not
    forget; who writes nodes.conf clears it. `messages_sent` and `messages_received` count what went over the bus.
    """

    __slots__ = ("_reachable", "_size", "dirty", "messages_received", "messages_sent", "myself", "nodes")

    def __init__(self, myself: Node) -> None:
        myself.flags |= MYSELF
        self.myself = myself
        self.nodes: dict[bytes, Node] = {myself.id: myself}
        self.dirty = False
        self.messages_sent = 0
        self.messages_received = 0
        self._reachable: list[Node] = []
        self._size = 1

    @property
    def leaving(self) -> bool:
        """Whether this node asks clients and nodes to use others (CLUSTER LEAVING)."""
        return self.myself.flags & LEAVING != 0

    @leaving.setter
    def leaving(self, leaving: bool) -> None:
        flags = self.myself.flags
        self.set_flags(self.myself, flags | LEAVING if leaving else flags & ~LEAVING)

    @property
    def known(self) -> int:
        """How many nodes are in the table, this one and those half met included."""
        return len(self.nodes)

    @property
    def size(self) -> int:
        """How many nodes the cluster has, this one and failing ones included, those half met not."""
        return self._size

    def add(self, node: Node) -> None:
        """Take a node into the table. Its ID must be new."""
        assert node.id not in self.nodes, node.id
        assert not node.flags & MYSELF
        self.nodes[node.id] = node
        self._changed()

    def set_flags(self, node: Node, flags: int) -> None:
        """Replace the flags of a node of this table."""
        if node.flags != flags:
            node.flags = flags
            self._changed()

    def set_address(self, node: Node, ip: bytes, port: int, bus_port: int) -> None:
        """Replace the address of a node of this table, this node's own included."""
        if (node.ip, node.port, node.bus_port) != (ip, port, bus_port):
            node.ip = ip
            node.port = port
            node.bus_port = bus_port
            self._changed()

    def reachable(self) -> list[Node]:
        """Give the nodes that a job may be sent to: not this one, not failing, not leaving, not half met.

        The list belongs to the table: read it, do not change it.
        """
        return self._reachable

    def priority(self, node: Node) -> int:
        """Give the rank of a node in HELLO, best first: 1, no link 5, perhaps failing 10, failing or leaving 100."""
        if node.flags & (FAIL | LEAVING):
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

    def _changed(self) -> None:
        nodes: Iterable[Node] = self.nodes.values()
        self._reachable = [node for node in nodes if not node.flags & UNREACHABLE]
        self._size = sum([not node.flags & HANDSHAKE for node in nodes])
        self.dirty = True
