"""The end of a job: acknowledged everywhere, or deleted.

An acknowledged job stays known as ACKED, without its body, until every node that may have a copy knows of it: SETACK
tells them, GOTACK answers, and brings the holders that the acknowledger did not name. When the holders are a subset of
those that have confirmed, as sets, DELJOB removes what is left. Everybody who knows of the acknowledgement works on
this, the first one at once and the others seconds later, so it goes on when the first one dies. A job with one holder
is gone at once.

An ID that this node never saw may be acknowledged here, too: a *dummy* tells all nodes, until one of them knows the job
or all have said that they do not.

Who answers that a job is unknown, is told so, or removes it, remembers its bare ID for a while: no copy that is still
on its way can bring it back, and who has one that nobody here knows of hears that it is done. After power failed, the
record that another node has taken a job over may be lost: so the ID of a job from before that is remembered too, though
no other holder of it is known. Who has it says so over a new link.
"""

from typing import TYPE_CHECKING, Final

from cluster.member import HEX_DIGITS
from cluster.messages import DELJOB, GOTACK, SETACK
from disque.core.journal.schema import ACK, DELETE, DUMMY
from disque.core.model.ack_batch import (
    AGAIN_MS,
    AGAIN_SPREAD_MS,
    BATCH_LEAST,
    BATCH_MOST,
    Ack,
    AckBatch,
    AckStage,
    Telling,
)
from disque.core.model.ends import CANCELLED, DONE, DROPPED, NOBODY, STRANGE_MOST
from disque.core.model.job import ACKED, ACTIVE, OUT_HERE, QUEUED, WAIT_REPL, Job
from disque.core.model.memory import ACK_BYTES, GONE_BYTES
from disque.core.model.outcome import Ended
from disque.core.model.peers import TOLD_MOST, Peer
from disque.core.model.pubsub import ACKED as EVENT_ACKED
from disque.core.model.pubsub import CANCELLED as EVENT_CANCELLED
from disque.core.model.pubsub import DROPPED as EVENT_DROPPED
from disque.core.replication import ack_batches, coordinator, ends, replica, spans, standing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disque.core.node import Node

#: The longest time between two repetitions, in ms.
AGAIN_MOST_MS: Final = 180_000
#: A holder that was not met after so many repetitions, some seconds, is a node that others have not forgotten yet. But
#: while there is another holder, that one may know it, as a node that is down and will come back: it goes on telling,
#: and its DELJOB ends this. Without one after some minutes neither knows it.
STRANGER_TRIES: Final = 2
STRANGER_TRIES_OF_SEVERAL: Final = 7
#: Dummies that one node keeps: the oldest are dropped beyond.
DUMMIES_MOST = 100_000  # not Final: tests want less, compiled too
#: IDs that are remembered as gone.
GONE_MOST: Final = 2_000_000
#: What is told of a job that ends in this way.
EVENTS: Final = {DONE: EVENT_ACKED, CANCELLED: EVENT_CANCELLED, DROPPED: EVENT_DROPPED}
#: Acknowledgements that one step of a chore looks at.
SLICE: Final = 500


# -- commands ----------------------------------------------------------------------------------------------------------


def acknowledge(node: "Node", job_id: bytes, now_ms: int) -> bool:
    """A consumer is done with the job. True when it was known and not yet acknowledged."""
    job = node.find(job_id)
    return unknown(node, job_id, now_ms) if job is None else acknowledge_known(node, job, now_ms)


def acknowledge_known(node: "Node", job: Job, now_ms: int) -> bool:
    """A consumer is done with a job that is known here. True when it was not acknowledged before."""
    if job.state == ACKED:
        return False
    spec = job.spec
    is_special = (spec.rows is not None or node.ends.watched) and ends.concerns(node, job)
    if is_special or job.state == WAIT_REPL:
        return end(node, job, DONE, b"", now_ms)
    figures = spec.figures
    figures.acked += 1
    if node.pubsub.heard & EVENT_ACKED:
        node.pubsub.happened(EVENT_ACKED, spec.queue, job.id)
    if now_ms >= figures.sample_ms:
        spans.note_run(node, job, now_ms)
    if len(job.holders) == 1:
        end_alone(node, job)
        return True
    holders = job.holders
    if holders not in node.acks.telling or not ack_batches.lives(job, now_ms):
        node.acks.telling.setdefault(holders, None)  # the next one with these holders begins a batch
        tell(node, job.id, mark(node, job, node.selves, now_ms))
        return True
    telling = node.acks.telling[holders]
    if telling is None or not telling.takes(node.linked):
        telling = node.acks.telling[holders] = Telling(
            AckStage(AckBatch(), holders, node.selves), lists(node, holders), node.linked
        )
    finish(node, job)
    ack_batches.join(node, telling.stage, job.id, now_ms)
    for ids in telling.lists:
        ids.append(job.id)
    return True


