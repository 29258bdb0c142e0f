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

import msgpack

from disque.core.dedup import keys
from disque.core.jobs import queues, sessions
from disque.core.journal.checks import NUMBER_MAX, ReplayError, check
from disque.core.journal.schema import (
    ACK,
    BCAST,
    CLEAN,
    CTIME_A_MS,
    DELETE,
    DUMMY,
    END,
    FLUSH,
    FORMAT,
    HEAD,
    HEAVY,
    HOLDERS,
    JOB,
    JOBS,
    KEY,
    KEYS,
    OFF,
    PARTIAL,
    PAUSE,
    REQUEUE,
    SPEND,
    WHOLE,
    Record,
    weight,
)
from disque.core.model import ack_batch
from disque.core.model.demand import Broadcast
from disque.core.model.job import (
    ACKED,
    ACTIVE,
    DEFERRED,
    DELIVERED,
    LEASE_OWNER,
    LEASE_RELAYED,
    QUEUED,
    SPENT,
    WAIT_REPL,
    Job,
)
from disque.core.model.memory import ACK_BYTES
from disque.core.model.queue import ELSEWHERE
from disque.core.model.spec import JobSpec, SpecCache
from disque.core.replication import acks
from disque.core.replication.announcements import COUNTER_MAX
from disque.core.replication.replica import CTIME_MOST

if TYPE_CHECKING:
    from disque.core.node import Node

#: A flush with more than this many bytes of bodies and names becomes several payloads.
PAYLOAD_BYTES = 1 << 20  # not Final: tests want less, compiled too
#: Bodies from this length on are not copied into such a payload.
PART_BYTES = 1 << 18  # not Final: tests want less, compiled too
#: Jobs in one record of a clean stop's list.
CLEAN_BATCH: Final = 1000
#: A start so much later than the last record, in ms, may be a wrong clock: nothing expires at once.
FAR_AHEAD_MS: Final = 3_600_000
#: Jobs that one turn of `Replay.finish` looks at.
FINISH_SLICE = 2000  # not Final: tests want less, compiled too

#: Records that a journal in which there never was anything may have.
IDLE: Final = frozenset({HEAD, OFF, CLEAN, END, PARTIAL, WHOLE, FLUSH})

_packer: Final = msgpack.Packer(use_bin_type=True, autoreset=True)


class Parts:
    """A payload in pieces: large bodies are pieces of their own, as they are. ``size`` is the length of all."""

    __slots__ = ("pieces", "size")

    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = pieces
        self.size = sum([len(piece) for piece in pieces])


def encode(records: list[Record], now_ms: int) -> list[bytes]:
    """The payloads for these records: each is a list of the node time and some of the records, in order."""
    return [
        payload if isinstance(payload, bytes) else b"".join(payload.pieces) for payload in encode_parts(records, now_ms)
    ]


def encode_parts(records: list[Record], now_ms: int) -> list[bytes | Parts]:
    """What `encode` gives; of large bodies no copy is made, which would stop the node."""
    if sum([weight(record) for record in records if record[0] in HEAVY]) < PAYLOAD_BYTES:
        return [_pack([now_ms, *records])]
    payloads: list[bytes | Parts] = []
    batch: list[Record] = []
    size = 0
    for record in records:
        batch.append(record)
        size += weight(record)
        if size >= PAYLOAD_BYTES:
            payloads.append(_pack_parts(batch, now_ms))
            batch, size = [], 0
    if batch:
        payloads.append(_pack([now_ms, *batch]))
    return payloads


def _pack_parts(records: list[Record], now_ms: int) -> bytes | Parts:
    """One payload, in parts if there is a large body in it. Only JOBS has bodies, in a list of their own."""
    pieces: list[bytes] = []
    small: list[bytes] = [_array_head(1 + len(records)), _packer.pack(now_ms)]
    for record in records:
        bodies = record[-2] if record[0] == JOBS else None
        if not isinstance(bodies, (list, tuple)) or max(map(len, bodies)) < PART_BYTES:
            small.append(_packer.pack(record))
            continue
        small.append(_array_head(len(record)))
        small += [_packer.pack(value) for value in record[:-2]]
        small.append(_array_head(len(bodies)))
        for body in bodies:
            if len(body) < PART_BYTES:
                small.append(_packer.pack(body))
            else:
                small.append(b"\xc6" + len(body).to_bytes(4, "big"))
                pieces += (b"".join(small), body)
                small.clear()
        small.append(_packer.pack(record[-1]))
    if small:
        pieces.append(b"".join(small))
    return Parts(pieces) if len(pieces) > 1 else pieces[0]


