"""What a node that stops cleanly leaves to the others.

Of a job that other nodes hold too, one of them goes on with it while this node is away: queued jobs are handed over
with ENQUEUE; of those that are out with consumers here the others are told how long they are (HOLD), so that nobody
gives them out again before their time; they say so in turn to those who ask, and remember it over a crash. What does
not reach them costs a RETRY, nothing else. Acknowledgements that a holder has not confirmed are told to it once more:
it may have come back a moment ago, too, and ask in vain soon.
"""

from typing import TYPE_CHECKING, Final

from cluster.messages import ENQUEUE, HOLD, IN_MY_STEAD
from disque.core import acks, keeping, zones
from disque.core.job import ACTIVE, HEARD, KEPT, QUEUED, Job
from disque.core.queue import ELSEWHERE

if TYPE_CHECKING:
    from disque.core.node import Node

#: Jobs that one step tells of, and jobs that it looks at in the time that one of them takes.
SLICE = 1000  # not Final: tests want less, compiled too
LOOKS: Final = 32


class Farewell:
    """Hands the shared jobs of this node to the other holders. Nothing may be delivered here any more.

    Call `step`, and send what it says, until it is ``done``.
    """

    __slots__ = ("_acked", "_jobs", "_shard", "node")

    def __init__(self, node: "Node") -> None:
        self.node = node
        self._shard = 0
        self._jobs: list[Job] = []
        self._acked = list(node.acking)
        node.membership.stop()

    @property
    def done(self) -> bool:
        """Whether all acknowledgements and jobs were looked at."""
        return not self._acked and not self._jobs and self._shard == len(self.node.shards)

    def step(self, now_ms: int) -> None:
        """Go on for some milliseconds."""
        node = self.node
        linked = {peer.id for peer in node.linked}
        out: dict[tuple[bytes, int], list[Job]] = {}
        most = SLICE
        while most > 0 and not self.done:
            if self._acked:
                most -= 1
                job_id = self._acked.pop()
                ack = node.acking.get(job_id)
                if ack is not None:
                    acks.tell(node, job_id, ack)
            elif self._jobs:
                most -= 1
                leave(node, self._jobs.pop(), linked, out, now_ms)
            else:
                shard = node.shards[self._shard]
                self._shard += 1
                most -= 1 + len(shard) // LOOKS
                if linked:
                    self._jobs = [job for job in shard.values() if len(job.holders) > 1]
        for (holder, said), jobs in out.items():
            tell_held(node, holder, said, jobs, now_ms)


def leave(node: "Node", job: Job, linked: set[bytes], out: dict[tuple[bytes, int], list[Job]], now_ms: int) -> None:
    """Hand one job over, or note in ``out`` who is to be told that it is out, and whether they shall speak for it."""
    if not job.retry or job.state not in {ACTIVE, QUEUED} or node.find(job.id) is not job:
        return
    others = [holder for holder in job.holders if holder in linked]
    if job.state == QUEUED:
        if job.id in node.keyed:
            others = with_copies(node, job, others)
        if others and node.zones.shared:  # nodes of one host are often stopped together
            others = zones.elsewhere(node, others)
        if others:
            hand_over(node, job, others, now_ms)
    elif job.flags & (KEPT | HEARD) and job.requeue_ms > now_ms:
        said = 0 if job.place == ELSEWHERE else IN_MY_STEAD  # where it was handed on, somebody else speaks for it
        for holder in others:
            out.setdefault((holder, said), []).append(job)


def with_copies(node: "Node", job: Job, others: list[bytes]) -> list[bytes]:
    """Those of ``others`` that have a copy.

    Who keeps the UNIQUE key that goes with the job counts as a holder, but may have no copy. Only the node that made
    the job knows; elsewhere, and after a restart, it may turn out to be the wrong one.
    """
    key = node.keyed[job.id]
    keepers = keeping.others(node, key)
    if key.expires_ms or not keepers:
        return others
    copies = key.copies
    sure = [one for one in others if one not in keepers or (copies is not None and one in copies)]
    return sure if sure or copies is not None else others


def hand_over(node: "Node", job: Job, others: list[bytes], now_ms: int) -> None:
    """Let another holder queue ``job``; when this node is back, it asks about it at once."""
    node.take_out(job, now_ms)
    node.hold(job, now_ms, 0)
    node.messages.append((node.random.choice(others), (ENQUEUE, job.id, 0)))


def tell_held(node: "Node", holder: bytes, said: int, jobs: list[Job], now_ms: int) -> None:
    """Tell ``holder`` how long these jobs are out; ``said`` is `IN_MY_STEAD`, or 0: the `round` of HOLD."""
    ids = tuple([job.id for job in jobs])
    node.messages.append((holder, (HOLD, said, (), ids, tuple([job.requeue_ms - now_ms for job in jobs]))))
