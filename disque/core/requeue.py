"""Jobs that come back: RETRY after a delivery, delays that end, NACK, ENQUEUE, DEQUEUE, WORKING, and the end of a TTL.

RETRY counts from the last delivery (or WORKING). A job without a RETRY is delivered at most once: once it left its
queue it is spent, and nothing here queues it again.
"""

from typing import TYPE_CHECKING, Final

from disque.core import replication
from disque.core.job import ACKED, ACTIVE, DELIVERED, HELD, QUEUED, SPENT, WAIT_REPL, Job
from disque.core.queue import PAUSED_IN
from disque.core.records import REQUEUE

if TYPE_CHECKING:
    from disque.core.node import Node

#: Outcomes of `working` that are no number of seconds.
WORKING_TOO_LATE: Final = -1

#: Counters are 16 bits on other nodes and in old clients: they stop there instead of starting again.
COUNTER_MAX: Final = 65535


def due(node: "Node", job: Job, now_ms: int) -> None:
    """The timer of ``job`` fired. The job may be gone since: by the timeout of its ADDJOB, due in the same moment."""
    if node.find(job.id) is not job:
        return
    if now_ms >= job.expires_ms:
        expire(node, job)
    elif job.state == ACTIVE and job.requeue_ms:
        come_back(node, job, now_ms)
    else:
        node.timers.arm(job, job.expires_ms)


def expire(node: "Node", job: Job) -> None:
    """The TTL of ``job`` is over. Its record in the journal says so by itself."""
    if job.state == WAIT_REPL:
        replication.job_removed(node, job)
    node.remove(job)


def come_back(node: "Node", job: Job, now_ms: int) -> None:
    """A RETRY or a delay is over: queue the job, or wait another RETRY while its queue takes nothing in."""
    queue = node.queues.get(job.queue)
    if job.retry and queue is not None and queue.paused & PAUSED_IN:
        node.hold(job, now_ms + job.retry * 1000, job.flags & HELD)
        return
    if job.flags & DELIVERED and not job.flags & HELD:
        job.deliveries = min(job.deliveries + 1, COUNTER_MAX)
    node.enqueue(job, now_ms)


def may_be_queued(job: Job) -> bool:
    """Whether NACK and ENQUEUE may act on ``job``.

    It is outside its queue, and not one that was delivered at most once.
    """
    return job.state == ACTIVE and not job.flags & SPENT


def nack(node: "Node", job: Job, delay_s: int, now_ms: int) -> bool:
    """A consumer gives ``job`` back, to be delivered again now or in ``delay_s`` seconds. False when it cannot be."""
    if not may_be_queued(job):
        return False
    job.nacks = min(job.nacks + 1, COUNTER_MAX)
    if delay_s:
        node.hold(job, now_ms + delay_s * 1000, HELD)
    else:
        node.enqueue(job, now_ms)
    file_requeue(node, job)
    return True


def enqueue(node: "Node", job: Job, now_ms: int) -> bool:
    """Queue ``job`` now, whatever it waits for. False when it cannot be."""
    if not may_be_queued(job):
        return False
    if job.flags & DELIVERED:
        job.deliveries = min(job.deliveries + 1, COUNTER_MAX)
    node.enqueue(job, now_ms)
    file_requeue(node, job)
    return True


def file_requeue(node: "Node", job: Job) -> None:
    """Write what NACK or ENQUEUE changed."""
    if node.journaling:
        from_ms = job.requeue_ms if job.flags & HELD else 0
        node.journal.append((REQUEUE, job.id, job.nacks, job.deliveries, from_ms))


def dequeue(node: "Node", job: Job, now_ms: int) -> bool:
    """Take ``job`` out of its queue without delivering it.

    It comes back after RETRY, or by ENQUEUE. False if it is not queued.
    """
    if job.state != QUEUED:
        return False
    node.take_out(job, now_ms)
    if job.retry:
        node.hold(job, now_ms + job.retry * 1000, 0)
    return True


def working(node: "Node", job: Job, now_ms: int) -> int:
    """A consumer still works on ``job``: start its RETRY again and say how many seconds that is, or WORKING_TOO_LATE.

    Past half of its life no job may be postponed any more, else a consumer that hangs could hold it for ever.
    """
    created_ms = job.created_ms()
    if now_ms - created_ms > (job.expires_ms - created_ms) // 2:
        return WORKING_TOO_LATE
    if not job.retry or job.state in {ACKED, WAIT_REPL}:
        return job.retry
    if job.state == QUEUED:
        node.take_out(job, now_ms)
    held = job.flags & HELD
    node.hold(job, now_ms + job.retry * 1000, held)
    if held:
        file_requeue(node, job)
    return job.retry

