"""Copies of a job on other nodes before its ADDJOB is answered.

The job is registered as WAIT_REPL, REPLJOB goes to as many nodes as copies are wanted, and the session owes a reply
until enough of them have said GOTJOB. ADDJOBs pipelined on one connection wait side by side; their replies leave in
order. Whoever gives up (timeout, expiry, deletion, a client that is gone) takes the copies back with ABORT. With ASYNC
the reply leaves at once and the copies are made all the same.

Links lose nothing while they stand, so a body is sent twice only over a new link. Another node is asked when one
refuses, when a link ends, and when a node has confirmed nothing at all for half a second.

A node that is short of memory or about to leave coordinates from outside: all copies are elsewhere. When they are
there, ENQUEUE tells one of the holders that it is its turn. A job that is delivered at most once has one holder only:
REPLJOB itself says that it is to be queued there, so there is a second attempt only when a node has refused it.
"""

from itertools import islice
from typing import TYPE_CHECKING, Final

from cluster.messages import ABORT, ANNOUNCE, ENQUEUE, REFUSED_GONE, REFUSED_SIZE, REPLJOB_IDS
from disque.core.base import errors, resp
from disque.core.journal.schema import DELETE
from disque.core.model.job import WAIT_REPL, Job
from disque.core.model.memory import SPREAD_BYTES
from disque.core.model.outcome import Abandoned, Decided
from disque.core.model.peers import TOLD_MOST, Peer
from disque.core.model.pubsub import ADDED
from disque.core.model.queue import ELSEWHERE
from disque.core.model.repair import Replacement, Takeover
from disque.core.model.session import NOT_WAITING, WAIT_COPIES, PendingAdd, Session, Spread
from disque.core.replication import batching, ends, queue_options, replacement, replica, takeover, zoning
from disque.core.replication.announcements import JITTER_MS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disque.core.node import Message, Node

#: A node that has confirmed nothing for so long, in ms, is joined by another one.
PATIENCE_MS: Final = 500
#: Bytes of the body that it waits for give it one more ms each.
BYTES_A_MS: Final = 32_768
#: How long a node that refuses is left alone at most, in ms.
REFUSED_MOST_MS: Final = 30_000
#: Between two beats, in ms.
BEAT_MS: Final = 100
#: Jobs that one step of a chore, and one beat, look at.
SLICE: Final = 200
SHORT_MOST: Final = 500


def owe(node: "Node", session: Session, args: list[bytes], timeout_ms: int, now_ms: int) -> PendingAdd:
    """Note that ``session`` has an ADDJOB unanswered. 0 ms means that only the job's TTL ends the wait."""
    pending = PendingAdd(session, args)
    session.adds.append(pending)
    session.adds_bytes += pending.size
    session.waiting = WAIT_COPIES
    if timeout_ms:
        node.timers.arm(pending, now_ms + timeout_ms)
    return pending


def from_outside(node: "Node") -> bool:
    """Whether this node must not keep new jobs itself: it is short of memory, or about to leave."""
    return node.membership.leaving or ends.is_short(node)


# -- asking ------------------------------------------------------------------------------------------------------------


def begin(node: "Node", pending: PendingAdd, job: Job, now_ms: int, *, outside: bool) -> None:
    """Ask other nodes for the copies of ``job`` that it needs before ``pending`` can be answered."""
    job.state = WAIT_REPL
    spread = Spread(job, pending, outside=outside)
    pending.spread = spread
    node.copies.wanted[job.id] = spread
    if spread.comes_here():
        node.copies.inbound[job.queue] = node.copies.inbound.get(job.queue, 0) + 1
    node.register(job)
    node.timers.arm(job, job.expires_ms)
    ask(node, spread, now_ms)


def ask(node: "Node", spread: Spread, now_ms: int) -> None:
    """Choose the first nodes for the copies of a job: of a large one, among those that take it."""
    if len(spread.job.body) <= node.body_least:
        batching.ask(node, spread, now_ms)
        return
    for _ in range(spread.missing()):
        more(node, spread, now_ms)


