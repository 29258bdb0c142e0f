"""A job goes back to its queue: its counters, its record, and what the other holders are told of it."""

from typing import TYPE_CHECKING

from cluster.messages import BY_TIMER, STILL
from cluster.messages import QUEUED as SAY_QUEUED
from disque.core.journal.schema import REQUEUE
from disque.core.model.job import COUNTER_MAX, DEFERRED, DELIVERED, QUEUED, REQUEUE_ANNOUNCED, Job
from disque.core.model.queue import PAUSED_IN

if TYPE_CHECKING:
    from disque.core.node import Message, Node


def come_back(node: "Node", job: Job, now_ms: int) -> None:
    """A RETRY or a delay is over: queue the job, or wait another RETRY while its queue takes nothing in."""
    queue = node.queues.get(job.queue)
    if job.retry and queue is not None and queue.paused & PAUSED_IN:
        node.hold(job, now_ms + job.retry * 1000, job.flags & DEFERRED)
        return
    again = job.flags & DELIVERED and not job.flags & DEFERRED
    if again:
        count(job, nack=False)
        node.stats.jobs_requeued += 1
        job.spec.figures.retried += 1
    node.enqueue(job, now_ms)
    if len(job.holders) > 1:
        tell_queued(node, job, BY_TIMER if again else STILL)


def count(job: Job, *, nack: bool) -> None:
    """Count one more NACK, or one more delivery that is to come."""
    if nack:
        job.nacks = min(job.nacks + 1, COUNTER_MAX)
    else:
        job.deliveries = min(job.deliveries + 1, COUNTER_MAX)


def file_requeue(node: "Node", job: Job) -> None:
    """Write what NACK or ENQUEUE changed."""
    if node.journaling:
        from_ms = job.requeue_ms if job.flags & DEFERRED else 0
        node.outbox.add((REQUEUE, job.id, job.nacks, job.deliveries, from_ms))


def tell_holders(node: "Node", job: Job, head: "Message") -> None:
    """Send something about ``job`` to all others that may have a copy."""
    for holder in job.holders:
        if holder != node.node_id:
            node.batch(holder, head, job.id)


def tell_queued(node: "Node", job: Job, why: int) -> None:
    """Tell the other holders that this node has queued ``job`` again, or will do so after a delay."""
    if job.state == QUEUED or job.flags & DEFERRED:
        job.flags |= REQUEUE_ANNOUNCED
    tell_holders(node, job, (SAY_QUEUED, why))
