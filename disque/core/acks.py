"""The end of a job: acknowledged everywhere, or deleted.

An acknowledged job stays known as ACKED, without its body, until every node that may have a copy knows of it: SETACK
tells them, GOTACK answers, and brings the holders that the acknowledger did not name. When the holders are a subset of
those that have confirmed, as sets, DELJOB removes what is left. Everybody who knows of the acknowledgement works on
this, the first one at once and the others seconds later, so it goes on when the first one dies. A job with one holder
is gone at once.

An ID that this node never saw may be acknowledged here, too: a *dummy* tells all nodes, until one of them knows the job
or all have said that they do not.

Who answers that a job is unknown, or removes it, remembers its bare ID for a while, so that no copy that is still on
its way can bring it back.
"""

from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from cluster.messages import DELJOB, GOTACK, SETACK
from cluster.node import HEX_DIGITS
from disque.core import copies, keeping, replication
from disque.core.job import ACKED, QUEUED, WAIT_REPL, Job
from disque.core.memory import ACK_BYTES, GONE_BYTES
from disque.core.peers import TOLD_MOST, Peer
from disque.core.records import ACK, DELETE, DUMMY
from disque.core.timers import IDLE, Timed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disque.core.node import Node

#: The first repetition, and the longest time between two, in ms. A timer two seconds ahead is set and taken back at a
#: third of the cost of a nearer one (see `timers`), and nearly all of these are taken back.
AGAIN_MS: Final = 2000
AGAIN_MOST_MS: Final = 180_000
#: By how much each is later than that, at most, so that not all come at once.
AGAIN_SPREAD_MS: Final = 1000
#: A holder that was not met after so many repetitions, some seconds, is a node that others have not forgotten yet. But
#: while there is another holder, that one may know it, as a node that is down and will come back: it goes on telling,
#: and its DELJOB ends this. Without one after some minutes neither knows it.
STRANGER_TRIES: Final = 2
STRANGER_TRIES_OF_SEVERAL: Final = 7
#: Dummies that one node keeps: the oldest are dropped beyond.
DUMMIES_MOST = 100_000  # not Final: tests want less, compiled too
#: IDs that are remembered as gone.
GONE_MOST: Final = 2_000_000
#: Acknowledgements that one step of a chore looks at.
SLICE: Final = 500


@mypyc_attr(acyclic=True)
class Ack(Timed):
    """An acknowledgement that others must hear of. A dummy has no ``holders``: all nodes are meant."""

    __slots__ = ("confirmed", "expires_ms", "holders", "job_id", "segment", "tries", "unnamed")

    def __init__(
        self, job_id: bytes, holders: tuple[bytes, ...], confirmed: tuple[bytes, ...], expires_ms: int
    ) -> None:
        self.due_ms = 0
        self.slot = IDLE
        self.job_id = job_id
        self.holders = holders
        self.confirmed = confirmed
        self.expires_ms = expires_ms
        self.tries = 0
        #: The part of the journal with the record of a dummy. The others have that of their job.
        self.segment = 0
        #: Holders that another node did not name, which may not know them: its word that all is over leaves them out.
        self.unnamed: tuple[bytes, ...] = ()

    def heard(self, node_id: bytes) -> None:
        """Another node knows."""
        if node_id not in self.confirmed:
            self.confirmed += (node_id,)


# -- commands ----------------------------------------------------------------------------------------------------------


def acknowledge(node: "Node", job_id: bytes, now_ms: int) -> bool:
    """A consumer is done with the job. True when it was known and not yet acknowledged."""
    job = node.find(job_id)
    if job is None:
        if node.peers:
            add_dummy(node, job_id, now_ms)
        return False
    if job.state == ACKED:
        return False
    if job.state == WAIT_REPL:
        decide(node, job, now_ms)
    if len(job.holders) == 1:
        if node.journaling:
            node.journal.append((ACK, job_id))
        node.remove(job)
        return True
    ack = mark(node, job, node.selves, now_ms)
    tell(node, ack)
    return True


def decide(node: "Node", job: Job, now_ms: int) -> None:
    """A job whose copies are still wanted is done: its ADDJOB has succeeded.

    The one holder of a job that is delivered at most once hears of it by its ID alone.
    """
    if not job.retry:
        for peer in node.peers.values():
            if job.id in peer.waiting:
                node.batch(peer.id, (SETACK, ()), job.id)
    replication.decided(node, job, now_ms)


