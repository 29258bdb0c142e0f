"""What the journal says of jobs and their ends: how a start applies each record, and how they are written again."""

from typing import TYPE_CHECKING, Any

from disque.core.dedup import keys
from disque.core.journal.schema import CTIME_A_MS
from disque.core.model.extra import IN_JOURNAL, decode
from disque.core.model.job import (
    ACKED,
    CTIME_MOST,
    DEFERRED,
    DELIVERED,
    EXTRA,
    LEASE_RELAYED,
    OUT_ELSEWHERE,
    SPENT,
    WAIT_REPL,
    Job,
)
from disque.core.replication import acks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disque.core.journal.compaction import Copying
    from disque.core.journal.recovery import Recovery
    from disque.core.node import Node


# -- at a start --------------------------------------------------------------------------------------------------------


def apply_jobs(recovery: "Recovery", record: tuple[Any, ...], segment: int) -> None:
    """JOBS."""
    node = recovery.node
    _, queue, encoded, state, flags, left_ms, delay, nacks, deliveries, held_ms, holders, ids, bodies, ctimes = record
    spec = recovery.spec(queue, encoded)
    holders = recovery.known(holders)
    for job_id, body, ctime in zip(ids, bodies, ctimes, strict=True):
        expires_ms = ctime // CTIME_A_MS + left_ms
        job = node.find(job_id)
        if job is None:
            job = Job(job_id, spec, body, ctime, expires_ms, delay, holders)
            node.drop_ack(job_id)
            node.register(job)
            if state == ACKED:
                job.state = ACKED
                node.free_key(job_id)
        else:
            if job.segment:
                node.live[job.segment] -= 1
            job.holders = holders
            if state != ACKED:  # what ended by its TTL is written nowhere: this one may have come again since
                node.used += len(body) - len(job.body)
                job.become(Job(job_id, spec, body, ctime, expires_ms, delay, holders))
        job.flags = flags | job.flags & EXTRA
        if recovery.more:
            extra = recovery.more.pop(job_id, None)
            if extra is not None:
                node.put_extra(job, extra)
        job.nacks = nacks
        job.deliveries = deliveries
        job.requeue_ms = held_ms
        job.segment = segment
        node.live[segment] = node.live.get(segment, 0) + 1
        if flags & SPENT:
            node.evictable.add(job)
        else:
            node.evictable.take_back(job)
        if job_id.startswith(node.ids.prefix):
            node.last_ctime = max(node.last_ctime, min(ctime, CTIME_MOST))


def apply_ack(recovery: "Recovery", record: tuple[Any, ...], segment: int) -> None:
    """ACK: a job is done; when others hold it too, the end of the start sees to it that they hear of that."""
    del segment
    node = recovery.node
    recovery.more.pop(record[1], None)  # it was of a job whose own record is in a segment that is gone
    job = node.find(record[1])
    if job is None:
        node.free_key(record[1])  # the segment with the job may be gone before the one with its key
    elif len(job.holders) == 1:
        node.remove(job)
    elif job.state != ACKED:
        node.let_go(job)
        job.state = ACKED


def apply_delete(recovery: "Recovery", record: tuple[Any, ...], segment: int) -> None:
    """DELETE: a job is gone, everywhere."""
    del segment
    node = recovery.node
    recovery.more.pop(record[1], None)
    recovery.freed.pop(record[1], None)  # a process before has said so: what follows may be newer
    job = node.find(record[1])
    if job is not None:
        node.remove(job)
    else:
        node.drop_ack(record[1])
        node.free_key(record[1])


def apply_spend(recovery: "Recovery", record: tuple[Any, ...], segment: int) -> None:
    """SPEND: an at-most-once job has left its queue."""
    del segment
    job = recovery.node.find(record[1])
    if job is None or job.retry:
        return  # this record is of another one, which had the same ID: no node that tells the truth made both
    job.flags = job.flags & ~DEFERRED | SPENT | DELIVERED
    job.requeue_ms = 0
    recovery.node.evictable.add(job)


