"""How jobs have ended: kept for their RETAIN, told to the other holders, and to those nodes that want to hear of it.

The node that takes an end tells the other holders (ENDED) before it tells them that the job is done (SETACK), each time
that it does: who has heard the second knows the first. Two nodes can take two ends of one job before either hears of
the other. Then one wins at all holders alike, see `End.beats`: who knows a better one answers with it.

An end is *sure* when every holder that can be reached knows it: only then anybody is told of it. A job that expires
does so at each holder by itself, so its end is sure when that must have happened everywhere.
"""

from typing import TYPE_CHECKING, Any, Final

from cluster.messages import BY_HOLDER, BY_STRANGER, IS_SURE, SETACK, TELL_ME, WAS_SURE
from cluster.messages import ENDED as SAY_ENDED
from disque.core.journal.schema import ENDED, KEPTBY, UNEND
from disque.core.model.ends import (
    CANCELLED,
    DEAD,
    DEAD_LETTER,
    DONE,
    DROPPED,
    ENDINGS,
    EXPIRED,
    GONE,
    NOBODY,
    UNKNOWN,
    WATCHES_MOST,
    End,
    is_better,
)
from disque.core.model.extra import ERROR_MOST
from disque.core.model.job import ACKED, ACTIVE, COUNTER_MAX, DEFERRED, LEASE_OWNER, WAIT_REPL, Job, is_out_elsewhere
from disque.core.model.spec import RETAIN
from disque.core.replication import generations, surveys, waits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.messages import Said
    from disque.core.journal.compaction import Copying
    from disque.core.journal.recovery import Recovery
    from disque.core.model.survey import Words
    from disque.core.node import Message, Node

#: Bytes that ENDED says of several jobs, together: of an end that has a text it says one by one.
SAID_MOST: Final = 1 << 20
#: ENDED of jobs of which nobody here knows how they ended; and SETACK behind that.
GONE_SAID: Final[tuple[int, int, int, bytes, int, int, bytes]] = (SAY_ENDED, BY_HOLDER, GONE, NOBODY, 0, 0, b"")
DONE_SAID: Final[tuple[int, tuple[bytes, ...]]] = (SETACK, ())
#: No two holders find at the same moment that a job has expired, but all of them in so many ms.
SURE_MS: Final = 2000
#: A result that is longer is none of a node that tells the truth.
TEXT_MOST: Final = 64 << 20
#: A longer name is none of a queue: no word of a request is, results and bodies apart.
QUEUE_MOST: Final = 256 << 10
#: Ends that are looked at to make room for one job, so that it never takes long. Those that stay are looked at last.
EVICT_FOR_ONE: Final = 20
#: So long an end is kept at most.
KEEP_MOST_MS: Final = RETAIN.most * 1000


#: What a node says of an end beside its text: the tries that have ended, the last error, and the queue.
Beside = tuple[int, bytes, bytes]

# -- taking ends -------------------------------------------------------------------------------------------------------


def concerns(node: "Node", job: Job) -> bool:
    """Whether somebody wants to know how ``job`` ends."""
    return retains(job) or job.id in node.ends.watched


def retains(job: Job) -> bool:
    """Whether the end of ``job`` is kept: it has RETAIN."""
    rows = job.spec.rows
    return rows is not None and RETAIN.number in rows


def note(
    node: "Node",
    job: Job,
    status: int,
    text: bytes,
    node_id: bytes,
    now_ms: int,
    *,
    age_ms: int = 0,
    left_ms: int = 0,
    beside: Beside | None = None,
) -> End:
    """``job`` is about to end so here. ``node_id`` has taken this end, so long ago, and keeps it for ``left_ms``.

    ``beside``: it was said by another node, with what that knew of the job.

    A job that a consumer may have when it is cancelled is kept in mind for its RETRY: the consumer is to hear of it.
    Whether one may have it is known to the node that took the end, and to the one that delivered the job. A copy of a
    job that was queued elsewhere needs no such thing.
    """
    keep_ms = job.spec.number(RETAIN) * 1000
    with_body = keep_ms > 0
    if (
        status == CANCELLED
        and job.state == ACTIVE
        and (not job.flags & DEFERRED or is_out_elsewhere(job))
        and (node_id == node.node_id or job.flags & LEASE_OWNER)
    ):
        keep_ms = max(keep_ms, job.retry * 1000)
    keep_ms = min(left_ms, KEEP_MOST_MS) or keep_ms
    end = End(job.id, job.queue, status, node_id, max(0, now_ms - age_ms), max(now_ms + 1, job.expires_ms))
    if keep_ms:
        end.lasts = True
        end.until_ms = now_ms + keep_ms
    extra = node.extra_of(job)
    end.tries = generations.ended(node, job)
    end.error = b"" if extra is None else extra.error
    end.text = end.error if status == DEAD else text
    if beside is not None:
        go_by(end, text, beside)
    if with_body:
        end.body = job.body
        end.holders = job.holders
        end.repl = min(job.repl, len(job.holders))
    put(node, end)
    if job.id in node.ends.watched:
        node.ends.unsure.setdefault(job.id, [])
    return end


