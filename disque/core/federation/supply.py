"""Jobs travel to where consumers wait.

A node whose consumers wait in vain asks all others (NEEDJOBS). A request stands until as many jobs were sent, it is
taken back, or a minute has passed, so the first job after a silence travels at once. Whoever has jobs and no use for
them sends some (YOURJOBS): its own waiting consumers come first, then the nodes that want jobs, in fair turns.

*Asking.* Since every node may answer, little is asked for at first: what waits, spread over the nodes. When jobs come
quickly, the nodes that send them are asked for what lasts AHEAD_MS, and again when half of that has come or been used
up, so a consumer never waits for a round trip, and one that is slow does not hoard. A message of JOBS_MOST jobs or
BYTES_MOST bytes ends its request, on both sides. When nobody has waited for a while, the requests are taken back.

*Giving.* Imported jobs must neither travel in circles nor be stranded where nobody wants them any more. A queue that
imported lately gives nothing while it is in use here. What it may still hold of its imports goes only to requests that
have stood for OLD_MS, and not within SETTLE_MS; so a client that looks in now and then (NOHANG) cannot draw jobs away
from another one that does the same.

*Offers.* What is kept back like that while nobody waits for it here must not keep somebody waiting elsewhere. So those
who want some are told (OFFER), each once until it says something again. It notes that; when somebody waits there, now
or later, it answers (NEEDNOW), and gets jobs at once. So jobs that travel against the rules above are taken by a
consumer where they arrive, and cannot go back and forth.

*Bounds.* Of the requests of one node only so many are remembered. When some had to be dropped, it may want jobs of any
queue: it is offered those that come into queues of which it is not known. That costs a round trip, where forgetting
would cost half a minute, the time until it asks again; so consumers may wait in as many queues as they like.

*The hand-over.* A job with a RETRY stays here as a copy: this node speaks for it until that RETRY would be over (see
`arbitration`), which covers the time on the way. The importer is a holder, in the journal too, before the message
leaves; it takes over the list of holders and tells them (HAVE). A job without a RETRY is deleted here, in the journal
too, before the message leaves, and comes back only if no byte of the message did.

A node beyond its limit of memory asks for nothing, but what it asked for before may be on its way. It leaves jobs with
a RETRY to the sender, who queues them again when that is over; those without are taken, as many as were asked for.
"""

from typing import TYPE_CHECKING, Any, Final

from cluster.capabilities import JOBS
from cluster.membership import UNREACHABLE
from cluster.messages import (
    OFFER,
    ROW_BODY,
    ROW_CTIME,
    ROW_DELIVERIES,
    ROW_HOLDERS,
    ROW_ID,
    ROW_LEFT_MS,
    ROW_MORE,
    ROW_NACKS,
    ROW_SPEC,
    STILL,
    YOURJOBS,
    yourjobs_row,
)
from disque.core.dedup import keys
from disque.core.federation import demand
from disque.core.journal.schema import DELETE, HOLDERS
from disque.core.model.demand import NOW_MS, STOCK_MS, Standing
from disque.core.model.extra import is_sound
from disque.core.model.flow import Flow, Want
from disque.core.model.job import (
    ACKED,
    ACTIVE,
    BACKUP,
    COUNTER_MAX,
    CTIME_MOST,
    DEFERRED,
    EXTRA,
    LEASE_OWNER,
    QUEUED,
    REQUEUE_ANNOUNCED,
    Job,
)
from disque.core.model.jobid import comes_again, valid
from disque.core.model.queue import ELSEWHERE, PAUSED_OUT, Queue, place_at
from disque.core.replication import acks, announcements, arbitration, generations, replica

if TYPE_CHECKING:
    from cluster.messages import Row, YourJobs
    from disque.core.model.spec import JobSpec
    from disque.core.node import Node

