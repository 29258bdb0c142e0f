"""A job: what is sent and stored, and beside it what only this node knows.

States: a job is WAIT_REPL until its copies are confirmed; ACTIVE while it is delayed or out with a consumer; QUEUED
while a queue has it; ACKED while other nodes must still hear of its acknowledgement. A cluster of one never needs the
first and the last.
"""

from types import FunctionType
from typing import Final

from mypy_extensions import i16, i32, mypyc_attr, u8

from cluster.messages import STAMP_BITS
from disque.core.base.numbers import SECONDS_MAX
from disque.core.base.timers import Timed
from disque.core.model.spec import JobSpec

WAIT_REPL: Final = 0
ACTIVE: Final = 1
QUEUED: Final = 2
ACKED: Final = 3
STATE_NAMES: Final = (b"wait-repl", b"active", b"queued", b"acked")

#: Flags. DELIVERED: a consumer got it at least once. DEFERRED: not to be queued before `requeue_ms`, not even after a
#: crash (a delay, a NACK with a delay). SPENT: an at-most-once job that left its queue: nothing may queue it again.
#: LEASE_OWNER: it is this node that knows why the job waits until `requeue_ms` (it delivered it, was told WORKING or
#: NACK with a delay, made it with a delay), and tells other holders so. BACKUP: a copy for another node, never queued
#: anywhere as far as this node knows. REQUEUE_ANNOUNCED: this node queued it although another one did before, was given
#: it back, or got it when others had it: over a new link it says so. LEASE_RELAYED: as LEASE_OWNER, but it was a node
#: that stopped who knew it, or this one before it stopped: so it says it to those who ask, and believes those who have
#: queued the job meanwhile. With DELIVERED and DEFERRED as well, a consumer has the job from another node, which has
#: stopped, or it has told this one WORKING. EXTRA: there is more to know of it, see `model.extra`.
DELIVERED: Final = 1
DEFERRED: Final = 2
SPENT: Final = 4
LEASE_OWNER: Final = 8
BACKUP: Final = 16
REQUEUE_ANNOUNCED: Final = 32
LEASE_RELAYED: Final = 64
EXTRA: Final = 128

#: One of them: this node speaks for the job.
SPOKEN: Final = LEASE_OWNER | LEASE_RELAYED
#: A job that a consumer has got here, and what of the flags a job that comes into its queue keeps: named for those who
#: pass by for each job.
OUT_HERE: Final = DELIVERED | LEASE_OWNER
STAYS_IN_QUEUE: Final = ~(DEFERRED | LEASE_OWNER | LEASE_RELAYED | BACKUP)
#: What together tells that a consumer has a job from another node, in whose place this one speaks.
OUT_ELSEWHERE: Final = DELIVERED | DEFERRED | LEASE_RELAYED

#: Where a queue keeps the job: nowhere, in its line, in its line but taken out (a shell), or among those that came
#: back.
OUT: Final = 0
IN_LINE: Final = 1
SHELL: Final = 2
AMONG_RETURNED: Final = 3
#: Of a job that is in no queue: among those that were delivered at most once, or it was there until its end.
SPENT_LINE: Final = 5
SPENT_GONE: Final = 6

#: Counters are 16 bits on other nodes and in old clients: they stop there instead of starting again.
COUNTER_MAX: Final = 65535
#: No job comes later in the order of all jobs. Behind it is room for those that this node makes after a job which came
#: back to it from others: its counter goes on from there, and must not leave what messages and records can say.
CTIME_MOST: Final = (1 << STAMP_BITS) - (1 << 50)

#: Whether this runs compiled: then the functions of classes are none of Python's.
COMPILED: Final = not isinstance(Timed.__init__, FunctionType)
#: Taken off seconds so that they fit into a signed field of 32 bits. Where fields have no width it would make large
#: numbers of small ones, which exist once for all.
MIDDLE: Final = 1 << 31 if COMPILED else 0