def go_by(end: End, text: bytes, beside: Beside) -> None:
    """An end is as the node that took it says, so that all say the same of it. An older one says its text only."""
    end.text = text
    tries, error, queue = beside
    if queue:
        end.tries, end.error, end.queue = tries, error, queue
    elif end.status == DEAD:
        end.error = text


def heard(node: "Node", job: Job, node_id: bytes, now_ms: int) -> None:
    """``job`` was acknowledged at that node. If it had more to say, it has said so."""
    if job.id not in node.ends.by_id and concerns(node, job):
        note(node, job, DONE, b"", node_id, now_ms)


def expire(node: "Node", job: Job, now_ms: int) -> None:
    """The life of ``job`` is over here, and it was not done."""
    if job.state in {ACKED, WAIT_REPL} or job.id in node.ends.by_id or not concerns(node, job):
        return
    end = note(node, job, EXPIRED, b"", node.node_id, now_ms)
    end.sure_ms = now_ms + SURE_MS
    node.timers.arm(end, end.sure_ms)


def take_strange(node: "Node", job_id: bytes, text: bytes, until_ms: int, now_ms: int) -> None:
    """A consumer has a result for a job that is not known here: it is told with the acknowledgement."""
    end = End(job_id, b"", DONE, node.node_id, now_ms, until_ms)
    end.text = text
    end.is_strange = end.lasts = True
    put(node, end)


def put(node: "Node", end: End) -> None:
    """Let this be the end of its job."""
    old = node.ends.by_id.get(end.id)
    if old is not None and old.segment:
        node.live[old.segment] -= 1
    node.used += node.ends.put(end)
    node.timers.arm(end, end.until_ms)
    if node.journaling and end.lasts:
        file(node, end)


def remove(node: "Node", job_id: bytes) -> None:
    """Forget how a job has ended."""
    end = node.ends.by_id.get(job_id)
    if end is None:
        return
    node.used -= node.ends.drop(job_id)
    if end.segment:
        node.live[end.segment] -= 1
    if node.journaling and end.lasts:
        node.outbox.add((UNEND, job_id))


def due(node: "Node", end: End, now_ms: int) -> None:
    """It is sure by now, or was kept for long enough."""
    if node.ends.by_id.get(end.id) is not end:
        return
    if not end.sure_ms:
        remove(node, end.id)
        return
    end.sure_ms = 0
    node.timers.arm(end, max(end.until_ms, now_ms + 1))
    review(node, end.id)
    if not end.lasts:
        remove(node, end.id)


def evict(node: "Node", limit: int, most: int) -> None:
    """Forget the oldest ends that all holders know while more than ``limit`` bytes are used: at most so many."""
    ends = node.ends
    for _ in range(most):
        if node.used <= limit or not ends.by_id:
            return
        job_id = next(iter(ends.by_id))
        end = ends.by_id[job_id]
        if end.lasts and not end.is_strange and is_sure(node, job_id):
            remove(node, job_id)
            node.stats.ends_evicted += 1
        else:
            ends.by_id.move_to_end(job_id)


def is_short(node: "Node") -> bool:
    """Whether this node is so short of memory that it keeps no new jobs. Ends are forgotten first, some at a time."""
    warn = node.limits.warn
    if node.used <= warn:
        return False
    if node.ends.by_id:
        evict(node, warn, EVICT_FOR_ONE)
    return node.used > warn


# -- between holders ---------------------------------------------------------------------------------------------------


def say(node: "Node", peer_id: bytes, job_id: bytes) -> int:
    """``peer_id`` is about to be told that this job is done: tell it how, if that is known. How many bytes that has.

    That a copy has expired is no way in which a job is done. An end that was kept may have been forgotten meanwhile:
    then nobody here knows how, and any end that another holder knows is a better one.
    """
    end = node.ends.by_id.get(job_id)
    if end is None:
        job = node.find(job_id)
        if job is not None and retains(job):
            node.send(peer_id, (*GONE_SAID, (job_id,), 0, b"", b""))
    elif not has_expired(end):
        node.send(peer_id, message_of(node, end))
        return len(end.text) + len(end.error) + len(end.queue)
    elif end.late:
        pass_on(node, peer_id, end)
        return len(end.late)
    return 0


