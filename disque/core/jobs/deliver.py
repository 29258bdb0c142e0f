"""GETJOB: how jobs reach consumers, and the line in which consumers wait.

A GETJOB takes one job from each of its queues in turn until it has COUNT or a whole pass yields nothing. When nothing
is there, the session stands in the line of each of its queues. `serve_lines` runs once before each flush, so all jobs
that arrived in one turn of the loop can leave in one reply. Lines are first come, first served.

A place in a line is counted as memory, and there is a bound for the places of all sessions. Who stands in many lines
leaves them some at a time, in the ticks, so that thousands who leave at once stop nobody: until then such a session is
skipped in its lines, and its next request waits.
"""

from typing import TYPE_CHECKING, Final

from disque.core.base import errors, resp
from disque.core.dedup import keys
from disque.core.federation import demand, supply
from disque.core.jobs import leases, meta
from disque.core.model.job import ACTIVE, EXTRA, SPENT, Job
from disque.core.model.memory import PLACE_BYTES
from disque.core.model.queue import PAUSED_OUT, Queue
from disque.core.model.session import NOT_WAITING, WAIT_JOBS, WAIT_LINES, Session
from disque.core.replication import spans

if TYPE_CHECKING:
    from disque.core.node import Node

#: Bounds of one reply: a larger COUNT is served in part.
JOBS_MOST = 10_000  # not Final: tests want less, compiled too
META_JOBS_MOST = 2_500  # with WITHMETA, which takes some us for each; not Final: tests want less, compiled too
BYTES_MOST = 8 << 20  # not Final: tests want less, compiled too
#: Replies with so many bytes of bodies are in pieces, and bodies from the second length on are pieces of their own.
LARGE_REPLY = 1 << 20  # not Final: tests want less, compiled too
LARGE_PIECE = 1 << 14  # not Final: tests want less, compiled too
COUNTS: Final = b"$5\r\nnacks\r\n:%d\r\n$21\r\nadditional-deliveries\r\n:%d\r\n"
#: Queues in which one session may wait: each of them is made for that when it is not there.
QUEUES_MOST: Final = 4096
#: Places in all lines together; beyond them a session may still wait in a few queues.
PLACES_MOST = 500_000  # not Final: tests want less, compiled too
#: So many queues are few: their lines are left at once.
FEW: Final = 16
#: Places that one tick takes out of lines.
LEAVE_MOST = 5000  # not Final: tests want less, compiled too

#: Jobs that one settle hands out before it lets others have their turn, however many wait for them and want them. It
#: ends with the reply that reaches this.
SERVE_MOST = 1000  # not Final: tests want less, compiled too


def take(
    node: "Node", session: Session, queues: list[Queue], count: int, bytes_most: int, lease_ms: int, now_ms: int
) -> list[Job]:
    """Pop up to ``count`` jobs, one from each queue in turn, and mark them as delivered to ``session``.

    The last one is that with which they have ``bytes_most`` bytes. ``lease_ms`` is how long the deliveries last; 0: for
    the RETRY of each.
    """
    taken: list[Job] = []
    if node.reconciling:
        return taken
    size = 0
    count, size_most = min(count, JOBS_MOST), min(bytes_most, BYTES_MOST)
    sources = live = [queue for queue in queues if queue.length and not queue.paused & PAUSED_OUT]
    while live and len(taken) < count and size < size_most:
        for queue in live:
            job = queue.pop()
            if job is not None:
                if now_ms >= queue.sample_ms:
                    spans.note_wait(queue, job, now_ms)
                node.delivered(job, now_ms)
                queue.jobs_out += 1
                queue.used_ms = queue.consumed_ms = now_ms
                taken.append(job)
                size += len(job.body) + len(queue.name) + (extra_bytes(node, job) if job.flags & EXTRA else 0)
                if len(taken) == count or size >= size_most:
                    break
        live = [queue for queue in live if queue.length]
    for queue in sources:
        if queue.length <= queue.low:
            demand.drained(node, queue)
    if lease_ms:
        leases.begin_all(node, taken, lease_ms, now_ms)
    session.handed.extend([(job, job.requeue_ms, job.nacks, job.deliveries) for job in taken])
    return taken


