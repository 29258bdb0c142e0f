"""Copies that this node keeps for others, and which nodes have a copy.

REPLJOB brings one; GOTJOB leaves when the journal is as durable as promised, REFUSED when this node takes none. A copy
waits as a backup until long after its first delivery is due, and then asks the others like every shared job (see
`arbitration`).
"""

from typing import TYPE_CHECKING, Final

from cluster.messages import (
    ANNOUNCE,
    ANSWER,
    ANSWER_NO,
    GOTJOB,
    HAVE,
    QUEUE_IT,
    REFUSED,
    REFUSED_GONE,
    REFUSED_JOURNAL,
    REFUSED_LEAVING,
    REFUSED_MEMORY,
    REFUSED_PAUSED,
    REFUSED_SIZE,
    REPLACEMENT,
    STILL,
)
from cluster.messages import QUEUED as SAY_QUEUED
from disque.core.journal.schema import DELETE, HOLDERS
from disque.core.model.extra import is_sound
from disque.core.model.job import (
    ACKED,
    ACTIVE,
    BACKUP,
    CTIME_MOST,
    DEFERRED,
    EXTRA,
    LEASE_OWNER,
    QUEUED,
    REQUEUE_ANNOUNCED,
    WAIT_REPL,
    Job,
)
from disque.core.model.jobid import comes_again, valid
from disque.core.model.queue import ELSEWHERE, PAUSED_IN
from disque.core.replication import announcements, ends, generations, standing
from disque.core.replication.announcements import JITTER_MS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cluster.messages import ReplJob
    from disque.core.model.spec import JobSpec
    from disque.core.node import Node


def appoint(job: Job, due_ms: int) -> None:
    """A new job is to be queued at this moment of node time, which no whole number of seconds says."""
    job.flags |= DEFERRED
    job.requeue_ms = due_ms


def first_ms(job: Job, now_ms: int) -> int:
    """When a job that begins now is due for the first time: its DELAY counts from here on, unless there is a date."""
    return job.requeue_ms if job.flags & DEFERRED else now_ms + job.delay * 1000


def start(node: "Node", job: Job, due_ms: int, now_ms: int) -> None:
    """Put a job where it begins: into its queue, or aside until its delay is over. Writes its record."""
    job.state = ACTIVE
    job.flags &= ~BACKUP
    if due_ms > now_ms:
        node.hold(job, due_ms, DEFERRED | LEASE_OWNER)
    else:
        node.enqueue(job, now_ms)
    if node.journaling:
        node.file(job)


