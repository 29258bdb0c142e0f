"""A node that leaves gives away the jobs that are delivered at most once, and that nobody has got yet.

They have one copy, so they cannot be repaired; and nobody may wait for them to be due. So this node lets go of such a
job, in the journal too, and only then gives it to another node (TAKEJOB), which waits for the delay that is left. Until
that one says that it has it (GOTJOB), the job is here in memory, in no queue. If it is refused, or if certainly no byte
of it has left, the next node is asked, and when there is none, the job is what it was before, and the next walk of
`repair` tries again.

A link that ends in between may have lost the job, or not: it is forgotten here, since it must not be delivered twice;
but a second later only, since it may still have waited here for the journal, or for the end of a turn. So does a crash
of this node: its journal has the job no more. What comes twice, which no link does, is confirmed again.

A UNIQUE key goes on as long as the job lives, wherever that is; its keepers stay among the holders of the job.
"""

from typing import TYPE_CHECKING, Final

from cluster.capabilities import TAKEOVER
from cluster.messages import GOTJOB, REFUSED, REPLACEMENT, SETACK, takejob
from disque.core.journal.schema import DELETE
from disque.core.model.extra import is_sound
from disque.core.model.job import ACKED, CTIME_MOST, QUEUED, WAIT_REPL, Job
from disque.core.model.jobid import comes_again, valid
from disque.core.model.memory import SPREAD_BYTES
from disque.core.model.outcome import Parted
from disque.core.model.repair import Takeover
from disque.core.replication import ends, generations, replica
from disque.core.replication.one_copy import one_copy
from disque.core.replication.rank import rank

if TYPE_CHECKING:
    from cluster.messages import ReplJob
    from disque.core.model.peers import Peer
    from disque.core.node import Node

GOT: Final = (GOTJOB,)
#: So many beats after the end of a link it is known which messages have not left.
UNSENT_BEATS: Final = 10


# -- giving ------------------------------------------------------------------------------------------------------------


def begin(node: "Node", job: Job, now_ms: int) -> None:
    """Give ``job``, which is queued or delayed here, to another node, if there is one that may take it."""
    peer = target(node, job, (), now_ms)
    if peer is None:
        return
    due_ms = max(now_ms, job.requeue_ms)
    if job.state == QUEUED:
        node.take_out(job, now_ms)
        due_ms = now_ms
    job.state = WAIT_REPL
    replica.appoint(job, due_ms)
    node.timers.arm(job, job.expires_ms)
    if job.segment:
        node.live[job.segment] -= 1
        job.segment = 0
        if node.journaling:
            node.outbox.add((DELETE, job.id))
            node.outcomes.append(Parted(job.id))
    spread = node.repairs.parting[job.id] = Takeover(job)
    node.copies.wanted[job.id] = spread
    node.used += SPREAD_BYTES
    ask(node, spread, peer, now_ms)


def target(node: "Node", job: Job, refused: tuple[bytes, ...], now_ms: int) -> "Peer | None":
    """The first node, in the order of the job, that may take it now."""
    best: Peer | None = None
    for peer in node.linked:
        is_able = peer.understands(TAKEOVER) and peer.takes(len(job.body)) and peer.refused_until_ms <= now_ms
        if is_able and peer.id not in refused and (best is None or rank(peer.id, job.id) > rank(best.id, job.id)):
            best = peer
    return best


def ask(node: "Node", spread: Takeover, peer: "Peer", now_ms: int) -> None:
    """Give the job to this node."""
    job = spread.job
    spread.asked = (peer.id,)
    spread.beats = 0
    if not peer.waiting:
        peer.heard_ms = now_ms
    peer.waiting[job.id] = spread
    is_kept = len(job.holders) > 1 or job.id in node.unique.by_job
    holders = tuple(sorted({*job.holders, peer.id})) if is_kept else (peer.id,)
    node.send(peer.id, takejob(one_copy(node, job, REPLACEMENT, job.requeue_ms - now_ms, holders, now_ms)))


def go_on(node: "Node", spread: Takeover, now_ms: int) -> None:
    """The node that was asked does not have the job: ask the next one, or keep it."""
    job = spread.job
    spread.refused = (*spread.refused, *spread.asked)
    peer = target(node, job, spread.refused, now_ms) if node.membership.leaving else None
    if peer is not None:
        ask(node, spread, peer, now_ms)
        return
    over(node, job.id)
    replica.start(node, job, job.requeue_ms, now_ms)


def is_there(node: "Node", spread: Takeover) -> None:
    """Another node has the job."""
    if node.repairs.walk is not None:
        node.repairs.walk.parted += 1
    forget(node, spread)


def forget(node: "Node", spread: Takeover) -> None:
    """The job is on another node, or may be: it is not here any more, but its UNIQUE key is what it was."""
    job = spread.job
    over(node, job.id)
    key = node.unique.by_job.pop(job.id, None)  # so that it does not go with the job
    node.remove(job)
    if key is not None:
        node.unique.by_job[job.id] = key


def beat(node: "Node") -> None:
    """Forget what left over a link that has ended. While the journal cannot be written, nothing leaves."""
    if node.misconf:
        return
    for spread in list(node.repairs.parting.values()):
        if not spread.beats:
            continue
        spread.beats -= 1
        if not spread.beats:
            peer = node.peers.get(spread.asked[0])
            if peer is not None:
                peer.waiting.pop(spread.job.id, None)
            forget(node, spread)


def over(node: "Node", job_id: bytes) -> None:
    """It is known where this job is."""
    node.drop_copies(job_id)
    node.repairs.parting.pop(job_id, None)


# -- taking ------------------------------------------------------------------------------------------------------------


def taken(node: "Node", peer: bytes, message: "ReplJob", now_ms: int) -> None:
    """TAKEJOB: ``peer`` leaves, and has let go of these jobs: they go on here, or are refused."""
    _, _, queue_name, encoded, left_ms, delay_ms, sent, ids, bodies, ctimes, more = message
    spec = node.specs.read(queue_name, encoded)
    if spec is None or spec.retry or not is_sound(more):
        node.messages_skipped += len(ids)
        return
    holders = node.selves
    if len(sent) > 1:
        expects = node.membership.expects
        holders = node.shared(tuple(sorted({*[one for one in sent if expects(one)], node.node_id})))
    reason = replica.refusal(node, queue_name, REPLACEMENT)
    got: list[bytes] = []
    for at in range(len(ids)):
        job_id = ids[at]
        if not valid(job_id) or comes_again(job_id) or ctimes[at] > CTIME_MOST:
            node.messages_skipped += 1
            continue
        known = node.find(job_id)
        if known is None or known.state == ACKED:
            wrong = replica.objection(node, job_id, len(bodies[at]), reason)
            if wrong >= 0:
                if job_id in node.acks.by_id:
                    ends.say(node, peer, job_id)
                    node.batch(peer, (SETACK, ()), job_id)
                node.batch(peer, (REFUSED, wrong), job_id)
                continue
            job = Job(job_id, spec, bodies[at], ctimes[at], now_ms + left_ms, -(-delay_ms // 1000), holders)
            node.register(job)
            generations.begin(node, peer, job, more, now_ms)
            replica.start(node, job, now_ms + delay_ms, now_ms)
        got.append(job_id)
    if got:
        node.batch_all(peer, GOT, got)