def say_gone(node: "Node", peer_id: bytes, job_id: bytes) -> None:
    """``peer_id`` is about to be told that this job is done: if it is not known here how, say so."""
    if job_id in node.ends.by_id:
        return
    if (peer_id, GONE_SAID) in node.batches or (peer_id, DONE_SAID) not in node.batches:
        node.batch(peer_id, GONE_SAID, job_id)
    else:  # the batch with SETACK has begun, and leaves before a new one
        node.send(peer_id, (*GONE_SAID, (job_id,), 0, b"", b""))


def heard_gone(node: "Node", job_id: bytes, now_ms: int) -> None:
    """A job is done, as another node remembers, which does not know how: whoever does knows better."""
    job = node.find(job_id)
    if job is not None and job.state != ACKED and job_id not in node.ends.by_id and concerns(node, job):
        note(node, job, DONE, b"", NOBODY, now_ms)


def has_expired(end: End | None) -> bool:
    """Whether the copy here has expired, as this node has seen. Others may still have the job.

    They have if this node started with a clock that was wrong, or was away when the job got another life (REVIVE).
    """
    return end is not None and end.status == EXPIRED


def take_late(node: "Node", end: End, text: bytes) -> None:
    """A consumer has a result of a job whose copy here has expired: it is told with the acknowledgement."""
    node.used += len(text) - len(end.late)
    end.late = text


def pass_on(node: "Node", peer_id: bytes, end: End) -> None:
    """Tell a node the result that has come too late here: it may still have the job."""
    node.send(peer_id, (SAY_ENDED, BY_STRANGER, DONE, node.node_id, 0, 0, end.late, (end.id,), 0, b"", b""))


def message_of(node: "Node", end: End) -> "Message":
    """ENDED for another holder."""
    now_ms = node.beat_ms
    left_ms = max(1, end.until_ms - now_ms) if end.lasts and not end.is_strange else 0
    what = BY_STRANGER if end.is_strange else BY_HOLDER
    age_ms = max(0, now_ms - end.ended_ms)
    about = (end.status, end.node_id, age_ms, left_ms, end.text)
    return (SAY_ENDED, what, *about, (end.id,), end.tries, end.error, end.queue)


def told(node: "Node", peer: bytes, message: "Said", now_ms: int) -> None:
    """ENDED: how jobs have ended, as ``peer`` knows it."""
    _, what, status, node_id, age_ms, left_ms, text, ids, tries, error, queue = message
    fits = len(text) <= TEXT_MOST and len(error) <= ERROR_MOST and len(queue) <= QUEUE_MOST and tries <= COUNTER_MAX
    if len(ids) > 1 and what != IS_SURE:
        fits = fits and len(ids) * (len(text) + len(error) + len(queue)) <= SAID_MOST
    if not DONE <= status <= DROPPED or not fits:
        node.messages_skipped += len(ids)
        return
    for job_id in ids:
        if what == IS_SURE:
            waits.told(node, peer, job_id, status, text, now_ms)
        elif what == BY_STRANGER and is_late(node, job_id):
            tell_stranger(node, peer, job_id)
        elif what == WAS_SURE:
            reconsider(node, job_id, (status, node_id), age_ms, left_ms, text, (tries, error, queue), now_ms)
        elif status == GONE and what == BY_HOLDER:
            heard_gone(node, job_id, now_ms)
        elif status in ENDINGS:
            compare(node, peer, job_id, (status, node_id), age_ms, left_ms, text, (tries, error, queue), now_ms)


def compare(
    node: "Node",
    peer: bytes,
    job_id: bytes,
    what: tuple[int, bytes],
    age_ms: int,
    left_ms: int,
    text: bytes,
    beside: Beside,
    now_ms: int,
) -> None:
    """``peer`` says how a job has ended (``what``: status, and the node that took it). The better end wins."""
    status, node_id = what
    known = node.ends.by_id.get(job_id)
    job = node.find(job_id)
    if known is None:
        if job is None or (job.state == ACKED and not left_ms):
            return
        note(node, job, status, text, node_id, now_ms, age_ms=age_ms, left_ms=left_ms, beside=beside)
    elif (known.status, known.node_id, known.text) == (status, node_id, text):
        return
    elif was_sure(node, known):
        said = message_of(node, known)
        node.send(peer, (said[0], WAS_SURE, *said[2:]))
    elif known.is_strange:
        remove(node, job_id)  # a holder knows better
    elif known.beats(status, node_id, text):
        if (status, known.status) != (EXPIRED, DROPPED):  # older versions answer that with what they have, without end
            node.send(peer, message_of(node, known))
    else:
        tell_others(node, peer, replace(node, known, what, age_ms, left_ms, text, beside, now_ms))


