"""Jobs of a node that was away for so long that it was forgotten.

The others collect an acknowledgement without a node that they have forgotten, and remember the ID of a job that is done
for minutes only. So a node that comes back after `cluster-forget-after` may have jobs that were done long ago. It tells
by the time of its journal that it was away so long. Then it does not deliver jobs that other nodes had too before these
have said whether they know them (ASKCOPY). One that some holder knows goes on as ever. One that no holder knows goes to
the queue `disque:returned`, as a dead letter: somebody may have a look. A holder that cannot be reached is waited for
until it is forgotten here. If none is left, the job goes on as one that nobody else ever had.

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
    if away_ms < node.config.number("cluster-forget-after") * 1000 and not repairs.noted:
        return
    for shard in node.shards:
        for job in shard.values():
            if job.retry and len(job.holders) > 1 and job.state != ACKED:
                repairs.returned[job.id] = ()
    node.used += RETURNED_BYTES * len(repairs.returned)
    if repairs.returned:
        repairs.news.append(
            f"This node was away for long: {len(repairs.returned)} jobs wait until the other nodes that had them say "
            "whether they know them. If such a node is gone for good, CLUSTER FORGET it"
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
            elif not is_over(node, job, said, node.beat_ms):
                ask_about(node, job, said)
        if count % AT_ONCE == 0:
            yield True
    repairs.is_asking = False


def ask_about(node: "Node", job: Job, said: tuple[bytes, ...]) -> None:
    """Ask the holders of a job that have not answered."""
    for holder in job.holders:
        peer = node.peers.get(holder)
        if holder not in said and peer is not None and peer.linked and peer.understands(REPAIR):
            node.batch(holder, (ASKCOPY, job.holders), job.id)


def told(node: "Node", peer: bytes, job_id: bytes, what: int, now_ms: int) -> None:
    """COPYIS: ``peer`` knows a job that is in doubt, or does not."""
    said = node.repairs.returned.get(job_id)
    if said is None:
        return
    job = node.find(job_id)
    if what != COPY_UNKNOWN or job is None or job.state == ACKED:
        drop(node, job_id)
        return
    if peer not in said:
        said = node.repairs.returned[job_id] = (*said, peer)
    is_over(node, job, said, now_ms)


def is_over(node: "Node", job: Job, said: tuple[bytes, ...], now_ms: int) -> bool:
    """Whether all other holders have said that they do not know ``job``: then it is put away.

    One that does not understand the question cannot say it, so the others decide. If none can, the job goes on.
    """
    for holder in job.holders:
        peer = node.peers.get(holder)
        is_mute = peer is not None and peer.linked and not peer.understands(REPAIR)
        if holder != node.node_id and holder not in said and not is_mute:
            return False
    drop(node, job.id)
    if said:
        tries.put_away(node, job, QUEUE, DIED_RETURNED, now_ms)
    return True


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