def begin_async(node: "Node", job: Job, now_ms: int, *, outside: bool) -> None:
    """Ask other nodes for copies of a job that is answered already.

    From outside it waits here until the others have it: in the journal too, unless it is delivered at most once. Its
    one holder may have delivered that, so no later start may find it here.
    """
    spread = Spread(job, None, outside=outside)
    node.copies.wanted[job.id] = spread
    node.used += SPREAD_BYTES
    if outside:
        node.pubsub.happened(ADDED, job.spec.queue, job.id)
        job.state = WAIT_REPL
        node.register(job)
        node.timers.arm(job, job.expires_ms)
        if node.journaling and job.retry:
            node.file(job)
    ask(node, spread, now_ms)


def send(node: "Node", peer: Peer, spread: Spread, now_ms: int) -> None:
    """Send a job over a new link."""
    if isinstance(spread, Replacement):
        node.send(peer.id, replacement.wire(node, spread, now_ms))
    else:
        node.send(peer.id, batching.wire(node, spread, peer.id, now_ms, ANNOUNCE))


def send_again(node: "Node", peer: Peer, now_ms: int) -> "Iterator[bool]":
    """Send all jobs that ``peer`` was asked for and has not confirmed, over a new link.

    But for those that are to be there alone, from here on: they may have come. See `takeover.beat`.
    """
    saying = peer.saying
    is_enough = False
    for count, spread in enumerate(list(peer.waiting.values()), 1):
        if peer.linked and peer.waiting.get(spread.job.id) is spread and not isinstance(spread, Takeover):
            if not peer.takes(len(spread.job.body)):  # not any more; it may have a copy, so it stays among the holders
                del peer.waiting[spread.job.id]
                spread.refused += (peer.id,)
                more(node, spread, max(now_ms, node.beat_ms))
                continue
            send(node, peer, spread, max(now_ms, node.beat_ms))
            is_enough = peer.tell(len(spread.job.body))
        if is_enough or count % SLICE == 0:
            yield is_enough
            is_enough = False
            if peer.saying != saying:
                return


def more(node: "Node", spread: Spread, now_ms: int) -> None:
    """Ask one more node for a copy, if copies are missing and there is one that was not asked yet."""
    job = spread.job
    if node.copies.wanted.get(job.id) is not spread or (not job.retry and is_asked(node, job.id)):
        return
    if isinstance(spread, Replacement):
        replace(node, spread, now_ms)
        return
    if isinstance(spread, Takeover):
        takeover.go_on(node, spread, now_ms)
        return
    if node.zones.shared:
        fresh = zoning.next_ones(node, spread, now_ms)
    else:
        fresh = [peer for peer in node.linked if peer.id not in spread.asked and peer.refused_until_ms <= now_ms]
    if len(job.body) > node.body_least:
        fresh = [peer for peer in fresh if peer.takes(len(job.body))]
    if not fresh:
        node.copies.short[job.id] = spread
        return
    peer = fresh[0] if len(fresh) == 1 else node.random.choice(fresh)
    ask_too(node, peer, spread, now_ms)
    node.send(peer.id, batching.wire(node, spread, peer.id, now_ms, ANNOUNCE))


def ask_too(node: "Node", peer: Peer, spread: Spread, now_ms: int) -> None:
    """Note that ``peer`` is asked for a copy, too; the caller sends it."""
    job = spread.job
    spread.asked = (*spread.asked, peer.id)
    if job.retry:
        replica.add_holders(node, job, (peer.id,))
    if not peer.waiting:
        peer.heard_ms = now_ms
    peer.waiting[job.id] = spread


def replace(node: "Node", spread: Replacement, now_ms: int) -> None:
    """Ask one more node for a copy that takes the place of a lost one. It ends if nobody is left to be asked."""
    pending = replacement.pending(node, spread)
    if pending >= spread.missing():
        return
    peers = replacement.targets(node, spread)
    peer = replacement.ripe(peers, now_ms)
    if peer is not None:
        ask_too(node, peer, spread, now_ms)
        node.send(peer.id, replacement.wire(node, spread, now_ms))
    elif not pending:
        replacement.give_up(node, spread, may_refuse=bool(peers or spread.refused))


