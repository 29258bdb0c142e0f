"""What is known of a job beyond its fields travels between its holders; and who is behind learns where the job is now.

Tries are absolute numbers, and belong to a generation: of two the greater counts, so what is said twice or out of order
does no harm. Of two errors the later one counts.

A node that has missed a move would queue the job where it was. So what it says about the job does not count: it is told
MOVED first. A peer is known to be of the newest generation when its process has said so, by MOVED or GOTMOVE; a process
that has just started may have lost it.
"""

from typing import TYPE_CHECKING, Final

from cluster.capabilities import JOBS
from cluster.messages import MORE, MOVED, NUMBER_BITS
from disque.core.journal.schema import MOVE
from disque.core.model.extra import IN_JOURNAL, Extra, decode, encode
from disque.core.model.job import (
    ACKED,
    BACKUP,
    COUNTER_MAX,
    DEFERRED,
    DELIVERED,
    EXTRA,
    LEASE_OWNER,
    LEASE_RELAYED,
    QUEUED,
    REQUEUE_ANNOUNCED,
    SHELL,
    WAIT_REPL,
    Job,
)
from disque.core.model.outcome import Relocated
from disque.core.model.spec import BACKOFF, TRIES
from disque.core.replication import replacement
from disque.core.replication.announcements import JITTER_MS, tell_holders

if TYPE_CHECKING:
    from disque.core.model.spec import JobSpec
    from disque.core.node import Message, Node

#: The longest duration that a message can say, in ms.
DURATION_MOST: Final = (1 << NUMBER_BITS) - 1


# -- what is known beyond the fields -----------------------------------------------------------------------------------


def own(node: "Node", job: Job) -> Extra:
    """A copy of the extra of ``job`` to be changed, or a new one; `Node.put_extra` takes it back."""
    extra = node.extra_of(job)
    return Extra() if extra is None else extra.copied()


def tell(node: "Node", job: Job, now_ms: int) -> None:
    """The extra of ``job`` has changed here: write it, and tell the other holders."""
    if node.journaling and job.segment:
        node.file_extra(job)
    if len(job.holders) > 1:
        tell_holders(node, job, (MORE, node.more_of(job, now_ms)))


def told(node: "Node", peer: bytes, message: tuple[int, bytes, tuple[bytes, ...]], now_ms: int) -> None:
    """MORE: what ``peer`` knows of jobs beyond their fields."""
    _, encoded, ids = message
    extra = decode(encoded, now_ms)
    for job_id in ids:
        job = node.find(job_id)
        if extra is None:
            node.messages_skipped += 1
        elif job is not None and job.state != ACKED and not is_behind(node, peer, job):
            merge(node, job, extra)


def merge(node: "Node", job: Job, theirs: Extra) -> None:
    """Another holder of ``job`` says this; it knows of no move that is unknown here."""
    mine = node.extra_of(job)
    if (0 if mine is None else mine.generation) != theirs.generation:
        return
    new = own(node, job)
    # Two errors of one millisecond: the later one is that of the later try.
    if (theirs.error_ms, theirs.tries) > (new.error_ms, new.tries):
        new.error, new.error_ms = theirs.error, theirs.error_ms
    new.tries = max(new.tries, theirs.tries)
    if theirs.progress_ms > new.progress_ms:
        new.progress, new.progress_ms = theirs.progress, theirs.progress_ms
    if mine is None:
        new.headers = theirs.headers
        new.other = theirs.other
    times = (new.tries, new.error_ms, new.progress_ms)
    if mine is None or times != (mine.tries, mine.error_ms, mine.progress_ms):
        node.put_extra(job, new)
        if node.journaling and job.segment:
            node.file_extra(job)


def note_progress(node: "Node", job: Job, text: bytes, now_ms: int) -> None:
    """A consumer says how far it has come; all holders hear of it."""
    extra = own(node, job)
    extra.progress, extra.progress_ms = text, now_ms
    node.put_extra(job, extra)
    tell(node, job, now_ms)


# -- tries -------------------------------------------------------------------------------------------------------------


def are_counted(spec: "JobSpec") -> bool:
    """Whether tries of such a job are counted."""
    rows = spec.rows
    return rows is not None and (TRIES.number in rows or BACKOFF.number in rows)


def ended(node: "Node", job: Job) -> int:
    """How many tries of this job have ended. Of a job whose tries are not counted: failures and further deliveries."""
    if are_counted(job.spec):
        extra = node.extra_of(job)
        return 0 if extra is None else extra.tries
    return min(int(job.nacks) + int(job.deliveries), COUNTER_MAX)


# -- moves -------------------------------------------------------------------------------------------------------------


def is_behind(node: "Node", peer_id: bytes, job: Job) -> bool:
    """Whether ``peer_id`` may not know where ``job`` is now."""
    extra = node.extra_of(job)
    if extra is None or not extra.generation or not job.retry:
        return False  # of one that is delivered at most once there is one copy
    peer = node.peers.get(peer_id)
    if peer is None or (peer.linked and not peer.understands(JOBS)):
        return False  # it cannot be told: what it says must count, or both would serve the job
    return extra.sure is None or extra.sure.get(peer_id) != peer.start