def was_sure(node: "Node", end: End) -> bool:
    """Whether all holders knew this end, and it may have been told: it is kept, and nothing else of its job.

    A copy from a node that knew the job says nothing of that: it is what those nodes say. Nor does an end of which
    nobody said how; nor one by the TTL, which each holder sees for itself, and may have seen by a wrong clock.
    """
    is_said = not end.is_strange and not end.copied and end.node_id != NOBODY and end.status != EXPIRED
    return end.lasts and is_said and not end.sure_ms and node.find(end.id) is None


def reconsider(
    node: "Node",
    job_id: bytes,
    what: tuple[int, bytes],
    age_ms: int,
    left_ms: int,
    text: bytes,
    beside: Beside,
    now_ms: int,
) -> None:
    """All holders knew this end of a job once. It counts; of two such ends the better one does."""
    known = node.ends.by_id.get(job_id)
    if known is None or known.is_strange or what[0] not in ENDINGS:
        return
    if what[0] == EXPIRED and known.status != EXPIRED:
        return  # an older version says that
    mine, other = (known.status, known.node_id, known.text), (what[0], what[1], text)
    knows_more = mine == other and beside[0] > known.tries
    if knows_more or (mine != other and (is_better(other, mine) or not was_sure(node, known))):
        replace(node, known, what, age_ms, left_ms, text, beside, now_ms)


def correct(
    node: "Node", keeper: bytes, job_id: bytes, what: tuple[int, bytes], age_ms: int, text: bytes, beside: Beside
) -> None:
    """``keeper``, which may be this node, keeps another end of a job than that which counts: it is told that one."""
    if keeper == node.node_id:
        reconsider(node, job_id, what, age_ms, 0, text, beside, node.beat_ms)
        return
    peer = node.peers.get(keeper)
    if peer is not None and peer.linked:
        node.send(keeper, (SAY_ENDED, WAS_SURE, *what, min(age_ms, KEEP_MOST_MS), 0, text, (job_id,), *beside))


def replace(
    node: "Node",
    known: End,
    what: tuple[int, bytes],
    age_ms: int,
    left_ms: int,
    text: bytes,
    beside: Beside,
    now_ms: int,
) -> End:
    """Take a better end in place of the known one."""
    until_ms = now_ms + min(left_ms, KEEP_MOST_MS) if left_ms else known.until_ms
    new = End(known.id, known.queue, what[0], what[1], max(0, now_ms - age_ms), until_ms)
    new.lasts = known.lasts or left_ms > 0
    new.body, new.late, new.tries, new.error = known.body, known.late, known.tries, known.error
    go_by(new, text, beside)
    new.repl, new.holders, new.copied = known.repl, known.holders, known.copied
    put(node, new)
    if known.sure_ms:
        new.sure_ms = known.sure_ms
        node.timers.arm(new, new.sure_ms)
    return new


def is_late(node: "Node", job_id: bytes) -> bool:
    """Whether a result from a node that never had a copy comes after another end: one of which somebody said how."""
    end = node.ends.by_id.get(job_id)
    return end is not None and end.node_id != NOBODY


def tell_stranger(node: "Node", peer: bytes, job_id: bytes) -> None:
    """A node that never had a copy has a result for a job that has ended: it is too late."""
    end = node.ends.by_id[job_id]
    if not end.is_strange:
        node.send(peer, message_of(node, end))


def tell_others(node: "Node", peer: bytes, end: End) -> None:
    """A better end has come from ``peer``: those who may know another one hear of it."""
    ack = node.acks.by_id.get(end.id)
    if ack is None:
        return
    for holder in {**dict.fromkeys(ack.holders), **dict.fromkeys(end.holders)}:
        known = node.peers.get(holder)
        if holder != peer and known is not None and known.linked:
            node.send(holder, message_of(node, end))