def is_asked(node: "Node", job_id: bytes) -> bool:
    """Whether the answer of some node about a copy of this job is still to come."""
    return any(job_id in peer.waiting for peer in node.peers.values())


def beat(node: "Node", now_ms: int) -> None:
    """Ask others beside nodes that confirm nothing; ask again those that refused, when nobody else is left."""
    for peer in node.linked:
        if peer.waiting and now_ms - peer.heard_ms > PATIENCE_MS and now_ms - peer.heard_ms > patience_ms(peer):
            peer.heard_ms = now_ms
            node.begin_chore(ask_others(node, peer, now_ms))
    if not node.copies.short:
        return
    if node.membership.expected(now_ms, node.grace_ms) != node.copies.expected:
        try_all(node, now_ms)
    elif now_ms % PATIENCE_MS < BEAT_MS and not node.copies.walk:
        begin_walk(node, list(islice(node.copies.short, SHORT_MOST)), now_ms)


def patience_ms(peer: Peer) -> int:
    """How long a node may confirm nothing: longer where a large body is on its way to it."""
    first = next(iter(peer.waiting.values()))
    return PATIENCE_MS + len(first.job.body) // BYTES_A_MS


def ask_others(node: "Node", peer: Peer, now_ms: int) -> "Iterator[None]":
    """Ask one more node for each copy that ``peer`` was asked for."""
    for count, spread in enumerate(list(peer.waiting.values()), 1):
        more(node, spread, now_ms)
        if count % SLICE == 0:
            yield


def try_all(node: "Node", now_ms: int) -> None:
    """Nodes have come or gone: try all jobs for which there was nobody left to be asked."""
    node.copies.expected = node.membership.expected(now_ms, node.grace_ms)
    if node.copies.short:
        begin_walk(node, list(node.copies.short), now_ms)


def begin_walk(node: "Node", job_ids: list[bytes], now_ms: int) -> None:
    """Try these jobs, the first ones at once."""
    node.copies.walk += 1
    node.begin_chore(walk_short(node, job_ids, node.copies.walk, now_ms))


def walk_short(node: "Node", job_ids: list[bytes], number: int, now_ms: int) -> "Iterator[bool]":
    """Try them, so many a beat, until another walk begins: those that this one has tried are behind the others then."""
    told = 0
    try:
        for tried, job_id in enumerate(job_ids, 1):
            spread = node.copies.short.pop(job_id, None)  # at the end again, if it stays
            if spread is not None and node.copies.wanted.get(job_id) is spread:
                told += 1 + (len(spread.job.body) >> 10)
                try_again(node, spread, max(now_ms, node.beat_ms))
            if told >= TOLD_MOST or tried % SLICE == 0:
                yield told >= TOLD_MOST
                if node.copies.walk != number:
                    return
                told = 0 if told >= TOLD_MOST else told
    finally:
        if node.copies.walk == number:
            node.copies.walk = 0


def try_again(node: "Node", spread: Spread, now_ms: int) -> None:
    """Nodes have come or gone, or some time has passed: ask for the copies of this job that nobody was asked for.

    Its client is told when there are too few nodes, and no more can be expected back soon. What takes the place of a
    lost copy is here only when a node is forgotten that was asked for it; nodes that may have a copy stay asked.
    """
    if isinstance(spread, Replacement):
        replace(node, spread, now_ms)
        return
    if spread.outside and spread.add is None and not from_outside(node):
        come_home(node, spread, now_ms)
        if node.copies.wanted.get(spread.job.id) is not spread:
            return
    if spread.add is not None and is_hopeless(spread, node.copies.expected):
        give_up(node, spread.add, resp.error(errors.NO_REPL))
    elif node.zones.shared or any(peer.refused_until_ms <= now_ms for peer in node.linked):
        try_short(node, spread, now_ms)
    else:
        node.copies.short[spread.job.id] = spread


