"""The other nodes as the core sees them: which can be sent to, and what must be said again over a new link.

A link delivers a prefix of what was written to it, so nothing is sent again on a tick: what may have been lost is said
again when a link comes up. That holds for a link to a peer (`link_up`: what I sent may be lost) and for one from a peer
(`heard`: its answers may be lost). It is said in the steps of chores, so much a beat (see `peers`), and from the start
when another link comes up meanwhile. A peer whose start number has changed is another process: what it confirmed before
counts no more for jobs that are still undecided.
"""

from typing import TYPE_CHECKING, Final

from cluster.member import HANDSHAKE, LEAVING, MYSELF, UNREACHABLE
from cluster.messages import REPLJOB, TAKEJOB, YOURJOBS
from disque.core import entries
from disque.core.base.timers import NEVER
from disque.core.dedup import acquire, orphans
from disque.core.federation import supply
from disque.core.jobs import eviction
from disque.core.model.job import ACTIVE, DEFERRED, LEASE_OWNER, LEASE_RELAYED, QUEUED
from disque.core.model.peers import Peer
from disque.core.replication import (
    acks,
    announcements,
    arbitration,
    coordinator,
    end_copies,
    ends,
    moves,
    registry,
    repair,
    surveys,
    waits,
    zoning,
)
from disque.core.schedule import firing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disque.core.node import Message, Node

#: Acknowledgements that one step of a chore looks at.
SLICE: Final = 500


def review(node: "Node", now_ms: int) -> None:
    """Take over what has changed in the membership."""
    membership = node.membership
    if membership.version == node.seen_version and not membership.forgotten:
        return
    node.seen_version = membership.version
    known = membership.nodes
    met: list[bytes] = []
    for peer_id in [peer_id for peer_id in node.peers if peer_id not in known]:
        drop(node, peer_id)
    for peer_id in [peer_id for peer_id in node.starts if peer_id not in known]:
        del node.starts[peer_id]
    for peer_id, other in known.items():
        if peer_id not in node.peers and not other.flags & (MYSELF | HANDSHAKE):
            peer = node.peers[peer_id] = Peer(peer_id, now_ms)
            peer.start = node.starts.pop(peer_id, 0)
            if other.linked:  # it was half met until now
                peer.linked = True
                met.append(peer_id)
    peers = node.peers
    able = [peer for peer in peers.values() if peer.linked and not peer.stopping]
    node.linked = [peer for peer in able if not known[peer.id].flags & UNREACHABLE]
    for peer in peers.values():
        peer.body_most = known[peer.id].body_most
        peer.capabilities = known[peer.id].capabilities & membership.myself.capabilities
    node.body_least = min([peer.body_most for peer in peers.values()], default=NEVER)
    zoning.review(node)
    node.count_nodes()
    for peer_id in met:
        say_again(node, peers[peer_id], now_ms)
        supply.link_up(node, peer_id, now_ms)
        registry.link_up(node, peer_id)
        firing.link_up(node, peer_id, now_ms)
    failing = frozenset([peer_id for peer_id in peers if known[peer_id].flags & UNREACHABLE & ~LEAVING])
    registry.nodes_changed(node, failing, membership.forgotten)
    repair.review(node, membership.forgotten, now_ms)
    if membership.forgotten:
        forgotten, membership.forgotten = membership.forgotten, []
        node.chores.append(forget_holders(node, frozenset(forgotten)))
    acquire.nodes_changed(node, now_ms)
    coordinator.try_all(node, now_ms)
    surveys.review(node)
    ends.review_all(node, now_ms)


def drop(node: "Node", peer_id: bytes) -> None:
    """A node is not of the cluster any more."""
    peer = node.peers.pop(peer_id)
    ends.forget_node(node, peer_id)
    for spread in list(peer.waiting.values()):
        if spread.job.retry:
            node.copies.short[spread.job.id] = spread
        else:  # that node may deliver it, so nobody else must
            coordinator.may_be_lost(node, spread)


def forget_holders(node: "Node", gone: frozenset[bytes]) -> "Iterator[None]":
    """Take forgotten nodes out of all sets of holders: nobody waits for them any more."""
    for shard in node.shards:
        for job in list(shard.values()):
            if not gone.isdisjoint(job.holders):
                left = [holder for holder in job.holders if holder not in gone]
                job.holders = node.shared(tuple(left))
                if job.state == ACTIVE and job.requeue_ms and job.id not in node.votes.by_id:
                    node.hold(job, job.requeue_ms, job.flags & (DEFERRED | LEASE_OWNER | LEASE_RELAYED))
                    if job.flags & DEFERRED:  # it may have been put off, which counts: nobody is asked any more
                        announcements.file_requeue(node, job)
        yield
    yield from end_copies.forget(node, gone)
    for count, job_id in enumerate(list(node.acks.by_id), 1):
        ack = node.acks.by_id.get(job_id)
        if ack is not None:
            acks.review(node, job_id, ack)
        if count % SLICE == 0:
            yield