def apply_requeue(recovery: "Recovery", record: tuple[Any, ...], segment: int) -> None:
    """REQUEUE: NACK or ENQUEUE."""
    del segment
    _, job_id, nacks, deliveries, held_ms = record
    job = recovery.node.find(job_id)
    if job is not None and not job.flags & SPENT and job.state != ACKED:
        job.nacks, job.deliveries, job.requeue_ms = nacks, deliveries, held_ms
        job.flags = job.flags & ~OUT_ELSEWHERE | (DEFERRED | LEASE_RELAYED if held_ms else 0)


def apply_more(recovery: "Recovery", record: tuple[Any, ...], segment: int) -> None:
    """MORE: of a job that is there, or comes next."""
    del segment
    _, job_id, encoded = record
    extra = decode(encoded, IN_JOURNAL)
    assert extra is not None
    job = recovery.node.find(job_id)
    if job is None or job.state == ACKED:  # one that is done may have ended by its TTL, and come again
        recovery.more[job_id] = extra
    else:
        recovery.node.put_extra(job, extra)


def apply_move(recovery: "Recovery", record: tuple[Any, ...], segment: int) -> None:
    """MOVE: a job is in another queue."""
    del segment
    _, job_id, queue, encoded, expires_ms, held_ms, more = record
    job = recovery.node.find(job_id)
    extra = decode(more, IN_JOURNAL)
    assert extra is not None
    if job is None or job.state == ACKED or job.flags & SPENT:
        return
    spec = recovery.spec(queue, encoded)
    if (spec.retry > 0) != (job.retry > 0):
        return  # no node that tells the truth says so
    job.spec = spec
    job.expires_ms = expires_ms
    job.nacks = job.deliveries = 0
    job.requeue_ms = held_ms
    kept = job.flags & EXTRA
    job.flags = kept | DEFERRED | LEASE_RELAYED if held_ms else kept
    recovery.node.put_extra(job, extra)


def apply_holders(recovery: "Recovery", record: tuple[Any, ...], segment: int) -> None:
    """HOLDERS: other nodes have copies, too."""
    del segment
    job = recovery.node.find(record[1])
    if job is not None:
        job.holders = recovery.known(record[2])


def apply_dummy(recovery: "Recovery", record: tuple[Any, ...], segment: int) -> None:
    """DUMMY: an acknowledgement of a job that is not known here."""
    _, job_id, expires_ms = record
    node = recovery.node
    job = node.find(job_id)
    if job is not None and job.state != ACKED:
        keys.part(node, job)  # it had ended by its TTL, which is written nowhere; its key may be another one's
    if job_id not in node.acks.by_id and node.find(job_id) is None:
        acks.put_dummy(node, job_id, expires_ms)
    if job_id in node.acks.dummies:
        acks.lies_in(node, node.acks.by_id[job_id], segment)


# -- compaction --------------------------------------------------------------------------------------------------------


def copy_jobs(node: "Node", copying: "Copying") -> "Iterator[int]":
    """Write again the jobs whose record is in an old segment."""
    for shard in node.shards:
        jobs = [job for job in shard.values() if job.segment <= copying.upto]
        yield 1 + len(shard) // 64
        while jobs:
            job = node.find(jobs.pop().id)  # it may have ended since, or moved, and be another object
            if job is None or job.segment > copying.upto:
                continue
            if job.state == WAIT_REPL and (not job.retry or node.copies.wanted[job.id].add is not None):
                continue  # nobody was told of it yet, or another node may deliver it, once
            node.file(job)
            yield 1 + len(job.body) // 4096


def forget_jobs(node: "Node") -> "Iterator[None]":
    """No job has a record any more."""
    for shard in node.shards:
        for job in shard.values():
            job.segment = 0
        yield


def copy_dummies(node: "Node", copying: "Copying") -> "Iterator[int]":
    """Write again the acknowledgements of unknown jobs whose record is in an old segment."""
    for job_id in list(node.acks.dummies):
        ack = node.acks.by_id.get(job_id)
        if ack is not None and job_id in node.acks.dummies and ack.segment <= copying.upto:
            acks.file_dummy(node, ack)
            yield 1


def forget_dummies(node: "Node") -> "Iterator[None]":
    """No acknowledgement has a record any more."""
    for ack in node.acks.by_id.values():
        ack.segment = 0
    yield