@mypyc_attr(acyclic=True)
class Job(Timed):
    """One job.

    Compiled, the fields with widths make it small: 112 bytes, and none for the collector of cycles, since no job leads
    back to itself. A width bounds what may be stored and what is computed from such fields alone: the counters end
    at COUNTER_MAX, far below. Seconds reach up to SECONDS_MAX, so they are kept with MIDDLE taken off, and read as
    numbers without a width, for they are multiplied.

    ``ctime`` is its place in the order of all jobs: creation time in ms * 10^6 + a counter, by the clock of the node
    that made it. ``spec`` says what it has in common with other jobs of its queue, and is one object with theirs.
    ``delay`` is in seconds, ``expires_ms`` and ``requeue_ms`` are node time; ``requeue_ms`` is 0 unless the job waits
    to be queued. ``holders`` are the IDs of the nodes that may have a copy, sorted, this one among them; equal tuples
    are one object. ``segment`` is the part of the journal with its newest record.
    """

    __slots__ = (
        "_delay",
        "body",
        "ctime",
        "deliveries",
        "expires_ms",
        "flags",
        "holders",
        "id",
        "nacks",
        "place",
        "requeue_ms",
        "segment",
        "spec",
        "state",
    )

    def __init__(
        self,
        job_id: bytes,
        spec: JobSpec,
        body: bytes,
        ctime: int,
        expires_ms: int,
        delay: int,
        holders: tuple[bytes, ...],
    ) -> None:
        # Timed.__init__ written out: one call less for each job. The fields lie in memory in this order: narrow ones
        # first, so that no gaps are left between them.
        self.due_ms = 0
        self.slot = -2
        self.nacks: i32 = 0
        self.deliveries: i32 = 0
        self.segment: i32 = 0
        self._delay: i32 = min(delay, SECONDS_MAX) - MIDDLE
        self.flags: i16 = 0
        self.state: u8 = ACTIVE
        self.place: u8 = OUT
        self.id = job_id
        self.spec = spec
        self.body = body
        self.ctime = ctime
        self.expires_ms = expires_ms
        self.holders = holders
        self.requeue_ms = 0

    @property
    def queue(self) -> bytes:
        """The name of its queue."""
        return self.spec.queue

    @property
    def retry(self) -> int:
        """Seconds after a delivery until the job is queued again; 0 for one that is delivered at most once."""
        return self.spec.retry

    @property
    def delay(self) -> int:
        """Seconds for which the job was to be kept out of its queue at first."""
        return int(self._delay) + MIDDLE

    @property
    def ttl(self) -> int:
        """Seconds that the job lives."""
        return self.spec.ttl

    @property
    def repl(self) -> int:
        """How many nodes were to have a copy when it was added."""
        return self.spec.repl

    def become(self, other: "Job") -> None:
        """Be what ``other`` is, a job with this ID that nobody else knows; counters, flags and place are left alone."""
        self._delay = other.delay - MIDDLE
        self.state = other.state
        self.spec = other.spec
        self.body = other.body
        self.ctime = other.ctime
        self.expires_ms = other.expires_ms
        self.holders = other.holders

    def age_ms(self, now_ms: int) -> int:
        """How long ago the job was made; known from its TTL, since the clocks of other nodes mean nothing here."""
        return self.ttl * 1000 - (self.expires_ms - now_ms)

    def order(self) -> tuple[int, bytes]:
        """The key by which queues order jobs."""
        return (self.ctime, self.id)


def is_out_elsewhere(job: Job) -> bool:
    """Whether this node speaks of ``job`` for a consumer that has it from another one."""
    return job.flags & OUT_ELSEWHERE == OUT_ELSEWHERE


def is_in_flight(job: Job) -> bool:
    """Whether ``job``, of which this node speaks, was delivered and not given back."""
    return job.flags & (DELIVERED | DEFERRED) == DELIVERED or is_out_elsewhere(job)
