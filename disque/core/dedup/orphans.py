"""Jobs with UNIQUE keys that a node was adding when it died: their copies, if nobody was told of them.

Copies are made before a client is told an ID. When the node that does so dies in between, the copies stay, and their
keepers free the key, so whoever adds the job again gets another ID: the job would be delivered twice. Whether somebody
was told the first ID the dead node may know alone: it may be cut off, or have it in its journal.

So a keeper that frees such a key remembers the ID. When the node is back as another process, it is asked, and all
others: if nobody has the key for certain, nobody was told, and the copies are deleted (DELJOB). Not if a node of the
cluster does not answer, nor after the window, when each may have forgotten the key; nor without a window: such a key is
free when its job moves to another queue, and then the job lives.

The node itself may have the key in its journal, as one that it decided: pending, as long as it had told nobody. When
it is back, and has lost nothing of its journal, it goes on where it was (`acquire.take_up`): the keepers are told. If
they have nothing else, whoever adds the job again finds it. If they have another job by now, the key is lost, and the
job of this node is one of these. A node that has answered the ID of that job to somebody, before the two parts of
a cluster met and the key went to the other one, is silent.
"""

from typing import TYPE_CHECKING, Final

from cluster.messages import ASKKEY, DELJOB
from disque.core.dedup import keys
from disque.core.model.key import SETTLED, TENTATIVE
from disque.core.model.unique import Orphan
from disque.core.replication import acks

if TYPE_CHECKING:
    from disque.core.model.key import Key
    from disque.core.node import Node

#: How many are remembered; the oldest goes first.
ORPHANS_MOST = 10_000  # not Final: tests want less
#: So long before a window ends, in ms, it may have ended at another node.
SOON_MS: Final = 2000
#: The first digits of the ID of the node that made a job, in the ID of the job: from where, and how many.
PREFIX: Final = 2
PREFIX_BYTES: Final = 8


def note(node: "Node", key: "Key") -> None:
    """Nobody has ``key`` for certain, and the node that asked for it does not ask any more."""
    if not key.expires_ms:
        return
    for peer in node.peers.values():
        if is_made_by(key.job_id, peer.id) and key.owner_start:
            orphan = remember(node, key, peer.id, key.owner_start)
            if peer.linked and peer.start != orphan.start:
                ask(node, key.job_id, orphan)
            return


def remember(node: "Node", key: "Key", owner: bytes, start: int) -> Orphan:
    """The process ``start`` of ``owner`` was adding the job of ``key`` when it died."""
    orphans = node.unique.orphans
    if len(orphans) >= ORPHANS_MOST:
        orphans.popitem(last=False)
    orphan = orphans[key.job_id] = Orphan(key.digest, owner, start, key.expires_ms)
    return orphan


def found(node: "Node", pending: "list[Key]", *, is_sure: bool) -> None:
    """The journal has had these keys as pending. ``is_sure``: it is all there, so nobody was told the IDs."""
    for key in pending:
        if node.unique.table.get(key.digest) is not key:
            continue
        if is_sure and key.is_pending:
            remember(node, key, node.node_id, 0)
        else:
            key.is_pending = False
            keys.index(node, key)


def back(node: "Node", now_ms: int) -> None:
    """There is a new link: once all nodes are linked, ask about what those were adding that are other processes now."""
    reaches = reaches_all(node)
    for job_id, orphan in list(node.unique.orphans.items()):
        if orphan.owner == node.node_id:
            continue
        owner = node.peers.get(orphan.owner)
        if is_over(orphan, now_ms):
            del node.unique.orphans[job_id]
        elif reaches and owner is not None and owner.start != orphan.start:
            ask(node, job_id, orphan)


def is_over(orphan: Orphan, now_ms: int) -> bool:
    """Whether a node may have forgotten the key, since its window is over soon."""
    return orphan.expires_ms <= now_ms + SOON_MS


def note_answered(node: "Node", key: "Key") -> None:
    """``key`` goes to another job. If somebody was told the ID of its own, nobody must hear that it is not known.

    Of a key that this node decided, and has from its journal, it is not known whether somebody was; but see `found`.
    """
    is_told = key.state == SETTLED or (key.state != TENTATIVE and is_made_by(key.job_id, node.node_id))
    if not is_told or key.is_pending or not key.expires_ms:
        return
    answered = node.unique.answered
    if len(answered) >= ORPHANS_MOST:
        answered.popitem(last=False)
    answered[key.job_id] = None


def is_made_by(job_id: bytes, node_id: bytes) -> bool:
    """Whether that node made the job with this ID."""
    return job_id[PREFIX : PREFIX + PREFIX_BYTES] == node_id[:PREFIX_BYTES]


def is_silent(node: "Node", peer_id: bytes, job_id: bytes) -> bool:
    """Whether ``peer_id`` asks about a job of which somebody was told here: it, or this node, made it."""
    if job_id not in node.unique.answered:
        return False
    return is_made_by(job_id, peer_id) or is_made_by(job_id, node.node_id)


def reaches_all(node: "Node") -> bool:
    """Whether every other node of the cluster can be asked."""
    peers, me = node.peers, node.node_id
    return all(one == me or (one in peers and peers[one].linked) for one in node.membership.nodes)


def lost(node: "Node", job_id: bytes) -> None:
    """The key of a job that this node was adding when it died is another job's now."""
    orphan = node.unique.orphans.get(job_id)
    if orphan is not None and reaches_all(node):
        ask(node, job_id, orphan)


def ask(node: "Node", job_id: bytes, orphan: Orphan) -> None:
    """Ask all nodes whether they have the key of this job for certain."""
    orphan.told.clear()
    for peer in node.peers.values():
        if peer.linked:
            node.send(peer.id, (ASKKEY, orphan.digest, job_id))


def free(node: "Node", peer_id: bytes, job_id: bytes, now_ms: int) -> None:
    """``peer_id`` has no such key for certain. When that is so of all nodes, nobody was told the ID."""
    orphan = node.unique.orphans.get(job_id)
    if orphan is None:
        return
    orphan.told.add(peer_id)
    if is_over(orphan, now_ms) or not is_over_there(node, job_id, orphan):
        return
    if all(one == node.node_id or one in orphan.told for one in node.membership.nodes):
        del node.unique.orphans[job_id]
        undo(node, job_id)


def is_over_there(node: "Node", job_id: bytes, orphan: Orphan) -> bool:
    """Whether the node that was adding the job is back, and does not go on with it."""
    if orphan.owner == node.node_id:
        key = node.unique.table.get(orphan.digest)
        return key is None or key.job_id != job_id
    owner = node.peers.get(orphan.owner)
    return owner is not None and owner.linked and owner.start != orphan.start


def undo(node: "Node", job_id: bytes) -> None:
    """Nobody was told this ID: whoever adds the job again has another one. Its copies go."""
    for peer in node.peers.values():
        node.batch(peer.id, (DELJOB,), job_id)
    node.remember_gone(job_id)
    job = node.find(job_id)
    if job is not None:
        acks.forget(node, job)
