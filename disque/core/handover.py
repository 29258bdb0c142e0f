"""What a node that stops cleanly leaves to the others.

First it tells them that it stops (STOPPING). From then on they give it no jobs, and say when all that they sent before
has left: what was on the way is in by then, and is dealt with as the rest is. A node that does not answer is not waited
for long; what it sends to a process that is gone costs a RETRY.

Of a job that other nodes hold too, one of them goes on with it while this node is away: queued jobs are handed over
with ENQUEUE; of those that are out with consumers here the others are told how long they are (HOLD), so that nobody
gives them out again before their time; they say so in turn to those who ask, and remember it over a crash. Of those
that were handed on, the others are told as well, but whoever has them in his queue now keeps them there. What does
not reach them costs a RETRY, nothing else. Acknowledgements that a holder has not confirmed are told to it once more:
it may have come back a moment ago, too, and ask in vain soon.
"""

from typing import TYPE_CHECKING, Final

from cluster.capabilities import STEAD
from cluster.messages import ALL_SENT, ENQUEUE, HANDED_ON, HOLD, I_STOP, IN_MY_STEAD, OUT_IN_MY_STEAD, STOPPING
from disque.core import links
from disque.core.dedup import key_keeper
from disque.core.federation import supply
from disque.core.model.job import ACTIVE, LEASE_OWNER, LEASE_RELAYED, QUEUED, Job, is_in_flight
from disque.core.model.peers import Peer
from disque.core.model.queue import ELSEWHERE
from disque.core.replication import acks, zoning

if TYPE_CHECKING:
    from disque.core.node import Node

#: Jobs that one step tells of, and jobs that it looks at in the time that one of them takes.
SLICE = 1000  # not Final: tests want less, compiled too
LOOKS: Final = 32


def begin(node: "Node") -> None:
    """Tell the others that this node stops: they have `is_settled` to wait for, and then a `Farewell`."""
    node.stopping = True
    for peer in node.peers.values():
        peer.parted = False
    node.tell_all((STOPPING, I_STOP))


def is_settled(node: "Node") -> bool:
    """Whether nothing is on its way here any more, from any node to which there is a link."""
    return all(peer.parted or not peer.linked for peer in node.peers.values())


def peer_stops(node: "Node", peer_id: bytes, message: tuple[int, int], now_ms: int) -> None:
    """STOPPING: that process will be gone soon; or it knows that this one will be.

    The answer goes the way of the jobs that were given to it, so it comes behind them. When it is lost with its link,
    that link is not waited for any more.
    """
    peer = node.peers[peer_id]
    if message[1] != I_STOP:
        peer.parted = True
        return
    peer.stopping = True
    supply.unwant_all(node, peer_id)
    node.seen_version = -1
    links.review(node, now_ms)
    node.send(peer_id, (STOPPING, ALL_SENT))


class Farewell:
    """Hands the shared jobs of this node to the other holders. Nothing may be delivered here any more.

    Call `step`, and send what it says, until it is ``done``.
    """

    __slots__ = ("_acked", "_jobs", "_shard", "node")

    def __init__(self, node: "Node") -> None:
        self.node = node
        self._shard = 0
        self._jobs: list[Job] = []
        self._acked = list(node.acks.by_id)
        node.membership.stop()

    @property
    def done(self) -> bool:
        """Whether all acknowledgements and jobs were looked at."""
        return not self._acked and not self._jobs and self._shard == len(self.node.shards)

    def step(self, now_ms: int) -> None:
        """Go on for some milliseconds."""
        node = self.node
        linked = {peer.id for peer in node.linked}
        hearing = {peer.id for peer in node.peers.values() if peer.linked}
        out: dict[tuple[bytes, int], list[Job]] = {}
        most = SLICE
        while most > 0 and not self.done:
            if self._acked:
                most -= 1
                job_id = self._acked.pop()
                ack = node.acks.by_id.get(job_id)
                if ack is not None:
                    acks.tell(node, job_id, ack)
            elif self._jobs:
                most -= 1
                leave(node, self._jobs.pop(), linked, hearing, out, now_ms)
            else:
                shard = node.shards[self._shard]
                self._shard += 1
                most -= 1 + len(shard) // LOOKS
                if hearing:
                    self._jobs = [job for job in shard.values() if len(job.holders) > 1]
        for (holder, said), jobs in out.items():
            tell_held(node, holder, said, jobs, now_ms)


def leave(
    node: "Node",
    job: Job,
    linked: set[bytes],
    hearing: set[bytes],
    out: dict[tuple[bytes, int], list[Job]],
    now_ms: int,
) -> None:
    """Hand one job over, or note in ``out`` who is to be told that it is out, and whether they shall speak for it.

    ``linked`` are the nodes that jobs may be left to, ``hearing`` those that can be told something.
    """
    found = node.find(job.id)  # it may have ended since, or moved, and be another object
    if found is None or not found.retry or found.state not in {ACTIVE, QUEUED}:
        return
    job = found
    if job.state == QUEUED:
        others = [holder for holder in job.holders if holder in linked]
        if job.id in node.unique.by_job:
            others = with_copies(node, job, others)
        if others and (node.repairs.doubts or node.repairs.lacking):
            others = [holder for holder in others if not may_lack(node, job, holder)] or others
        if others and node.zones.shared:  # nodes of one host are often stopped together
            others = zoning.elsewhere(node, others)
        if others:
            hand_over(node, job, others, now_ms)
    elif job.flags & (LEASE_OWNER | LEASE_RELAYED) and job.requeue_ms > now_ms:
        for holder in job.holders:
            if holder in hearing:
                out.setdefault((holder, what_to_say(node.peers[holder], job)), []).append(job)


def what_to_say(peer: Peer, job: Job) -> int:
    """The `round` of HOLD for ``peer``, of a job that waits or is out."""
    if job.place >= ELSEWHERE:
        return HANDED_ON  # where it is now, somebody else speaks for it
    return OUT_IN_MY_STEAD if is_in_flight(job) and peer.understands(STEAD) else IN_MY_STEAD


def may_lack(node: "Node", job: Job, holder: bytes) -> bool:
    """Whether ``holder`` may have no copy: without a journal it has lost those that it had when it started again."""
    return holder in node.repairs.doubts or job.ctime <= node.repairs.lacking.get(holder, 0)


def with_copies(node: "Node", job: Job, others: list[bytes]) -> list[bytes]:
    """Those of ``others`` that have a copy.

    Who keeps the UNIQUE key that goes with the job counts as a holder, but may have no copy. Only the node that made
    the job knows; elsewhere, and after a restart, it may turn out to be the wrong one.
    """
    key = node.unique.by_job[job.id]
    keepers = key_keeper.others(node, key)
    if key.expires_ms or not keepers:
        return others
    copies = key.copies
    sure = [one for one in others if one not in keepers or (copies is not None and one in copies)]
    return sure if sure or copies is not None else others


def hand_over(node: "Node", job: Job, others: list[bytes], now_ms: int) -> None:
    """Let another holder queue ``job``; when this node is back, it asks about it at once."""
    node.take_out(job, now_ms)
    node.hold(job, now_ms, 0)
    node.send(node.random.choice(others), (ENQUEUE, job.id, 0))


def tell_held(node: "Node", holder: bytes, said: int, jobs: list[Job], now_ms: int) -> None:
    """Tell ``holder`` how long these jobs are out; ``said`` is the `round` of HOLD."""
    ids = tuple([job.id for job in jobs])
    node.send(holder, (HOLD, said, (), ids, tuple([job.requeue_ms - now_ms for job in jobs])))