#: Bounds of one YOURJOBS, and what a job counts for beside its body. Both sides must agree on them.
JOBS_MOST = 1000  # not Final: tests want less, compiled too
BYTES_MOST = 4 << 20  # not Final: tests want less, compiled too
ROW_BYTES: Final = 200
#: Jobs with a body that the other node does not take that one hand-over passes by: they stay where they are.
STAY_MOST: Final = 100
#: The most jobs that one request is good for.
COUNT_MOST: Final = 10_000
#: A queue is in use for so long after a delivery, and while that long has not passed since an import, gives nothing.
IN_USE_MS: Final = 5000
#: Imports stay for so long at least, and a request that has stood so long is old. Both in ms.
SETTLE_MS: Final = 1000
OLD_MS: Final = 5000

#: So far beyond the limit of memory a job is taken in that nobody else has, whether or not it was asked for.
NOWHERE_ELSE_BYTES = 32 << 20  # not Final: tests want less, compiled too
#: Wants of one node that one beat ends.
ENDS_MOST: Final = 500


# -- giving ------------------------------------------------------------------------------------------------------------


def need_jobs(node: "Node", peer: bytes, message: tuple[int, bytes, int], now_ms: int) -> None:
    """NEEDJOBS: from now on ``peer`` wants so many jobs of a queue; 0 takes the request back."""
    _, name, count = message
    if count and not node.peers[peer].stopping:
        note(node, name, peer, count, now_ms)
    else:
        unwant(node, name, peer)


def need_now(node: "Node", peer: bytes, message: tuple[int, bytes, int], now_ms: int) -> None:
    """NEEDNOW: ``peer`` was offered jobs, and so many can be handed to somebody who waits there at this moment."""
    _, name, count = message
    if not node.peers[peer].stopping:
        note(node, name, peer, max(1, count), now_ms).now_ms = now_ms + NOW_MS


def note(node: "Node", name: bytes, peer: bytes, count: int, now_ms: int) -> Want:
    """Note what ``peer`` wants of a queue."""
    want = node.federation.want(name, peer, min(count, COUNT_MOST), now_ms)
    queue = node.queues.get(name)
    if queue is not None:
        queue.wants = node.federation.wants[name]
        node.wake(queue)
    crowd_out(node, peer, now_ms)
    return want


def crowd_out(node: "Node", peer: bytes, now_ms: int) -> None:
    """Forget the oldest wants of ``peer`` beyond bounds."""
    federation = node.federation
    standing = federation.standing[peer]
    while standing.too_many():
        oldest = standing.oldest()
        if oldest.count:
            federation.crowd(peer, now_ms)
        unwant(node, oldest.name, peer)


def note_crowded(node: "Node", queue: Queue, now_ms: int) -> None:
    """Nodes of which wants were dropped may want jobs of ``queue``."""
    federation = node.federation
    for peer in list(federation.crowded):
        if (queue.wants is None or peer not in queue.wants) and can_take(node, peer):
            federation.want(queue.name, peer, 0, now_ms).dropped = True
            queue.wants = federation.wants[queue.name]
            crowd_out(node, peer, now_ms)


def unwant(node: "Node", name: bytes, peer: bytes) -> None:
    """Forget what ``peer`` wants of a queue."""
    if node.federation.unwant(name, peer):
        queue = node.queues.get(name)
        if queue is not None:
            queue.wants = None


def unwant_all(node: "Node", peer: bytes) -> None:
    """Forget all that ``peer`` wants."""
    federation = node.federation
    standing = federation.standing.get(peer)
    for name in list(standing.wants) if standing is not None else ():
        unwant(node, name, peer)
    federation.crowded.pop(peer, None)


def can_take(node: "Node", peer_id: bytes) -> bool:
    """Whether jobs may be sent to this node: it can be reached and does not leave."""
    peer = node.peers.get(peer_id)
    known = node.membership.nodes.get(peer_id)
    return peer is not None and peer.linked and known is not None and not known.flags & UNREACHABLE