def is_sure(node: "Node", job_id: bytes) -> bool:
    """Whether a job has ended here, and all holders that can be reached know that.

    Of one of which nobody said how, the others may know better, unless they have failed.
    """
    job = node.find(job_id)
    if job is not None and job.state != ACKED:
        return False
    end = node.ends.by_id.get(job_id)
    if end is not None and (end.is_strange or end.sure_ms):
        return False
    ack = node.acks.by_id.get(job_id)
    if ack is None or job is None:
        return True  # without the job, an acknowledgement is one that came late
    if not ack.holders:
        return False
    is_guess = end is not None and end.node_id == NOBODY
    for holder in ack.holders:
        if holder not in ack.confirmed:
            peer = node.peers.get(holder)
            if peer is not None and (peer.linked or is_guess) and not node.failed(holder):
                return False
    return True


def over(node: "Node", job_id: bytes) -> None:
    """All holders know that a job is done, or it is forgotten here: what was kept for them only goes."""
    review(node, job_id)
    end = node.ends.by_id.get(job_id)
    if end is not None and (end.is_strange or not end.lasts) and not end.sure_ms:
        remove(node, job_id)


# -- those who want to hear it -----------------------------------------------------------------------------------------


def watched(node: "Node", peer: bytes, message: tuple[int, int, tuple[bytes, ...]], now_ms: int) -> None:
    """WATCH: ``peer`` wants to hear how jobs end, or does not any more."""
    _, what, ids = message
    for job_id in ids:
        if what == TELL_ME:
            watch(node, peer, job_id, now_ms)
        else:
            node.used -= node.ends.unwatch(peer, job_id)


def watch(node: "Node", peer: bytes, job_id: bytes, now_ms: int) -> None:
    """A node, which may be this one, wants to hear how a job ends."""
    status, text = known_of(node, job_id)
    if status and status not in {GONE, UNKNOWN}:
        tell(node, peer, job_id, status, text, now_ms)
        return
    if peer != node.node_id and len(node.ends.by_node.get(peer, ())) >= WATCHES_MOST:
        node.messages_skipped += 1
        return
    node.used += node.ends.watch(peer, job_id)
    if status:
        tell(node, peer, job_id, status, text, now_ms)
    elif has_ended(node, job_id):
        node.ends.unsure.setdefault(job_id, [])


def has_ended(node: "Node", job_id: bytes) -> bool:
    """Whether a job that is known here is done, or gone and its end is known; other holders may not know."""
    job = node.find(job_id)
    if job is not None:
        return job.state == ACKED
    end = node.ends.by_id.get(job_id)
    return end is not None and not end.is_strange


def known_of(node: "Node", job_id: bytes) -> tuple[int, bytes]:
    """What this node can say of a job, and the text that belongs to it; 0: it has not ended, or that is not sure."""
    if has_ended(node, job_id):
        return verdict(node, job_id) if is_sure(node, job_id) else (0, b"")
    job = node.find(job_id)
    if job is None:
        return (GONE if job_id in node.tombstones else UNKNOWN), b""
    extra = node.extra_of(job)
    if extra is not None and extra.is_dead:
        return DEAD_LETTER, extra.error
    return 0, b""


def verdict(node: "Node", job_id: bytes) -> tuple[int, bytes]:
    """How a job has ended, for which that is sure; if nobody has said more, it is done."""
    end = node.ends.by_id.get(job_id)
    return (DONE, b"") if end is None else (end.status, end.text)


def tell(node: "Node", peer: bytes, job_id: bytes, status: int, text: bytes, now_ms: int) -> None:
    """Tell a node what it wants to hear."""
    if peer == node.node_id:
        waits.told(node, peer, job_id, status, text, now_ms)
        return
    known = node.peers.get(peer)
    if known is not None and known.linked:
        node.batch(peer, (SAY_ENDED, IS_SURE, status, node.node_id, 0, 0, text), job_id)


def tell_all(node: "Node", job_id: bytes, status: int, text: bytes) -> None:
    """Tell all who wait for a job, once."""
    for peer in list(node.ends.watched.get(job_id, ())):
        node.used -= node.ends.unwatch(peer, job_id)
        tell(node, peer, job_id, status, text, node.beat_ms)


def died(node: "Node", job: Job) -> None:
    """``job`` has moved; if it is a dead letter now, those who wait for it have their answer."""
    extra = node.extra_of(job)
    if extra is not None and extra.is_dead and job.id in node.ends.watched:
        tell_all(node, job.id, DEAD_LETTER, extra.error)