def replicate(node: "Node", peer: bytes, message: "ReplJob", now_ms: int) -> None:
    """REPLJOB: keep copies for ``peer``, or refuse. The jobs have all but ID, body and ctime in common."""
    _, flags, queue_name, encoded, left_ms, delay_ms, sent, ids, bodies, ctimes, more = message
    spec = node.specs.read(queue_name, encoded)
    if spec is None or not is_sound(more):
        node.messages_skipped += len(ids)
        return
    retry = spec.retry
    holders = shared_by(node, sent) if retry else node.selves  # at most once has one holder, whatever was sent
    reason = refusal(node, queue_name, flags)
    due_ms = now_ms + delay_ms
    if retry and not flags & QUEUE_IT:
        due_ms += retry * 1000 + int(node.random.random() * JITTER_MS)
    held = DEFERRED if delay_ms else 0
    is_told = retry and flags & ANNOUNCE and not flags & QUEUE_IT
    got: list[bytes] = []
    for at in range(len(ids)):
        job_id = ids[at]
        if not valid(job_id) or comes_again(job_id) != (retry > 0) or ctimes[at] > CTIME_MOST:
            node.messages_skipped += 1
            continue
        job = node.find(job_id)
        if job is None or job.state == ACKED:
            wrong = objection(node, job_id, len(bodies[at]), reason)
            if wrong >= 0:
                node.batch(peer, (REFUSED, wrong), job_id)
                continue
            job = Job(job_id, spec, bodies[at], ctimes[at], now_ms + left_ms, -(-delay_ms // 1000), holders)
            job.flags = REQUEUE_ANNOUNCED if is_told else 0  # before its record, so that a later start says so too
            node.register(job)
            generations.begin(node, peer, job, more, now_ms)
            keep(node, job, due_ms, flags, held, now_ms)
            join_early(node, job)
        else:
            job = come_again(node, peer, job, spec, message, now_ms)
        if job is None:
            continue
        if is_told:
            announce(node, peer, job)
        got.append(job_id)
    if got:
        node.batch_all(peer, GOT, got)


def come_again(node: "Node", peer: bytes, job: Job, spec: "JobSpec", message: "ReplJob", now_ms: int) -> Job | None:
    """A copy of ``job``, which is known here: its object from now on.

    None if it would take the place of a lost one, and nobody knows yet whether the job stays here: it is refused.
    """
    _, flags, _, _, left_ms, delay_ms, sent, _, _, _, more = message
    if not spec.retry:
        return job
    if flags & REPLACEMENT and job.state == WAIT_REPL:
        node.batch(peer, (REFUSED, REFUSED_GONE), job.id)
        return None
    add_holders(node, job, sent)
    return generations.come_with(node, peer, job, spec, more, left_ms, delay_ms, now_ms) or job


def keep(node: "Node", job: Job, due_ms: int, flags: int, held: int, now_ms: int) -> None:
    """A new copy waits as a backup until ``due_ms``; or it is queued then, when nobody else does that."""
    if flags & QUEUE_IT or not job.retry:
        start(node, job, due_ms, now_ms)
        return
    job.flags |= BACKUP
    node.hold(job, due_ms, held)
    if node.journaling:
        node.file(job)


def shared_by(node: "Node", sent: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """The holders of a job that another node sent: those that this node expects, and itself."""
    known = node.sharing.get(sent)
    departed = node.membership.departed
    if known is None or node.node_id not in known or (departed and not departed.keys().isdisjoint(sent)):
        expects = node.membership.expects
        known = node.shared(tuple(sorted({*[holder for holder in sent if expects(holder)], node.node_id})))
    return known


GOT: Final = (GOTJOB,)
SAY_HAVE: Final = (HAVE,)
SAY_STILL: Final = (SAY_QUEUED, STILL)
#: The number of an answer to nobody's question: it brings holders.
UNASKED: Final = 0


def announce(node: "Node", peer: bytes, job: Job) -> None:
    """Tell the holders of ``job``, but for the one who sent it, that there is a copy here, too.

    They are told again over each new link: this time it may not arrive.
    """
    job.flags |= REQUEUE_ANNOUNCED
    for holder in job.holders:
        if holder not in {peer, node.node_id}:
            node.batch(holder, SAY_HAVE, job.id)


def refusal(node: "Node", queue_name: bytes, flags: int) -> int:
    """Why this node keeps no copies of jobs of a queue, or -1. ``flags`` are those of REPLJOB."""
    if ends.is_short(node):
        return REFUSED_MEMORY
    if node.membership.leaving:
        return REFUSED_LEAVING
    if node.misconf:
        return REFUSED_JOURNAL
    if flags & REPLACEMENT:
        return -1
    queue = node.queues.get(queue_name)
    return REFUSED_PAUSED if queue is not None and queue.paused & PAUSED_IN else -1


def objection(node: "Node", job_id: bytes, size: int, reason: int) -> int:
    """Why this node takes no copy of a job with so many bytes, or -1. ``reason`` is what `refusal` said before."""
    if job_id in node.tombstones or job_id in node.acks.by_id:
        return REFUSED_GONE
    if reason >= 0:
        return reason
    if size > node.membership.myself.body_most:
        return REFUSED_SIZE
    return REFUSED_MEMORY if ends.is_short(node) else -1


def enqueue_here(node: "Node", peer: bytes, message: tuple[int, bytes, int], now_ms: int) -> None:
    """ENQUEUE: it is this node's turn to queue a job, now or when its delay is over.

    One that this node delivered stays out. One that it had handed on comes back.
    """
    _, job_id, delay_ms = message
    job = node.find(job_id)
    if job is None or job.state != ACTIVE or not job.retry or (job.flags & LEASE_OWNER and job.place < ELSEWHERE):
        return
    if job.flags & EXTRA and generations.catch_up(node, peer, job, now_ms):
        return
    queue = node.queues.get(job.queue)
    if queue is not None and queue.paused & PAUSED_IN:
        return
    node.drop_vote(job_id)
    start(node, job, now_ms + delay_ms, now_ms)
    announcements.tell_queued(node, job, STILL)


def aborted(node: "Node", peer: bytes, message: tuple[int, tuple[bytes, ...]], now_ms: int) -> None:
    """ABORT: the ADDJOB of these jobs failed. What was never queued, delivered or acknowledged is dropped."""
    del peer, now_ms
    for job_id in message[1]:
        job = node.find(job_id)
        if job is not None and job.state == ACTIVE and job.flags & BACKUP:
            if node.journaling:
                node.outbox.add((DELETE, job_id))
            node.remove(job)
            job = None
        if job is None:
            node.remember_gone(job_id)


def add_holders(node: "Node", job: Job, holders: "Iterable[bytes]") -> bool:
    """Note that these nodes may have a copy, too. Whether one of them is new.

    When the job is in the queue here, those that are new hear of it: one may have queued it as well.
    """
    new = standing.fresh(node, job.holders, holders)
    if not new:
        return False
    job.holders = node.shared(tuple(sorted([*job.holders, *new])))
    if node.journaling and job.segment:
        node.outbox.add((HOLDERS, job.id, job.holders))
    if job.state == QUEUED:
        job.flags |= REQUEUE_ANNOUNCED  # said again over each new link: this time it may not arrive
        for holder in new:
            node.batch(holder, SAY_STILL, job.id)
    return True


def name_holders(node: "Node", peer: bytes, job: Job) -> None:
    """Tell ``peer``, which did not ask, who may have a copy of ``job``: it does not know all of them."""
    node.batch(peer, (ANSWER, UNASKED, ANSWER_NO, job.holders), job.id)


def join_early(node: "Node", job: Job) -> None:
    """A copy of ``job`` has come: note those who said before that they have one."""
    if job.retry and len(node.early_holders):
        add_holders(node, job, node.early_holders.take(job.id))


def drop_holder(node: "Node", job: Job, peer_id: bytes) -> None:
    """This node has no copy after all."""
    if peer_id in job.holders:
        job.holders = node.shared(tuple([holder for holder in job.holders if holder != peer_id]))