def extra_bytes(node: "Node", job: Job) -> int:
    """For how much the headers of a job count in a reply: WITHMETA shows them, and each takes time, too."""
    extra = node.extra_of(job)
    return 0 if extra is None else extra.size()


def take_strictly(
    node: "Node", session: Session, queues: list[Queue], count: int, bytes_most: int, lease_ms: int, now_ms: int
) -> list[Job]:
    """As `take`, but from each queue all that it has before the next one is looked at."""
    taken: list[Job] = []
    count, size_most = min(count, JOBS_MOST), min(bytes_most, BYTES_MOST)
    for queue in queues:
        some = take(node, session, [queue], count - len(taken), size_most, lease_ms, now_ms)
        taken += some
        size_most -= sum([len(job.body) + len(queue.name) + extra_bytes(node, job) for job in some])
        if len(taken) >= count or size_most <= 0:
            break
    return taken


def give_one(node: "Node", session: Session, queue: Queue, now_ms: int) -> None:
    """Answer with the oldest job of ``queue``, which has one to give: what nearly every GETJOB comes to."""
    job = queue.pop()
    assert job is not None
    if now_ms >= queue.sample_ms:
        spans.note_wait(queue, job, now_ms)
    node.delivered(job, now_ms)
    queue.jobs_out += 1
    queue.used_ms = queue.consumed_ms = now_ms
    if queue.length == queue.low:
        demand.drained(node, queue)
    session.handed.append((job, job.requeue_ms, job.nacks, job.deliveries))
    body = job.body
    if len(body) >= LARGE_REPLY:
        session.out += encode(node, [job], counters=False, bodies=True)
        session.large = True
        return
    session.out.append(b"*1\r\n*3\r\n%b$40\r\n%b\r\n%b%b\r\n" % (queue.header, job.id, resp.head(len(body)), body))


def encode(
    node: "Node", jobs: list[Job], *, counters: bool, bodies: bool, metas: "list[bytes] | None" = None
) -> list[bytes]:
    """The reply with these jobs, in the shape of RESP2 whatever the protocol. Without ``bodies`` it has their sizes.

    It is one piece, or several with the larger bodies as they are: to copy some MB would stop the node. ``metas`` are
    one more value for each job.
    """
    if metas is not None:
        return encode_with(node, jobs, metas, counters=counters, bodies=bodies)
    large = bodies and sum([len(job.body) for job in jobs]) >= LARGE_REPLY
    parts = [b"*%d\r\n" % len(jobs)]
    for job in jobs:
        queue = node.queues.get(job.queue)
        header = resp.bulk(job.queue) if queue is None else queue.header
        body = job.body
        if not bodies:
            counts = COUNTS % (job.nacks, job.deliveries) if counters else b""
            words = 7 if counters else 3
            parts.append(b"*%d\r\n%b$40\r\n%b\r\n:%d\r\n%b" % (words, header, job.id, len(body), counts))
        elif large and len(body) >= LARGE_PIECE:
            parts += (b"*%d\r\n%b$40\r\n%b\r\n%b" % (7 if counters else 3, header, job.id, resp.head(len(body))), body)
            parts.append(b"\r\n" + (COUNTS % (job.nacks, job.deliveries) if counters else b""))
        elif counters:
            parts.append(
                b"*7\r\n%b$40\r\n%b\r\n$%d\r\n%b\r\n$5\r\nnacks\r\n:%d\r\n$21\r\nadditional-deliveries\r\n:%d\r\n"
                % (header, job.id, len(body), body, job.nacks, job.deliveries)
            )
        else:
            parts.append(b"*3\r\n%b$40\r\n%b\r\n%b%b\r\n" % (header, job.id, resp.head(len(body)), body))
    return parts if large else [b"".join(parts)]


