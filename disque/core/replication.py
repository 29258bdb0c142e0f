"""Copies of a job on other nodes before its ADDJOB is answered.

The job is registered as WAIT_REPL, REPLJOB goes to as many nodes as copies are wanted, and the session owes a reply
until enough of them have said GOTJOB. ADDJOBs pipelined on one connection wait side by side; their replies leave in
order. Whoever gives up (timeout, expiry, deletion, a client that is gone) takes the copies back with ABORT. In a
cluster of one no job ever waits here.
"""

from typing import TYPE_CHECKING

from cluster.messages import ABORT, REPLJOB
from disque.core import errors, resp, unique
from disque.core.job import ACTIVE, HELD, WAIT_REPL, Job
from disque.core.records import DELETE
from disque.core.session import NOT_WAITING, WAIT_COPIES, PendingAdd, Session

if TYPE_CHECKING:
    from disque.core.node import Node


def owe(node: "Node", session: Session, args: list[bytes], timeout_ms: int, now_ms: int) -> PendingAdd:
    """Note that ``session`` has an ADDJOB unanswered. 0 ms means that only the job's TTL ends the wait."""
    pending = PendingAdd(session, args)
    session.adds.append(pending)
    session.adds_bytes += pending.size
    session.waiting = WAIT_COPIES
    if timeout_ms:
        node.timers.arm(pending, now_ms + timeout_ms)
    return pending


def begin(node: "Node", pending: PendingAdd, job: Job, now_ms: int) -> None:
    """Ask other nodes for the copies of ``job`` that it needs beside the one here."""
    job.state = WAIT_REPL
    pending.job = job
    node.pending[job.id] = pending
    node.register(job)
    node.timers.arm(job, job.expires_ms)
    chosen = node.random.sample(node.membership.reachable(), job.repl - 1)
    job.holders = (node.node_id, *[peer.id for peer in chosen])
    left_ms = job.expires_ms - now_ms
    for peer in chosen:
        node.messages.append(
            (peer.id, (REPLJOB, job.id, job.queue, job.body, job.repl, left_ms, job.ctime, job.delay, job.retry))
        )


def got_job(node: "Node", peer: bytes, message: tuple[object, ...], now_ms: int) -> None:
    """``peer`` confirms its copy. Only nodes that were asked count, each once."""
    job_id = message[1] if len(message) > 1 else None
    pending = node.pending.get(job_id) if isinstance(job_id, bytes) else None
    if pending is None or pending.job is None or peer not in pending.job.holders:
        return
    pending.confirmed.add(peer)
    if len(pending.confirmed) + 1 >= pending.job.repl:
        achieved(node, pending, now_ms)


def achieved(node: "Node", pending: PendingAdd, now_ms: int) -> None:
    """All copies are there: the job begins its life, the client gets its ID."""
    job = pending.job
    assert job is not None
    del node.pending[job.id]
    pending.job = None
    start(node, job, now_ms)
    if node.journaling:
        pending.session.unsettled = True
    reply = resp.status(job.id)
    answer(node, pending, reply)
    key, pending.key = pending.key, None
    if key is not None:
        if node.journaling and node.keys.get((key.queue, key.name)) is key:
            unique.file(node, key)
        for other in unique.release(key):
            other.session.unsettled |= node.journaling
            other.key = None
            answer(node, other, reply)


def start(node: "Node", job: Job, now_ms: int) -> None:
    """Put a new job where it begins: into its queue, or aside until its delay is over. Writes its record."""
    job.state = ACTIVE
    if job.delay:
        node.hold(job, now_ms + job.delay * 1000, HELD)
    else:
        node.enqueue(job, now_ms)
    if node.journaling:
        node.file(job)


def time_out(node: "Node", pending: PendingAdd) -> None:
    """The client's timeout is over and not all copies are there."""
    give_up(node, pending, resp.error(errors.NO_REPL_TIMEOUT))


def job_removed(node: "Node", job: Job) -> None:
    """A job that waits for copies expires or is deleted; the caller removes it."""
    pending = node.pending.pop(job.id, None)
    if pending is not None:
        abort(node, job)
        pending.job = None
        undo_key(node, pending)
        answer(node, pending, resp.error(errors.NO_REPL_REMOVED))


def give_up(node: "Node", pending: PendingAdd, reply: bytes) -> None:
    """End an ADDJOB without a job: nothing of it stays here or elsewhere."""
    job, pending.job = pending.job, None
    if job is not None:
        del node.pending[job.id]
        abort(node, job)
        undo_key(node, pending)
        node.remove(job)
    elif pending.key is not None and pending.key.waiting:
        pending.key.waiting.remove(pending)
    pending.key = None
    answer(node, pending, reply)


def undo_key(node: "Node", pending: PendingAdd) -> None:
    """The job of ``pending`` came to nothing: whoever waited for its UNIQUE key tries itself at the next settle."""
    key, pending.key = pending.key, None
    if key is not None:
        for other in unique.heirs(node, key):
            other.key = None
            node.retries.append(other)


def abort(node: "Node", job: Job) -> None:
    """Take back what was asked of other nodes."""
    for holder in job.holders:
        if holder != node.node_id:
            node.messages.append((holder, (ABORT, job.id)))
    if node.journaling:
        node.journal.append((DELETE, job.id))


def answer(node: "Node", pending: PendingAdd, reply: bytes) -> None:
    """The reply of one ADDJOB is known; replies leave as far as all before them are known too."""
    pending.reply = reply
    node.timers.disarm(pending)
    session = pending.session
    adds = session.adds
    while adds and adds[0].reply:
        first = adds.popleft()
        session.adds_bytes -= first.size
        if not first.silent:
            session.out.append(first.reply)
    if not adds and session.waiting == WAIT_COPIES:
        session.waiting = NOT_WAITING
    node.touch(session)


def disconnect(node: "Node", session: Session) -> None:
    """A client is gone: what is undecided of its ADDJOBs is aborted, what is decided stays."""
    adds = list(session.adds)
    session.adds.clear()
    session.adds_bytes = 0
    for pending in adds:
        node.timers.disarm(pending)
        if not pending.reply:
            give_up(node, pending, b"")
    session.waiting = NOT_WAITING