def review(node: "Node", job_id: bytes) -> None:
    """See whether it is sure now how a job has ended: then tell those who want to hear it, and those who have asked."""
    ends = node.ends
    if job_id not in ends.unsure or not is_sure(node, job_id):
        return
    questions = ends.unsure.pop(job_id)
    tell_all(node, job_id, *verdict(node, job_id))
    end = ends.by_id.get(job_id)
    words = words_of(end, node.beat_ms) if end is not None and (end.lasts or end.text) else NOT_KNOWN
    for asked in questions:
        surveys.say(node, asked, words)


def review_all(node: "Node", now_ms: int) -> None:
    """Links or nodes have changed: some ends may be sure now."""
    for job_id in list(node.ends.unsure):
        review(node, job_id)
    if node.ends.wanted:
        waits.review(node, now_ms)


def forget_node(node: "Node", peer_id: bytes) -> None:
    """A link to or from this node has ended: what it wants to hear it says again when there is another one."""
    for job_id in list(node.ends.by_node.get(peer_id, ())):
        node.used -= node.ends.unwatch(peer_id, job_id)


def break_off(node: "Node") -> None:
    """This node forgets all jobs: whoever waits for one has heard all that there is to hear."""
    for job_id in list(node.ends.watched):
        tell_all(node, job_id, GONE, b"")
    waits.break_off(node)


# -- answers to RESULT -------------------------------------------------------------------------------------------------

#: Nothing is known of the job.
NOT_KNOWN: "Final[Words]" = (b"0 0 0 0", b"", b"", b"", b"", b"")


def words_of(end: End, now_ms: int) -> "Words":
    """What a node says of an end: status, rank, tries and age as one word; queue, result, error, progress, taker."""
    numbers = b"%d 0 %d %d" % (end.status, end.tries, max(0, now_ms - end.ended_ms))
    return (numbers, end.queue, end.text if end.status == DONE else b"", end.error, b"", end.node_id)


# -- the journal -------------------------------------------------------------------------------------------------------


def file(node: "Node", end: End) -> None:
    """Write an end; it counts for the newest segment from here on."""
    numbers = (end.tries, int(end.is_strange), end.ended_ms, end.until_ms)
    texts = (end.text, end.error, end.body)
    node.outbox.add((ENDED, end.id, end.queue, end.status, end.node_id, *numbers, *texts))
    if end.repl and (end.repl > 1 or len(end.holders) > 1):
        file_holders(node, end)
    lies_in(node, end, node.segment)


def file_holders(node: "Node", end: End) -> None:
    """Write which nodes may keep an end, and how many should."""
    node.outbox.add((KEPTBY, end.id, end.repl, int(end.copied), end.holders))


def lies_in(node: "Node", end: End, segment: int) -> None:
    """The newest record of an end is in this segment."""
    if end.segment:
        node.live[end.segment] -= 1
    end.segment = segment
    node.live[segment] = node.live.get(segment, 0) + 1


def apply_end(recovery: "Recovery", record: tuple[Any, ...], segment: int) -> None:
    """ENDED."""
    _, job_id, queue, status, node_id, tries, strange, ended_ms, until_ms, text, error, body = record
    node = recovery.node
    end = End(job_id, queue, status, node_id, ended_ms, until_ms)
    end.text, end.error, end.body = text, error, body
    end.tries = tries
    end.is_strange = strange > 0
    end.lasts = True
    end.repl, end.holders = (0 if strange else 1), node.selves
    put(node, end)
    lies_in(node, end, segment)


def apply_kept_by(recovery: "Recovery", record: tuple[Any, ...], segment: int) -> None:
    """KEPTBY."""
    del segment
    _, job_id, repl, copied, holders = record
    end = recovery.node.ends.by_id.get(job_id)
    if end is not None:
        end.repl, end.copied = repl, copied > 0
        recovery.node.ends.hold(end, recovery.known(holders))


def apply_unend(recovery: "Recovery", record: tuple[Any, ...], segment: int) -> None:
    """UNEND."""
    del segment
    remove(recovery.node, record[1])


def copy_ends(node: "Node", copying: "Copying") -> "Iterator[int]":
    """Write again the ends whose record is in an old segment."""
    for job_id in list(node.ends.by_id):
        end = node.ends.by_id.get(job_id)
        if end is not None and end.lasts and end.segment <= copying.upto:
            file(node, end)
            yield 1 + (len(end.text) + len(end.body)) // 4096


def forget_ends(node: "Node") -> "Iterator[None]":
    """No end has a record any more."""
    for end in node.ends.by_id.values():
        end.segment = 0
    yield
