"""Which nodes are asked first for the copies of a new job, and how the jobs of one turn share a message.

Jobs that follow each other in a pipeline mostly differ in ID, body and place only. Those that go to the same nodes make
up a batch: one REPLJOB, one tuple of holders, one list of those asked.
"""

from typing import TYPE_CHECKING

from cluster.messages import QUEUE_IT, repljob
from disque.core.journal.schema import HOLDERS
from disque.core.model.copies import ReplicationBatch
from disque.core.model.job import EXTRA, Job
from disque.core.model.peers import Peer
from disque.core.model.session import Spread
from disque.core.replication import replica, zoning
from disque.core.replication.one_copy import one_copy

if TYPE_CHECKING:
    from disque.core.node import Message, Node


def ask(node: "Node", spread: Spread, now_ms: int) -> None:
    """Choose the first nodes for the copies of a job, and send it to them: with the jobs before it if it goes."""
    job = spread.job
    wanted = spread.missing()
    left_ms = max(1, job.expires_ms - now_ms)
    batch = node.copies.batch
    if batch is None or job.flags & EXTRA or not batch.takes(node.linked, job, wanted, left_ms):
        if not job.retry:
            ask_alone(node, spread, wanted, now_ms)
            return
        seal(node)
        peers = pick(node, spread, wanted)
        holders = node.shared(tuple(sorted({*job.holders, *[peer.id for peer in peers]})))
        batch = node.copies.batch = ReplicationBatch(job, node.linked, wanted, left_ms, peers, holders, now_ms)
    job_id = job.id
    batch.ids.append(job_id)
    batch.bodies.append(job.body)
    batch.ctimes.append(job.ctime)
    batch.size += len(job.body)
    spread.asked = batch.asked
    job.holders = batch.holders
    if node.journaling and job.segment and batch.asked:
        node.outbox.add((HOLDERS, job_id, job.holders))
    for peer in batch.peers:
        if not peer.waiting:
            peer.heard_ms = now_ms
        peer.waiting[job_id] = spread
    if len(batch.peers) < wanted:
        node.copies.short[job_id] = spread
    if job.flags & EXTRA:
        seal(node, node.more_of(job, now_ms))  # what is said of it holds for no other one


def ask_alone(node: "Node", spread: Spread, wanted: int, now_ms: int) -> None:
    """Ask for the copy of a job that is delivered at most once: it has a message of its own, which names its holder."""
    job = spread.job
    chosen = pick(node, spread, wanted)
    spread.asked = tuple([peer.id for peer in chosen])
    message = wire(node, spread, spread.asked[0] if spread.asked else b"", now_ms)
    for peer in chosen:
        if not peer.waiting:
            peer.heard_ms = now_ms
        peer.waiting[job.id] = spread
        node.send(peer.id, message)
    if len(chosen) < wanted:
        node.copies.short[job.id] = spread


def seal(node: "Node", more: bytes = b"") -> None:
    """Nothing more goes with the jobs of this turn that are asked for: they are a message now."""
    batch, node.copies.batch = node.copies.batch, None
    if batch is None:
        return
    message = repljob(
        batch.spec.queue,
        batch.spec.encoded,
        flags=0,
        left_ms=batch.left_ms,
        delay_ms=batch.delay_ms,
        holders=batch.holders,
        ids=tuple(batch.ids),
        bodies=tuple(batch.bodies),
        ctimes=tuple(batch.ctimes),
        more=more,
    )
    for peer_id in batch.asked:
        node.send(peer_id, message)


def pick(node: "Node", spread: Spread, wanted: int) -> list[Peer]:
    """The first nodes to be asked for copies."""
    linked = node.linked
    if len(linked) <= wanted:
        return linked
    return zoning.choose(node, spread, wanted) if node.zones.shared else choose(node, spread.job, wanted)


def choose(node: "Node", job: Job, wanted: int) -> list[Peer]:
    """Some nodes at random; those that keep the job's UNIQUE key and must hear of its end anyway come first."""
    if len(job.holders) == 1:
        return node.random.sample(node.linked, wanted)
    mixed = node.random.sample(node.linked, len(node.linked))
    mixed.sort(key=lambda peer: peer.id not in job.holders)
    return mixed[:wanted]


def wire(node: "Node", spread: Spread, peer_id: bytes, now_ms: int, flags: int = 0) -> "Message":
    """REPLJOB for one job. What is delivered at most once names its one holder only, and who keeps its UNIQUE key."""
    job = spread.job
    delay_ms = replica.first_ms(job, now_ms) - now_ms
    if job.retry:
        return one_copy(node, job, flags, delay_ms, job.holders, now_ms)
    holders = (peer_id,) if len(job.holders) == 1 else tuple(sorted({*job.holders, peer_id}))
    return one_copy(node, job, QUEUE_IT, delay_ms, holders, now_ms)
