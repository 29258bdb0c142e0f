"""One queue for a job that several nodes hold: who wants to queue it again asks the others first.

Half a second before the end of a RETRY or a delay the holder asks all others (WILLQUEUE) and goes on asking. Each
always answers: QUEUED (it is in my queue), HOLD with the time that is left (I gave it to a consumer, delay it, or was
told WORKING), SETACK (it is done), or NO. Only when all holders but those that fail have said NO lately, the job is
queued, and QUEUED tells them.

Who says NO steps back: it does not ask about that job itself for YIELD_MS, longer than its NO counts. When two ask at
once, the IDs decide: the winner answers HOLD for a second, the loser NO. So at no time can two nodes queue the same
job, unless one takes the other for failed.

A node speaks for a job (LEASE_OWNER) from a delivery, WORKING, a delay, or a hand-over to another node until its
requeue time. So nothing has to be sent on delivery, and a question that comes while a job travels to another node is
answered with HOLD. So is one that ends a try: NO does not wait for the journal, and would overtake the count. QUEUED
says why: after a timer, a node that has given the job to a consumer objects with HOLD; after NACK or ENQUEUE that
delivery is over.

Answers bring the holders that the asker did not name, so a question reaches every node that may have a copy. The
number that goes with a question and comes back is the asker's time, which means nothing to anybody else. A node that
says QUEUED, and was not known to have a copy, was away when others got theirs: it gets such an answer, too. Else two
nodes could have the job in their queues, and not know of each other.
"""

from typing import TYPE_CHECKING, Final

from cluster.messages import (
    ANSWER,
    ANSWER_NO,
    ANSWER_QUEUED,
    BY_ENQUEUE,
    BY_NACK,
    BY_RETURN,
    BY_TIMER,
    HANDED_ON,
    HOLD,
    IN_MY_STEAD,
    OUT_IN_MY_STEAD,
    STILL,
    WILLQUEUE,
)
from cluster.messages import QUEUED as SAY_QUEUED
from disque.core.model.job import (
    ACKED,
    ACTIVE,
    BACKUP,
    DEFERRED,
    DELIVERED,
    EXTRA,
    LEASE_OWNER,
    LEASE_RELAYED,
    OUT,
    OUT_ELSEWHERE,
    QUEUED,
    REQUEUE_ANNOUNCED,
    SPENT,
    WAIT_REPL,
    Job,
    is_out_elsewhere,
)
from disque.core.model.memory import VOTE_BYTES
from disque.core.model.peers import Peer
from disque.core.model.queue import ELSEWHERE, place_at
from disque.core.model.vote import RequeueVote
from disque.core.replication import acks, announcements, coordinator, generations, replica, tries
from disque.core.replication.rank import rank

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disque.core.node import Node

#: Between two rounds of questions; how long a NO counts; how long one who said NO asks nothing; how long the winner of
#: two holds off the other, and who has just counted a try all, until they know it: longer than an fsync. All in ms.
AGAIN_MS: Final = 500
AGAIN_MOST_MS: Final = 2000
FRESH_MS: Final = 2500
YIELD_MS: Final = 3000
CONTEST_MS: Final = 1000
#: What a HOLD is longer for others, at most, so that they do not all ask in the same moment, in ms.
SPREAD_MS: Final = 100
#: `round` of HOLD from a node in whose place this one is to speak; of all HOLD but answers and HANDED_ON.
STEAD: Final = frozenset({IN_MY_STEAD, OUT_IN_MY_STEAD})
TOLD: Final = frozenset({0, IN_MY_STEAD, OUT_IN_MY_STEAD})
#: What one time may be longer than another that was told to and fro, in ms: beyond, somebody has made it longer.
LONGER_MS: Final = 2000


def wins(node_id: bytes, other_id: bytes, job_id: bytes) -> bool:
    """Which of two nodes comes first for a job: as fair as chance, and both come to the same result."""
    return rank(node_id, job_id) > rank(other_id, job_id)


def say_still(node: "Node", peer: Peer, saying: int) -> "Iterator[bool]":
    """There is a new link to ``peer``: it may not have heard that this node has queued jobs again, or will do so.

    Nor may it have heard of copies that came here later than others. If they are in no queue, they are told alone.
    """
    for shard in node.shards:
        if peer.saying != saying:
            return
        if say_out(node, peer, shard):
            yield True
        for job_id in list(shard):
            if peer.saying != saying:
                return
            job = shard.get(job_id)
            if job is None:
                continue  # it is gone since
            is_meant = job.flags & REQUEUE_ANNOUNCED and peer.id in job.holders
            is_queued = job.state == QUEUED or announcements.is_put_off(job)
            if is_meant and (is_queued or (job.state == ACTIVE and job.retry)):
                node.batch(peer.id, replica.SAY_STILL if is_queued else replica.SAY_HAVE, job.id)
                if peer.tell(0):  # one dict may hold all that were added together
                    yield True
        if peer.saying != saying:
            return
        yield False