def _array_head(length: int) -> bytes:
    """How a list of so many values begins."""
    return b"\xdd" + length.to_bytes(4, "big") if length > 15 else bytes((0x90 | length,))


def _pack(values: list[object]) -> bytes:
    packed: bytes = _packer.pack(values)
    return packed


def head(node: "Node", boot_id: str, policy: str, now_ms: int) -> bytes:
    """The payload that opens a segment."""
    return _pack([now_ms, (HEAD, FORMAT, node.node_id, boot_id.encode(), policy.encode())])


def unpack(payload: bytes) -> list[Any]:
    """The node time and the records of a payload. Raises ReplayError for anything that `encode` does not make."""
    try:
        values = msgpack.unpackb(payload, use_list=False, raw=False, strict_map_key=True)
    except (ValueError, msgpack.exceptions.UnpackException) as wrong:
        raise ReplayError(f"not a list of records: {wrong}") from wrong
    if type(values) is not tuple or not values or type(values[0]) is not int or not 0 <= values[0] < NUMBER_MAX:
        raise ReplayError("not a list of records")
    return list(values)


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


def was_switched_off(payload: bytes) -> bool:
    """Whether a journal that ends with these records was switched off, by a node: a repair has no time to write."""
    try:
        values = unpack(payload)
    except ReplayError:
        return False
    return bool(values[0]) and bool(values[-1] == (OFF,))


def is_idle(payload: bytes) -> bool:
    """Whether these records say nothing of any job, queue or key."""
    try:
        return all(check(record)[0] in IDLE for record in unpack(payload)[1:])
    except ReplayError:
        return False


