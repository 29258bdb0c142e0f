"""The kinds of journal records, and what stands behind each kind.

A record is a tuple of its kind and plain values, encoded when the flush takes it. Times are node time in ms.

======= ============================================================================================
HEAD    first of each segment: format, node ID, boot ID of the kernel, fsync policy, node time, reason
JOBS    whole jobs that differ in ID, body and ctime only: queue, their spec (see `model.spec`), state, flags,
        how long after their creation they expire, delay, nacks, deliveries, not to be queued before (0: no such
        time), holders; ids, bodies, ctimes. A later record of a job replaces an earlier one
ACK     id: acknowledged; with other holders the job stays known until they have heard of it
DELETE  id: deleted by FASTACK or DELJOB, evicted, given up, or acknowledged everywhere
HOLDERS id, holders: which nodes may have a copy
DUMMY   id, until when: an acknowledgement of a job that is not known here
SPEND   id: an at-most-once job left its queue and must never be queued again
REQUEUE id, nacks, deliveries, not to be queued before (0: queued): NACK or ENQUEUE
PAUSE   queue, flags: how it stands on this node
ENTRY   an entry of the registry: name, field, value, kind, counter, node where it was set, flags: 1 it is deleted,
        2 its kind was not known, so it has not taken effect
PURGED  counter: deletions of entries up to it may have been forgotten
MORE    id, extra (see `model.extra`): what is to be known of a job beyond its fields; it stands before its job
MOVE    id, queue, spec, end of life, not to be queued before (0: queued), extra: the job is in another queue for good
HISTORY queue, whether it is all (0 or 1), hours, days: what happened to its jobs, as rows of `model.history`
ENDED   how a job ended, for as long as that is kept: id, queue, status, node that took it, tries, whether the job is
        not known here (0 or 1), when, until when; result, last error, body
UNEND   id: how it ended is forgotten
KEPTBY  id, how many nodes are to keep how it ended, whether this node has it from one that knew the job (0 or 1), which
        nodes may keep it. It stands behind ENDED; without it, there is this node only
RETURNED whether jobs are in doubt, since this node was away for long (0 or 1)
KEYS    UNIQUE keys that differ in digest and job only: end of the window (0: as long as the job), end of the job's
        life then (with a window: 1 if nobody was told the ID yet, else 0), nodes that keep it; digests of queue and
        key, ids
FLUSH   everything before it is gone
OFF     the journal was switched off here: what came later is unknown
CLEAN   at a clean stop, in as many records as it takes: (id, state, flags, requeue time, nacks, deliveries) of
        every job that its JOB record alone would not bring back as it was
END     closes the list of a clean stop; the list counts only if this is the last record of the journal
PARTIAL the journal was switched on, and copies of what was in memory follow; WHOLE says that all are there
======= ============================================================================================
"""

from typing import TYPE_CHECKING, Final

from disque.core.model.job import DEFERRED, EXTRA

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disque.core.model.job import Job

HEAD: Final = 1
ACK: Final = 3
DELETE: Final = 4
SPEND: Final = 5
REQUEUE: Final = 6
PAUSE: Final = 7
FLUSH: Final = 9
OFF: Final = 10
CLEAN: Final = 11
END: Final = 12
PARTIAL: Final = 13
WHOLE: Final = 14
HOLDERS: Final = 15
DUMMY: Final = 16
ENTRY: Final = 17
PURGED: Final = 20
JOBS: Final = 18
KEYS: Final = 19
MORE: Final = 21
MOVE: Final = 22
HISTORY: Final = 23
ENDED: Final = 24
UNEND: Final = 25
KEPTBY: Final = 26
RETURNED: Final = 28

#: Version of the records, in each HEAD. Those before were never released, and are not read any more.
FORMAT: Final = 3

#: The kinds of records with texts that may be large, bodies apart, and where these stand.
HEAVY: Final[dict[int, tuple[int, ...]]] = {
    JOBS: (1,),
    PAUSE: (1,),
    ENTRY: (1, 3),
    MORE: (2,),
    MOVE: (2, 6),
    HISTORY: (1, 3, 4),
    ENDED: (2, 9, 10, 11),
}
#: Jobs or keys in one record, and bytes of their bodies that are enough for one.
JOBS_MOST: Final = 1000
JOBS_BYTES: Final = 1 << 20
#: What ctime counts in a millisecond.
CTIME_A_MS: Final = 1_000_000

Record = tuple[object, ...]


#: Where the values of JOBS stand.
JOBS_QUEUE: Final = 1
JOBS_SPEC: Final = 2
JOBS_STATE: Final = 3
JOBS_FLAGS: Final = 4
JOBS_LEFT_MS: Final = 5
JOBS_DELAY: Final = 6
JOBS_NACKS: Final = 7
JOBS_DELIVERIES: Final = 8
JOBS_HELD_MS: Final = 9
JOBS_HOLDERS: Final = 10
JOBS_IDS: Final = 11
JOBS_BODIES: Final = 12
JOBS_CTIMES: Final = 13