def in_use(queue: Queue, now_ms: int) -> bool:
    """Whether this queue has consumers here."""
    flow = queue.flow
    if queue.waiters is not None or now_ms - queue.consumed_ms < IN_USE_MS:
        return True
    return flow is not None and now_ms - flow.polled_ms < demand.POLLED_MS


def may_give(node: "Node", queue: Queue, now_ms: int) -> bool:
    """Whether there is something to give, and nothing forbids it. Nodes of which wants are lost may want it."""
    if not queue.length or queue.paused & PAUSED_OUT or node.reconciling:
        return False
    if node.misconf:
        node.federation.stalled = True
        return False
    if node.federation.crowded:
        note_crowded(node, queue, now_ms)
    return True


def give(node: "Node", queue: Queue, now_ms: int, most: int) -> int:
    """Send jobs of ``queue`` to the nodes that want them, ``most`` at most; how many were sent.

    When something keeps back jobs that are wanted, the timer of the queue is set to look again.
    """
    wants = queue.wants if may_give(node, queue, now_ms) else None
    if wants is None:
        return 0
    able = [want for want in wants.values() if want.count and want.until_ms > now_ms and can_take(node, want.peer)]
    flow = queue.flow
    if flow is None or now_ms - flow.imported_ms >= STOCK_MS:
        flow = None
    elif able and now_ms - flow.imported_ms < IN_USE_MS and in_use(queue, now_ms):
        look_again(node, queue, flow.imported_ms + IN_USE_MS)
        able = [want for want in able if is_waited_for(queue, want, now_ms)]
    if able and 0 <= now_ms - queue.consumed_ms < IN_USE_MS:
        look_again(node, queue, queue.consumed_ms + IN_USE_MS)  # what is kept for consumers here may not be wanted
    given = 0
    for turn, want in enumerate(able):
        count = share(queue, want, len(able) - turn, now_ms)
        if flow is not None and not is_waited_for(queue, want, now_ms):
            count = min(count, spare(node, queue, flow, want, now_ms))
        count = min(count, most - given)
        if count > 0:
            given += hand_over(node, queue, want, count, now_ms)
    if queue.length and given < most:
        offer(node, queue, now_ms)
    return given


def is_waited_for(queue: Queue, want: Want, now_ms: int) -> bool:
    """Whether somebody waits for jobs where they are wanted, and nobody does here."""
    return want.now_ms > now_ms and queue.waiters is None


def offer(node: "Node", queue: Queue, now_ms: int) -> None:
    """Tell those who want jobs of ``queue`` that there are some which they do not get unasked."""
    if queue.wants is None:
        return
    for want in queue.wants.values():
        wanted = want.count > 0 or want.dropped
        if not wanted or want.offered or want.until_ms <= now_ms or not can_take(node, want.peer):
            continue
        if has_fitting(node, queue, want.peer):
            want.offered = True
            node.send(want.peer, (OFFER, queue.name))


def has_fitting(node: "Node", queue: Queue, peer: bytes) -> bool:
    """Whether `hand_over` would find a job with a body that ``peer`` takes: an offer is not to be taken up in vain."""
    head = queue.head()
    if head is None or len(head.body) <= node.body_least:
        return True
    takes = node.peers[peer].takes
    return any(takes(len(job.body)) for job in queue.peek(STAY_MOST))


