"""Which nodes get the copies of a job, and which copies count, where nodes fail together: see `zones`."""

from typing import TYPE_CHECKING, Final

from cluster.member import UNREACHABLE
from disque.core.model.zones import zone_of

if TYPE_CHECKING:
    from disque.core.model.peers import Peer
    from disque.core.model.session import Spread
    from disque.core.node import Node

#: For so long a node without a link is waited for, in ms.
GRACE_MS: Final = 2000


def review(node: "Node") -> None:
    """Take over the zones of all nodes that are known."""
    nodes = node.membership.nodes
    zones = node.zones
    zones.mine = zone_of(node.membership.myself)
    seen = {zones.mine}
    for peer in node.peers.values():
        peer.zone = zone_of(nodes[peer.id])
        seen.add(peer.zone)
    zones.shared = 1 < len(seen) <= len(node.peers)


def choose(node: "Node", spread: "Spread", wanted: int) -> "list[Peer]":
    """The first nodes to be asked for copies, at random but for their zones; keepers of its UNIQUE key come first."""
    holders = spread.job.holders
    mixed = node.random.sample(node.linked, len(node.linked))
    if len(holders) > 1:
        mixed.sort(key=lambda peer: peer.id not in holders)
    copies: dict[bytes, int] = {} if spread.outside else {node.zones.mine: 1}
    ranks: dict[bytes, int] = {}
    for peer in mixed:
        rank = copies.get(peer.zone, 0)
        copies[peer.zone] = rank + 1
        ranks[peer.id] = rank
    mixed.sort(key=lambda peer: ranks[peer.id])
    return mixed[:wanted]


def held(node: "Node", spread: "Spread") -> set[bytes]:
    """The zones in which there is a copy for certain."""
    found = set() if spread.outside else {node.zones.mine}
    for peer_id in spread.confirmed:
        peer = node.peers.get(peer_id)
        found.add(peer_id if peer is None else peer.zone)
    return found


def is_there(node: "Node", peer: "Peer", now_ms: int) -> bool:
    """Whether a copy may be expected of this node."""
    if node.membership.nodes[peer.id].flags & UNREACHABLE:
        return False
    return peer.linked or now_ms - peer.lost_ms < GRACE_MS


def is_open(node: "Node", spread: "Spread", zones: set[bytes], now_ms: int) -> bool:
    """Whether another zone than these has a node that may still take a copy."""
    size = len(spread.job.body)
    for peer in node.peers.values():
        if (
            peer.zone not in zones
            and peer.id not in spread.refused
            and size <= peer.body_most
            and is_there(node, peer, now_ms)
        ):
            return True
    return False


def is_coming(node: "Node", spread: "Spread", now_ms: int) -> bool:
    """Whether a node of a zone without a copy has been asked for one, and may still confirm it."""
    zones = held(node, spread)
    for peer in node.peers.values():
        if spread.job.id in peer.waiting and peer.zone not in zones and is_there(node, peer, now_ms):
            return True
    return False


def must_wait(node: "Node", spread: "Spread", now_ms: int) -> bool:
    """Whether copies that would be enough are too near to each other, and one that is not may still come."""
    zones = held(node, spread)
    return len(zones) < spread.job.repl and is_open(node, spread, zones, now_ms)


def next_ones(node: "Node", spread: "Spread", now_ms: int) -> "list[Peer]":
    """Whom to ask for one more copy: any of these. Nobody, while a node of another zone is to be waited for.

    A zone that was not asked comes before one that was and has not confirmed.
    """
    zones = held(node, spread)
    asked, refused = spread.asked, spread.refused
    fresh = [peer for peer in node.linked if peer.id not in asked and peer.takes(len(spread.job.body))]
    apart = [peer for peer in fresh if peer.zone not in zones]
    apart = [peer for peer in apart if peer.refused_until_ms <= now_ms or peer.id not in refused]
    if apart:
        tried = {peer.zone for peer in node.peers.values() if peer.id in asked}
        return [peer for peer in apart if peer.zone not in tried] or apart
    if spread.missing() <= 0 or (len(zones) < spread.job.repl and is_open(node, spread, zones, now_ms)):
        return []
    return [peer for peer in fresh if peer.refused_until_ms <= now_ms]


def elsewhere(node: "Node", holders: list[bytes]) -> list[bytes]:
    """Those of these other nodes that do not fail together with this one; all of them, if all do."""
    mine = node.zones.mine
    apart = [holder for holder in holders if holder in node.peers and node.peers[holder].zone != mine]
    return apart or holders
