"""Jobs that go to another queue for good: MOVE, dead letters, REVIVE.

A move begins a generation of the job. The node that moves it puts it into the new queue and tells all other holders
(MOVED) until each has confirmed (GOTMOVE). Whoever hears of it tells the others as well, later: the first one may be
gone by then. Two nodes can move a job before either hears of the other: then one move wins, see `Extra.beats`.
"""

from typing import TYPE_CHECKING, Final

from cluster.capabilities import JOBS
from cluster.messages import GOTMOVE
from disque.core.model.extra import GENERATION_MOST, Extra, decode
from disque.core.model.job import ACKED, ACTIVE, DEFERRED, LEASE_OWNER, QUEUED, REQUEUE_ANNOUNCED, SPENT, WAIT_REPL, Job
from disque.core.model.memory import MOVE_BYTES
from disque.core.model.moves import Move
from disque.core.model.outcome import Relocated
from disque.core.model.peers import Peer
from disque.core.replication import acks, announcements, ends, generations, replica

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disque.core.model.spec import JobSpec
    from disque.core.node import Node

#: Between two repetitions, at first and at most; who was only told of a move is silent for so long. All in ms.
AGAIN_MS: Final = 1000
AGAIN_MOST_MS: Final = 60_000
SECOND_MS: Final = 3000
#: By how much each is later than that, at most.
AGAIN_SPREAD_MS: Final = 500
#: Moves that one step of a chore looks at.
SLICE: Final = 200


def may_move(job: Job) -> bool:
    """Whether ``job`` can be put into another queue: one that is delivered at most once must not have left its own."""
    return job.state in {ACTIVE, QUEUED} and not job.flags & SPENT


def move(
    node: "Node", job: Job, spec: "JobSpec", extra: Extra, life_ms: int, delay_ms: int, now_ms: int, event: int = 0
) -> bool:
    """Put ``job`` into the queue of ``spec``, now or in ``delay_ms``; it lives for ``life_ms`` from now.

    ``extra`` says what is to be known of it there; its generation is set here. ``event`` is what those hear who listen.
    False if it has moved too often.
    """
    if extra.generation + 1 >= GENERATION_MOST:
        return False
    node.pubsub.happened(event, job.spec.queue, job.id)
    if job.state == QUEUED:
        node.take_out(job, now_ms)
    node.drop_vote(job.id)
    extra.generation += 1
    extra.mover = node.node_id
    extra.sure = None
    node.put_extra(job, extra)
    job = generations.enter(node, job, spec, now_ms + life_ms)
    if delay_ms:
        node.hold(job, now_ms + delay_ms, DEFERRED | LEASE_OWNER)
    else:
        node.queue_when_sure(job, now_ms)
    generations.file_move(node, job)
    node.outcomes.append(Relocated(job.id))
    if node.ends.watched:
        ends.died(node, job)
    if len(job.holders) > 1 and job.retry:  # else the others keep its UNIQUE key, and have no copy
        tell(node, job, now_ms)
        tell_older(node, job)
        begin(node, job, now_ms + AGAIN_MS)
    return True


def begin(node: "Node", job: Job, due_ms: int) -> None:
    """The holders of ``job`` must hear where it is: from here, if not from others, at that time."""
    known = node.moves.by_id.get(job.id)
    if known is None:
        known = node.moves.by_id[job.id] = Move(job)
        node.used += MOVE_BYTES
    known.tries = 0
    node.timers.arm(known, min(due_ms + int(node.random.random() * AGAIN_SPREAD_MS), job.expires_ms))


def resume(node: "Node", job: Job, now_ms: int) -> None:
    """This process has found a job in its journal that has moved: nobody is known to know."""
    extra = node.extra_of(job)
    if extra is not None and extra.generation and len(job.holders) > 1 and job.retry:
        begin(node, job, now_ms + SECOND_MS)


def tell(node: "Node", job: Job, now_ms: int) -> bool:
    """MOVED to all holders that have not confirmed and can be reached. False when there is none left to be told."""
    is_open = False
    for holder in job.holders:
        if holder == node.node_id or not node.membership.expects(holder):
            continue
        peer = node.peers.get(holder)
        if peer is None or not generations.is_behind(node, holder, job):
            continue
        is_open = True
        if peer.linked:
            generations.catch_up(node, holder, job, now_ms)
    return is_open


def tell_older(node: "Node", job: Job) -> None:
    """Holders that do not understand MOVED hear that the job is queued here, so that they do not serve it as well."""
    for holder in job.holders:
        peer = node.peers.get(holder)
        if peer is not None and peer.linked and not peer.understands(JOBS):
            job.flags |= REQUEUE_ANNOUNCED  # it is said again over a new link
            node.batch(holder, replica.SAY_STILL, job.id)