def share(queue: Queue, want: Want, takers: int, now_ms: int) -> int:
    """How many jobs ``want`` may get when so many want some: half of what there is, if the queue has consumers here."""
    length = queue.length
    count = min(want.count, JOBS_MOST)
    if length < 2 * count and (queue.waiters is not None or now_ms - queue.consumed_ms < IN_USE_MS):
        count = min(count, max(1, length // 2))
    return min(count, -(-length // takers))


def spare(node: "Node", queue: Queue, flow: Flow, want: Want, now_ms: int) -> int:
    """How many jobs may go to ``want`` from a queue that has imported some."""
    ripe_ms = max(want.since_ms + OLD_MS, flow.imported_ms + SETTLE_MS)
    if now_ms >= ripe_ms:
        return queue.length
    look_again(node, queue, ripe_ms)
    return queue.length - min(flow.stock, queue.length)


def look_again(node: "Node", queue: Queue, due_ms: int) -> None:
    """Wake ``queue`` at that time at the latest."""
    if due_ms < queue.due_ms:
        node.timers.arm(queue, due_ms)


def hand_over(node: "Node", queue: Queue, want: Want, count: int, now_ms: int) -> int:
    """Send up to ``count`` of the oldest jobs in one message; how many."""
    peer = want.peer
    rows: list[Row] = []
    size = 0
    old: tuple[bytes, ...] = ()
    new = old
    jitter_ms = int(node.random.random() * announcements.JITTER_MS)
    stay: list[Job] = []
    place = place_at(peer)
    while len(rows) < count and size < BYTES_MOST:
        job = queue.pop()
        if job is not None and len(job.body) > node.body_least:
            job = fitting(node, queue, job, peer, stay)
        if job is None:
            break
        body = job.body
        more = node.more_of(job, now_ms) if job.flags & EXTRA else b""
        size += len(body) + len(more) + ROW_BYTES
        left_ms = max(1, job.expires_ms - now_ms)
        rows.append(
            yourjobs_row(
                job.id,
                body,
                job.spec.encoded,
                left_ms=left_ms,
                ctime=job.ctime,
                nacks=job.nacks,
                deliveries=job.deliveries,
                holders=named(node, job, peer),
                more=more,
            )
        )
        if not job.retry:
            let_go(node, job)
            continue
        if job.holders is not old:
            old = job.holders
            new = old if peer in old else node.shared(tuple(sorted([*old, peer])))
        if new is not old:
            job.holders = new
            if node.journaling:
                node.outbox.add((HOLDERS, job.id, new))
        job.place = place
        node.hold(job, now_ms + job.retry * 1000 + jitter_ms, LEASE_OWNER)
    for job in stay:
        queue.push(job)
    if rows:
        handed(node, queue, want, rows, size, now_ms)
    return len(rows)


def handed(node: "Node", queue: Queue, want: Want, rows: "list[Row]", size: int, now_ms: int) -> None:
    """Send what was taken out of ``queue`` for ``want``, and note it."""
    peer = want.peer
    node.send(peer, (YOURJOBS, queue.name, tuple(rows)))
    queue.jobs_out += len(rows)
    queue.given += len(rows)
    queue.used_ms = now_ms
    want.count = 0 if ends(len(rows), size) else want.count - len(rows)
    want.now_ms = 0
    node.federation.used(want)
    if queue.flow is not None:
        queue.flow.stock = min(queue.flow.stock, queue.length)


def fitting(node: "Node", queue: Queue, job: Job, peer: bytes, stay: list[Job]) -> Job | None:
    """``job``, or the next one in its queue with a body that ``peer`` takes. The others are in ``stay``."""
    found: Job | None = job
    while found is not None and not node.peers[peer].takes(len(found.body)):
        stay.append(found)
        found = queue.pop() if len(stay) < STAY_MOST else None
    return found


def let_go(node: "Node", job: Job) -> None:
    """A job that is delivered at most once leaves this node."""
    job.state = ACTIVE
    if node.journaling:
        node.outbox.add((DELETE, job.id))
    keys.part(node, job)


def named(node: "Node", job: Job, peer: bytes) -> tuple[bytes, ...]:
    """The holders of ``job`` for YOURJOBS.

    A job that is delivered at most once has more than one only to say that they keep its UNIQUE key.
    """
    if not job.retry and len(job.holders) == 1 and job.id in node.unique.by_job:
        return tuple(sorted({*job.holders, peer}))
    return job.holders


def ends(count: int, size: int) -> bool:
    """Whether a message of so many jobs and bytes ends the request that it answers."""
    return count >= JOBS_MOST or size >= BYTES_MOST


def take_back(node: "Node", peer: bytes, message: tuple[Any, ...], now_ms: int) -> None:
    """No byte of this YOURJOBS has left: its jobs go back to their queue."""
    _, name, rows = message
    for row in rows:
        job_id = row[ROW_ID]
        job = node.find(job_id)
        if job is not None:
            if peer not in row[ROW_HOLDERS]:
                replica.drop_holder(node, job, peer)
            if job.state == ACTIVE and job.place >= ELSEWHERE and not job.flags & DEFERRED:
                node.drop_vote(job.id)
                node.enqueue(job, now_ms)
            continue
        spec = node.specs.read(name, row[ROW_SPEC])
        if spec is not None and not spec.retry and job_id not in node.tombstones:
            take_in(node, peer, spec, row, node.selves, now_ms)


# -- getting -----------------------------------------------------------------------------------------------------------


def your_jobs(node: "Node", peer: bytes, message: "YourJobs", now_ms: int) -> None:
    """YOURJOBS: ``peer`` sends jobs that this node asked for."""
    _, name, rows = message
    queue = node.queues.get(name)
    before = queue.length if queue is not None else 0
    name = queue.name if queue is not None else name
    mine: dict[tuple[bytes, ...], tuple[bytes, ...]] = {}
    news: dict[tuple[bytes, ...], list[bytes]] = {}
    size = taken = 0
    most = node.limits.most
    sender = node.peers[peer]
    for row in rows:
        job_id = row[ROW_ID]
        size += len(row[ROW_BODY]) + len(row[ROW_MORE]) + ROW_BYTES
        spec = node.specs.read(name, row[ROW_SPEC])
        if spec is None or not is_true(row, spec):
            node.messages_skipped += 1
            continue
        job = node.find(job_id)
        if job is not None:
            taken += meet(node, peer, job, spec, row, now_ms)
        elif node.used > most and (spec.retry or (sender.owed <= taken and node.used > most + NOWHERE_ELSE_BYTES)):
            node.messages_skipped += 1
        elif not is_over(node, peer, job_id):
            sent = row[ROW_HOLDERS]
            holders = mine.get(sent) if spec.retry or len(sent) > 1 else node.selves
            if holders is None:
                holders = mine[sent] = merged(node, sent, peer)
            taken += 1
            take_in(node, peer, spec, row, holders, now_ms)
            if len(holders) > 2:
                news.setdefault(holders, []).append(job_id)
    sender.owed = max(0, sender.owed - len(rows))
    announce(node, peer, news)
    arrived(node, name, peer, len(rows), size, taken, before, now_ms)


def from_a_stranger(node: "Node", message: "YourJobs", now_ms: int) -> None:
    """YOURJOBS of a node that is not (or no more) of the cluster: what it has kept no copy of is taken in."""
    _, name, rows = message
    node.messages_skipped += 1
    for row in rows:
        job_id = row[ROW_ID]
        if node.used > node.limits.warn:
            break  # it is a stranger: what it sends must not cost more memory than there is
        spec = node.specs.read(name, row[ROW_SPEC])
        is_new = node.find(job_id) is None and job_id not in node.tombstones
        if spec is not None and not spec.retry and is_new and is_true(row, spec):
            take_in(node, b"", spec, row, node.selves, now_ms)


def is_true(row: "Row", spec: "JobSpec") -> bool:
    """Whether a node that tells the truth can say this of a job."""
    job_id = row[ROW_ID]
    is_right = valid(job_id) and comes_again(job_id) == (spec.retry > 0) and row[ROW_CTIME] <= CTIME_MOST
    return is_right and is_sound(row[ROW_MORE])


def is_over(node: "Node", peer: bytes, job_id: bytes) -> bool:
    """Whether a job that is not known here must not come; ``peer`` is told if it is acknowledged."""
    if job_id in node.acks.by_id:
        acks.tell_acked(node, peer, job_id)
        return True
    return job_id in node.tombstones


def merged(node: "Node", holders: tuple[bytes, ...], peer: bytes) -> tuple[bytes, ...]:
    """The holders of a job that ``peer`` sends: those it named, itself, and this node."""
    expects = node.membership.expects
    return node.shared(tuple(sorted({*[holder for holder in holders if expects(holder)], peer, node.node_id})))


def take_in(node: "Node", peer: bytes, spec: "JobSpec", row: "Row", holders: tuple[bytes, ...], now_ms: int) -> None:
    """Queue a job that is new here."""
    job_id, body, _, left_ms, ctime, nacks, deliveries, _, more = row
    job = Job(job_id, spec, body, ctime, now_ms + left_ms, 0, holders)
    job.nacks = min(nacks, COUNTER_MAX)
    job.deliveries = min(deliveries, COUNTER_MAX)
    if len(holders) > 1:
        job.flags = REQUEUE_ANNOUNCED
    node.register(job)
    generations.begin(node, peer, job, more, now_ms)
    node.enqueue(job, now_ms)
    if node.journaling:
        node.file(job)
    replica.join_early(node, job)


def meet(node: "Node", peer: bytes, job: Job, spec: "JobSpec", row: "Row", now_ms: int) -> int:
    """``peer`` sends a job that is known here: 1 if it goes into its queue, else 0.

    Who cannot be told of moves gives a job out where it was. It goes into the queue where it is: else that node would
    give it here again and again, and it would reach nobody.
    """
    if job.state == ACKED:
        acks.tell_acked(node, peer, job.id)
        return 0
    if not job.retry:
        return 0  # there are two, which must not be: one of them is enough
    replica.add_holders(node, job, (*row[ROW_HOLDERS], peer))
    here = generations.come_with(node, peer, job, spec, row[ROW_MORE], row[ROW_LEFT_MS], 0, now_ms)
    if here is None or here.state != ACTIVE:
        return 0
    is_elsewhere = here.queue != spec.queue
    if is_elsewhere and node.peers[peer].understands(JOBS):
        return 0
    job = here
    if job.flags & LEASE_OWNER and job.requeue_ms > now_ms and job.place < ELSEWHERE:
        arbitration.answer_hold(node, peer, job, now_ms)
        return 0
    node.drop_vote(job.id)
    was_spoken_for = not job.flags & BACKUP
    changed = job.flags & DEFERRED > 0
    if not is_elsewhere:  # else what was counted there belongs to another generation
        nacks, deliveries = min(row[ROW_NACKS], COUNTER_MAX), min(row[ROW_DELIVERIES], COUNTER_MAX)
        changed = changed or job.nacks < nacks or job.deliveries < deliveries
        job.nacks = max(job.nacks, nacks)
        job.deliveries = max(job.deliveries, deliveries)
    job.flags |= REQUEUE_ANNOUNCED
    node.enqueue(job, now_ms)
    if changed:
        announcements.file_requeue(node, job)
    if was_spoken_for:  # by another node, which may have it in its queue as well
        announcements.tell_queued(node, job, STILL)
    return 0 if is_elsewhere else 1


def announce(node: "Node", peer: bytes, news: dict[tuple[bytes, ...], list[bytes]]) -> None:
    """Tell the holders of imported jobs, but for the one who sent them, that there is another copy."""
    for holders, ids in news.items():
        for holder in holders:
            if holder not in {peer, node.node_id}:
                node.batch_all(holder, replica.SAY_HAVE, ids)


def have(node: "Node", peer: bytes, message: tuple[int, tuple[bytes, ...]], now_ms: int) -> None:
    """HAVE: ``peer`` has got copies of these jobs. One that is not known here may still be on its way."""
    for job_id in message[1]:
        job = node.find(job_id)
        if job_id in node.acks.by_id or (job is None and job_id in node.tombstones):
            acks.tell_acked(node, peer, job_id)
        elif job is not None and job.retry:
            if job.flags & EXTRA:
                generations.catch_up(node, peer, job, now_ms)
            if not replica.add_holders(node, job, (peer,)) and job.state == QUEUED:
                job.flags |= REQUEUE_ANNOUNCED  # it may have come there from a node that did not know of this queue
                node.batch(peer, replica.SAY_STILL, job_id)
        elif job is None:
            node.early_holders.note(job_id, peer, now_ms)


def arrived(
    node: "Node", name: bytes, peer: bytes, count: int, size: int, taken: int, before: int, now_ms: int
) -> None:
    """Note what ``peer`` has sent: it may be time to ask for more."""
    federation = node.federation
    if not taken and name not in federation.flows:
        return
    flow = federation.flow(name)
    queue = node.queues.get(name)
    if queue is not None:
        queue.flow = flow
    flow.stock = min(flow.stock, before) + taken
    if taken:
        flow.imported(peer, taken, now_ms)
    left = flow.left.get(peer)
    if left is not None:
        flow.left[peer] = 0 if ends(count, size) else max(0, left - count)
    federation.mark(flow)


# -- looking after things ----------------------------------------------------------------------------------------------


def beat(node: "Node", now_ms: int) -> None:
    """Ten times a second: look after a tenth of the flows, and drop wants that have ended."""
    federation = node.federation
    for peer_id, standing in list(federation.standing.items()):
        end_wants(node, peer_id, standing, now_ms)
    for peer_id, until_ms in list(federation.crowded.items()):
        if until_ms <= now_ms or peer_id not in node.peers:
            del federation.crowded[peer_id]
    if federation.linked is not node.linked or (federation.stalled and not node.misconf):
        federation.linked = node.linked
        federation.stalled = False
        wake_all(node)
        node.begin_chore(demand.wait_all(node))
    turn = federation.turn
    for _ in range(min(len(turn), len(turn) // 10 + 1, demand.TURN_MOST)):
        flow = turn.popleft()
        if demand.look_after(node, flow, now_ms):
            turn.append(flow)


def end_wants(node: "Node", peer: bytes, standing: Standing, now_ms: int) -> None:
    """Drop some wants of ``peer`` that have ended: it had no time to renew them."""
    for _ in range(ENDS_MOST):
        if not standing.wants or standing.oldest().until_ms > now_ms:
            return
        oldest = standing.oldest()
        if oldest.count:
            node.federation.crowd(peer, now_ms)
        unwant(node, oldest.name, peer)


def wake_all(node: "Node") -> None:
    """Nodes can be reached that could not: jobs that they want may be given now."""
    for name in node.queues if node.federation.crowded else node.federation.wants:
        queue = node.queues.get(name)
        if queue is not None:
            node.wake(queue)


def link_up(node: "Node", peer: bytes, now_ms: int) -> None:
    """The link to ``peer`` stands: it is asked, too.

    What it was offered before, it may not have heard; `beat` looks after the jobs.
    """
    del now_ms
    standing = node.federation.standing.get(peer)
    if standing is not None:
        for want in standing.wants.values():
            want.offered = False
    demand.ask_again(node, peer)
    node.begin_chore(demand.wait_all(node))


def heard(node: "Node", peer: bytes, now_ms: int) -> None:
    """``peer`` has made a new link to this node: it says again what it wants, and what it sent may be lost."""
    del now_ms
    unwant_all(node, peer)
    demand.ask_again(node, peer)


def link_down(node: "Node", peer: bytes) -> None:
    """The link to ``peer`` has ended. What it wants stands: it says so over its own link."""
    for flow in node.federation.flows.values():
        flow.forget(peer)


def sent_from(queue: Queue, now_ms: int) -> list[bytes]:
    """The nodes that have sent jobs of ``queue`` lately."""
    return queue.flow.senders(now_ms) if queue.flow is not None else []


def import_rate(queue: Queue, now_ms: int) -> int:
    """Jobs a second that come to ``queue`` from other nodes."""
    return queue.flow.rate(now_ms) if queue.flow is not None else 0
