"""A queue: jobs in the order in which they leave (see `lane`), and the line of sessions that wait for them."""

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from disque.core.model.job import Job
from disque.core.model.lane import Lane, Lanes
from disque.core.model.spec import PRIORITY

if TYPE_CHECKING:
    from disque.core.model.flow import Flow, Want
    from disque.core.model.spec import SpecCache
    from disque.core.model.waiter import Waiter

#: Pause flags.
PAUSED_IN: Final = 1
PAUSED_OUT: Final = 2
PAUSE_NAMES: Final = (b"none", b"in", b"out", b"all")

#: How long a queue that nobody uses is kept, by memory level, in ms.
QUEUE_IDLE_MS: Final = (300_000, 10_000, 2_000)

#: Beside the places that `job` names: from here on, in a queue of another node, to which it was handed on.
ELSEWHERE: Final = 128


def place_at(peer_id: bytes) -> int:
    """The place of a job that was handed on to this node: some bits of its ID tell it from others, mostly."""
    return ELSEWHERE | (peer_id[0] * 7 + peer_id[1]) & 127


class Queue(Lane):
    """One queue. ``header`` is its name as a bulk reply; times are node time in ms."""

    __slots__ = (
        "consumed_ms",
        "created_ms",
        "flow",
        "given",
        "header",
        "jobs_in",
        "jobs_out",
        "low",
        "name",
        "noted",
        "number",
        "paused",
        "ready",
        "sample_ms",
        "segment",
        "specs",
        "used_ms",
        "waiters",
        "wants",
    )

    def __init__(self, name: bytes, now_ms: int) -> None:
        super().__init__()
        self.name = name
        self.header = b"$%d\r\n%b\r\n" % (len(name), name)
        self.created_ms = now_ms
        self.used_ms = now_ms
        self.jobs_in = 0
        self.jobs_out = 0
        #: Of these, jobs that other nodes got.
        self.given = 0
        #: Deliveries to clients when QHISTORY looked last.
        self.noted = 0
        #: When it may be looked at again how long a job waited.
        self.sample_ms = 0
        self.paused = 0
        self.ready = False
        self.segment = 0
        self.number = 0
        #: Who waits, first come first: in a plain dict each look at the first would go over all that have left.
        self.waiters: OrderedDict[Waiter, None] | None = None
        #: Other nodes that want jobs of this queue, what this node asks others for, and the length at which to ask for
        #: more (-1: never): see `supply`.
        self.wants: dict[bytes, Want] | None = None
        self.flow: Flow | None = None
        self.low = -1
        #: What its jobs have in common, from the first one on: see `Node.spec`.
        self.specs: SpecCache | None = None
        #: When a consumer got a job here last.
        self.consumed_ms = 0

    def rises(self, job: Job) -> bool:
        """As in `Lane`."""
        priority = job.spec.number(PRIORITY)
        if not priority:
            return False
        above = self._above
        if above is None:
            above = self._above = Lanes()
        above.lane(priority).push(job)
        return True

    def wait(self, session: "Waiter") -> None:
        """Put ``session`` at the end of the line of those who wait for jobs; a session stands there once."""
        if self.waiters is None:
            self.waiters = OrderedDict()
        self.waiters[session] = None

    def leave(self, session: "Waiter") -> None:
        """Take ``session`` out of the line."""
        if self.waiters is not None:
            self.waiters.pop(session, None)
            if not self.waiters:
                self.waiters = None
