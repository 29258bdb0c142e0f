"""Jobs that come back: RETRY after a delivery, delays that end, NACK, ENQUEUE, DEQUEUE, WORKING, and the end of a TTL.

RETRY counts from the last delivery (or WORKING). A job without a RETRY is delivered at most once: once it left its
queue it is spent, and nothing here queues it again. A job that other nodes hold too is queued by a timer only when they
have nothing against it (see `arbitration`); NACK and ENQUEUE queue it at once, and tell them.
"""

from typing import TYPE_CHECKING, Final

from cluster.messages import BY_ENQUEUE, BY_NACK, BY_RETURN, WORKING
from disque.core.dedup import keys
from disque.core.jobs import leases
from disque.core.model.ends import DEAD
from disque.core.model.extra import DIED_TRIES
from disque.core.model.job import (
    ACKED,
    ACTIVE,
    DEFERRED,
    DELIVERED,
    LEASE_OWNER,
    LEASE_RELAYED,
    OUT,
    OUT_ELSEWHERE,
    QUEUED,
    SPENT,
    SPOKEN,
    WAIT_REPL,
    Job,
    is_out_elsewhere,
)
from disque.core.model.pubsub import EXPIRED, NACKED
from disque.core.model.queue import ELSEWHERE
from disque.core.replication import acks, arbitration, coordinator, ends, generations, spans, tries
from disque.core.replication.announcements import count, file_requeue, tell_holders, tell_queued

if TYPE_CHECKING:
    from disque.core.node import Node

#: Outcomes of `working` that are no number of seconds.
WORKING_TOO_LATE: Final = -1


def due(node: "Node", job: Job, now_ms: int) -> None:
    """The timer of ``job`` fired. The job may be gone since: by the timeout of its ADDJOB, due in the same moment."""
    if node.find(job.id) is not job:
        return
    if now_ms >= job.expires_ms:
        expire(node, job, now_ms)
    elif job.state != ACTIVE or not job.requeue_ms:
        node.timers.arm(job, job.expires_ms)
    elif len(job.holders) > 1 and job.retry:
        arbitration.begin(node, job, now_ms)
    elif now_ms >= job.requeue_ms:
        tries.come_back(node, job, now_ms)
    else:
        node.timers.arm(job, min(job.requeue_ms, job.expires_ms))


def expire(node: "Node", job: Job, now_ms: int) -> None:
    """The TTL of ``job`` is over. Its record in the journal says so by itself."""
    if job.state == WAIT_REPL:
        coordinator.job_removed(node, job)
    if not job.flags & SPENT:
        node.stats.jobs_expired += 1
        if job.state == QUEUED or job.flags & (LEASE_OWNER | LEASE_RELAYED):
            job.spec.figures.expired += 1
            node.pubsub.happened(EXPIRED, job.spec.queue, job.id)
    if job.spec.rows is not None or node.ends.watched:
        ends.expire(node, job, now_ms)
    keys.expired(node, job)


def may_be_queued(job: Job) -> bool:
    """Whether NACK and ENQUEUE may act on ``job``.

    It is outside its queue, and not one that was delivered at most once.
    """
    return job.state == ACTIVE and not job.flags & SPENT


class Nack:
    """What a consumer says with NACK.

    ``delay_ms`` is how long to hold the job back, -1 if that is not said. ``counts``: it failed; a worker that stops
    gives back what it has not begun, which is no failure. ``is_dead``: it must not be tried again. ``error`` says why.
    """

    __slots__ = ("counts", "delay_ms", "error", "is_dead")

    def __init__(self) -> None:
        self.delay_ms = -1
        self.counts = True
        self.is_dead = False
        self.error: bytes | None = None


def nack(node: "Node", job: Job, said: Nack, now_ms: int) -> bool:
    """A consumer gives ``job`` back, to be delivered again now or later, or never. False when it cannot be."""
    if not may_be_queued(job):
        return said.is_dead and end_spent(node, job, said.error, now_ms)
    delay_ms = max(0, said.delay_ms)
    if said.counts:
        is_tried = job.spec.rows is not None and generations.are_counted(job.spec)
        if is_tried and is_put_off(job):
            return True  # it is held back: this try has ended already
        if said.error is not None:
            tries.note_error(node, job, said.error, now_ms)
        count(job, nack=True)
        node.stats.jobs_nacked += 1
        job.spec.figures.nacked += 1
        node.pubsub.happened(NACKED, job.spec.queue, job.id)
        ended = tries.end_one(node, job, now_ms) if is_tried else 0
        if said.is_dead and not tries.is_dead(node, job):
            tries.kill(node, job, now_ms)
            return True
        if is_tried and tries.are_used_up(job, ended):
            tries.die(node, job, DIED_TRIES, now_ms)
            return True
        if said.error is not None and not is_tried:
            generations.tell(node, job, now_ms)
        if is_tried and said.delay_ms < 0:
            delay_ms = tries.backoff_ms(job, ended)
    give_back(node, job, delay_ms, said.counts, now_ms)
    return True