def due(node: "Node", move: Move, now_ms: int) -> None:
    """Tell those again that have not confirmed."""
    job = move.job
    if node.moves.by_id.get(job.id) is not move:
        return
    if now_ms >= job.expires_ms or job.state == ACKED or not tell(node, job, now_ms):
        node.used -= node.moves.drop(job.id)
        return
    move.tries += 1
    wait_ms = min(AGAIN_MS << min(move.tries, 8), AGAIN_MOST_MS) + int(node.random.random() * AGAIN_SPREAD_MS)
    node.timers.arm(move, min(now_ms + wait_ms, job.expires_ms))


def tell_again(node: "Node", peer: Peer, saying: int) -> "Iterator[bool]":
    """There is a new link to or from ``peer``: MOVED for all jobs of which it may not know where they are."""
    is_enough = False
    for count, job_id in enumerate(list(node.extras.by_id), 1):
        if peer.saying != saying:
            return
        job = node.find(job_id)
        is_held = job is not None and peer.id in job.holders and job.state not in {ACKED, WAIT_REPL}
        if is_held and job is not None and generations.catch_up(node, peer.id, job, node.beat_ms):
            is_enough = peer.tell(len(job.queue))
        if is_enough or count % SLICE == 0:
            yield is_enough
            is_enough = False


# -- being told --------------------------------------------------------------------------------------------------------


def moved(
    node: "Node",
    peer: bytes,
    message: tuple[int, bytes, bytes, int, int, tuple[bytes, ...], bytes, tuple[bytes, ...]],
    now_ms: int,
) -> None:
    """MOVED: ``peer`` says where jobs are now."""
    _, queue, encoded, left_ms, delay_ms, holders, more, ids = message
    spec = node.specs.read(queue, encoded)
    extra = decode(more, now_ms)
    if spec is None or extra is None or not extra.generation or not spec.retry:
        node.messages_skipped += len(ids)
        return
    for job_id in ids:
        job = node.find(job_id)
        if job is not None and (job.state == WAIT_REPL or not job.retry):
            continue  # it says so again
        if job is None or job.state == ACKED:
            if job is not None or job_id in node.acks.by_id or job_id in node.tombstones:
                acks.tell_acked(node, peer, job_id)
                continue
        else:
            if peer not in job.holders or holders != job.holders:
                replica.add_holders(node, job, (*holders, peer))
            if generations.is_newer(node, job, extra, queue):
                job = generations.follow(node, peer, job, spec, extra, left_ms, delay_ms, now_ms)
                if node.ends.watched:
                    ends.died(node, job)
                begin(node, job, now_ms + SECOND_MS)
            elif not is_same(node, peer, job, extra):
                generations.catch_up(node, peer, job, now_ms)
                continue
        node.batch(peer, (GOTMOVE, extra.generation, extra.mover), job_id)
        say_rest(node, peer, job, holders)


def say_rest(node: "Node", peer: bytes, job: Job | None, holders: tuple[bytes, ...]) -> None:
    """``peer`` was not sure of this node until now: what it had heard from here about ``job`` did not count.

    It names ``holders``, and may not know the others, if it was away when they got their copies.
    """
    if job is None:
        return
    if holders != job.holders:
        replica.name_holders(node, peer, job)
    if job.state == QUEUED:
        job.flags |= REQUEUE_ANNOUNCED
    elif not (job.flags & REQUEUE_ANNOUNCED and announcements.is_put_off(job)):
        return
    node.batch(peer, replica.SAY_STILL, job.id)


def is_same(node: "Node", peer: bytes, job: Job, theirs: Extra) -> bool:
    """Whether ``peer`` knows what is known here. Then that is noted."""
    mine = node.extra_of(job)
    if mine is None or mine.generation != theirs.generation or mine.mover != theirs.mover:
        return False
    generations.merge(node, job, theirs)
    confirmed(node, peer, job)
    return True


def got_move(node: "Node", peer: bytes, message: tuple[int, int, bytes, tuple[bytes, ...]], now_ms: int) -> None:
    """GOTMOVE: ``peer`` knows where these jobs are, or does not know them."""
    del now_ms
    _, generation, mover, ids = message
    for job_id in ids:
        job = node.find(job_id)
        extra = None if job is None else node.extra_of(job)
        if job is not None and extra is not None and extra.generation == generation and extra.mover == mover:
            confirmed(node, peer, job)


def confirmed(node: "Node", peer: bytes, job: Job) -> None:
    """``peer`` knows where ``job`` is: when all do, nobody must be told."""
    extra = node.extra_of(job)
    assert extra is not None
    generations.note_sure(node, peer, extra)
    if job.id in node.moves.by_id and not any(
        holder != node.node_id and generations.is_behind(node, holder, job) for holder in job.holders
    ):
        node.used -= node.moves.drop(job.id)
