"""A job goes back to its queue: its counters, its record, and what the other holders are told of it."""

from typing import TYPE_CHECKING, Final

from cluster.messages import QUEUED as SAY_QUEUED
from disque.core.journal.schema import REQUEUE
from disque.core.model.job import (
    ACTIVE,
    COUNTER_MAX,
    DEFERRED,
    LEASE_OWNER,
    LEASE_RELAYED,
    QUEUED,
    REQUEUE_ANNOUNCED,
    Job,
)

if TYPE_CHECKING:
    from disque.core.node import Message, Node


#: No two nodes count a RETRY from the same moment: up to so much is added, in ms.
JITTER_MS: Final = 500


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


def is_put_off(job: Job) -> bool:
    """Whether ``job`` was handed back here with a delay; not that this node speaks for one which stops."""
    flags = job.flags & (DEFERRED | LEASE_OWNER | LEASE_RELAYED)
    return job.state == ACTIVE and flags == DEFERRED | LEASE_OWNER


def tell_queued(node: "Node", job: Job, why: int) -> None:
    """Tell the other holders that this node has queued ``job`` again, or will do so after a delay."""
    if job.state == QUEUED or job.flags & DEFERRED:
        job.flags |= REQUEUE_ANNOUNCED
    tell_holders(node, job, (SAY_QUEUED, why))
