"""One node as another one sees it: its ID, its address, its flags, and its last pings.

A node is known by its ID, 40 lower-case hexadecimal digits that it drew at its first start. Its address may change. An
address is an IP address or a host name, as text, with a port for clients and one for nodes (the bus).
"""

import re
from ipaddress import ip_address
from typing import Final

PFAIL: Final = 1  # no answer for longer than the node timeout, in the eyes of this node
FAIL: Final = 2  # the majority says so
MYSELF: Final = 4
HANDSHAKE: Final = 8  # half met: it may not be there, or not know this node
NOADDR: Final = 16  # known by its ID only: somebody else is at the address that it had
MEET: Final = 32  # greet it with MEET instead of PING
DELETED: Final = 64  # not in the table any more
LEAVING: Final = 128  # asks clients and nodes to use others
STOPPED: Final = 256  # said that it stops, cleanly, and was not heard since

#: The longest body that a node takes which does not say (`proto-max-bulk-len`).
BODY_USUAL: Final = 64 << 20

FAILING: Final = PFAIL | FAIL
UNREACHABLE: Final = PFAIL | FAIL | MYSELF | HANDSHAKE | DELETED | LEAVING | STOPPED

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
PORT_MAX: Final = 65535
HEX_DIGITS: Final = frozenset(b"0123456789abcdef")

#: What may stand in an address that another node tells: nothing that could spoil a line of nodes.conf or a log.
ADDRESS: Final = re.compile(rb"[0-9A-Za-z._:%-]{1,255}")
#: A label of nodes that fail together (`cluster-zone`), told by other nodes: nothing that could spoil a line either.
ZONE: Final = re.compile(rb"[0-9A-Za-z._/@-]{0,64}")
LABEL: Final = rb"[0-9A-Za-z_](?:[0-9A-Za-z_-]{0,61}[0-9A-Za-z_])?"
#: A host name. Its last part is no number, so that 256.1.1.1 is no host name either.
HOST_NAME: Final = re.compile(rb"(?=.{1,253}\Z)(?:" + LABEL + rb"\.)*(?![0-9]+\.?\Z)" + LABEL + rb"\.?")


def is_node_id(text: bytes) -> bool:
    """Tell whether `text` is a node ID: 40 lower-case hexadecimal digits."""
    return len(text) == NODE_ID_LENGTH and HEX_DIGITS.issuperset(text)


def is_address(ip: bytes, port: int, bus_port: int) -> bool:
    """Tell whether this could be an address that a node has, as far as a quick look can tell.

    Port 0 means that there are no clients.
    """
    return 0 <= port <= PORT_MAX and 0 < bus_port <= PORT_MAX and ADDRESS.fullmatch(ip) is not None


def is_host(text: bytes) -> bool:
    """Tell whether `text` is an IPv4 or IPv6 address or looks like a host name."""
    if HOST_NAME.fullmatch(text):
        return True
    try:
        ip_address(text.decode("ascii"))
    except ValueError:
        return False
    return ADDRESS.fullmatch(text) is not None


def is_zone(text: bytes) -> bool:
    """Tell whether `text` can be the label of a zone: b"" says that a node is a zone of its own."""
    return ZONE.fullmatch(text) is not None


def default_bus_port(port: int) -> int:
    """Give the port on which a node that serves clients at `port` talks to other nodes, unless it is told otherwise."""
    return port + BUS_PORT_OFFSET


class Member:
    """What is known of one node. Times are node time in milliseconds, 0 for never; `ip` is b"" until it is learnt.

    `ping_sent_ms` is the time of the oldest ping that has no answer yet, 0 if none is on its way; `pinged_ms` that of
    the newest one. For a node without a link the silence begins with the loss of the link, as if a ping were on its
    way. `linked_ms` is when the link came up, `met_ms` when a node that is half met came into the table,
    `failing_ms` since when it fails without a break. `zone` is the label of those with which it fails together, as its
    last link told; `body_most` the longest body that it takes, as it said last; `capabilities` the mask of what it
    understands, as its last link told, or what nodes.conf says, 0 before. `named` says that a link has proved the
    ID, `heard` that the node has said something to this one, `owes_pong` that it waits for an answer until there is a
    link. `reports` has the nodes that see it fail, and when they said so last.
    """

    __slots__ = (
        "body_most",
        "bus_port",
        "capabilities",
        "failing_ms",
        "flags",
        "heard",
        "id",
        "ip",
        "linked",
        "linked_ms",
        "met_ms",
        "named",
        "owes_pong",
        "ping_sent_ms",
        "pinged_ms",
        "pong_received_ms",
        "pong_sent_ms",
        "port",
        "reports",
        "zone",
    )

    def __init__(self, node_id: bytes, ip: bytes, port: int, bus_port: int = 0, flags: int = 0) -> None:
        assert is_node_id(node_id), node_id
        self.id = node_id
        self.ip = ip
        self.port = port
        self.bus_port = bus_port or default_bus_port(port)
        self.flags = flags
        self.ping_sent_ms = 0
        self.pinged_ms = 0
        self.pong_received_ms = 0
        self.pong_sent_ms = 0
        self.linked = False
        self.linked_ms = 0
        self.met_ms = 0
        self.failing_ms = 0
        self.named = True
        self.heard = False
        self.owes_pong = False
        self.reports: dict[bytes, int] = {}
        self.zone = b""
        self.body_most = BODY_USUAL
        self.capabilities = 0


def flags_text(flags: int) -> bytes:
    """Give the comma list of flag names that CLUSTER NODES shows, or `noflags`."""
    return b",".join([name for flag, name in FLAG_NAMES if flags & flag]) or NO_FLAGS


def node_line(node: Member, address: bytes, now_ms: int) -> bytes:
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