def say_out(node: "Node", peer: Peer, shard: dict[bytes, Job]) -> bool:
    """Tell ``peer`` which jobs consumers still have from the process before this one, in whose stead others speak.

    Whoever has queued such a job meanwhile knows better, and does not take it out: HANDED_ON. Whether that was enough
    for this beat.
    """
    now_ms, ids, left = node.beat_ms, [], []
    for job in shard.values():
        if job.flags & LEASE_RELAYED and peer.id in job.holders and is_out_here(job, now_ms):
            ids.append(job.id)
            left.append(job.requeue_ms - now_ms)
    if not ids:
        return False
    node.send(peer.id, (HOLD, HANDED_ON, (), tuple(ids), tuple(left)))
    return peer.tell(len(ids) << 10)  # each counts as one that is told


def hold_answer(node: "Node", peer: bytes, job: Job, left_ms: int, number: int, named: tuple[bytes, ...]) -> None:
    """Tell ``peer`` not to queue ``job`` for ``left_ms``."""
    node.send(peer, (HOLD, number, named, (job.id,), (max(1, left_ms),)))


def answer_hold(node: "Node", peer: bytes, job: Job, now_ms: int) -> None:
    """Object to what ``peer`` does with a job that is out with a consumer here."""
    hold_answer(node, peer, job, job.requeue_ms - now_ms, 0, ())


# -- asking ------------------------------------------------------------------------------------------------------------


def begin(node: "Node", job: Job, now_ms: int) -> None:
    """The time of ``job`` comes: ask the other holders."""
    if job.id in node.votes.by_id:
        return
    claim = RequeueVote(job)
    node.votes.by_id[job.id] = claim
    node.used += VOTE_BYTES
    node.timers.arm(job, job.expires_ms)
    ask(node, claim, now_ms)
    review(node, claim, now_ms)


def ask(node: "Node", claim: RequeueVote, now_ms: int) -> None:
    """Ask all that have not just answered."""
    claim.asked_ms = now_ms
    claim.rounds += 1
    job = claim.job
    head = (WILLQUEUE, now_ms, job.holders)
    for holder in job.holders:
        if holder != node.node_id and now_ms - claim.answered.get(holder, 0) >= AGAIN_MS:
            peer = node.peers.get(holder)
            if peer is not None and peer.linked:
                if job.flags & EXTRA:
                    generations.catch_up(node, holder, job, now_ms)
                node.batch(holder, head, job.id)


def review(node: "Node", claim: RequeueVote, now_ms: int) -> None:
    """Queue the job if its time has come and nobody objects; else look again later."""
    job = claim.job
    open_ = False
    for holder in job.holders:
        if holder != node.node_id and now_ms - claim.answered.get(holder, 0) > FRESH_MS and not node.failed(holder):
            open_ = True
            break
    if node.repairs.returned and job.id in node.repairs.returned:
        open_ = True  # nobody delivers it before it is known whether it was done long ago: see `returned`
    if not open_ and now_ms >= job.requeue_ms:
        node.drop_vote(job.id)
        tries.come_back(node, job, now_ms)
        return
    again_ms = now_ms + AGAIN_MS
    node.timers.arm(claim, max(now_ms + 1, again_ms if open_ else min(again_ms, job.requeue_ms)))


def pause_ms(claim: RequeueVote) -> int:
    """Between two rounds of questions: longer each time, up to AGAIN_MOST_MS, since somebody does not answer."""
    return min(AGAIN_MS << min(max(claim.rounds - 1, 0), 8), AGAIN_MOST_MS)


def due(node: "Node", claim: RequeueVote, now_ms: int) -> None:
    """See whether it is time; if not, ask again. The claim may be over: by the end of its job in the same moment."""
    if node.votes.by_id.get(claim.job.id) is not claim:
        return
    review(node, claim, now_ms)
    if node.votes.by_id.get(claim.job.id) is claim and now_ms - claim.asked_ms >= pause_ms(claim):
        ask(node, claim, now_ms)
        review(node, claim, now_ms)


# -- being asked -------------------------------------------------------------------------------------------------------


