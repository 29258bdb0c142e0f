"""What a node that stops cleanly leaves to the others.

Of a job that other nodes hold too, one of them goes on with it while this node is away: queued jobs are handed over
with ENQUEUE; of those that are out with consumers here the others are told how long they are (HOLD), so that nobody
gives them out again before their time. What does not reach them costs a RETRY, nothing else.
"""

from typing import TYPE_CHECKING, Final

from cluster.messages import ENQUEUE, HOLD
from disque.core.job import ACTIVE, KEPT, QUEUED, Job

if TYPE_CHECKING:
    from disque.core.node import Node

#: Job IDs in one message.
IDS_MOST: Final = 5000


def stopping(node: "Node", now_ms: int) -> None:
    """Hand the shared jobs of this node to the other holders. Nothing may be delivered here any more."""
    linked = {peer.id for peer in node.linked}
    if not linked:
        return
    out: dict[bytes, list[Job]] = {}
    for shard in node.shards:
        for job in shard.values():
            if len(job.holders) == 1 or not job.retry or job.state not in {ACTIVE, QUEUED}:
                continue
            others = [holder for holder in job.holders if holder in linked]
            if not others:
                continue
            if job.state == QUEUED:
                hand_over(node, job, others, now_ms)
            elif job.flags & KEPT and job.requeue_ms > now_ms:
                for holder in others:
                    out.setdefault(holder, []).append(job)
    for holder, jobs in out.items():
        tell_held(node, holder, jobs, now_ms)


def hand_over(node: "Node", job: Job, others: list[bytes], now_ms: int) -> None:
    """Let another holder queue ``job``; when this node is back, it asks about it at once."""
    node.take_out(job, now_ms)
    node.hold(job, now_ms, 0)
    node.messages.append((node.random.choice(others), (ENQUEUE, job.id, 0)))


def tell_held(node: "Node", holder: bytes, jobs: list[Job], now_ms: int) -> None:
    """Tell ``holder`` how long these jobs are out."""
    for at in range(0, len(jobs), IDS_MOST):
        some = jobs[at : at + IDS_MOST]
        ids = tuple([job.id for job in some])
        node.messages.append((holder, (HOLD, 0, (), ids, tuple([job.requeue_ms - now_ms for job in some]))))