def end(node: "Node", job: Job, status: int, text: bytes, now_ms: int) -> bool:
    """``job`` ends here, in a way that somebody may want to know: see `ends`. False if it had ended before."""
    if job.state == ACKED:
        return False
    if job.state == WAIT_REPL:
        decide(node, job)
    figures = job.spec.figures
    if status == DONE:
        figures.acked += 1
        spans.note_run(node, job, now_ms)
    elif status == CANCELLED:
        figures.cancelled += 1
    elif status == DROPPED:
        figures.dropped += 1
        node.stats.jobs_dropped += 1
    node.pubsub.happened(EVENTS.get(status, 0), job.spec.queue, job.id)
    if text or status == CANCELLED or ends.concerns(node, job):
        ends.note(node, job, status, text, node.node_id, now_ms)
    if len(job.holders) == 1:
        end_alone(node, job)
        ends.over(node, job.id)
        return True
    tell(node, job.id, mark(node, job, node.selves, now_ms))
    ends.review(node, job.id)
    return True


def end_alone(node: "Node", job: Job) -> None:
    """A job ends at its only holder: nobody need be told.

    If another node may have taken it over, that one will say so: then the ID is remembered.
    """
    if job.ctime <= node.acks.doubted:
        node.remember_gone(job.id)
    if node.journaling:
        node.outbox.add((ACK, job.id))
    node.remove(job)


def end_unknown(node: "Node", job_id: bytes, text: bytes, now_ms: int) -> bool:
    """A consumer has a result for a job that is not known here. False if there is no room for it.

    One for a job of which it is kept here how it has ended comes too late.
    """
    known = node.ends.by_id.get(job_id)
    if known is not None and known.node_id == NOBODY:
        beside = (known.tries, known.error, known.queue)
        ends.reconsider(node, job_id, (DONE, node.node_id), 0, 0, text, beside, now_ms)
        return True
    is_late = known is not None and not known.is_strange and not ends.has_expired(known)
    if is_late or not node.peers or job_id in node.acks.by_id or job_id in node.tombstones:
        return True
    if known is not None and known.lasts and ends.has_expired(known):
        if node.used + len(text) > node.limits.full:
            return False
        ends.take_late(node, known, text)
        add_dummy(node, job_id, now_ms)
        return True
    if node.ends.strange + len(text) > STRANGE_MOST:
        return False
    ends.take_strange(node, job_id, text, now_ms + life_ms(job_id), now_ms)
    add_dummy(node, job_id, now_ms)
    if job_id not in node.acks.by_id:
        ends.remove(node, job_id)  # it was told once, and nobody keeps more
    return True


def unknown(node: "Node", job_id: bytes, now_ms: int) -> bool:
    """A consumer is done with a job that is not known here: other nodes may know it. Not known, so False."""
    if node.peers:
        add_dummy(node, job_id, now_ms)
    return False


def decide(node: "Node", job: Job) -> None:
    """A job whose copies are still wanted is done: its ADDJOB has succeeded.

    The one holder of a job that is delivered at most once hears of it by its ID alone.
    """
    if not job.retry:
        for peer in node.peers.values():
            if job.id in peer.waiting:
                node.batch(peer.id, (SETACK, ()), job.id)
    coordinator.decided(node, job)


def delete(node: "Node", job_id: bytes, now_ms: int) -> bool:
    """Forget the job on this node, whatever its state. True when it was known."""
    del now_ms
    job = node.find(job_id)
    if job is None:
        drop_dummy(node, job_id)
        return False
    forget(node, job)
    return True


def fast_ack(node: "Node", job_id: bytes, now_ms: int) -> bool:
    """Delete the job wherever it is, without making sure. True when it was known here."""
    job = node.find(job_id)
    if job is None:
        node.outcomes.append(Ended(job_id, None))
        for peer in node.peers.values():
            node.batch(peer.id, (DELJOB,), job_id)
        return False
    if job.state != ACKED:
        job.spec.figures.acked += 1
        node.pubsub.happened(EVENT_ACKED, job.spec.queue, job_id)
        spans.note_run(node, job, now_ms)
        ends.heard(node, job, node.node_id, now_ms)
    for holder in job.holders:
        if holder != node.node_id:
            if node.ends.by_id or node.ends.has_kept:
                ends.say(node, holder, job_id)
            node.batch(holder, (DELJOB,), job_id)
    if len(job.holders) > 1:
        node.remember_gone(job_id)
    forget(node, job)
    return True