class Replay:
    """Reads a journal into a node that is empty. `apply` each payload in order, then exhaust `finish`."""

    __slots__ = (
        "boot_id",
        "clean",
        "clean_ended",
        "dropped",
        "freed",
        "incomplete",
        "journal_boot_id",
        "journal_policy",
        "names",
        "node",
        "records",
        "time_ms",
        "usual",
    )

    def __init__(self, node: "Node", boot_id: str) -> None:
        self.node = node
        self.boot_id = boot_id.encode()
        self.journal_boot_id = b""
        self.journal_policy = b""
        #: By ID what the list of a clean stop says, and whether its end was the last thing read.
        self.clean: dict[bytes, tuple[int, int, int, int, int]] = {}
        self.clean_ended = False
        #: At-most-once jobs that were dropped, since they may have been delivered.
        self.dropped = 0
        #: Those of them that had UNIQUE keys, by ID.
        self.freed: list[bytes] = []
        #: The process ended while what it had in memory was still being copied: that is not all here.
        self.incomplete = False
        self.records = 0
        self.time_ms = 0
        self.names: dict[bytes, bytes] = {}
        #: What the jobs of each queue have in common: no queue is there yet, and the node remembers some only.
        self.usual: dict[bytes, SpecCache] = {}

    def apply(self, payload: bytes, segment: int) -> None:
        """Take one payload of the segment with this number. Raises ReplayError as `believed` does, for nothing else."""
        values = unpack(payload)
        self.time_ms = max(self.time_ms, values[0])
        for record in values[1:]:
            self.records += 1
            self._apply(check(record), segment)

    def _apply(self, record: tuple[Any, ...], segment: int) -> None:
        kind = record[0]
        if kind == HEAD:
            self._head(record)
        if self.clean_ended or (self.clean and kind not in {CLEAN, END}):
            self.clean.clear()
            self.clean_ended = False
        if kind == JOBS:
            self._jobs(record, segment)
        elif kind == ACK:
            self._ack(record[1])
        elif kind == DELETE:
            job = self.node.find(record[1])
            if job is not None:
                self.node.remove(job)
            else:
                self.node.drop_ack(record[1])
                self.node.free_key(record[1])
        elif kind == SPEND:
            job = self.node.find(record[1])
            if job is not None:
                self._spend(job)
        elif kind != HEAD:
            APPLY[kind](self, record, segment)

    def _ack(self, job_id: bytes) -> None:
        """A job is done; when others hold it too, `finish` sees to it that they hear of that."""
        job = self.node.find(job_id)
        if job is None:
            self.node.free_key(job_id)  # the segment with the job may be gone before the one with its key
            return
        if len(job.holders) == 1:
            self.node.remove(job)
        elif job.state != ACKED:
            self.node.let_go(job)
            job.state = ACKED

    def _holders(self, holders: tuple[bytes, ...]) -> tuple[bytes, ...]:
        """Those of the nodes that are still of the cluster, and this one."""
        node = self.node
        known = [holder for holder in holders if holder in node.membership.nodes]
        return (
            node.shared(tuple(known)) if node.node_id in known else node.shared(tuple(sorted([*known, node.node_id])))
        )

    def holders(self, record: tuple[Any, ...], segment: int) -> None:
        """Other nodes have copies, too."""
        del segment
        job = self.node.find(record[1])
        if job is not None:
            job.holders = self._holders(record[2])

    def dummy(self, record: tuple[Any, ...], segment: int) -> None:
        """An acknowledgement of a job that is not known here."""
        _, job_id, expires_ms = record
        node = self.node
        job = node.find(job_id)
        if job is not None and job.state != ACKED:
            keys.part(node, job)  # it had ended by its TTL, which is written nowhere; its key may be another one's
        if job_id not in node.acking and node.find(job_id) is None:
            acks.restore_dummy(node, job_id, expires_ms)
        if job_id in node.dummies:
            acks.lies_in(node, node.acking[job_id], segment)

    def _spend(self, job: Job) -> None:
        if job.retry:
            return  # this record is of another one, which had the same ID: no node that tells the truth made both
        job.flags = job.flags & ~DEFERRED | SPENT | DELIVERED
        job.requeue_ms = 0
        self.node.evictable.add(job)

    def _terms(self, queue: bytes, ttl: int, retry: int, repl: int) -> JobSpec:
        """The one object for what jobs of this queue with these numbers have in common."""
        usual = self.usual.get(queue)
        if usual is not None:
            return usual.terms(ttl, retry, repl)
        terms = JobSpec(self.names.setdefault(queue, queue), ttl, retry, repl)
        self.usual[queue] = SpecCache(terms)
        return terms

    def _jobs(self, record: tuple[Any, ...], segment: int) -> None:
        node = self.node
        _, queue, state, flags, repl, left_ms, delay, retry, nacks, deliveries, held_ms, ttl, holders = record[:13]
        terms = self._terms(queue, ttl, retry, repl)
        holders = self._holders(holders)
        for job_id, body, ctime in zip(*record[13:], strict=True):
            expires_ms = ctime // CTIME_A_MS + left_ms
            job = node.find(job_id)
            if job is None:
                job = Job(job_id, terms, body, ctime, expires_ms, delay, holders)
                node.drop_ack(job_id)
                node.register(job)
                if state == ACKED:
                    job.state = ACKED
                    node.free_key(job_id)
            else:
                if job.segment:
                    node.live[job.segment] -= 1
                if state != ACKED:  # what ended by its TTL is written nowhere: this one may have come again since
                    node.used += len(body) - len(job.body)
                    job.become(Job(job_id, terms, body, ctime, expires_ms, delay, holders))
            job.flags = flags
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

    def job(self, record: tuple[Any, ...], segment: int) -> None:
        """One job, as the first format had it."""
        _, job_id, queue, body, state, flags, repl, ctime, expires_ms, *rest, ttl, holders = record
        left_ms = expires_ms - ctime // CTIME_A_MS
        shared = (JOBS, queue, state, flags, repl, left_ms, *rest, ttl, holders)
        self._jobs((*shared, (job_id,), (body,), (ctime,)), segment)

    def requeue(self, record: tuple[Any, ...], segment: int) -> None:
        """NACK or ENQUEUE."""
        del segment
        _, job_id, nacks, deliveries, held_ms = record
        job = self.node.find(job_id)
        if job is not None and not job.flags & SPENT and job.state != ACKED:
            job.nacks, job.deliveries, job.requeue_ms = nacks, deliveries, held_ms
            job.flags = job.flags | DEFERRED | LEASE_RELAYED if held_ms else job.flags & ~(DEFERRED | LEASE_RELAYED)

    def pause(self, record: tuple[Any, ...], segment: int) -> None:
        """PAUSE."""
        _, name, flags = record
        node = self.node
        queue = node.queue(self.names.setdefault(name, name), self.time_ms)
        if queue.segment:
            node.live[queue.segment] -= 1
        queue.paused = flags
        queue.segment = segment if flags else 0
        if flags:
            node.live[segment] = node.live.get(segment, 0) + 1

    def broadcast(self, record: tuple[Any, ...], segment: int) -> None:
        """PAUSE for all nodes. How the queue stands here is told by PAUSE."""
        _, name, flags, counter, origin = record
        queues.restore(self.node, Broadcast(self.names.setdefault(name, name), flags, counter, origin), segment)

    def key(self, record: tuple[Any, ...], segment: int) -> None:
        """One UNIQUE key; a later record of the same key replaces an earlier one."""
        _, digest, job_id, expires_ms, life_ms, repl = record
        keys.restore(self.node, digest, job_id, expires_ms, life_ms, repl, segment)

    def row_of_keys(self, record: tuple[Any, ...], segment: int) -> None:
        """UNIQUE keys that have much in common."""
        _, expires_ms, life_ms, repl, digests, ids = record
        for digest, job_id in zip(digests, ids, strict=True):
            keys.restore(self.node, digest, job_id, expires_ms, life_ms, repl, segment)

    def flush(self, record: tuple[Any, ...], segment: int) -> None:
        """Everything before is gone."""
        del record, segment
        queues.forget_broadcasts(self.node)
        sessions.forget_everything(self.node)

    def clean_jobs(self, record: tuple[Any, ...], segment: int) -> None:
        """Part of the list of a clean stop."""
        del segment
        for job_id, state, flags, requeue_ms, nacks, deliveries in record[1]:
            self.clean[job_id] = (state, flags, requeue_ms, nacks, deliveries)

    def end(self, record: tuple[Any, ...], segment: int) -> None:
        """The list of a clean stop is complete, if nothing follows."""
        del record, segment
        self.clean_ended = True

    def _head(self, record: tuple[Any, ...]) -> None:
        """A segment begins. With another boot ID it was a new process, which dropped what it could not be sure of."""
        _, _, _, boot_id, policy = record
        if boot_id != self.journal_boot_id and not self.tail_is_sure(boot_id):
            self._drop_unsure()
        self.journal_boot_id, self.journal_policy = boot_id, policy
        self.dropped = 0  # the process that wrote this has told of them

    def off(self, record: tuple[Any, ...], segment: int) -> None:
        """The journal was switched off: whatever was not delivered yet may have been delivered since."""
        del record, segment
        self._drop_unsure()

    def partial(self, record: tuple[Any, ...], segment: int) -> None:
        """The journal was switched on: copies of what was in memory follow, up to WHOLE."""
        del segment
        self.incomplete = record[0] == PARTIAL

    def tail_is_sure(self, boot_id: bytes) -> bool:
        """Whether a process that starts under ``boot_id`` knows that a job that is not spent was not delivered.

        It does when nothing that was written before can have been lost.
        """
        same_boot = bool(boot_id) and boot_id == self.journal_boot_id
        return self.clean_ended or same_boot or self.journal_policy == b"always"

    def _drop_unsure(self) -> None:
        """Forget the at-most-once jobs that are not spent."""
        for shard in self.node.shards:
            for job in [
                job for job in shard.values() if not job.retry and not job.flags & SPENT and job.state != ACKED
            ]:
                self._drop(job)

    def _drop(self, job: Job) -> None:
        """Forget an at-most-once job that may have been delivered."""
        self.dropped += 1
        if job.id in self.node.keyed:
            self.freed.append(job.id)
        self.node.remove(job)

    def ends(self) -> Iterator[Record]:
        """What the process that has read the journal writes first: see above."""
        for job_id in self.freed:
            yield (DELETE, job_id)

    def finish(self, now_ms: int, grace_ms: int = 0) -> Iterator[int]:
        """Put every job where it belongs.

        Yields now and then how many are done, so that the caller can serve others. When the clock is far ahead of the
        journal it may be wrong: then jobs that seem to have expired are kept for ``grace_ms``, out of their queues.
        """
        if now_ms - self.time_ms <= FAR_AHEAD_MS:
            grace_ms = 0
        if not self.clean_ended:
            self.clean.clear()
        sure = self.tail_is_sure(self.boot_id)
        waiting: dict[bytes, list[Job]] = {}
        done = 0
        for ack in self.node.acking.values():
            acks.arm(self.node, ack, now_ms)
        for shard in self.node.shards:
            for job in list(shard.values()):
                self._place(job, waiting, sure, now_ms, grace_ms)
                done += 1
                if done % FINISH_SLICE == 0:
                    yield done
        for name, jobs in waiting.items():
            self._fill(name, jobs, now_ms)
            yield done

    def _place(self, job: Job, waiting: dict[bytes, list[Job]], sure: bool, now_ms: int, grace_ms: int) -> None:
        node = self.node
        if job.state == ACKED:
            self._go_on_telling(job, now_ms)
            return
        if not job.flags & DEFERRED:
            job.flags &= ~(LEASE_OWNER | LEASE_RELAYED)
        state = QUEUED if not job.flags & (DEFERRED | SPENT) else ACTIVE
        listed = self.clean.get(job.id)
        if listed is not None:
            state, job.flags, job.requeue_ms, job.nacks, job.deliveries = listed
            if job.flags & LEASE_OWNER and len(job.holders) > 1:  # it may have been handed back elsewhere meanwhile
                job.flags = job.flags & ~LEASE_OWNER | LEASE_RELAYED
        if not job.retry and not job.flags & SPENT and not sure and job.expires_ms > now_ms:
            self._drop(job)
        elif job.expires_ms <= now_ms:
            self._expired(job, now_ms, grace_ms)
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
        ack = ack_batch.Ack(job.id, job.holders, node.selves, job.expires_ms)
        node.acking[job.id] = ack
        node.used += ACK_BYTES
        acks.arm(node, ack, now_ms)

    def _expired(self, job: Job, now_ms: int, grace_ms: int) -> None:
        if grace_ms:
            job.requeue_ms = 0
            self.node.timers.arm(job, now_ms + grace_ms)
        else:
            keys.expired(self.node, job)

    def _fill(self, name: bytes, jobs: list[Job], now_ms: int) -> None:
        jobs.sort(key=Job.order)
        queue = self.node.queue(name, now_ms)
        queue.fill(jobs)
        queue.jobs_in = len(jobs)
        for job in jobs:
            job.state = QUEUED
            self.node.timers.arm(job, job.expires_ms)


