"""Jobs of which copies are still wanted."""

from typing import TYPE_CHECKING, Final

from disque.core.model.job import Job
from disque.core.model.memory import SPREAD_BYTES
from disque.core.model.part import Part
from disque.core.model.peers import Peer

if TYPE_CHECKING:
    from disque.core.model.session import Spread


#: Jobs, and bytes of their bodies, that go in one REPLJOB: the other side takes it apart in one go.
WAVE_MOST: Final = 64
WAVE_BYTES: Final = 64 * 1024


class ReplicationBatch:
    """Jobs that the same nodes are asked for, one after another in one turn, and that differ in little: one REPLJOB.

    ``own`` are the holders of such a job before, ``linked`` the nodes that there were, as the lists that they are: when
    one of them is another object, something has changed.
    """

    __slots__ = ("asked", "bodies", "ctimes", "delay", "delay_ms", "due_ms", "holders", "ids", "left_ms", "linked",
                 "own", "peers", "size", "spec", "wanted")  # fmt: skip

    def __init__(
        self,
        job: Job,
        linked: list[Peer],
        wanted: int,
        left_ms: int,
        peers: list[Peer],
        holders: tuple[bytes, ...],
        now_ms: int,
    ) -> None:
        self.own = job.holders
        self.linked = linked
        self.wanted = wanted
        self.peers = peers
        self.asked = tuple([peer.id for peer in peers])
        self.holders = holders
        self.spec = job.spec
        self.left_ms = left_ms
        self.delay = job.delay
        #: For a job that has a date: when that is.
        self.due_ms = job.requeue_ms
        self.delay_ms = max(0, job.requeue_ms - now_ms) if job.requeue_ms else job.delay * 1000
        self.ids: list[bytes] = []
        self.bodies: list[bytes] = []
        self.ctimes: list[int] = []
        self.size = 0

    def takes(self, linked: list[Peer], job: Job, wanted: int, left_ms: int) -> bool:
        """Whether ``job`` can go with it."""
        return (
            self.own is job.holders
            and self.linked is linked
            and self.wanted == wanted
            and self.spec.equals(job.spec)
            and self.left_ms == left_ms
            and self.delay == job.delay
            and (not self.delay or self.due_ms == job.requeue_ms)
            and len(self.ids) < WAVE_MOST
            and self.size < WAVE_BYTES
        )


class Copies(Part):
    """Those of a node, by ID. See `coordinator`.

    ``short`` are those of them for which no further node was there to be asked. ``expected`` are the nodes that may get
    these copies, as of the last look, ``walk`` is the number of the walk through all of them, 0 when there is none.
    ``inbound`` says how many jobs will be queued here, by queue, as soon as they have their copies: they count for
    MAXLEN. ``batch`` are those of this turn of which the same nodes are asked for copies, ``peers`` all other nodes.
    """

    __slots__ = ("batch", "expected", "inbound", "peers", "short", "walk", "wanted")

    def __init__(self, peers: dict[bytes, Peer]) -> None:
        self.peers = peers
        self.wanted: dict[bytes, Spread] = {}
        self.short: dict[bytes, Spread] = {}
        self.expected: tuple[bytes, ...] = ()
        self.walk = 0
        self.inbound: dict[bytes, int] = {}
        self.batch: ReplicationBatch | None = None

    def drop_job(self, job: Job) -> int:
        """No copies of this job are wanted any more."""
        return self.drop(job.id) if self.wanted else 0

    def drop(self, job_id: bytes) -> int:
        """No copies of this job are wanted any more. Returns the bytes that this frees."""
        spread = self.wanted.pop(job_id, None)
        if spread is None:
            return 0
        if spread.add is not None and spread.comes_here():
            self._came(spread.job.queue)
        self.short.pop(job_id, None)
        for peer in self.peers.values():
            peer.waiting.pop(job_id, None)
        return SPREAD_BYTES if spread.add is None else 0

    def _came(self, name: bytes) -> None:
        """A job has come into the queue ``name``, or will not come any more."""
        left = self.inbound[name] - 1
        if left:
            self.inbound[name] = left
        else:
            del self.inbound[name]

    def clear(self) -> None:
        """No copies are wanted any more."""
        self.short.clear()
        self.walk = 0
        self.wanted.clear()
        self.inbound.clear()

    def cost(self) -> int:
        """Bytes of memory that they count for: copies for which a client waits count for that client."""
        return SPREAD_BYTES * len([spread for spread in self.wanted.values() if spread.add is None])