def forget(node: "Node", job: Job) -> None:
    """Remove ``job`` and write that."""
    if job.state == WAIT_REPL:
        coordinator.job_removed(node, job)
    if node.journaling and job.segment:
        node.outbox.add((DELETE, job.id))
    node.remove(job)
    if node.ends.by_id or node.ends.unsure:
        ends.over(node, job.id)


# -- collection --------------------------------------------------------------------------------------------------------


def mark(node: "Node", job: Job, confirmed: tuple[bytes, ...], now_ms: int) -> Ack:
    """``job`` is done; its other holders must hear of it."""
    finish(node, job)
    ack = Ack(job.id, job.holders, confirmed, job.expires_ms)
    node.acks.by_id[job.id] = ack
    node.used += ACK_BYTES
    arm(node, ack, now_ms)
    return ack


def finish(node: "Node", job: Job) -> None:
    """``job`` is done: only that is still known of it."""
    if job.state == QUEUED:
        node.queues[job.queue].remove(job)
    node.let_go(job)
    job.state = ACKED
    if node.journaling:
        if job.segment:
            node.outbox.add((ACK, job.id))
        else:
            node.file(job)  # it was not in the journal yet


def arm(node: "Node", ack: Ack, now_ms: int) -> None:
    """Look at ``ack`` again later, the later the more often it was in vain."""
    wait_ms = min(AGAIN_MS << min(ack.tries, 8), AGAIN_MOST_MS) + int(node.random.random() * AGAIN_SPREAD_MS)
    node.timers.arm(ack, min(now_ms + wait_ms, ack.expires_ms))


def due(node: "Node", ack: Ack, now_ms: int) -> None:
    """Tell those again that have not answered; forget it when the job would have expired, if it is not over already."""
    if node.acks.by_id.get(ack.job_id) is not ack:
        return
    if now_ms >= ack.expires_ms:
        drop(node, ack.job_id)
        return
    ack.tries += 1
    remind(node, ack)
    arm(node, ack, now_ms)
    review(node, ack.job_id, ack)


def lists(node: "Node", holders: tuple[bytes, ...]) -> list[list[bytes]]:
    """The IDs in the messages of this turn to those ``holders`` that can be reached."""
    head = (SETACK, holders)
    peers = [node.peers.get(holder) for holder in holders]
    return [node.batches.setdefault((peer.id, head), []) for peer in peers if peer is not None and peer.linked]


def tell(node: "Node", job_id: bytes, ack: Ack) -> None:
    """SETACK to all that have not confirmed and can be reached."""
    for holder in ack.holders or node.peers:
        if holder not in ack.confirmed:
            peer = node.peers.get(holder)
            if peer is not None and peer.linked:
                say_done(node, holder, ack.holders, job_id)


def say_done(node: "Node", peer_id: bytes, holders: tuple[bytes, ...], job_id: bytes) -> int:
    """SETACK to one node; how the job has ended goes before it. How many bytes that has."""
    size = ends.say(node, peer_id, job_id) if node.ends.by_id or node.ends.has_kept else 0
    node.batch(peer_id, (SETACK, holders), job_id)
    return size


def remind(node: "Node", ack: Ack) -> None:
    """SETACK again, to those who were not told enough again in this beat."""
    for holder in ack.holders or node.peers:
        if holder not in ack.confirmed:
            peer = node.peers.get(holder)
            if peer is not None and peer.linked and peer.told < TOLD_MOST:
                peer.tell(say_done(node, holder, ack.holders, ack.job_id))


def tell_again(node: "Node", peer: Peer, saying: int) -> "Iterator[bool]":
    """There is a new link to or from ``peer``: SETACK for all that it has not confirmed."""
    is_enough = False
    for count, job_id in enumerate(list(node.acks.by_id), 1):
        if peer.saying != saying:
            return
        ack = node.acks.by_id.get(job_id)
        if ack is not None and peer.id not in ack.confirmed and (not ack.holders or peer.id in ack.holders):
            is_enough = peer.tell(say_done(node, peer.id, ack.holders, job_id))
        if is_enough or count % SLICE == 0:
            yield is_enough
            is_enough = False


