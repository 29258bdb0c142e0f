"""How often a job is tried, and what becomes of one whose tries are used up: a dead letter.

A *try* ends when a consumer gives the job back as a failure (NACK), or when its RETRY is over. Tries are counted for
jobs with TRIES or BACKOFF only: all others pay nothing. A dead letter is a job in a queue, as any other: it has moved
there, with its counters at 0, no bound of tries, and a life of its own.
"""

from typing import TYPE_CHECKING, Final

from cluster.messages import BY_TIMER, STILL
from disque.core.model.backoff import read
from disque.core.model.ends import DEAD
from disque.core.model.extra import DIED_NACK, DIED_TRIES, ERROR_MOST, ORIGIN_MOST
from disque.core.model.job import COUNTER_MAX, DEFERRED, DELIVERED, Job
from disque.core.model.pubsub import DEAD as EVENT_DEAD
from disque.core.model.pubsub import MOVED, RETRIED
from disque.core.model.queue import PAUSED_IN
from disque.core.model.spec import BACKOFF, DEADLETTER, TRIES, encode
from disque.core.replication import acks, announcements, generations, moves, queue_options
from disque.core.replication.generations import are_counted

if TYPE_CHECKING:
    from disque.core.model.spec import JobSpec
    from disque.core.node import Node

#: How long a dead letter lives where nothing is set for its queue, in seconds: 30 days.
DEAD_TTL_S: Final = 30 * 86_400
#: Options that a dead letter does not have any more.
OF_TRIES: Final = (TRIES.number, BACKOFF.number, DEADLETTER.number)


def end_one(node: "Node", job: Job, now_ms: int) -> int:
    """A try of a job of which they are counted has ended; how many have. It counts once for each delivery."""
    job.flags &= ~DELIVERED
    extra = generations.own(node, job)
    extra.tries = min(extra.tries + 1, COUNTER_MAX)
    node.put_extra(job, extra)
    generations.tell(node, job, now_ms)
    return extra.tries


def are_used_up(job: Job, tries: int) -> bool:
    """Whether there are no more."""
    most = job.spec.number(TRIES)
    return 0 < most <= tries


def backoff_ms(job: Job, tries: int) -> int:
    """How long a failure holds ``job`` back after so many tries."""
    backoff = read(job.spec.text(BACKOFF))
    return 0 if backoff is None else backoff.wait_ms(job.id, max(tries, 1))


def note_error(node: "Node", job: Job, text: bytes, now_ms: int) -> None:
    """A consumer says why it failed. The caller tells the others."""
    extra = generations.own(node, job)
    extra.error, extra.error_ms = text[:ERROR_MOST], now_ms
    node.put_extra(job, extra)


def come_back(node: "Node", job: Job, now_ms: int) -> None:
    """A RETRY or a delay is over: queue the job, or wait another RETRY while its queue takes nothing in."""
    queue = node.queues.get(job.queue)
    if job.retry and queue is not None and queue.paused & PAUSED_IN:
        node.hold(job, now_ms + job.retry * 1000, job.flags & DEFERRED)
        return
    again = job.flags & DELIVERED and not job.flags & DEFERRED
    if again:
        announcements.count(job, nack=False)
        node.stats.jobs_requeued += 1
        job.spec.figures.retried += 1
        node.pubsub.happened(RETRIED, job.spec.queue, job.id)
        if job.spec.rows is not None and are_counted(job.spec) and are_used_up(job, end_one(node, job, now_ms)):
            die(node, job, DIED_TRIES, now_ms)
            return
    node.enqueue(job, now_ms)
    if len(job.holders) > 1:
        announcements.tell_queued(node, job, BY_TIMER if again else STILL)


def is_out(job: Job) -> bool:
    """Whether a try of ``job``, of which they are counted, has begun here and not ended."""
    if job.spec.rows is None or job.flags & (DELIVERED | DEFERRED) != DELIVERED:
        return False
    return job.retry > 0 and are_counted(job.spec)


def lapse(node: "Node", job: Job, now_ms: int) -> bool:
    """The RETRY of ``job`` is over, and another node queues it: if it was out here, a try ends. True if it has died."""
    if not is_out(job) or not are_used_up(job, end_one(node, job, now_ms)):
        return False
    die(node, job, DIED_TRIES, now_ms)
    return True


def dead_queue(spec: "JobSpec") -> bytes | None:
    """The queue of dead letters for such jobs; None if there is none."""
    said = spec.text(DEADLETTER)
    if not said:
        return spec.queue + b":dead"
    return said[1:] or None


def die(node: "Node", job: Job, cause: int, now_ms: int) -> None:
    """There are no more tries: ``job`` becomes a dead letter, or ends if there is no queue for it."""
    name = dead_queue(job.spec)
    if name is not None and job.retry:
        put_away(node, job, name, cause, now_ms)
        return
    note_death(node, job)  # what is delivered at most once can only end
    acks.end(node, job, DEAD, b"", now_ms)


def note_death(node: "Node", job: Job) -> None:
    """Count it, and tell those who listen."""
    node.stats.jobs_died += 1
    job.spec.figures.died += 1
    node.pubsub.happened(EVENT_DEAD, job.spec.queue, job.id)


def put_away(node: "Node", job: Job, name: bytes, cause: int, now_ms: int) -> None:
    """``job`` becomes a dead letter in the queue ``name``. One that is a dead letter goes on to say where it died."""
    note_death(node, job)
    spec = job.spec
    extra = generations.own(node, job)
    if not extra.is_dead:
        is_known = len(spec.queue) <= ORIGIN_MOST
        extra.origin, extra.first = (spec.queue, spec.encoded) if is_known else (b"", b"")
    extra.died = cause
    extra.tries = 0
    rows = {number: value for number, value in (spec.rows or {}).items() if number not in OF_TRIES}
    found = queue_options.of(node, name)
    ttl = found.dead_ttl if found is not None and found.dead_ttl > 0 else DEAD_TTL_S
    dead = node.specs.read(name, encode(ttl, spec.retry, spec.repl, rows or None))
    assert dead is not None
    moves.move(node, job, dead, extra, ttl * 1000, 0, now_ms)
    queue_options.grows(node, name)


def is_dead(node: "Node", job: Job) -> bool:
    """Whether ``job`` is a dead letter."""
    extra = node.extra_of(job)
    return extra is not None and extra.is_dead


def kill(node: "Node", job: Job, now_ms: int) -> None:
    """NACK DEAD: no more tries."""
    die(node, job, DIED_NACK, now_ms)


def revive(node: "Node", job: Job, now_ms: int) -> bool:
    """Put a dead letter back where it came from, as it was at first. False for a job that is none."""
    extra = generations.own(node, job)
    if not extra.is_dead or not moves.may_move(job):
        return False
    spec = node.specs.read(extra.origin, extra.first)
    if spec is None or (spec.retry > 0) != (job.retry > 0):
        return False
    extra.origin, extra.died, extra.first = b"", 0, b""
    extra.tries = 0
    return moves.move(node, job, spec, extra, spec.ttl * 1000, 0, now_ms, MOVED)
