"""What the journal means: records out of the state of a node, and the state out of the records.

Theory. A record is written when something that was promised changes: a job, its end, a pause, a key. Nothing is
written when a job with a RETRY is delivered, since after a crash it comes back anyway. An at-most-once job is spent
in the journal before it leaves. Replay applies the records in order to a table of jobs without queues and timers;
`Replay.finish` then puts every job where it belongs.

After a crash a job is queued, unless it is to be held until a time that has not come, spent, or expired. After a
clean stop the list at the end of the journal tells of each job that was not simply queued, and everything is as it
was. A job that other nodes hold too is never simply queued: they may have delivered it meanwhile, or know that it is
done, so they are asked first (see `arbitration`).

Of at-most-once jobs that were not delivered, a crash brings back only what the journal is sure of: if its tail could
be lost (power failed under everysec), the record that a job was spent could be lost too, so these jobs are dropped
and counted. No record is written of that: the head that the next process writes shows every later reader that they
were dropped there. But that reader must still find the job, and its UNIQUE key may lie in a newer segment, which is
there for longer. So the next process writes that jobs with keys are deleted.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from disque.core.auth import users
from disque.core.dedup import keys, orphans
from disque.core.jobs import history
from disque.core.journal.checks import ReplayError
from disque.core.journal.codec import unpack
from disque.core.journal.kinds import TABLE, check
from disque.core.journal.recovery import Recovery
from disque.core.journal.schema import CLEAN, DELETE, END, HEAD, Record
from disque.core.model import ack_batch
from disque.core.model.job import (
    ACKED,
    ACTIVE,
    COUNTER_MAX,
    DEFERRED,
    DELIVERED,
    EXTRA,
    LEASE_OWNER,
    LEASE_RELAYED,
    QUEUED,
    SPENT,
    WAIT_REPL,
    Job,
)
from disque.core.model.memory import ACK_BYTES
from disque.core.model.queue import ELSEWHERE
from disque.core.model.spec import SpecCache
from disque.core.replication import acks, ends, moves, returned

if TYPE_CHECKING:
    from disque.core.node import Node

#: Jobs in one record of a clean stop's list.
CLEAN_BATCH: Final = 1000
#: Jobs that one turn of `Replay.finish` looks at.
FINISH_SLICE = 2000  # not Final: tests want less, compiled too


def believed(payload: bytes) -> Iterator[tuple[Any, ...]]:
    """The records of a payload, each as it is checked. What passes here, a start takes: replay refuses nothing more.

    Raises ReplayError.
    """
    for record in unpack(payload)[1:]:
        yield check(record)


def writer_of(payload: bytes) -> bytes:
    """The ID of the node that wrote a segment that begins with this payload; b"" when it does not say."""
    try:
        values = unpack(payload)
        record = check(values[1]) if len(values) > 1 else ()
    except ReplayError:
        return b""
    writer: bytes = record[2] if record and record[0] == HEAD else b""
    return writer


def is_idle(payload: bytes) -> bool:
    """Whether these records say nothing of any job, queue or key."""
    try:
        return all(TABLE[check(record)[0]].is_mark for record in unpack(payload)[1:])
    except ReplayError:
        return False


class Replay(Recovery):
    """Reads a journal into a node that is empty. `apply` each payload in order, then exhaust `finish`."""

    def apply(self, payload: bytes, segment: int) -> None:
        """Take one payload of the segment with this number. Raises ReplayError as `believed` does, for nothing else."""
        values = unpack(payload)
        self.time_ms = max(self.time_ms, values[0])
        for record in values[1:]:
            self.records += 1
            self._apply(check(record), segment)

    def _apply(self, record: tuple[Any, ...], segment: int) -> None:
        number = record[0]
        if number == HEAD:
            self._take(record, segment)
        if self.clean_ended or (self.clean and number not in {CLEAN, END}):
            self.clean.clear()
            self.clean_ended = False
        if number != HEAD:
            self._take(record, segment)

    def _take(self, record: tuple[Any, ...], segment: int) -> None:
        TABLE[record[0]].apply(self, record, segment)

    def ends(self) -> Iterator[Record]:
        """What the process that has read the journal writes first: see above."""
        for job_id in self.freed:
            yield (DELETE, job_id)

    def finish(self, now_ms: int) -> Iterator[int]:
        """Put every job where it belongs. Yields now and then how many are done: the caller can serve others."""
        if not self.clean_ended:
            self.clean.clear()
        sure = self.tail_is_sure(self.boot_id)
        waiting: dict[bytes, list[Job]] = {}
        done = 0
        for ack in self.node.acks.by_id.values():
            acks.arm(self.node, ack, now_ms)
        for shard in self.node.shards:
            for job in list(shard.values()):
                self._place(job, waiting, sure, now_ms)
                done += 1
                if done % FINISH_SLICE == 0:
                    yield done
        if not sure and len(self.node.membership.nodes) > 1:
            self.node.acks.doubted = self.node.last_ctime
        orphans.found(self.node, list(self.pending.values()), is_sure=sure)
        returned.mark(self.node, now_ms - self.time_ms if self.time_ms else 0)
        for name, jobs in waiting.items():
            self._fill(name, jobs, now_ms)
            yield done
        users.reload(self.node)

    def _place(self, job: Job, waiting: dict[bytes, list[Job]], sure: bool, now_ms: int) -> None:
        node = self.node
        if job.state == ACKED:
            self._go_on_telling(job, now_ms)
            return
        moves.resume(node, job, now_ms)
        if not job.flags & DEFERRED:
            job.flags &= ~(LEASE_OWNER | LEASE_RELAYED)
        state = QUEUED if not job.flags & (DEFERRED | SPENT) else ACTIVE
        listed = self.clean.get(job.id)
        if listed is not None:
            state, flags, job.requeue_ms, job.nacks, job.deliveries = listed
            job.flags = flags | job.flags & EXTRA
            if job.flags & LEASE_OWNER and len(job.holders) > 1:
                job.flags = relayed(job.flags)
        if not job.retry and not job.flags & SPENT and not sure and job.expires_ms > now_ms:
            self.drop(job)
        elif job.expires_ms <= now_ms:
            ends.expire(node, job, now_ms)
            keys.expired(node, job)
        elif state == QUEUED or 0 < job.requeue_ms <= now_ms:
            if state != QUEUED and job.flags & DELIVERED and not job.flags & DEFERRED:
                job.deliveries = min(job.deliveries + 1, COUNTER_MAX)
            job.requeue_ms = 0
            job.flags &= ~(DEFERRED | LEASE_OWNER | LEASE_RELAYED)
            if len(job.holders) > 1 and job.retry:
                job.requeue_ms = now_ms
                node.timers.arm(job, now_ms)
            else:
                waiting.setdefault(job.queue, []).append(job)
        else:
            node.timers.arm(job, min(job.requeue_ms or job.expires_ms, job.expires_ms))

    def _go_on_telling(self, job: Job, now_ms: int) -> None:
        """Some holders may not have heard that ``job`` is done."""
        node = self.node
        if job.expires_ms <= now_ms or len(job.holders) == 1:
            node.remove(job)
            return
        node.ends.has_kept = node.ends.has_kept or ends.retains(job)  # its end may have been forgotten
        ack = ack_batch.Ack(job.id, job.holders, node.selves, job.expires_ms)
        node.acks.by_id[job.id] = ack
        node.used += ACK_BYTES
        acks.arm(node, ack, now_ms)

    def _fill(self, name: bytes, jobs: list[Job], now_ms: int) -> None:
        jobs.sort(key=Job.order)
        queue = self.node.queue(name, now_ms)
        if queue.specs is None:
            queue.specs = SpecCache(jobs[0].spec)
        queue.fill(jobs)
        queue.jobs_in = len(jobs)
        for job in jobs:
            job.state = QUEUED
            self.node.timers.arm(job, job.expires_ms)


def relayed(flags: int) -> int:
    """The flags of a job that this node spoke of when it stopped: it may have been handed back elsewhere meanwhile."""
    if flags & (DEFERRED | LEASE_RELAYED) == DEFERRED:
        flags &= ~DELIVERED  # else it would be as if a consumer had it from another node
    return flags & ~LEASE_OWNER | LEASE_RELAYED


def clean_list(node: "Node") -> Iterator[Record]:
    """The records of a clean stop: with them the next start finds everything as it is now.

    But it does not speak for jobs that were handed on: whoever has them knows better by then. What QHISTORY knows comes
    before them, by the outbox.
    """
    history.close(node)
    batch: list[tuple[bytes, int, int, int, int, int]] = []
    for shard in node.shards:
        for job in shard.values():
            plain = job.state == QUEUED and not job.flags & DELIVERED
            if not plain and job.state not in {WAIT_REPL, ACKED}:
                flags = job.flags & ~(EXTRA | LEASE_OWNER) if job.place >= ELSEWHERE else job.flags & ~EXTRA
                batch.append((job.id, job.state, flags, job.requeue_ms, job.nacks, job.deliveries))
        while len(batch) >= CLEAN_BATCH:
            yield (CLEAN, batch[:CLEAN_BATCH])
            batch = batch[CLEAN_BATCH:]
    yield (CLEAN, batch)
    yield (END,)