def will_queue(
    node: "Node", peer: bytes, message: tuple[int, int, tuple[bytes, ...], tuple[bytes, ...]], now_ms: int
) -> None:
    """WILLQUEUE: say for each job what is known of it here."""
    _, number, holders, ids = message
    for job_id in ids:
        job = node.find(job_id)
        if job is not None and job.state != ACKED:
            if not (job.flags & EXTRA and generations.catch_up(node, peer, job, now_ms)):
                reply(node, peer, job, number, holders, now_ms)
        elif job is not None or job_id in node.acks.by_id or job_id in node.tombstones:
            acks.tell_acked(node, peer, job_id)
        else:
            node.batch(peer, (ANSWER, number, ANSWER_NO, ()), job_id)


def reply(node: "Node", peer: bytes, job: Job, number: int, holders: tuple[bytes, ...], now_ms: int) -> None:
    """Answer a question about a job that is known here and not done."""
    if holders != job.holders and job.retry:
        replica.add_holders(node, job, (*holders, peer))
    named = job.holders if job.holders != holders else ()
    if job.state == QUEUED:
        node.batch(peer, (ANSWER, number, ANSWER_QUEUED, named), job.id)
    elif job.state == WAIT_REPL:
        if coordinator.may_be_queued_elsewhere(node, job):
            node.batch(peer, (ANSWER, number, ANSWER_NO, named), job.id)
        else:
            hold_answer(node, peer, job, job.retry * 1000, number, named)
    elif speaks_for(job, peer, now_ms):
        hold_answer(node, peer, job, job.requeue_ms - now_ms, number, named)
    elif job.id in node.votes.by_id and wins(node.node_id, peer, job.id):
        hold_answer(node, peer, job, CONTEST_MS, number, named)
    elif not tries.is_out(job):
        step_back(node, job, now_ms + YIELD_MS, now_ms)
        node.batch(peer, (ANSWER, number, ANSWER_NO, named), job.id)
    elif not tries.lapse(node, job, now_ms):
        node.drop_vote(job.id)
        wait(node, job, now_ms + CONTEST_MS, DEFERRED | LEASE_OWNER, now_ms)  # as after a NACK
        hold_answer(node, peer, job, CONTEST_MS, number, named)


def step_back(node: "Node", job: Job, until_ms: int, now_ms: int) -> None:
    """Leave ``job`` to others until then at least."""
    if job.flags & SPENT or not job.retry:
        return
    node.drop_vote(job.id)
    mine_ms = job.requeue_ms if job.requeue_ms > now_ms else 0
    until_ms = max(mine_ms, until_ms)
    kept = DEFERRED | LEASE_OWNER | LEASE_RELAYED if mine_ms == until_ms else DEFERRED
    wait(node, job, until_ms, job.flags & kept, now_ms)


def wait(node: "Node", job: Job, until_ms: int, flags: int, now_ms: int) -> None:
    """Let ``job`` wait until then, and ask about it only then if asking before the end would begin at once."""
    node.hold(job, until_ms, flags)
    if job.due_ms <= now_ms:
        node.timers.arm(job, min(until_ms, job.expires_ms))


def speaks_for(job: Job, peer: bytes, now_ms: int) -> bool:
    """Whether ``peer`` must not queue a job yet that is out with a consumer here, waits for its time, or travels.

    Where a job was handed on to, it has arrived when that node asks about it; and if it had given it to a consumer it
    would not ask. It may have given way to a node that gave way to this one.
    """
    if not job.flags & (LEASE_OWNER | LEASE_RELAYED) or job.requeue_ms <= now_ms:
        return False
    return job.place < ELSEWHERE or job.place != place_at(peer) or job.flags & DEFERRED > 0


# -- answers -----------------------------------------------------------------------------------------------------------


def known(node: "Node", peer: bytes, job_id: bytes, holders: tuple[bytes, ...], now_ms: int) -> Job | None:
    """The job that a message of ``peer`` is about, if it is not done; if it is, or has moved, ``peer`` is told."""
    job = node.find(job_id)
    if job is None or job.state == ACKED:
        if job is not None or job_id in node.acks.by_id or job_id in node.tombstones:
            acks.tell_acked(node, peer, job_id)
        return None
    if not job.retry or (job.flags & EXTRA and generations.catch_up(node, peer, job, now_ms)):
        return None
    if peer not in job.holders or (holders and holders != job.holders):
        is_new = peer not in job.holders
        replica.add_holders(node, job, (*holders, peer))
        if is_new and not holders:  # it does not know either of those that came while it was away
            replica.name_holders(node, peer, job)
    return job