def come_home(node: "Node", spread: Spread, now_ms: int) -> None:
    """This node keeps jobs again: one that is answered, and has too few copies elsewhere, begins its life here.

    Not one that is delivered at most once while another node may have it.
    """
    job = spread.job
    if not job.retry and spread.asked:
        return
    spread.outside = False
    if spread.elsewhere:
        keep_behind(node, job, now_ms)
    else:
        replica.start(node, job, replica.first_ms(job, now_ms), now_ms)
    if spread.missing() <= 0:
        count(node, spread, now_ms)


def keep_behind(node: "Node", job: Job, now_ms: int) -> None:
    """Another node has queued this job: what is here waits as its copy."""
    node.hold(job, now_ms + job.retry * 1000 + JITTER_MS, 0)
    if node.journaling:
        node.file(job)


def is_hopeless(spread: Spread, expected: tuple[bytes, ...]) -> bool:
    """Whether these nodes are too few for the copies that are missing."""
    missing = spread.missing()
    if missing <= len(expected) - len(spread.confirmed):
        return False
    return missing > len([peer_id for peer_id in expected if peer_id not in spread.confirmed])


def try_short(node: "Node", spread: Spread, now_ms: int) -> None:
    """Ask as many nodes as copies of this job are missing that nobody was asked for."""
    job_id = spread.job.id
    shared = node.zones.shared
    if shared or spread.missing() <= 0:  # zones may count no more, since nodes were forgotten
        count(node, spread, now_ms)
        if node.copies.wanted.get(job_id) is not spread:
            return
    waited_for = [peer for peer in node.peers.values() if job_id in peer.waiting]
    if spread.job.retry:  # whoever refused may have room now
        spread.asked = (*spread.confirmed, *[peer.id for peer in waited_for])
    if shared:
        waited_for = [peer for peer in waited_for if zoning.is_there(node, peer, now_ms)]
    wanted = spread.missing() - len([peer for peer in waited_for if peer.linked])
    for _ in range(wanted):
        more(node, spread, now_ms)
    if wanted > 0 or shared:
        node.copies.short[job_id] = spread


# -- answers -----------------------------------------------------------------------------------------------------------


def got_job(node: "Node", peer_id: bytes, message: tuple[int, tuple[bytes, ...]], now_ms: int) -> None:
    """GOTJOB: ``peer_id`` confirms its copies. Only nodes that were asked count, each once."""
    peer = node.peers.get(peer_id)
    if peer is None:
        return
    peer.heard_ms = now_ms
    peer.refusals = 0
    for job_id in message[1]:
        peer.waiting.pop(job_id, None)
        spread = node.copies.wanted.get(job_id)
        if spread is not None and peer_id in spread.asked:
            if peer_id not in spread.confirmed:
                spread.confirmed += (peer_id,)
            count(node, spread, now_ms)


def count(node: "Node", spread: Spread, now_ms: int) -> None:
    """Go on with a job that may have all its copies. They are not enough yet if a zone without one is to be heard."""
    if spread.missing() > 0:
        if isinstance(spread, Replacement):
            replace(node, spread, now_ms)
        return
    if node.zones.shared and not isinstance(spread, Replacement) and zoning.must_wait(node, spread, now_ms):
        if not zoning.is_coming(node, spread, now_ms):
            more(node, spread, now_ms)
        node.copies.short[spread.job.id] = spread
        return
    achieved(node, spread, now_ms)


def refused(node: "Node", peer_id: bytes, message: tuple[int, int, tuple[bytes, ...]], now_ms: int) -> None:
    """REFUSED: ``peer_id`` keeps no copies of these jobs. Another node is asked."""
    peer = node.peers.get(peer_id)
    if peer is None:
        return
    peer.heard_ms = now_ms
    if message[1] != REFUSED_SIZE and peer.refused_until_ms <= now_ms:
        peer.refused_until_ms = now_ms + min((PATIENCE_MS << min(peer.refusals, 6)) - BEAT_MS, REFUSED_MOST_MS)
        peer.refusals += 1
    for job_id in message[2]:
        spread = peer.waiting.pop(job_id, None)
        if spread is not None and message[1] == REFUSED_SIZE and peer.takes(len(spread.job.body)):
            node.membership.set_body_most(peer_id, len(spread.job.body) - 1)  # whatever it said
            peer.body_most = len(spread.job.body) - 1
            node.body_least = min(node.body_least, peer.body_most)
        if spread is not None and node.copies.wanted.get(job_id) is spread:
            acquisition = spread.add.key if spread.add is not None else None
            if (acquisition is None or peer_id not in acquisition.companions()) and not stays(spread, peer_id):
                replica.drop_holder(node, spread.job, peer_id)
            if not spread.job.retry and message[1] != REFUSED_GONE:
                # It has not queued it, so it may be asked again.
                spread.asked = tuple([asked for asked in spread.asked if asked != peer_id])
            spread.refused += (peer_id,)
            more(node, spread, now_ms)
            count(node, spread, now_ms)