def note_sure(node: "Node", peer_id: bytes, extra: Extra) -> None:
    """The process of ``peer_id`` knows of this generation."""
    peer = node.peers.get(peer_id)
    if peer is None:
        return
    if extra.sure is None:
        extra.sure = {}
    extra.sure[peer_id] = peer.start


def moved_message(node: "Node", job: Job, now_ms: int) -> "Message":
    """MOVED without the ID."""
    delay_ms = min(replacement.delay_ms(job, now_ms), DURATION_MOST)
    left_ms = min(max(1, job.expires_ms - now_ms), DURATION_MOST)
    return (MOVED, job.queue, job.spec.encoded, left_ms, delay_ms, job.holders, node.more_of(job, now_ms))


def catch_up(node: "Node", peer_id: bytes, job: Job, now_ms: int) -> bool:
    """Tell ``peer_id`` where ``job`` is, if it may not know: what it says about the job does not count then."""
    if not is_behind(node, peer_id, job):
        return False
    node.batch(peer_id, moved_message(node, job, now_ms), job.id)
    return True


def is_newer(node: "Node", job: Job, extra: Extra, queue: bytes) -> bool:
    """Whether this move of ``job`` into ``queue`` wins against what is known here; generation 0 is no move."""
    mine = node.extra_of(job)
    return extra.generation > 0 and (mine is None or extra.beats(queue, mine, job.queue))


def follow(
    node: "Node", peer: bytes, job: Job, spec: "JobSpec", theirs: Extra, left_ms: int, delay_ms: int, now_ms: int
) -> Job:
    """``peer`` knows of a newer move: ``job`` waits here as a copy of what is in that queue now. Gives its object."""
    if job.state == QUEUED:
        node.take_out(job, now_ms)
    node.drop_vote(job.id)
    extra = own(node, job)
    extra.take_move(theirs)
    note_sure(node, peer, extra)
    node.put_extra(job, extra)
    job = enter(node, job, spec, now_ms + left_ms)
    job.flags |= BACKUP
    until_ms = now_ms + delay_ms + job.retry * 1000 + int(node.random.random() * JITTER_MS)
    node.hold(job, until_ms, DEFERRED if delay_ms else 0)
    file_move(node, job)
    node.outcomes.append(Relocated(job.id))
    return job


def enter(node: "Node", job: Job, spec: "JobSpec", expires_ms: int) -> Job:
    """A new generation of ``job``, which is in no queue, begins; gives the object that stands for it from now on."""
    if job.place == SHELL:
        job = leave_shell(node, job)
    job.spec = spec
    job.expires_ms = expires_ms
    job.nacks = job.deliveries = 0
    job.flags &= ~(BACKUP | DEFERRED | DELIVERED | LEASE_OWNER | LEASE_RELAYED | REQUEUE_ANNOUNCED)
    return job


def leave_shell(node: "Node", job: Job) -> Job:
    """``job`` was taken out of the middle of a line and must not stand in two: the old object stays there, empty."""
    new = Job(job.id, job.spec, job.body, job.ctime, job.expires_ms, job.delay, job.holders)
    new.flags = job.flags
    new.segment = job.segment
    node.shard(job.id)[job.id] = new
    node.timers.disarm(job)
    spread = node.copies.wanted.get(job.id)
    if spread is not None:
        spread.job = new
    move = node.moves.by_id.get(job.id)
    if move is not None:
        move.job = new
    job.body = b""
    job.flags = 0
    job.segment = 0
    return new


def file_move(node: "Node", job: Job) -> None:
    """Write where ``job`` is now."""
    if not node.journaling:
        return
    extra = node.extra_of(job)
    if not job.segment or extra is None:
        node.file(job)
        return
    held_ms = job.requeue_ms if job.flags & DEFERRED else 0
    if held_ms and job.flags & BACKUP:
        held_ms -= job.retry * 1000  # a copy waits longer than the delay
    more = encode(extra, IN_JOURNAL)
    node.outbox.add((MOVE, job.id, job.queue, job.spec.encoded, job.expires_ms, held_ms, more))


def begin(node: "Node", peer: bytes, job: Job, more: bytes, now_ms: int) -> None:
    """``job`` is new here, and ``peer`` says this of it."""
    extra = decode(more, now_ms) if more else None
    if extra is None:
        return
    if extra.generation:
        note_sure(node, peer, extra)
    node.put_extra(job, extra)


def come_with(
    node: "Node", peer: bytes, job: Job, spec: "JobSpec", more: bytes, left_ms: int, delay_ms: int, now_ms: int
) -> Job | None:
    """``peer`` sends a copy of a job that is known here, and says this of it. None if it is behind, and was told.

    Else the object that stands for the job: it may be another one.
    """
    if not more and not job.flags & EXTRA:
        return job
    theirs = decode(more, now_ms) if more else None
    if theirs is None:
        return None if catch_up(node, peer, job, now_ms) else job
    if job.state == WAIT_REPL or (spec.retry > 0) != (job.retry > 0):
        return job
    if is_newer(node, job, theirs, spec.queue):
        return follow(node, peer, job, spec, theirs, left_ms, delay_ms, now_ms)
    merge(node, job, theirs)
    mine = node.extra_of(job)
    if mine is not None and mine.generation and mine.generation == theirs.generation and mine.mover == theirs.mover:
        note_sure(node, peer, mine)
    return None if catch_up(node, peer, job, now_ms) else job