def end_spent(node: "Node", job: Job, error: bytes | None, now_ms: int) -> bool:
    """NACK DEAD of a job that was delivered at most once: it ends. False if it is none."""
    if not job.flags & SPENT or job.state != ACTIVE:
        return False
    if error is not None:
        tries.note_error(node, job, error, now_ms)
    tries.note_death(node, job)
    return acks.end(node, job, DEAD, b"", now_ms)


def give_back(node: "Node", job: Job, delay_ms: int, counts: bool, now_ms: int) -> None:
    """Queue ``job`` now, or hold it back first."""
    if node.votes.by_id:
        node.drop_vote(job.id)
    if delay_ms:
        node.hold(job, now_ms + delay_ms, DEFERRED | LEASE_OWNER)
    else:
        node.queue_when_sure(job, now_ms)
    file_requeue(node, job)
    if len(job.holders) > 1:
        tell_queued(node, job, BY_NACK if counts else BY_RETURN)


def enqueue(node: "Node", job: Job, now_ms: int) -> bool:
    """Queue ``job`` now, whatever it waits for. False when it cannot be."""
    if not may_be_queued(job):
        return False
    if job.flags & DELIVERED:
        count(job, nack=False)
    if node.votes.by_id:
        node.drop_vote(job.id)
    node.queue_when_sure(job, now_ms)
    file_requeue(node, job)
    if len(job.holders) > 1:
        tell_queued(node, job, BY_ENQUEUE)
    return True


def dequeue(node: "Node", job: Job, now_ms: int) -> bool:
    """Take ``job`` out of its queue without delivering it.

    It comes back after RETRY, or by ENQUEUE. False if it is not queued.
    """
    if job.state != QUEUED:
        return False
    node.take_out(job, now_ms)
    if job.retry:
        node.hold(job, now_ms + job.retry * 1000, LEASE_OWNER)
    return True


def is_put_off(job: Job) -> bool:
    """Whether ``job`` waits for the end of a delay, and that is not only what a copy was told when the job came."""
    return job.flags & DEFERRED > 0 and job.flags & SPOKEN > 0 and not is_out_elsewhere(job)


def held_flags(job: Job) -> int:
    """What WORKING leaves of DEFERRED and LEASE_RELAYED. Of a mere copy, a consumer has the job from another node."""
    was_delivered = job.flags & (DELIVERED | DEFERRED) == DELIVERED  # here, maybe long ago
    is_mine = was_delivered and (job.flags & SPOKEN > 0 or tries.is_out(job))
    if not (is_mine or is_put_off(job)) and len(job.holders) > 1:
        job.flags |= OUT_ELSEWHERE
    return DEFERRED | LEASE_RELAYED if is_out_elsewhere(job) else job.flags & DEFERRED


def working(node: "Node", job: Job, now_ms: int) -> int:
    """A consumer still works on ``job``: start its RETRY, or its lease, again.

    Says how many seconds that is, or WORKING_TOO_LATE. Past half of its life no job may be postponed any more, else a
    consumer that hangs could hold it for ever.
    """
    if job.age_ms(now_ms) > job.ttl * 500:
        return WORKING_TOO_LATE
    if not job.retry or job.state == ACKED:
        return job.retry
    if job.state == WAIT_REPL:  # another node has delivered it
        coordinator.taken_over(node, job)
        tell_holders(node, job, (WORKING,))
        return job.retry
    if job.state == QUEUED:
        node.take_out(job, now_ms)
    if node.votes.by_id:
        node.drop_vote(job.id)
    spans.prolong(node, job)
    was_held = job.flags & DEFERRED
    more_ms = leases.extension_ms(node, job)
    until_ms = now_ms + more_ms
    if job.place < ELSEWHERE or was_held:
        until_ms = max(job.requeue_ms, until_ms)  # the process before this one may have known of a longer lease
    if job.place >= ELSEWHERE:
        job.place = OUT  # this node speaks for it from now on, and does not take it when it is sent back
    held = held_flags(job)
    node.hold(job, until_ms, held | LEASE_OWNER)
    if held:
        file_requeue(node, job)
    if len(job.holders) > 1:
        tell_holders(node, job, (WORKING,))
    return more_ms // 1000
