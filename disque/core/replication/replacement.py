"""Which nodes get the copies that take the place of lost ones, and when there are enough of them.

A `Replacement` is a `Spread` like that of an ASYNC job, so REPLJOB, GOTJOB, REFUSED and links that end do with it what
they always do: see `coordinator`. What is different: the nodes are asked in the order of the job, so that two nodes
that both repair it ask the same ones; the pause of a queue does not matter; and when nobody is left to be asked, it
ends, and the next walk tries again (see `repair`).
"""

from typing import TYPE_CHECKING

from cluster.messages import ANNOUNCE, REPLACEMENT
from disque.core.model.job import DEFERRED, LEASE_OWNER, LEASE_RELAYED
from disque.core.replication import zoning
from disque.core.replication.one_copy import one_copy
from disque.core.replication.rank import rank

if TYPE_CHECKING:
    from disque.core.model.job import Job
    from disque.core.model.peers import Peer
    from disque.core.model.repair import Replacement
    from disque.core.node import Message, Node


def targets(node: "Node", spread: "Replacement") -> "list[Peer]":
    """The nodes that could take a copy and were not asked yet, the first one first.

    Those of zones without a copy come before the others, and then the order of the job counts.
    """
    job_id, size = spread.job.id, len(spread.job.body)
    peers = [peer for peer in node.linked if peer.id not in spread.asked and peer.takes(size)]
    if len(peers) > 1:
        peers.sort(key=lambda peer: rank(peer.id, job_id), reverse=True)
        if node.zones.shared:
            zones = zoning.held(node, spread)
            peers.sort(key=lambda peer: peer.zone in zones)
    return peers


def ripe(peers: "list[Peer]", now_ms: int) -> "Peer | None":
    """The first of these nodes that has not just refused something; none if all have."""
    for peer in peers:
        if peer.refused_until_ms <= now_ms:
            return peer
    return None


def delay_ms(job: "Job", now_ms: int) -> int:
    """For how long a copy must not count as due. A node that does not speak for the job waits a RETRY longer."""
    if not job.flags & DEFERRED:
        return 0
    left_ms = job.requeue_ms - now_ms
    return max(0, left_ms if job.flags & (LEASE_OWNER | LEASE_RELAYED) else left_ms - job.retry * 1000)


def wire(node: "Node", spread: "Replacement", now_ms: int) -> "Message":
    """REPLJOB for one copy."""
    job = spread.job
    return one_copy(node, job, ANNOUNCE | REPLACEMENT, delay_ms(job, now_ms), job.holders, now_ms)


def pending(node: "Node", spread: "Replacement") -> int:
    """How many nodes that can be reached have been asked and have not answered. Nobody is in a hurry: they will."""
    job_id = spread.job.id
    return len([peer for peer in node.linked if job_id in peer.waiting])


def made(node: "Node", job_id: bytes) -> None:
    """All copies of this job are there, if they were made again."""
    repairs = node.repairs
    spread = repairs.copying.pop(job_id, None)
    if spread is None:
        return
    repairs.made += 1
    over(node, spread)
    if repairs.walk is not None:
        repairs.walk.made += 1


def over(node: "Node", spread: "Replacement") -> None:
    """A job that had too few copies has enough now, or has ended."""
    repairs = node.repairs
    repairs.short = max(0, repairs.short - 1)
    if spread.is_alone:
        repairs.alone = max(0, repairs.alone - 1)
    if repairs.walk is not None:
        repairs.walk.short -= 1
        repairs.walk.alone -= spread.is_alone


def give_up(node: "Node", spread: "Replacement", *, may_refuse: bool) -> None:
    """Nobody is left to be asked. ``may_refuse``: somebody may take a copy later who only refuses it now.

    Who was asked and has not confirmed a copy, and is a holder now all the same, since it has not answered or may have
    got the job by hand-over: the next walk asks whether it has a copy.
    """
    job_id, repairs = spread.job.id, node.repairs
    said = spread.confirmed, [one for one in spread.refused if one in spread.before]
    repairs.open |= {one for one in spread.asked if one in spread.job.holders and not any(one in some for some in said)}
    node.drop_copies(job_id)
    if repairs.copying.pop(job_id, None) is None or repairs.walk is None:
        return
    repairs.walk.refused += may_refuse
    if spread.is_alone and len(spread.confirmed) > spread.had:
        repairs.walk.alone -= 1