APPLY: Final = {
    JOB: Replay.job,
    REQUEUE: Replay.requeue,
    PAUSE: Replay.pause,
    BCAST: Replay.broadcast,
    KEY: Replay.key,
    KEYS: Replay.row_of_keys,
    FLUSH: Replay.flush,
    HOLDERS: Replay.holders,
    DUMMY: Replay.dummy,
    OFF: Replay.off,
    PARTIAL: Replay.partial,
    WHOLE: Replay.partial,
    CLEAN: Replay.clean_jobs,
    END: Replay.end,
}


def clean_list(node: "Node") -> Iterator[Record]:
    """The records of a clean stop: with them the next start finds everything as it is now.

    But it does not speak for jobs that were handed on: whoever has them knows better by then.
    """
    batch: list[tuple[bytes, int, int, int, int, int]] = []
    for shard in node.shards:
        for job in shard.values():
            plain = job.state == QUEUED and not job.flags & DELIVERED
            if not plain and job.state not in {WAIT_REPL, ACKED}:
                flags = job.flags & ~LEASE_OWNER if job.place == ELSEWHERE else job.flags
                batch.append((job.id, job.state, flags, job.requeue_ms, job.nacks, job.deliveries))
        while len(batch) >= CLEAN_BATCH:
            yield (CLEAN, batch[:CLEAN_BATCH])
            batch = batch[CLEAN_BATCH:]
    yield (CLEAN, batch)
    yield (END,)