def link_up(node: "Node", peer_id: bytes, start: int, now_ms: int) -> None:
    """The link to a peer stands: say again what it may not have heard."""
    was_known = peer_id in node.peers
    node.membership.link_up(peer_id, now_ms)
    review(node, now_ms)
    peer = node.peers.get(peer_id)
    if peer is None:
        note_stranger(node, peer_id, start)
        return
    was_met = not was_known and peer.linked  # then `review` has said it
    peer.linked = True
    note_start(node, peer, start, now_ms)
    if not was_met:
        say_again(node, peer, now_ms)
    node.seen_version = -1
    review(node, now_ms)
    if not was_met:
        supply.link_up(node, peer_id, now_ms)
        registry.link_up(node, peer_id)
        firing.link_up(node, peer_id, now_ms)


def link_down(node: "Node", peer_id: bytes, now_ms: int, *, refused: bool) -> None:
    """The link to a peer has ended, or could not be made."""
    node.membership.link_down(peer_id, now_ms, refused=refused)
    peer = node.peers.get(peer_id)
    if peer is not None and peer.linked:
        peer.linked = False
        peer.lost_ms = now_ms
        peer.saying += 1
        node.seen_version = -1
        coordinator.link_lost(node, peer, now_ms)
        supply.link_down(node, peer_id)
        ends.forget_node(node, peer_id)
    review(node, now_ms)


def heard(node: "Node", peer_id: bytes, start: int, now_ms: int) -> None:
    """A peer has made a new link to this node: its answers over the old one may be lost."""
    review(node, now_ms)
    peer = node.peers.get(peer_id)
    if peer is None:
        note_stranger(node, peer_id, start)
        return
    note_start(node, peer, start, now_ms)
    ends.forget_node(node, peer_id)
    supply.heard(node, peer_id, now_ms)
    if peer.linked:
        say_again(node, peer, now_ms)


def note_start(node: "Node", peer: Peer, start: int, now_ms: int) -> None:
    """See whether the peer is another process than before: it may have lost what it confirmed."""
    if peer.start not in {0, start}:
        coordinator.restarted(node, peer, now_ms)
        acquire.restarted(node, peer.id, now_ms)
        supply.link_down(node, peer.id)
        repair.started_again(node, peer.id, now_ms)
        registry.started_again(node, peer.id)
        peer.stopping = False
        node.seen_version = -1
    peer.start = start


def note_stranger(node: "Node", peer_id: bytes, start: int) -> None:
    """A node that is half met will be asked for copies over the link that stands: remember which process that is."""
    if peer_id in node.membership.nodes and peer_id != node.node_id:
        node.starts[peer_id] = start


def say_again(node: "Node", peer: Peer, now_ms: int) -> None:
    """Send what ``peer`` was told and has not answered."""
    peer.saying += 1
    surveys.say_kept(node, peer.id)
    for spread in [spread for spread in peer.waiting.values() if not spread.job.retry]:
        coordinator.lost(node, spread)  # it may have come, been delivered and forgotten: it must not come twice
    if peer.waiting:
        node.begin_chore(coordinator.send_again(node, peer, now_ms))
    if node.unique.orphans:
        orphans.back(node, now_ms)
        acquire.take_up(node, now_ms)
    if node.unique.acquisitions:
        node.begin_chore(acquire.say_again(node, peer, now_ms))
    if node.acks.by_id:
        node.chores.append(acks.tell_again(node, peer, peer.saying))
    if node.extras.by_id:
        node.chores.append(moves.tell_again(node, peer, peer.saying))
    if node.ends.wanted:
        node.chores.append(waits.tell_again(node, peer, peer.saying))
    node.chores.append(arbitration.say_still(node, peer, peer.saying))


def undelivered(node: "Node", peer_id: bytes, messages: "list[Message]", now_ms: int) -> None:
    """No byte of these messages has left. Most are said again when a link comes up; some must be taken back."""
    for message in messages:
        if message[0] == YOURJOBS:
            supply.take_back(node, peer_id, message, now_ms)
        elif message[0] in {REPLJOB, TAKEJOB}:
            coordinator.not_sent(node, peer_id, message, now_ms)


def doubt(node: "Node", now_ms: int) -> "Iterator[None]":
    """This process stood still: others may have given out its shared jobs meanwhile. Ask before they are served."""
    try:
        for shard in node.shards:
            for job in [job for job in shard.values() if job.state == QUEUED and job.retry and len(job.holders) > 1]:
                node.take_out(job, now_ms)
                node.hold(job, now_ms, 0)
            yield
    finally:
        node.reconciling = False
        for queue in node.queues.values():
            node.wake(queue)


def beat(node: "Node", now_ms: int) -> None:
    """Ten times a second: the membership's work, and what follows from standing still. What rested goes on."""
    gap_ms = now_ms - node.beat_ms
    node.beat_ms = now_ms
    node.membership.tick(now_ms)
    if gap_ms > node.membership.timeout_ms // 2 and len(node.membership.nodes) > 1 and not node.reconciling:
        node.reconciling = True
        node.chores.append(doubt(node, now_ms))
    for peer in node.peers.values():
        peer.told = 0
    if node.resting:
        node.chores.extend(node.resting)
        node.resting.clear()
    review(node, now_ms)
    coordinator.beat(node, now_ms)
    acks.beat(node, now_ms)
    supply.beat(node, now_ms)
    eviction.beat(node)
    repair.beat(node, now_ms)
    entries.beat(node, now_ms)