def tell_acked(node: "Node", peer: bytes, job_id: bytes) -> None:
    """``peer`` does something with a job that is done: tell it."""
    ack = node.acks.by_id.get(job_id)
    if ack is None:
        ends.say_gone(node, peer, job_id)
    say_done(node, peer, ack.holders if ack is not None else (), job_id)


def review(node: "Node", job_id: bytes, ack: Ack) -> None:
    """When everybody knows, the rest can go."""
    if all_know(node, ack):
        tell_all_know(node, ack.holders, [job_id])
        drop(node, job_id)
        if ack.is_lost:
            node.remember_gone(job_id)


def all_know(node: "Node", ack: Ack) -> bool:
    """Whether everybody has confirmed whom somebody waits for."""
    if not ack.holders:
        return all(peer_id in ack.confirmed for peer_id in node.peers)
    if len(ack.confirmed) > standing.FEW:
        known = frozenset(ack.confirmed)
        return all(holder in known or is_nobody(node, ack, holder) for holder in ack.holders)
    return all(holder in ack.confirmed or is_nobody(node, ack, holder) for holder in ack.holders)


ALL_KNOW: Final = (DELJOB,)


def is_nobody(node: "Node", ack: Ack, holder: bytes) -> bool:
    """Whether nobody waits for ``holder``: it was forgotten, or has not been met in the time that takes."""
    nodes = node.membership.nodes
    if holder in nodes:
        return False
    if holder in node.membership.departed or ack.tries >= STRANGER_TRIES_OF_SEVERAL:
        return True
    return ack.tries >= STRANGER_TRIES and not any(other in nodes for other in ack.holders if other != node.node_id)


def drop(node: "Node", job_id: bytes) -> None:
    """Forget an acknowledgement and its job."""
    job = node.find(job_id)
    if node.journaling:
        node.outbox.add((DELETE, job_id))
    if job is not None:
        node.remove(job)
    else:
        node.drop_ack(job_id)
        node.free_key(job_id)  # as replay does with this record
    if node.ends.by_id or node.ends.unsure:
        ends.over(node, job_id)


def set_ack(node: "Node", peer: bytes, message: tuple[int, tuple[bytes, ...], tuple[bytes, ...]], now_ms: int) -> None:
    """SETACK: ``peer`` knows that these jobs are done."""
    _, holders, ids = message
    known = node.sharing.get(holders)  # the one object, with which most jobs need no comparison
    stage: AckStage | None = None
    alone = len(ids) < BATCH_LEAST
    told: list[bytes] = []
    for job_id in ids:
        job = node.find(job_id)
        if known is None or job is None or job.state == ACKED or job.holders is not known or peer not in known:
            set_ack_of(node, peer, holders, job_id, job, now_ms)
            continue
        if job.spec.rows is not None or node.ends.watched:
            ends.heard(node, job, peer, now_ms)
        if not alone and (stage is None or stage.batch.left >= BATCH_MOST):
            stage = AckStage(AckBatch(), known, (node.node_id, peer))
            alone = all_know(node, stage)
        if stage is None or alone or job.state == WAIT_REPL or not ack_batches.lives(job, now_ms):
            acked_there(node, job, peer, now_ms)
        else:
            finish(node, job)
            ack_batches.join(node, stage, job_id, now_ms)
        told.append(job_id)
    if told:
        node.batch_all(peer, (GOTACK, 1, ()), told)


def set_ack_of(
    node: "Node", peer: bytes, holders: tuple[bytes, ...], job_id: bytes, job: Job | None, now_ms: int
) -> None:
    """SETACK of a job that is not known, is done already, or may be held by others than those that ``peer`` names."""
    if job is None:
        if holders:
            drop_dummy(node, job_id)
        node.outcomes.append(Ended(job_id, (*holders, peer)))
        if job_id not in node.acks.by_id:
            node.remember_gone(job_id)
        node.batch(peer, (GOTACK, 0, ()), job_id)
        return
    if job.retry and (peer not in job.holders or holders != job.holders):
        more = (*holders, peer) if holders else ()
        if job.state != ACKED:
            replica.add_holders(node, job, more)
    named = job.holders if job.holders != holders else ()
    if job.state == ACKED:
        ack = ack_batches.alone(node, job_id, now_ms)
        assert ack is not None
        widen(node, ack, holders)
        named = ack.holders if ack.holders != holders else ()
        if holders:
            ack.heard(peer)
        if not standing.is_wider(holders, ack.holders):  # else it must hear of that before it hears that all know
            review(node, job_id, ack)
    else:
        is_last = not standing.is_wider(holders, job.holders)
        acked_there(node, job, peer if holders else b"", now_ms, may_be_over=is_last)
    if holders and named:
        note_unnamed(node, job_id, holders, now_ms)
    node.batch(peer, (GOTACK, 1, named), job_id)