def delete(node: "Node", job_id: bytes) -> bool:
    """Forget the job on this node, whatever its state. True when it was known."""
    job = node.find(job_id)
    if job is None:
        drop_dummy(node, job_id)
        return False
    forget(node, job)
    return True


def fast_ack(node: "Node", job_id: bytes, now_ms: int) -> bool:
    """Delete the job wherever it is, without making sure. True when it was known here."""
    del now_ms
    job = node.find(job_id)
    if job is None:
        keeping.job_done(node, job_id, None)
        for peer in node.peers.values():
            node.batch(peer.id, (DELJOB,), job_id)
        return False
    for holder in job.holders:
        if holder != node.node_id:
            node.batch(holder, (DELJOB,), job_id)
    if len(job.holders) > 1:
        node.remember_gone(job_id)
    forget(node, job)
    return True


def forget(node: "Node", job: Job) -> None:
    """Remove ``job`` and write that."""
    if job.state == WAIT_REPL:
        replication.job_removed(node, job)
    if node.journaling and job.segment:
        node.journal.append((DELETE, job.id))
    node.remove(job)


# -- collection --------------------------------------------------------------------------------------------------------


def mark(node: "Node", job: Job, confirmed: tuple[bytes, ...], now_ms: int) -> Ack:
    """``job`` is done; its other holders must hear of it."""
    if job.state == QUEUED:
        node.queues[job.queue].remove(job)
    node.let_go(job)
    job.state = ACKED
    if node.journaling:
        if job.segment:
            node.journal.append((ACK, job.id))
        else:
            node.file(job)  # it was not in the journal yet
    ack = Ack(job.id, job.holders, confirmed, job.expires_ms)
    node.acking[job.id] = ack
    node.used += ACK_BYTES
    arm(node, ack, now_ms)
    return ack


def arm(node: "Node", ack: Ack, now_ms: int) -> None:
    """Look at ``ack`` again later, the later the more often it was in vain."""
    wait_ms = min(AGAIN_MS << min(ack.tries, 8), AGAIN_MOST_MS) + int(node.random.random() * AGAIN_SPREAD_MS)
    node.timers.arm(ack, min(now_ms + wait_ms, ack.expires_ms))


def due(node: "Node", ack: Ack, now_ms: int) -> None:
    """Tell those again that have not answered; forget it when the job would have expired, if it is not over already."""
    if node.acking.get(ack.job_id) is not ack:
        return
    if now_ms >= ack.expires_ms:
        drop(node, ack)
        return
    ack.tries += 1
    remind(node, ack)
    arm(node, ack, now_ms)
    if ack.tries in {STRANGER_TRIES, STRANGER_TRIES_OF_SEVERAL}:
        review(node, ack)


def tell(node: "Node", ack: Ack) -> None:
    """SETACK to all that have not confirmed and can be reached."""
    for holder in ack.holders or node.peers:
        if holder not in ack.confirmed:
            peer = node.peers.get(holder)
            if peer is not None and peer.linked:
                node.batch(holder, (SETACK, ack.holders), ack.job_id)


def remind(node: "Node", ack: Ack) -> None:
    """SETACK again, to those who were not told enough again in this beat."""
    for holder in ack.holders or node.peers:
        if holder not in ack.confirmed:
            peer = node.peers.get(holder)
            if peer is not None and peer.linked and peer.told < TOLD_MOST:
                peer.tell(0)
                node.batch(holder, (SETACK, ack.holders), ack.job_id)


def tell_again(node: "Node", peer: Peer, saying: int) -> "Iterator[bool]":
    """There is a new link to or from ``peer``: SETACK for all that it has not confirmed."""
    is_enough = False
    for count, ack in enumerate(list(node.acking.values()), 1):
        if peer.saying != saying:
            return
        unheard = peer.id not in ack.confirmed and (not ack.holders or peer.id in ack.holders)
        if unheard and node.acking.get(ack.job_id) is ack:
            node.batch(peer.id, (SETACK, ack.holders), ack.job_id)
            is_enough = peer.tell(0)
        if is_enough or count % SLICE == 0:
            yield is_enough
            is_enough = False


def tell_acked(node: "Node", peer: bytes, job_id: bytes) -> None:
    """``peer`` does something with a job that is done: tell it."""
    ack = node.acking.get(job_id)
    node.batch(peer, (SETACK, ack.holders if ack is not None else ()), job_id)


