"""Jobs of a node that was away for so long that it was forgotten.

The others collect an acknowledgement without a node that they have forgotten, and remember the ID of a job that is done
for minutes only. So a node that comes back after `cluster-forget-after` may have jobs that were done long ago. It tells
by the time of its journal that it was away so long. Then it does not deliver jobs that other nodes had too before these
have said whether they know them (ASKCOPY). One that some holder knows goes on as ever. Of one that no holder knows,
another node may have got a copy while this node was away, so it has never heard of it: all other nodes are asked, too.
One that none of these knows goes to the queue `disque:returned`, as a dead letter: somebody may have a look. A node
that cannot be reached is waited for until it is forgotten here. If no holder is left, the job goes on as one that
nobody else ever had.

Questions and answers that are lost with a link are said again. What is still open is noted in the journal, so that
another start goes on with it.
"""

from typing import TYPE_CHECKING, Any, Final

from cluster.capabilities import REPAIR
from cluster.messages import ASKCOPY, COPY_UNKNOWN
from disque.core.journal.schema import RETURNED
from disque.core.model.extra import DIED_RETURNED
from disque.core.model.job import ACKED, Job
from disque.core.model.memory import RETURNED_BYTES
from disque.core.replication import tries

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disque.core.journal.compaction import Copying
    from disque.core.journal.recovery import Recovery
    from disque.core.node import Node

#: Where they go.
QUEUE: Final = b"disque:returned"
#: How often is asked again, and about how many at a time.
AGAIN_MS: Final = 5_000
BEAT_MS: Final = 100
AT_ONCE: Final = 500


def mark(node: "Node", away_ms: int) -> None:
    """The journal is read, and its end is so old: note which jobs are in doubt, if they are."""
    repairs = node.repairs
    repairs.is_forgotten = away_ms >= node.config.number("cluster-forget-after") * 1000
    if not repairs.is_forgotten and not repairs.noted:
        return
    for shard in node.shards:
        for job in shard.values():
            if job.retry and len(job.holders) > 1 and job.state != ACKED:
                repairs.returned[job.id] = ()
    node.used += RETURNED_BYTES * len(repairs.returned)
    if repairs.returned:
        repairs.news.append(
            f"This node was away for long: {len(repairs.returned)} jobs wait until the other nodes say whether they "
            "know them. If such a node is gone for good, CLUSTER FORGET it"
        )


def beat(node: "Node", now_ms: int) -> None:
    """Ask about what is open, now and then; and note in the journal whether something is."""
    repairs = node.repairs
    if repairs.returned and now_ms % AGAIN_MS < BEAT_MS and not repairs.is_asking:
        repairs.is_asking = True
        node.begin_chore(ask(node))
    if node.journaling and (len(repairs.returned) > 0) != (repairs.noted > 0):
        file(node)


def ask(node: "Node") -> "Iterator[bool]":
    """Ask all that have not answered."""
    repairs = node.repairs
    for count, job_id in enumerate(list(repairs.returned), 1):
        job = node.find(job_id)
        said = repairs.returned.get(job_id)
        if said is not None:
            if job is None or job.state == ACKED or len(job.holders) == 1:
                drop(node, job_id)
            elif left := silent(node, job, said):
                ask_about(node, job, left)
            else:
                decide(node, job, said, node.beat_ms)
        if count % AT_ONCE == 0:
            yield True
    repairs.is_asking = False


def ask_about(node: "Node", job: Job, silent: list[bytes]) -> None:
    """Ask those that have to say yet whether they know a job."""
    for peer_id in silent:
        peer = node.peers.get(peer_id)
        if peer is not None and peer.linked:
            node.batch(peer_id, (ASKCOPY, job.holders), job.id)


def told(node: "Node", peer: bytes, job_id: bytes, what: int, now_ms: int) -> None:
    """COPYIS: ``peer`` knows a job that is in doubt, or does not."""
    said = node.repairs.returned.get(job_id)
    if said is None:
        return
    job = node.find(job_id)
    if what != COPY_UNKNOWN or job is None or job.state == ACKED:
        drop(node, job_id)
        return
    if peer in said:
        return
    said = node.repairs.returned[job_id] = (*said, peer)
    left = silent(node, job, said)
    if not left:
        decide(node, job, said, now_ms)
    elif peer in job.holders and left[0] not in job.holders:
        ask_about(node, job, left)  # that was the last of the holders


def silent(node: "Node", job: Job, said: tuple[bytes, ...]) -> list[bytes]:
    """Who has to say yet whether it knows ``job``: its holders; when none of them does, all other nodes."""
    left = [holder for holder in job.holders if is_awaited(node, holder, said)]
    if said and not left:
        left = [peer_id for peer_id in node.peers if is_awaited(node, peer_id, said)]
    return left


def is_awaited(node: "Node", peer_id: bytes, said: tuple[bytes, ...]) -> bool:
    """Whether another node is to say something. One that does not understand the question cannot: the others decide."""
    if peer_id == node.node_id or peer_id in said:
        return False
    peer = node.peers.get(peer_id)
    return peer is None or not peer.linked or peer.understands(REPAIR)


def decide(node: "Node", job: Job, said: tuple[bytes, ...], now_ms: int) -> None:
    """All have said that they do not know ``job``: it is put away. If none could say that, it goes on."""
    drop(node, job.id)
    if said:
        tries.put_away(node, job, QUEUE, DIED_RETURNED, now_ms)


def drop(node: "Node", job_id: bytes) -> None:
    """It is known what becomes of a job."""
    del node.repairs.returned[job_id]
    node.used -= RETURNED_BYTES


# -- the journal -------------------------------------------------------------------------------------------------------


def file(node: "Node") -> None:
    """Write whether jobs are in doubt; that counts for the newest segment from here on."""
    is_open = len(node.repairs.returned) > 0
    node.outbox.add((RETURNED, int(is_open)))
    lies_in(node, node.segment if is_open else 0)


def lies_in(node: "Node", segment: int) -> None:
    """The newest record that says so is in this segment; 0: nothing is in doubt."""
    if node.repairs.noted:
        node.live[node.repairs.noted] -= 1
    node.repairs.noted = segment
    if segment:
        node.live[segment] = node.live.get(segment, 0) + 1


def apply_returned(recovery: "Recovery", record: tuple[Any, ...], segment: int) -> None:
    """RETURNED."""
    lies_in(recovery.node, segment if record[1] else 0)


def copy_returned(node: "Node", copying: "Copying") -> "Iterator[int]":
    """Write it again if its record is in an old segment."""
    if 0 < node.repairs.noted <= copying.upto:
        file(node)
        yield 1


def forget_returned(node: "Node") -> "Iterator[None]":
    """It has no record any more."""
    node.repairs.noted = 0
    yield