def stays(spread: Spread, peer_id: bytes) -> bool:
    """Whether a node that refuses a copy stays a holder all the same.

    It does if it was one before it was asked for a copy that takes the place of a lost one. So it does if the job was
    handed on since (ASYNC), maybe to this node, which takes what its consumers wait for whatever copies it refuses.
    The holders of a job that goes elsewhere do not change: they are who keeps its UNIQUE key.
    """
    if spread.job.place >= ELSEWHERE:
        return True
    return isinstance(spread, Takeover) or (isinstance(spread, Replacement) and peer_id in spread.before)


def achieved(node: "Node", spread: Spread, now_ms: int) -> None:
    """All copies are there: the job begins its life, the client gets its ID."""
    job, add = spread.job, spread.add
    if add is not None and add.key is not None:
        if not add.key.may_decide():
            return
        add.key.copies = spread.confirmed
    node.drop_copies(job.id)
    if node.repairs.copying:
        replacement.made(node, job.id)
    if add is not None:
        node.pubsub.happened(ADDED, job.spec.queue, job.id)
    if spread.outside:
        hand_out(node, spread, now_ms)
    elif add is not None:
        if spread.elsewhere:
            keep_behind(node, job, now_ms)
        else:
            replica.start(node, job, replica.first_ms(job, now_ms), now_ms)
        queue_options.grows(node, job.queue)
    if add is not None:
        add.spread = None
        tell(node, add, job)


def hand_out(node: "Node", spread: Spread, now_ms: int) -> None:
    """Copies enough are on other nodes: tell one of them to queue the job, and forget it here."""
    job = spread.job
    if isinstance(spread, Takeover):
        takeover.is_there(node, spread)
        return
    if job.retry and not spread.elsewhere:
        first = node.random.choice(sorted(spread.confirmed))
        node.send(first, (ENQUEUE, job.id, max(0, replica.first_ms(job, now_ms) - now_ms)))
    if node.journaling and job.segment:
        node.outbox.add((DELETE, job.id))
    node.remove(job)


def tell(node: "Node", add: PendingAdd, job: Job, *, is_over: bool = False) -> None:
    """Answer an ADDJOB with the ID of ``job``; one with a UNIQUE key when its keepers know it, or the job is over."""
    if add.key is not None:
        node.outcomes.append(Decided(add, job, is_over=is_over))
        return
    add.session.unsettled |= node.journaling
    answer(node, add, resp.status(job.id))


def decided(node: "Node", job: Job) -> None:
    """Another node says that a job that waits for copies here is done already: its ADDJOB has succeeded."""
    spread = node.copies.wanted.get(job.id)
    if spread is None:
        return
    node.drop_copies(job.id)
    if spread.add is not None:
        node.pubsub.happened(ADDED, job.spec.queue, job.id)
        spread.add.spread = None
        tell(node, spread.add, job, is_over=True)


def taken_over(node: "Node", job: Job) -> None:
    """Another node has queued or delivered a job that waits for copies here: it must not be queued twice."""
    spread = node.copies.wanted.get(job.id)
    if spread is not None:
        spread.elsewhere = True


def may_be_queued_elsewhere(node: "Node", job: Job) -> bool:
    """Whether a holder need not wait for this node, which coordinates from outside a job that is answered already."""
    spread = node.copies.wanted.get(job.id)
    if spread is None or spread.add is not None or not spread.confirmed:
        return False
    spread.elsewhere = True
    return True


