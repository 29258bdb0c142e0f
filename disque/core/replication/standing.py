"""Which nodes may still have a copy, and which one makes those that are lost again: of jobs and of kept ends alike.

*Holders are not copies*: a set of holders says who may have one. Some of them are gone, some cannot be asked for now,
and count as nodes that have one. See `repair`, which asks the others.
"""

from typing import TYPE_CHECKING, Final

from cluster.capabilities import REPAIR
from disque.core.replication.rank import rank

if TYPE_CHECKING:
    from collections.abc import Iterable

    from disque.core.model.repair import Walk
    from disque.core.node import Node

#: Holders of a job are looked up one by one up to so many.
FEW: Final = 16


def fresh(node: "Node", known: tuple[bytes, ...], named: "Iterable[bytes]") -> set[bytes]:
    """Those of the nodes ``named`` as holders that are none of ``known``, and that this node expects."""
    expects = node.membership.expects
    if len(known) > FEW:
        return {one for one in set(named).difference(known) if expects(one)}
    return {one for one in named if one not in known and expects(one)}


def is_wider(named: tuple[bytes, ...], known: tuple[bytes, ...]) -> bool:
    """Whether somebody names holders that are none of ``known``."""
    if len(known) > FEW:
        return not set(known).issuperset(named)
    return any(holder not in known for holder in named)


def standing(node: "Node", walk: "Walk", holders: tuple[bytes, ...]) -> tuple[int, bool]:
    """How many of these nodes may have a copy that counts, and whether that is to be looked at."""
    found = walk.memo.get(holders)
    if found is None:
        found = walk.memo[holders] = look(node, walk, holders)
    return found


def look(node: "Node", walk: "Walk", holders: tuple[bytes, ...]) -> tuple[int, bool]:
    """The same, which nobody has asked for yet."""
    repairs, membership = node.repairs, node.membership
    live, is_doubtful = 0, walk.all and len(holders) > 1
    for holder in holders:
        is_known = holder in membership.nodes or holder in membership.strangers
        if not is_known or holder in repairs.gone or holder in repairs.leaving:
            is_doubtful = True
        else:
            live += 1
            is_doubtful |= holder in walk.doubted
    return live, is_doubtful


def estimate(node: "Node", job_id: bytes, holders: tuple[bytes, ...], repl: int, live: int) -> None:
    """Count what seems to have too few copies, at the node that will repair it."""
    repairs = node.repairs
    known = [one for one in holders if one in node.membership.nodes and one not in repairs.gone]
    known = [one for one in known if one not in repairs.leaving] or known
    if first(known, job_id) == node.node_id:
        repairs.short += 1
        repairs.alone += live <= 1 < repl


def first(node_ids: list[bytes], job_id: bytes) -> bytes:
    """The first of these nodes in the order of the job."""
    best = node_ids[0]
    for one in node_ids:
        if rank(one, job_id) > rank(best, job_id):
            best = one
    return best


def is_able(node: "Node", peer_id: bytes, capability: int = REPAIR) -> bool:
    """Whether this node can be asked what it has."""
    peer = node.peers.get(peer_id)
    return peer is not None and peer.linked and peer.understands(capability) and not node.failed(peer_id)


def away(node: "Node", holders: tuple[bytes, ...], capability: int = REPAIR) -> tuple[bytes, ...]:
    """Those of these nodes that cannot be asked, and most likely have their copies."""
    repairs, membership = node.repairs, node.membership
    found = []
    for holder in holders:
        if holder == node.node_id or holder in repairs.gone or holder in repairs.leaving:
            continue
        if (holder in membership.nodes or holder in membership.strangers) and not is_able(node, holder, capability):
            found.append(holder)
    return tuple(found)


def rely_on(node: "Node", others: tuple[bytes, ...], now_ms: int) -> None:
    """These nodes cannot be asked, and count as if they had copies: as soon as they can be, they are to be asked.

    One that fails is asked when it is back, see `repair.review`.
    """
    repairs = node.repairs
    for one in others:
        peer = node.peers.get(one)
        if one not in repairs.failing and (peer is None or not peer.linked):
            repairs.doubts.setdefault(one, now_ms)
