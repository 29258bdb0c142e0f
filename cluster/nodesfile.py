"""The text of nodes.conf: the node table as it survives a restart.

Each node has a line of six words, as in CLUSTER NODES: ID, address, flags, ping sent, pong received, link. Nodes in
HANDSHAKE are left out. The address is `ip:port`, or `ip:port@busport` where the bus port is not the usual one. Readers
that do not know the latter take the leading number. Exactly one line is this node's own. Blank lines are skipped, and
lines that begin with `vars`, but for two. `vars capabilities` has, for each node that has said it, `ID:mask`. So it is
known what a node understands that is away when this one starts. `vars saved` has the time in ms at which the table was
written. So it is known which records of the journal are younger, and may name nodes that are not in it.

Times of an earlier process mean nothing to the clock of this one. "Never" stays as it is, and every other time becomes
now. Nodes that had failed are pinged anew: this node may have been the one that was cut off.
"""

from random import Random
from typing import Final

from cluster.capabilities import MASK_END
from cluster.member import (
    FAILING,
    FLAG_NAMES,
    HANDSHAKE,
    LEAVING,
    MYSELF,
    NO_FLAGS,
    PORT_MAX,
    Member,
    default_bus_port,
    is_address,
    is_node_id,
    node_line,
)
from cluster.membership import NODES_MOST, Membership

FLAG_OF_NAME: Final[dict[bytes, int]] = {name: flag for flag, name in FLAG_NAMES} | {NO_FLAGS: 0}
LINKS: Final = (b"connected", b"disconnected")
WORDS: Final = 6
DIGITS_MOST: Final = 20


class NodesFileError(Exception):
    """The text is no node table. `line` is the line at fault, counted from 1, or 0 if it is the whole."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}" if line else reason)
        self.line = line
        self.reason = reason


def render(membership: Membership, now_ms: int) -> bytes:
    """Give the text for a node table."""
    nodes = [node for node in membership.nodes.values() if not node.flags & HANDSHAKE]
    lines = [node_line(node, _address(node), now_ms) for node in nodes]
    others = [node for node in nodes if node.capabilities and not node.flags & MYSELF]
    if others:
        said = [b"%b:%d" % (node.id, node.capabilities) for node in others]
        lines.append(b"vars capabilities %b\n" % b" ".join(said))
    lines.append(b"vars saved %d\n" % now_ms)
    return b"".join(lines)


def parse(text: bytes, now_ms: int, random: Random | None = None) -> Membership:
    """Give the node table of a text, not `dirty`, with no links and this node first. It draws from `random`.

    Raises NodesFileError, with the line, for anything that is not as the module says.
    """
    nodes: dict[bytes, Member] = {}
    masks: dict[bytes, int] = {}
    saved_ms = 0
    for number, line in enumerate(text.split(b"\n"), 1):
        words = line.split()
        if not words or words[0] == b"vars":
            if words[1:2] == [b"capabilities"]:
                masks |= _masks(words[2:])
            elif words[1:2] == [b"saved"]:
                saved_ms = _time(words[2:])
            continue
        node = _node(words, number, now_ms)
        if node.id in nodes:
            raise NodesFileError(number, f"node {node.id.decode()} is listed twice")
        nodes[node.id] = node
    for node_id, mask in masks.items():
        if node_id in nodes:
            nodes[node_id].capabilities = mask
    membership = _membership(list(nodes.values()), random)
    membership.saved_ms = saved_ms
    return membership


def _membership(nodes: list[Member], random: Random | None) -> Membership:
    own = [node for node in nodes if node.flags & MYSELF]
    if len(own) != 1:
        raise NodesFileError(0, f"expected one line with the flag myself, got {len(own)}")
    if len(nodes) > NODES_MOST:
        raise NodesFileError(0, f"expected at most {NODES_MOST} nodes, got {len(nodes)}")
    membership = Membership(own[0], random)
    for node in nodes:
        if node is not own[0] and not node.flags & HANDSHAKE:
            membership.add(node)
    membership.dirty = False
    return membership


def _node(words: list[bytes], line: int, now_ms: int) -> Member:
    if len(words) != WORDS:
        raise NodesFileError(line, f"expected {WORDS} words, got {len(words)}")
    node_id, address, flags, ping_sent, pong_received, link = words
    if not is_node_id(node_id):
        raise NodesFileError(line, f"{_shown(node_id)} is not a node ID (40 lower-case hexadecimal digits)")
    if link not in LINKS:
        raise NodesFileError(line, f"{_shown(link)} is neither connected nor disconnected")
    node = Member(node_id, *_parse_address(address, line), _parse_flags(flags, line))
    if not node.flags & MYSELF and not is_address(node.ip or b"unknown", node.port, node.bus_port):
        raise NodesFileError(line, f"no node can be at {_shown(address)}, bus port {node.bus_port}")
    node.ping_sent_ms = now_ms if _number(ping_sent, line) else 0
    node.pong_received_ms = now_ms if _number(pong_received, line) else 0
    return node


def _time(words: list[bytes]) -> int:
    """When the table was written; 0 if that makes no sense."""
    is_time = len(words) == 1 and words[0].isdigit() and len(words[0]) < DIGITS_MOST
    return int(words[0]) if is_time else 0


def _masks(words: list[bytes]) -> dict[bytes, int]:
    """What nodes understand. What makes no sense is skipped: they say it again."""
    found = {}
    for word in words:
        node_id, _, mask = word.partition(b":")
        if mask.isdigit() and len(mask) < DIGITS_MOST and int(mask) < MASK_END:
            found[node_id] = int(mask)
    return found


def _address(node: Member) -> bytes:
    address = b"%s:%d" % (node.ip, node.port)
    return address if node.bus_port == default_bus_port(node.port) else b"%s@%d" % (address, node.bus_port)


def _parse_address(address: bytes, line: int) -> tuple[bytes, int, int]:
    place, _, bus = address.partition(b"@")
    ip, colon, port = place.rpartition(b":")
    if not colon:
        raise NodesFileError(line, f"{_shown(address)} is not an address (ip:port)")
    port_number = _port(port, line)
    return ip, port_number, _port(bus, line) if bus else default_bus_port(port_number)


def _parse_flags(text: bytes, line: int) -> int:
    flags = 0
    for name in text.split(b","):
        if name not in FLAG_OF_NAME:
            raise NodesFileError(line, f"unknown flag {_shown(name)}")
        flags |= FLAG_OF_NAME[name]
    return flags & (MYSELF | LEAVING) if flags & MYSELF else flags & ~FAILING


def _port(text: bytes, line: int) -> int:
    port = _number(text, line)
    if port > PORT_MAX:
        raise NodesFileError(line, f"{port} is not a port")
    return port


def _number(text: bytes, line: int) -> int:
    if not text.isdigit() or len(text) > 20:
        raise NodesFileError(line, f"{_shown(text)} is not a number")
    return int(text)


def _shown(word: bytes) -> str:
    return repr(word[:64])[1:]