def review(node: "Node", ack: Ack) -> None:
    """When everybody knows, the rest can go."""
    if not ack.holders:
        for peer_id in node.peers:
            if peer_id not in ack.confirmed:
                return
        drop(node, ack)
        return
    for holder in ack.holders:
        if holder not in ack.confirmed and not is_nobody(node, ack, holder):
            return
    for holder in ack.holders:
        if holder != node.node_id and holder in node.membership.nodes:
            node.batch(holder, ALL_KNOW, ack.job_id)
    drop(node, ack)


ALL_KNOW: Final = (DELJOB,)


def is_nobody(node: "Node", ack: Ack, holder: bytes) -> bool:
    """Whether nobody waits for ``holder``: it was forgotten, or has not been met in the time that takes."""
    nodes = node.membership.nodes
    if holder in nodes:
        return False
    if holder in node.membership.departed or ack.tries >= STRANGER_TRIES_OF_SEVERAL:
        return True
    return ack.tries >= STRANGER_TRIES and not any(other in nodes for other in ack.holders if other != node.node_id)


def drop(node: "Node", ack: Ack) -> None:
    """Forget an acknowledgement and its job."""
    job = node.find(ack.job_id)
    if node.journaling:
        node.journal.append((DELETE, ack.job_id))
    if job is not None:
        node.remove(job)
    else:
        node.drop_ack(ack.job_id)
        node.free_key(ack.job_id)  # as replay does with this record


def set_ack(node: "Node", peer: bytes, message: tuple[int, tuple[bytes, ...], tuple[bytes, ...]], now_ms: int) -> None:
    """SETACK: ``peer`` knows that these jobs are done."""
    _, holders, ids = message
    known = node.sharing.get(holders)  # the one object, with which most jobs need no comparison
    told: list[bytes] = []
    for job_id in ids:
        job = node.find(job_id)
        if job is not None and job.holders is known and job.state != ACKED and peer in known:
            acked_there(node, job, peer, now_ms)
            told.append(job_id)
        else:
            set_ack_of(node, peer, holders, job_id, job, now_ms)
    if told:
        node.batches.setdefault((peer, (GOTACK, 1, ())), []).extend(told)


def set_ack_of(
    node: "Node", peer: bytes, holders: tuple[bytes, ...], job_id: bytes, job: Job | None, now_ms: int
) -> None:
    """SETACK of a job that is not known, is done already, or may be held by others than those that ``peer`` names."""
    if job is None:
        if holders:
            drop_dummy(node, job_id)
        keeping.job_done(node, job_id, (*holders, peer))
        if job_id not in node.acking:
            node.remember_gone(job_id)
        node.batch(peer, (GOTACK, 0, ()), job_id)
        return
    if job.retry and (peer not in job.holders or holders != job.holders):
        more = (*holders, peer) if holders else ()
        if job.state != ACKED:
            copies.add_holders(node, job, more)
    named = job.holders if job.holders != holders else ()
    if job.state == ACKED:
        ack = node.acking[job_id]
        widen(node, ack, holders)
        named = ack.holders if ack.holders != holders else ()
        if holders:
            ack.heard(peer)
        review(node, ack)
    else:
        acked_there(node, job, peer if holders else b"", now_ms)
    if holders and named:
        note_unnamed(node, job_id, holders)
    node.batch(peer, (GOTACK, 1, named), job_id)


def note_unnamed(node: "Node", job_id: bytes, holders: tuple[bytes, ...]) -> None:
    """Somebody collects an acknowledgement who named only ``holders``: remember the others that this node knows of."""
    ack = node.acking.get(job_id)
    if ack is not None:
        ack.unnamed = tuple([holder for holder in ack.holders if holder not in holders])


def acked_there(node: "Node", job: Job, peer: bytes, now_ms: int) -> None:
    """A job that is alive here was acknowledged at ``peer``, or, without one, where nobody knew it."""
    if job.state == WAIT_REPL:
        decide(node, job, now_ms)
    if len(job.holders) == 1:
        node.remember_gone(job.id)
        if node.journaling:
            node.journal.append((ACK, job.id))
        node.remove(job)
        return
    ack = mark(node, job, (node.node_id, peer) if peer else node.selves, now_ms)
    if peer:
        review(node, ack)
    else:
        tell(node, ack)