def answered(
    node: "Node", peer: bytes, message: tuple[int, int, int, tuple[bytes, ...], tuple[bytes, ...]], now_ms: int
) -> None:
    """ANSWER: ``peer`` has the job in its queue, or has nothing against it."""
    _, number, what, holders, ids = message
    for job_id in ids:
        job = known(node, peer, job_id, holders, now_ms)
        if job is None:
            continue
        if what == ANSWER_QUEUED:
            queued_there(node, peer, job, now_ms)
            continue
        claim = node.votes.by_id.get(job_id)
        if claim is not None and 0 <= now_ms - number <= FRESH_MS:
            claim.answered[peer] = max(number, claim.answered.get(peer, 0))
            if holders:
                ask(node, claim, now_ms)
            review(node, claim, now_ms)


def queued_there(node: "Node", peer: bytes, job: Job, now_ms: int) -> None:
    """``peer`` has ``job`` in its queue: this node steps back, or says why not."""
    if job.state == QUEUED:
        if wins(node.node_id, peer, job.id):
            announcements.tell_holders(node, job, (SAY_QUEUED, STILL))  # all: ``peer`` may have handed it on
            return
        node.take_out(job, now_ms)
        # ``peer`` may have handed it on meanwhile, by a way that was faster than its word: then it came here, and is in
        # no queue now. So this node asks soon.
        node.hold(job, now_ms + min(retry_ms(node, job), YIELD_MS), 0)
    elif job.state == WAIT_REPL:
        coordinator.taken_over(node, job)
    elif job.flags & LEASE_OWNER and job.requeue_ms > now_ms and job.place < ELSEWHERE:
        answer_hold(node, peer, job, now_ms)
    elif not tries.lapse(node, job, now_ms):
        node.drop_vote(job.id)
        job.flags &= ~BACKUP
        delayed = job.flags & DEFERRED
        node.hold(job, now_ms + retry_ms(node, job), 0)
        if delayed:
            announcements.file_requeue(node, job)


def retry_ms(node: "Node", job: Job) -> int:
    """A RETRY from now, a little later than on the node that counts it."""
    return job.retry * 1000 + int(node.random.random() * announcements.JITTER_MS)


def queued(node: "Node", peer: bytes, message: tuple[int, int, tuple[bytes, ...]], now_ms: int) -> None:
    """QUEUED: ``peer`` has put jobs into its queue."""
    _, why, ids = message
    for job_id in ids:
        job = known(node, peer, job_id, (), now_ms)
        if job is None:
            continue
        if why in {BY_NACK, BY_ENQUEUE, BY_RETURN}:
            job.flags &= ~(LEASE_OWNER | LEASE_RELAYED | DEFERRED) if job.state == ACTIVE else ~0
            if why != BY_RETURN:
                announcements.count(job, nack=why == BY_NACK)
            if job.spec.rows is not None:
                job.flags &= ~DELIVERED  # what that means for tries was counted there
            if node.journaling and job.state != WAIT_REPL:
                announcements.file_requeue(node, job)
        elif why == BY_TIMER and not (job.flags & LEASE_OWNER and job.requeue_ms > now_ms):
            announcements.count(job, nack=False)
        queued_there(node, peer, job, now_ms)


def is_out_here(job: Job, now_ms: int) -> bool:
    """Whether a consumer has ``job`` from this node, or the process before."""
    is_out = job.flags & (DELIVERED | DEFERRED) == DELIVERED and job.place < ELSEWHERE
    return is_out and is_spoken_for(job, now_ms)


def is_spoken_for(job: Job, now_ms: int) -> bool:
    """Whether this node knows, or was told, why ``job`` waits until its time."""
    return job.flags & (LEASE_OWNER | LEASE_RELAYED) > 0 and job.requeue_ms > now_ms


def is_known_better(job: Job, peer: bytes, number: int, now_ms: int) -> bool:
    """Whether what a HOLD of ``peer`` tells takes the place of all that this node knows of ``job``."""
    if number in STEAD:
        return not is_spoken_for(job, now_ms) or job.place == place_at(peer)
    return job.place >= ELSEWHERE and not number


def speak_in_stead(node: "Node", job: Job, number: int) -> None:
    """A node that stops has said how long ``job`` waits, or is out with a consumer: this one says so to others."""
    is_put_off_here = job.flags & (DEFERRED | LEASE_OWNER) == DEFERRED | LEASE_OWNER
    if number == IN_MY_STEAD or (is_put_off_here and not is_out_elsewhere(job)):
        job.flags = job.flags & ~DELIVERED | DEFERRED | LEASE_RELAYED
    else:
        job.flags |= LEASE_RELAYED if tries.is_out(job) else OUT_ELSEWHERE
    announcements.file_requeue(node, job)  # or nobody would know it after a crash