def note_unnamed(node: "Node", job_id: bytes, holders: tuple[bytes, ...], now_ms: int) -> None:
    """Somebody collects an acknowledgement who named only ``holders``: remember the others that this node knows of.

    Those that another one did not name stay: nobody knows who will say that all is over.
    """
    ack = ack_batches.alone(node, job_id, now_ms)
    if ack is not None:
        named, before = frozenset(holders), frozenset(ack.unnamed)
        ack.unnamed = tuple([one for one in ack.holders if one in before or one not in named])


def acked_there(node: "Node", job: Job, peer: bytes, now_ms: int, *, may_be_over: bool = True) -> None:
    """A job that is alive here was acknowledged at ``peer``, or, without one, where nobody knew it."""
    if job.state == WAIT_REPL:
        decide(node, job)
    is_out = job.state == ACTIVE and job.flags & OUT_HERE == OUT_HERE
    if not peer and is_out:
        job.spec.figures.acked += 1  # else the node that was told has counted it
        node.pubsub.happened(EVENT_ACKED, job.spec.queue, job.id)
    if job.spec.rows is not None or node.ends.watched:
        ends.heard(node, job, peer or node.node_id, now_ms)
    if len(job.holders) == 1:
        node.remember_gone(job.id)
        if node.journaling:
            node.outbox.add((ACK, job.id))
        node.remove(job)
        if node.ends.by_id or node.ends.unsure:
            ends.over(node, job.id)
        return
    if peer:
        ack = mark(node, job, (node.node_id, peer), now_ms)
        if may_be_over:
            review(node, job.id, ack)
        return
    ack = mark(node, job, node.selves, now_ms)
    tell(node, job.id, ack)
    if not is_out:
        pass_on(node, ack)


def pass_on(node: "Node", ack: Ack) -> None:
    """Nobody who knew the job was told, and it is not out here: the node where it is counts it, if that comes first."""
    for holder in ack.holders:
        peer = node.peers.get(holder)
        if peer is not None and peer.linked:
            node.send(holder, (SETACK, (), (ack.job_id,)))


def widen(node: "Node", ack: Ack, holders: tuple[bytes, ...]) -> bool:
    """Note further holders; whether there were any."""
    new = standing.fresh(node, ack.holders, holders)
    if not new or not ack.holders:
        return False
    ack.holders = node.shared(tuple(sorted([*ack.holders, *new])))
    job = node.find(ack.job_id)
    if job is not None:
        job.holders = ack.holders
        if node.journaling and job.segment:
            node.file(job)  # whole: a start that knows no holder named before has removed it
    return True


def got_ack(
    node: "Node", peer: bytes, message: tuple[int, int, tuple[bytes, ...], tuple[bytes, ...]], now_ms: int
) -> None:
    """GOTACK: ``peer`` has heard that these jobs are done, and says whether it knew them."""
    _, is_known, holders, ids = message
    before: AckStage | None = None
    over: list[bytes] = []
    for job_id in ids:
        ack = node.acks.by_id.get(job_id)
        if ack is None:
            continue
        if holders or not is_known or not isinstance(ack, AckStage):
            got_ack_of(node, peer, is_known, holders, job_id, now_ms)
            continue
        if ack is not before:
            if before is not None and over:
                tell_all_know(node, before.holders, over)
                over = []
            before = ack
            stage = ack.after(peer)
            is_over = all_know(node, stage)
        if is_over:
            drop(node, job_id)
            over.append(job_id)
        else:
            node.acks.by_id[job_id] = stage
            if node.ends.unsure:
                ends.review(node, job_id)
    if before is not None and over:
        tell_all_know(node, before.holders, over)


def got_ack_of(
    node: "Node", peer: bytes, is_known: int, holders: tuple[bytes, ...], job_id: bytes, now_ms: int
) -> None:
    """GOTACK of a job of which other things are known than of others."""
    ack = ack_batches.alone(node, job_id, now_ms)
    assert ack is not None
    ack.heard(peer)
    if not ack.holders:
        if is_known:
            drop(node, job_id)
            return
    else:
        ack.is_lost = ack.is_lost or not is_known
        if widen(node, ack, holders):
            tell(node, job_id, ack)
        if holders:
            note_unnamed(node, job_id, holders, now_ms)
    review(node, job_id, ack)
    if node.ends.unsure:
        ends.review(node, job_id)