def widen(node: "Node", ack: Ack, holders: tuple[bytes, ...]) -> bool:
    """Note further holders; whether there were any."""
    expects = node.membership.expects
    new = {holder for holder in holders if holder not in ack.holders and expects(holder)}
    if not new or not ack.holders:
        return False
    ack.holders = node.shared(tuple(sorted([*ack.holders, *new])))
    job = node.find(ack.job_id)
    if job is not None:
        job.holders = ack.holders
    return True


def got_ack(
    node: "Node", peer: bytes, message: tuple[int, int, tuple[bytes, ...], tuple[bytes, ...]], now_ms: int
) -> None:
    """GOTACK: ``peer`` has heard that these jobs are done, and says whether it knew them."""
    del now_ms
    _, is_known, holders, ids = message
    for job_id in ids:
        ack = node.acking.get(job_id)
        if ack is None:
            continue
        ack.heard(peer)
        if not ack.holders:
            if is_known:
                drop(node, ack)
                continue
        elif widen(node, ack, holders):
            tell(node, ack)
        review(node, ack)


def removed(node: "Node", peer: bytes, message: tuple[int, tuple[bytes, ...]], now_ms: int) -> None:
    """DELJOB: these jobs are gone everywhere."""
    del peer, now_ms
    for job_id in message[1]:
        ack = node.acking.get(job_id)
        if ack is not None and ack.unnamed:
            go_on(node, ack)
            continue
        node.remember_gone(job_id)
        job = node.find(job_id)
        if job is not None:
            forget(node, job)
        else:
            keeping.job_done(node, job_id, ())
            drop_dummy(node, job_id)


def go_on(node: "Node", ack: Ack) -> None:
    """Whoever says that all is over did not name some holders: they must hear of it from here."""
    for holder in ack.holders:
        if holder not in ack.unnamed:
            ack.heard(holder)
    ack.unnamed = ()
    tell(node, ack)
    review(node, ack)


# -- dummies and bare IDs ----------------------------------------------------------------------------------------------


def add_dummy(node: "Node", job_id: bytes, now_ms: int) -> None:
    """An ID that is unknown here was acknowledged: other nodes may know it."""
    if job_id in node.acking or job_id in node.gone:
        return
    if node.membership.leaving:
        tell_once(node, job_id)
        return
    suffix = job_id[36:]
    minutes = int(suffix, 16) if HEX_DIGITS.issuperset(suffix) else 0
    if not minutes & 1:
        tell_once(node, job_id)
        return
    if len(node.dummies) >= DUMMIES_MOST:
        drop_dummy(node, next(iter(node.dummies)))
        node.evicted += 1
    ack = restore_dummy(node, job_id, now_ms + max(1, minutes) * 60_000)
    if node.journaling:
        file_dummy(node, ack)
    arm(node, ack, now_ms)
    tell(node, ack)


def tell_once(node: "Node", job_id: bytes) -> None:
    """A job that is delivered at most once was acknowledged: nobody delivers it again, so only its memory matters."""
    for peer in node.peers.values():
        if peer.linked:
            node.batch(peer.id, (SETACK, ()), job_id)


def restore_dummy(node: "Node", job_id: bytes, expires_ms: int) -> Ack:
    """A dummy as replay finds it."""
    ack = Ack(job_id, (), node.selves, expires_ms)
    node.acking[job_id] = ack
    node.dummies[job_id] = None
    node.used += ACK_BYTES
    return ack


def file_dummy(node: "Node", ack: Ack) -> None:
    """Write a dummy; it counts for the newest segment from here on."""
    node.journal.append((DUMMY, ack.job_id, ack.expires_ms))
    lies_in(node, ack, node.segment)


def lies_in(node: "Node", ack: Ack, segment: int) -> None:
    """The newest record of a dummy is in this segment."""
    if ack.segment:
        node.live[ack.segment] -= 1
    ack.segment = segment
    node.live[segment] = node.live.get(segment, 0) + 1


def drop_dummy(node: "Node", job_id: bytes) -> None:
    """Forget a dummy, if there is one."""
    if job_id in node.dummies:
        drop(node, node.acking[job_id])


def beat(node: "Node", now_ms: int) -> None:
    """Forget bare IDs after two node timeouts."""
    keep_ms = 2 * node.membership.timeout_ms
    node.used -= node.gone.forget(now_ms, keep_ms, GONE_MOST) * GONE_BYTES
    node.early.forget(now_ms - keep_ms)