def encode_with(node: "Node", jobs: list[Job], metas: list[bytes], *, counters: bool, bodies: bool) -> list[bytes]:
    """The reply with these jobs, each with one more value at its end."""
    pieces = [b"*%d\r\n" % len(jobs)]
    for job, value in zip(jobs, metas, strict=True):
        head, *rest = encode(node, [job], counters=counters, bodies=bodies)
        if rest:  # how many jobs there are is a piece of its own then
            head += rest.pop(0)
        words = (7 if counters else 3) + 1
        pieces += (b"*%d\r\n%b" % (words, head[len(ONE_OF_THREE) :]), *rest, value)
    is_large = bodies and sum([len(job.body) for job in jobs]) >= LARGE_REPLY
    return pieces if is_large else [b"".join(pieces)]


#: How the reply with one job begins, whatever the number of its words.
ONE_OF_THREE: Final = b"*1\r\n*3\r\n"


def block(node: "Node", session: Session, names: list[bytes], count: int, timeout_ms: int, now_ms: int) -> None:
    """Let ``session`` wait for jobs in any of ``names``; 0 ms means for ever."""
    session.waiting = WAIT_JOBS
    session.wait_count = count
    session.wait_queues = [node.queue(name, now_ms) for name in dict.fromkeys(names)]
    for queue in session.wait_queues:
        queue.wait(session)
    places = len(session.wait_queues)
    node.places += places
    node.used += places * PLACE_BYTES
    if timeout_ms:
        node.timers.arm(session, now_ms + timeout_ms)
    if node.linked:
        demand.wait(node, session.wait_queues)


def unblock(node: "Node", session: Session, reply: bytes) -> None:
    """End the wait of ``session`` with ``reply``."""
    leave_lines(node, session)
    node.timers.disarm(session)
    if session.wait_silent:
        session.wait_silent = False
    else:
        session.out.append(reply)
    node.touch(session)


def leave_lines(node: "Node", session: Session) -> None:
    """Let ``session`` wait no more: it leaves a few lines at once, many of them some at a time."""
    queues = session.wait_queues
    if len(queues) > FEW:
        session.waiting = WAIT_LINES
        node.leavers.append(session)
        return
    session.waiting = NOT_WAITING
    session.wait_queues = []
    for queue in queues:
        queue.leave(session)
    node.places -= len(queues)
    node.used -= len(queues) * PLACE_BYTES


def leave_some(node: "Node") -> None:
    """Take those who wait no more out of some of their lines; who has left all of them may go on."""
    left = LEAVE_MOST
    while left > 0 and node.leavers:
        session = node.leavers[0]
        queues = session.wait_queues
        count = min(left, len(queues))
        for _ in range(count):
            queues.pop().leave(session)
        left -= count + 1
        node.places -= count
        node.used -= count * PLACE_BYTES
        if not queues:
            node.leavers.popleft()
            if session.waiting == WAIT_LINES:
                session.waiting = NOT_WAITING
                node.touch(session)


def time_out(node: "Node", session: Session, now_ms: int) -> None:
    """The TIMEOUT of a waiting GETJOB is over."""
    del now_ms
    unblock(node, session, resp.null_array(session.protocol))


def serve_lines(node: "Node", now_ms: int) -> None:
    """Give what is there to those who wait: each ready queue in turn, its line in order, then the other nodes.

    While the node is frozen nobody gets anything; every queue is woken when that ends.
    """
    served = 0
    while node.ready and served < SERVE_MOST:
        queue = node.ready[0]
        if not node.reconciling:
            served += serve_line(node, queue, SERVE_MOST - served, now_ms)
            if (queue.wants is not None or node.federation.crowded) and served < SERVE_MOST:
                served += supply.give(node, queue, now_ms, SERVE_MOST - served)
            if served >= SERVE_MOST and queue.length:
                node.ready.rotate(-1)
                return
        queue.ready = False
        node.ready.popleft()


