"""The kinds of journal records, and what stands behind each kind.

A record is a tuple of its kind and plain values, encoded when the flush takes it. Times are node time in ms.

======= ============================================================================================
HEAD    first of each segment: format, node ID, boot ID of the kernel, fsync policy, node time, reason
JOB     a whole job: id, queue, body, state, flags, repl, ctime, expires, delay, retry, nacks, deliveries,
        not to be queued before (0: no such time), ttl, holders; a later one replaces an earlier one
ACK     id: acknowledged; with other holders the job stays known until they have heard of it
DELETE  id: deleted by FASTACK or DELJOB, evicted, given up, or acknowledged everywhere
HOLDERS id, holders: which nodes may have a copy
DUMMY   id, until when: an acknowledgement of a job that is not known here
SPEND   id: an at-most-once job left its queue and must never be queued again
REQUEUE id, nacks, deliveries, not to be queued before (0: queued): NACK or ENQUEUE
PAUSE   queue, flags: how it stands on this node
BCAST   queue, flags, counter, node: the newest PAUSE for all nodes, and where it began
KEY     digest of queue and key, id, end of the window (0: as long as the job), end of the job's life then,
        nodes that keep it
FLUSH   everything before it is gone
OFF     the journal was switched off here: what came later is unknown
CLEAN   at a clean stop, in as many records as it takes: (id, state, flags, requeue time, nacks, deliveries) of
        every job that its JOB record alone would not bring back as it was
END     closes the list of a clean stop; the list counts only if this is the last record of the journal
PARTIAL the journal was switched on, and copies of what was in memory follow; WHOLE says that all are there
======= ============================================================================================
"""

from typing import TYPE_CHECKING, Final

from disque.core.job import HELD

if TYPE_CHECKING:
    from disque.core.job import Job

HEAD: Final = 1
JOB: Final = 2
ACK: Final = 3
DELETE: Final = 4
SPEND: Final = 5
REQUEUE: Final = 6
PAUSE: Final = 7
KEY: Final = 8
FLUSH: Final = 9
OFF: Final = 10
CLEAN: Final = 11
END: Final = 12
PARTIAL: Final = 13
WHOLE: Final = 14
HOLDERS: Final = 15
DUMMY: Final = 16
BCAST: Final = 17

#: Version of the records, in each HEAD.
FORMAT: Final = 1

#: The kinds of records that hold a body or the name of a queue, which may be large.
HEAVY: Final = frozenset({JOB, PAUSE, BCAST})

Record = tuple[object, ...]


def job_record(job: "Job") -> Record:
    """JOB, as the job is now."""
    return (
        JOB,
        job.id,
        job.queue,
        job.body,
        job.state,
        job.flags,
        job.repl,
        job.ctime,
        job.expires_ms,
        job.delay,
        job.retry,
        job.nacks,
        job.deliveries,
        job.requeue_ms if job.flags & HELD else 0,
        job.ttl,
        job.holders,
    )


def weight(record: Record) -> int:
    """Bytes of the body and the names in ``record``."""
    kind = record[0]
    name = record[2] if kind == JOB else record[1] if kind in HEAVY else b""
    body = record[3] if kind == JOB else b""
    assert isinstance(name, bytes)
    assert isinstance(body, bytes)
    return len(name) + len(body)