def tell_all_know(node: "Node", holders: tuple[bytes, ...], ids: list[bytes]) -> None:
    """All of ``holders`` know of these jobs: they can forget them."""
    for holder in holders:
        if holder != node.node_id and holder in node.membership.nodes:
            node.batch_all(holder, ALL_KNOW, ids)


def removed(node: "Node", peer: bytes, message: tuple[int, tuple[bytes, ...]], now_ms: int) -> None:
    """DELJOB: these jobs are gone everywhere."""
    for job_id in message[1]:
        ack = node.acks.by_id.get(job_id)
        if ack is not None and ack.unnamed:
            go_on(node, ack)
            continue
        node.remember_gone(job_id)
        job = node.find(job_id)
        if job is not None:
            if job.state != ACKED:
                ends.heard(node, job, peer, now_ms)
            forget(node, job)
        else:
            node.outcomes.append(Ended(job_id, ()))
            drop_dummy(node, job_id)


def go_on(node: "Node", ack: Ack) -> None:
    """Whoever says that all is over did not name some holders: they must hear of it from here."""
    unnamed = frozenset(ack.unnamed)
    confirmed = frozenset(ack.confirmed) | unnamed
    ack.confirmed = (*ack.confirmed, *[holder for holder in ack.holders if holder not in confirmed])
    ack.unnamed = ()
    tell(node, ack.job_id, ack)
    review(node, ack.job_id, ack)


# -- dummies and bare IDs ----------------------------------------------------------------------------------------------


def add_dummy(node: "Node", job_id: bytes, now_ms: int) -> None:
    """An ID that is unknown here was acknowledged: other nodes may know it."""
    if job_id in node.acks.by_id or job_id in node.tombstones:
        return
    has_result = job_id in node.ends.by_id  # then it matters of each job, and is kept until a holder has it
    if not has_result and (node.membership.leaving or not minutes_of(job_id) & 1):
        tell_once(node, job_id)
        return
    if len(node.acks.dummies) >= DUMMIES_MOST:
        drop_dummy(node, next(iter(node.acks.dummies)))  # at once: it is an OrderedDict
        node.evicted += 1
    ack = put_dummy(node, job_id, now_ms + life_ms(job_id))
    if node.journaling:
        file_dummy(node, ack)
    arm(node, ack, now_ms)
    tell(node, job_id, ack)


def minutes_of(job_id: bytes) -> int:
    """What an ID says of the life of its job, in minutes; even if the job is delivered at most once."""
    suffix = job_id[36:]
    return int(suffix, 16) if HEX_DIGITS.issuperset(suffix) else 0


def life_ms(job_id: bytes) -> int:
    """How long the job of this ID may live."""
    return max(1, minutes_of(job_id)) * 60_000


def tell_once(node: "Node", job_id: bytes) -> None:
    """A job that is delivered at most once was acknowledged: nobody delivers it again, so only its memory matters."""
    for peer in node.peers.values():
        if peer.linked:
            say_done(node, peer.id, (), job_id)


def put_dummy(node: "Node", job_id: bytes, expires_ms: int) -> Ack:
    """Keep an acknowledgement of a job that is not known here."""
    ack = Ack(job_id, (), node.selves, expires_ms)
    node.acks.by_id[job_id] = ack
    node.acks.dummies[job_id] = None
    node.used += ACK_BYTES
    return ack


def file_dummy(node: "Node", ack: Ack) -> None:
    """Write a dummy; it counts for the newest segment from here on."""
    node.outbox.add((DUMMY, ack.job_id, ack.expires_ms))
    lies_in(node, ack, node.segment)


def lies_in(node: "Node", ack: Ack, segment: int) -> None:
    """The newest record of a dummy is in this segment."""
    if ack.segment:
        node.live[ack.segment] -= 1
    ack.segment = segment
    node.live[segment] = node.live.get(segment, 0) + 1


def drop_dummy(node: "Node", job_id: bytes) -> None:
    """Forget a dummy, if there is one."""
    if job_id in node.acks.dummies:
        drop(node, job_id)


def beat(node: "Node", now_ms: int) -> None:
    """Forget bare IDs after two node timeouts."""
    keep_ms = 2 * node.membership.timeout_ms
    node.used -= node.tombstones.forget(now_ms, keep_ms, GONE_MOST) * GONE_BYTES
    node.early_holders.forget(now_ms - keep_ms)