def speak_no_more(node: "Node", job: Job, until_ms: int) -> None:
    """Somebody else speaks for ``job`` until then: this node may have done so in the stead of one that had stopped.

    It goes on if it knows of a longer time, since a consumer has told WORKING to somebody meanwhile. An older node that
    stopped did not tell which of its jobs are put off, so all counted as such.
    """
    if job.flags & (LEASE_OWNER | LEASE_RELAYED) != LEASE_RELAYED or job.requeue_ms > until_ms + 2 * SPREAD_MS:
        return
    if job.flags & DEFERRED:
        job.flags &= ~(OUT_ELSEWHERE if is_out_elsewhere(job) else DEFERRED | LEASE_RELAYED)
        announcements.file_requeue(node, job)


def held(
    node: "Node",
    peer: bytes,
    message: tuple[int, int, tuple[bytes, ...], tuple[bytes, ...], tuple[int, ...]],
    now_ms: int,
) -> None:
    """HOLD: ``peer`` speaks for these jobs; they must not be queued for so long."""
    _, number, holders, ids, left = message
    for job_id, left_ms in zip(ids, left, strict=True):
        job = known(node, peer, job_id, holders, now_ms)
        if job is None:
            continue
        if job.state == WAIT_REPL:
            coordinator.taken_over(node, job)
            continue
        until_ms = now_ms + left_ms + int(node.random.random() * SPREAD_MS)
        hold_back(node, peer, job, number, until_ms, now_ms)


def hold_back(node: "Node", peer: bytes, job: Job, number: int, until_ms: int, now_ms: int) -> None:
    """Let ``job`` wait until then, since ``peer`` speaks for it; ``number`` is the `round` of its HOLD."""
    if number == HANDED_ON:
        speak_no_more(node, job, until_ms)
    is_same = number == OUT_IN_MY_STEAD or until_ms <= job.requeue_ms + LONGER_MS
    is_mine = is_same and is_out_here(job, now_ms)  # it says back what it was told when this one stopped
    if job.state == QUEUED:
        if number != HANDED_ON:  # else it was handed to this queue
            node.take_out(job, now_ms)
            wait(node, job, until_ms, 0, now_ms)
    elif is_known_better(job, peer, number, now_ms):
        # Its own time is that of a copy of which nothing is heard, a RETRY: it is not told to others, and does not
        # make a delay longer. Or the job was handed on from here, and has arrived: whoever has it speaks for it.
        node.drop_vote(job.id)
        job.flags &= ~BACKUP
        if number and job.place >= ELSEWHERE:
            job.place = OUT  # whoever had it stops
            until_ms = max(until_ms, job.requeue_ms) if is_spoken_for(job, now_ms) else until_ms
        wait(node, job, until_ms, job.flags & DEFERRED, now_ms)
    elif not (job.flags & LEASE_OWNER and job.requeue_ms > now_ms):
        job.flags &= ~BACKUP
        step_back(node, job, until_ms, now_ms)
    elif number in TOLD and until_ms > job.requeue_ms:
        # What this node knows itself counts until it is over; then it asks again. Who was not asked will be gone.
        node.drop_vote(job.id)
        wait(node, job, until_ms, job.flags & (DEFERRED | LEASE_OWNER | LEASE_RELAYED), now_ms)
    if is_mine and number in STEAD:
        job.flags |= LEASE_RELAYED if not job.flags & LEASE_OWNER else 0
    elif number in STEAD and not job.flags & SPENT:
        speak_in_stead(node, job, number)


def working(node: "Node", peer: bytes, message: tuple[int, tuple[bytes, ...]], now_ms: int) -> None:
    """WORKING: a consumer told ``peer`` that it still works on these jobs."""
    for job_id in message[1]:
        job = known(node, peer, job_id, (), now_ms)
        if job is None:
            continue
        if job.state == WAIT_REPL:
            coordinator.taken_over(node, job)
            continue
        if job.state == QUEUED:
            node.take_out(job, now_ms)
        node.drop_vote(job_id)
        job.flags &= ~BACKUP
        flags = job.flags & (DEFERRED | LEASE_OWNER | LEASE_RELAYED)
        lease_ms = node.leases.by_id.get(job_id, 0) if node.leases.by_id else 0
        node.hold(job, max(job.requeue_ms, now_ms + max(lease_ms, retry_ms(node, job))), flags)