def serve_line(node: "Node", queue: Queue, most: int, now_ms: int) -> int:
    """Serve those who wait for jobs of ``queue`` until about ``most`` jobs are given; how many were."""
    served = 0
    while served < most and queue.waiters and queue.length and not queue.paused & PAUSED_OUT:
        session = next(iter(queue.waiters))
        if session.waiting == WAIT_JOBS:
            assert isinstance(session, Session)
            served += serve(node, session, now_ms)
        else:
            pass_over(queue)
    return served


def pass_over(queue: Queue) -> None:
    """Take those out of the front of the line who wait no more and did not come to leave it yet."""
    gone = []
    for session in queue.waiters or ():
        if session.waiting == WAIT_JOBS:
            break
        gone.append(session)
    for session in gone:
        queue.leave(session)


def serve(node: "Node", session: Session, now_ms: int) -> int:
    """Answer one waiting session with what there is in those of its queues where nobody stands before it.

    Returns with how many jobs, and a little more for one that waits in many queues: each of them was looked at.
    """
    looks = len(session.wait_queues) >> 4
    first_in = [queue for queue in session.wait_queues if queue.waiters and next(iter(queue.waiters)) is session]
    handed = len(session.handed)
    count, size, lease_ms = session.wait_count, session.wait_bytes, session.wait_lease_ms
    if session.wait_strict:
        jobs = take_strictly(node, session, first_in, count, size, lease_ms, now_ms)
    else:
        jobs = take(node, session, first_in, count, size, lease_ms, now_ms)
    if session.wait_silent:
        del session.handed[handed:]
    if node.journaling and any(not job.retry for job in jobs):
        session.unsettled = True
    metas = [meta.encode(node, job, session.protocol, now_ms) for job in jobs] if session.wait_meta else None
    reply = encode(node, jobs, counters=session.wait_counters, bodies=session.wait_bodies, metas=metas)
    if len(reply) > 1 and not session.wait_silent:
        session.large = True
        session.out += reply[:-1]
    unblock(node, session, reply[-1])
    return len(jobs) + looks


def give_back(node: "Node", session: Session, now_ms: int) -> None:
    """The connection died before any byte of these replies left: what is in them goes back as if nothing had happened.

    The record that spent an at-most-once job may be written already; a fresh record of the job brings it back. What has
    happened to a job since (WORKING, NACK, a RETRY, a delivery to somebody else) stays.
    """
    handed, session.handed = session.handed, []
    for job, requeue_ms, nacks, deliveries in handed:
        if job.state != ACTIVE or node.find(job.id) is not job:
            continue
        if (job.requeue_ms, job.nacks, job.deliveries) != (requeue_ms, nacks, deliveries):
            continue
        if job.flags & SPENT:
            job.flags &= ~SPENT
            node.evictable.take_back(job)
            node.enqueue(job, now_ms)
            if node.journaling:
                refile(node, job)
        else:
            node.enqueue(job, now_ms)


def refile(node: "Node", job: Job) -> None:
    """Write ``job`` again, and behind it the UNIQUE key that lasts as long as it: replay wants them in this order."""
    node.file(job)
    key = node.unique.by_job.get(job.id)
    if key is not None:
        keys.file(node, key)


def disconnect_waiting(node: "Node", session: Session) -> None:
    """A session in a line is gone: take it out without a reply."""
    leave_lines(node, session)
    node.timers.disarm(session)


def leaving(node: "Node") -> None:
    """This node leaves the cluster: everybody who waits for jobs is sent elsewhere."""
    for session in list(node.sessions.values()):
        if session.waiting == WAIT_JOBS:
            unblock(node, session, resp.error(errors.LEAVING))