def restarted(node: "Node", peer: Peer, now_ms: int) -> None:
    """``peer`` is another process now, which may have lost what it confirmed: undecided jobs are sent again."""
    for job_id, spread in list(node.copies.wanted.items()):
        if not spread.job.retry:
            if job_id in peer.waiting:
                lost(node, spread)
        elif peer.id in spread.confirmed:
            spread.confirmed = tuple([node_id for node_id in spread.confirmed if node_id != peer.id])
            peer.waiting[job_id] = spread
    peer.heard_ms = now_ms


def link_lost(node: "Node", peer: Peer, now_ms: int) -> None:
    """The link to ``peer`` is gone: others are asked for the copies that it was asked for."""
    for spread in [spread for spread in peer.waiting.values() if not spread.job.retry]:
        may_be_lost(node, spread)
    if peer.waiting:
        node.begin_chore(ask_others(node, peer, now_ms))


def may_be_lost(node: "Node", spread: Spread) -> None:
    """The link over which such a job went is gone, or its other side is forgotten: nobody else must have the job."""
    if isinstance(spread, Takeover):
        spread.beats = takeover.UNSENT_BEATS  # it will be said if the job has not left: see `takeover.beat`
    else:
        lost(node, spread)


def lost(node: "Node", spread: Spread) -> None:
    """A job that is delivered at most once may be on its one holder, or lost: it must not go to another one."""
    if spread.add is not None:
        give_up(node, spread.add, resp.error(errors.NO_REPL_REMOVED))
    elif isinstance(spread, Takeover):
        spread.beats = spread.beats or takeover.UNSENT_BEATS  # it may have to wait for its record still
    else:
        node.remove(spread.job)


def not_sent(node: "Node", peer_id: bytes, message: "Message", now_ms: int) -> None:
    """No byte of this REPLJOB or TAKEJOB has left: another node may have a job that is delivered at most once."""
    peer = node.peers.get(peer_id)
    ids = message[REPLJOB_IDS]
    assert isinstance(ids, tuple)
    for job_id in ids:
        spread = node.copies.wanted.get(job_id)
        if spread is not None and not spread.job.retry:
            if peer is not None:
                peer.waiting.pop(spread.job.id, None)
            more(node, spread, now_ms)
            if not isinstance(spread, Takeover):  # where nobody else was to be asked, it may be asked again
                spread.asked = tuple([asked for asked in spread.asked if asked != peer_id])


# -- the end of waiting ------------------------------------------------------------------------------------------------


def time_out(node: "Node", pending: PendingAdd, now_ms: int) -> None:
    """The client's timeout is over and not all copies are there."""
    del now_ms
    give_up(node, pending, resp.error(errors.NO_REPL_TIMEOUT))


def job_removed(node: "Node", job: Job) -> None:
    """A job that waits for copies expires or is deleted; the caller removes it."""
    spread = node.copies.wanted.get(job.id)
    if spread is not None:
        abort(node, spread)
        add = spread.add
        if add is not None:
            add.spread = None
            leave_key(node, add)
            answer(node, add, resp.error(errors.NO_REPL_REMOVED))


def give_up(node: "Node", pending: PendingAdd, reply: bytes) -> None:
    """End an ADDJOB without a job: nothing of it stays here or elsewhere.

    A job that is decided already, and only waits for the keepers of its UNIQUE key, stays.
    """
    spread, pending.spread = pending.spread, None
    if spread is not None:
        abort(node, spread)
        node.remove(spread.job)
    leave_key(node, pending)
    answer(node, pending, reply)


def leave_key(node: "Node", pending: PendingAdd) -> None:
    """An ADDJOB that is over wants its UNIQUE key no more, if it has one."""
    if pending.key is not None:
        node.outcomes.append(Abandoned(pending))


def abort(node: "Node", spread: Spread) -> None:
    """Take back what was asked of other nodes."""
    job_id = spread.job.id
    node.drop_copies(job_id)
    for peer_id in spread.asked:
        node.batch(peer_id, (ABORT,), job_id)
    if node.journaling and spread.job.segment:
        node.outbox.add((DELETE, job_id))


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
