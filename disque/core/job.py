"""A job: what is sent and stored, and beside it what only this node knows.

States: a job is WAIT_REPL until its copies are confirmed; ACTIVE while it is delayed or out with a consumer; QUEUED
while a queue has it; ACKED while other nodes must still hear of its acknowledgement. A cluster of one never needs the
first and the last.
"""

from typing import Final

from disque.core.timers import Timed

WAIT_REPL: Final = 0
ACTIVE: Final = 1
QUEUED: Final = 2
ACKED: Final = 3
STATE_NAMES: Final = (b"wait-repl", b"active", b"queued", b"acked")

#: Flags. DELIVERED: a consumer got it at least once. HELD: not to be queued before `requeue_ms`, not even after a
#: crash (a delay, a NACK with a delay). SPENT: an at-most-once job that left its queue: nothing may queue it again.
#: KEPT: it is this node that knows why the job waits until `requeue_ms` (it delivered it, was told WORKING or NACK with
#: a delay, made it with a delay), and tells other holders so. BACKUP: a copy for another node, never queued anywhere
#: as far as this node knows. TAKEN: this node queued it although another one did before: over a new link it says so.
DELIVERED: Final = 1
HELD: Final = 2
SPENT: Final = 4
KEPT: Final = 8
BACKUP: Final = 16
TAKEN: Final = 32

#: Where a queue keeps the job: nowhere, in its line, in its line but taken out (a shell), or among those that came
#: back.
OUT: Final = 0
IN_LINE: Final = 1
SHELL: Final = 2
AMONG_RETURNED: Final = 3


class Job(Timed):
    """One job.

    ``ctime`` is its place in the order of all jobs: creation time in ms * 10^6 + a counter, by the clock of the node
    that made it. ``ttl``, ``retry`` and ``delay`` are seconds, ``expires_ms`` and ``requeue_ms`` node time;
    ``requeue_ms`` is 0 unless the job waits to be queued. ``holders`` are the IDs of the nodes that may have a copy,
    sorted, this one among them; equal tuples are one object. ``segment`` is the part of
    the journal with its newest record.
    """

    __slots__ = (
        "body",
        "ctime",
        "delay",
        "deliveries",
        "expires_ms",
        "flags",
        "holders",
        "id",
        "nacks",
        "place",
        "queue",
        "repl",
        "requeue_ms",
        "retry",
        "segment",
        "state",
        "ttl",
    )

    def __init__(
        self,
        job_id: bytes,
        queue: bytes,
        body: bytes,
        ctime: int,
        expires_ms: int,
        retry: int,
        delay: int,
        repl: int,
        holders: tuple[bytes, ...],
        ttl: int,
    ) -> None:
        # Timed.__init__ written out: one call less for each job.
        self.due_ms = 0
        self.slot = -2
        self.id = job_id
        self.queue = queue
        self.body = body
        self.ctime = ctime
        self.expires_ms = expires_ms
        self.retry = retry
        self.delay = delay
        self.repl = repl
        self.holders = holders
        self.ttl = ttl
        self.state = ACTIVE
        self.flags = 0
        self.nacks = 0
        self.deliveries = 0
        self.requeue_ms = 0
        self.place = OUT
        self.segment = 0

    def age_ms(self, now_ms: int) -> int:
        """How long ago the job was made; known from its TTL, since the clocks of other nodes mean nothing here."""
        return self.ttl * 1000 - (self.expires_ms - now_ms)

    def order(self) -> tuple[int, bytes]:
        """The key by which queues order jobs."""
        return (self.ctime, self.id)