def jobs_record(
    queue: bytes,
    spec: bytes,
    *,
    state: int,
    flags: int,
    left_ms: int,
    delay: int,
    nacks: int,
    deliveries: int,
    held_ms: int,
    holders: tuple[bytes, ...],
    ids: "Sequence[bytes]",
    bodies: "Sequence[bytes]",
    ctimes: "Sequence[int]",
) -> Record:
    """JOBS. The only place, beside the constants above and the shape in `kinds`, that knows the order."""
    return (
        JOBS,
        queue,
        spec,
        state,
        flags,
        left_ms,
        delay,
        nacks,
        deliveries,
        held_ms,
        holders,
        ids,
        bodies,
        ctimes,
    )


class Filed:
    """JOBS, as long as it is the last record of its turn: jobs like the first one go with it.

    A turn of pipelined ADDJOBs, and the copies that a compaction makes, are mostly of one kind. What they share is
    written once: a third of the bytes and half of the work are saved.
    """

    __slots__ = ("_bodies", "_ctimes", "_delay", "_deliveries", "_flags", "_held_ms", "_holders", "_ids", "_left_ms",
                 "_nacks", "_size", "_spec", "_state", "record")  # fmt: skip

    def __init__(self, job: "Job") -> None:
        """Begin with this job, which is yet to be added."""
        spec = self._spec = job.spec
        self._state = int(job.state)
        self._flags = int(job.flags) & ~EXTRA  # so no other job goes with one that has an extra
        self._left_ms = job.expires_ms - job.ctime // CTIME_A_MS
        self._delay = job.delay
        self._nacks = int(job.nacks)
        self._deliveries = int(job.deliveries)
        self._held_ms = job.requeue_ms if job.flags & DEFERRED else 0
        self._holders = job.holders
        self._ids: list[bytes] = []
        self._bodies: list[bytes] = []
        self._ctimes: list[int] = []
        self._size = 0
        self.record = jobs_record(
            spec.queue,
            spec.encoded,
            state=self._state,
            flags=self._flags,
            left_ms=self._left_ms,
            delay=self._delay,
            nacks=self._nacks,
            deliveries=self._deliveries,
            held_ms=self._held_ms,
            holders=self._holders,
            ids=self._ids,
            bodies=self._bodies,
            ctimes=self._ctimes,
        )

    def takes(self, job: "Job") -> bool:
        """Whether ``job`` can go with it."""
        return (
            self._spec is job.spec
            and self._holders is job.holders
            and self._left_ms == job.expires_ms - job.ctime // CTIME_A_MS
            and self._held_ms == (job.requeue_ms if job.flags & DEFERRED else 0)
            and self._state == job.state
            and self._flags == job.flags
            and self._delay == job.delay
            and self._nacks == job.nacks
            and self._deliveries == job.deliveries
            and self._size < JOBS_BYTES
            and len(self._ids) < JOBS_MOST
        )

    def add(self, job: "Job") -> None:
        """Let ``job`` go with it."""
        body = job.body
        self._ids.append(job.id)
        self._bodies.append(body)
        self._ctimes.append(job.ctime)
        self._size += len(body)


class FiledKeys:
    """KEYS, as long as nothing but jobs comes between: keys like the first one go with it."""

    __slots__ = ("_digests", "_expires_ms", "_ids", "_life_ms", "_repl", "record")

    def __init__(self, expires_ms: int, life_ms: int, repl: int) -> None:
        self._expires_ms = expires_ms
        self._life_ms = life_ms
        self._repl = repl
        self._digests: list[bytes] = []
        self._ids: list[bytes] = []
        self.record: Record = (KEYS, expires_ms, life_ms, repl, self._digests, self._ids)

    def takes(self, expires_ms: int, life_ms: int, repl: int) -> bool:
        """Whether such a key can go with it."""
        return (
            self._expires_ms == expires_ms
            and self._life_ms == life_ms
            and self._repl == repl
            and len(self._ids) < JOBS_MOST
        )

    def add(self, digest: bytes, job_id: bytes) -> None:
        """Let a key go with it."""
        self._digests.append(digest)
        self._ids.append(job_id)


def weight(record: Record) -> int:
    """Bytes of the bodies and other long texts in ``record``."""
    kind = record[0]
    assert isinstance(kind, int)
    size = 0
    for at in HEAVY.get(kind, ()):
        text = record[at]
        assert isinstance(text, bytes)
        size += len(text)
    if kind != JOBS:
        return size
    bodies = record[JOBS_BODIES]
    assert isinstance(bodies, (list, tuple))
    return size + sum(map(len, bodies))
