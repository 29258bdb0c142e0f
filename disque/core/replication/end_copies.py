"""How jobs have ended is kept by as many nodes as had the job: copies that are lost are made again elsewhere.

The walk of `repair` goes through the kept ends as well. For one that may lack a copy, the nodes that may keep it are
asked (ASKEND), and those that say so are counted (COPYIS). The first of these in the order of the job sends the end
(KEEPEND) to the next nodes in that order, which write it before they say that they keep it. Only an end that is sure
travels. It is kept everywhere until the same time, but for as long as messages take.

An end that was forgotten for want of memory is not made again against that: a node that is short of memory takes none.
A node without the capability `ends` counts as one that keeps what it should, and gets nothing.

*Messages that are lost* with their link are left to the next walk, as are those that are not answered for a while. One
that comes twice or late is answered once more, and changes nothing. Whoever takes an end tells the others that may keep
it (COPYIS); who does not hear that asks one node less, and may send the end to a node that has it.

Where two ends were taken while nodes were cut off, a copy follows the nodes that knew the job: see `ends.was_sure`.
"""

from typing import TYPE_CHECKING, Final

from cluster.capabilities import ENDS
from cluster.messages import ASKEND, COPYIS, END_KEPT, END_REFUSED, END_UNKNOWN, KEEPEND
from disque.core.model.ends import ENDINGS, End
from disque.core.model.extra import ERROR_MOST
from disque.core.model.job import ACKED, COUNTER_MAX
from disque.core.model.jobid import valid
from disque.core.model.memory import CHECK_BYTES
from disque.core.model.repair import Keeping
from disque.core.model.spec import REPL
from disque.core.replication import ends, standing
from disque.core.replication.rank import rank

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.messages import KeepEnd
    from disque.core.model.peers import Peer
    from disque.core.model.repair import Walk
    from disque.core.node import Message, Node

#: An end that is over sooner is not copied any more.
LEAST_MS: Final = 1000
#: Ends that are looked up at a time.
SLICE: Final = 500


# -- the walk ----------------------------------------------------------------------------------------------------------


def lacks(node: "Node", walk: "Walk", end: End) -> bool:
    """Whether an end may have too few copies, as far as this node knows."""
    is_kept = end.repl > 0 and end.lasts and node.ends.by_id.get(end.id) is end
    if not is_kept or end.until_ms - node.beat_ms < LEAST_MS:
        return False
    live, is_doubtful = standing.standing(node, walk, end.holders)
    return live < end.repl or is_doubtful


def count(node: "Node", walk: "Walk", end: End) -> None:
    """Count an end that seems to have too few copies."""
    if lacks(node, walk, end):
        live, _ = standing.standing(node, walk, end.holders)
        if live < end.repl:
            standing.estimate(node, end.id, end.holders, end.repl, live)


def check(node: "Node", walk: "Walk", end: End) -> int:
    """Ask who keeps an end that may have too few copies. How many nodes were asked, and 1 for what may come of it."""
    repairs = node.repairs
    if end.id in repairs.keeping or not lacks(node, walk, end):
        return 0
    if not ends.is_sure(node, end.id):
        walk.unsure += 1
        return 0
    asked = [one for one in end.holders if one != node.node_id and standing.is_able(node, one, ENDS)]
    keeping = repairs.keeping[end.id] = Keeping(end, asked, node.beat_ms)
    node.used += CHECK_BYTES
    for holder in asked:
        node.batch(holder, (ASKEND, end.holders), end.id)
    if not asked:
        decide(node, walk, keeping, node.beat_ms)
    return 1 + len(asked)


def tend(node: "Node", walk: "Walk", patience_ms: int) -> None:
    """A beat is over: see to those that have ended otherwise."""
    now_ms = node.beat_ms
    for job_id, keeping in list(node.repairs.keeping.items()):
        if node.ends.by_id.get(job_id) is not keeping.end:
            over(node, walk, keeping)  # its time is over, or there is a better one
        elif now_ms - keeping.since_ms >= patience_ms or not all(
            standing.is_able(node, one, ENDS) for one in keeping.open
        ):
            drop(node, keeping)
            node.repairs.open |= set(keeping.open)
            walk.unsure += 1


def drop(node: "Node", keeping: Keeping) -> None:
    """Nothing more is done about an end in this walk."""
    node.used -= CHECK_BYTES
    del node.repairs.keeping[keeping.end.id]


def over(node: "Node", walk: "Walk", keeping: Keeping) -> None:
    """An end has all its copies, or needs none any more."""
    drop(node, keeping)
    if keeping.is_sent:
        repairs = node.repairs
        repairs.short = max(0, repairs.short - 1)
        repairs.alone = max(0, repairs.alone - keeping.is_alone)
        walk.short -= 1
        walk.alone -= keeping.is_alone


def decide(node: "Node", walk: "Walk", keeping: Keeping, now_ms: int) -> None:
    """It is known who keeps an end: make more copies, if there are too few and it is up to this node."""
    repairs, end = node.repairs, keeping.end
    sayers = [*keeping.have, node.node_id]
    have = [one for one in sayers if one not in repairs.leaving]
    if have or not node.membership.leaving:  # else nobody is known to keep it but this node, which goes
        keeping.away = standing.away(node, end.holders, ENDS)
    found = len(have) + len(keeping.away)
    if found >= end.repl:
        standing.rely_on(node, keeping.away, now_ms)
        drop(node, keeping)
        return
    repairs.open |= {one for one in end.holders if one not in sayers and one not in keeping.away}  # as of jobs
    if node.membership.leaving and found < max(1, min(end.repl, len(node.linked))):
        walk.left += 1
    if standing.first(have or sayers, end.id) != node.node_id and not walk.insists:
        walk.passed += 1
        drop(node, keeping)
        return
    keeping.is_sent = True
    keeping.missing = end.repl - found
    keeping.is_alone = found <= 1 < end.repl
    walk.short += 1
    walk.alone += keeping.is_alone
    go_on(node, walk, keeping, now_ms)


# -- sending -----------------------------------------------------------------------------------------------------------


def go_on(node: "Node", walk: "Walk", keeping: Keeping, now_ms: int) -> None:
    """Send an end to as many nodes as copies are missing; or it has all of them, or there is nobody left."""
    if node.ends.by_id.get(keeping.end.id) is not keeping.end or keeping.end.until_ms <= now_ms:
        over(node, walk, keeping)
        return
    while len(keeping.open) < keeping.missing:
        peer = target(node, keeping)
        if peer is None:
            break
        keeping.open.append(peer.id)
        keeping.since_ms = now_ms
        node.send(peer.id, message_of(node, keeping.end, peer.id, now_ms))
    if not keeping.missing:
        over(node, walk, keeping)
        node.repairs.made += 1
        walk.made += 1
    elif not keeping.open:
        drop(node, keeping)
        walk.refused += len(keeping.refused) > 0


def target(node: "Node", keeping: Keeping) -> "Peer | None":
    """The next node to take a copy: those of zones without one come first, and then the order of the job counts."""
    end = keeping.end
    size = len(end.text) + len(end.body)
    have = {*keeping.have, *keeping.open}
    tried = {*have, *keeping.away, *keeping.refused, *node.repairs.leaving}
    zones = {node.zones.mine, *[peer.zone for peer in node.peers.values() if peer.id in have]}
    best: Peer | None = None
    for peer in node.linked:
        if peer.id in tried or not peer.understands(ENDS) or not peer.takes(size):
            continue
        if best is None or (peer.zone not in zones, rank(peer.id, end.id)) > (
            best.zone not in zones,
            rank(best.id, end.id),
        ):
            best = peer
    return best


def message_of(node: "Node", end: End, peer_id: bytes, now_ms: int) -> "Message":
    """KEEPEND for one node."""
    holders = tuple(sorted({*end.holders, node.node_id, peer_id}))
    age_ms, left_ms = max(0, now_ms - end.ended_ms), end.until_ms - now_ms
    numbers = (age_ms, left_ms, end.repl, end.tries)
    return (KEEPEND, end.queue, end.status, end.node_id, *numbers, holders, end.error, end.text, end.body, end.id)


def told(node: "Node", peer: bytes, what: int, holders: tuple[bytes, ...], ids: tuple[bytes, ...], now_ms: int) -> None:
    """COPYIS about ends: ``peer`` keeps them, or does not."""
    repairs = node.repairs
    for job_id in ids:
        end = node.ends.by_id.get(job_id)
        if what == END_KEPT and end is not None and end.repl:
            widen(node, end, (*holders, peer))
        keeping = repairs.keeping.get(job_id)
        if keeping is None or repairs.walk is None or peer not in keeping.open:
            continue
        keeping.open.remove(peer)
        if what == END_KEPT:
            keeping.have.append(peer)
            keeping.missing -= keeping.is_sent
        elif keeping.is_sent:
            keeping.refused.append(peer)
        if keeping.is_sent:
            go_on(node, repairs.walk, keeping, now_ms)
        elif not keeping.open:
            decide(node, repairs.walk, keeping, now_ms)


# -- the other side ----------------------------------------------------------------------------------------------------


def asked(node: "Node", peer: bytes, message: tuple[int, tuple[bytes, ...], tuple[bytes, ...]], now_ms: int) -> None:
    """ASKEND: say of each job whether it is kept here how it has ended."""
    del now_ms
    _, holders, ids = message
    for job_id in ids:
        end = node.ends.by_id.get(job_id)
        if end is None or not end.repl or end.is_strange:
            node.batch(peer, (COPYIS, END_UNKNOWN, ()), job_id)
            continue
        write(node, end)
        widen(node, end, (*holders, peer))
        node.batch(peer, (COPYIS, END_KEPT, end.holders if end.holders != holders else ()), job_id)


def taken(node: "Node", peer: bytes, message: "KeepEnd", now_ms: int) -> None:
    """KEEPEND: keep how a job has ended, if there is room; nonsense is skipped, as if it had not come."""
    _, queue, status, node_id, age_ms, left_ms, repl, tries, holders, error, text, body, job_id = message
    fits = len(queue) <= ends.QUEUE_MOST and len(text) <= ends.TEXT_MOST and len(error) <= ERROR_MOST
    fits = fits and 0 < repl <= REPL.most and tries <= COUNTER_MAX and left_ms > 0
    if not valid(job_id) or status not in ENDINGS or not fits:
        node.messages_skipped += 1
        return
    known = node.ends.by_id.get(job_id)
    if known is not None and known.repl and not known.is_strange:
        write(node, known)
        widen(node, known, (*holders, peer))
        node.batch(peer, (COPYIS, END_KEPT, ()), job_id)
        return
    end = End(job_id, queue, status, node_id, max(0, now_ms - age_ms), now_ms + min(left_ms, ends.KEEP_MOST_MS))
    end.text, end.error, end.body, end.tries = text, error, body, tries
    end.lasts = end.copied = True
    expects = node.membership.expects
    others = [one for one in {*holders, peer} if expects(one) and one != node.node_id]
    end.repl, end.holders = repl, node.shared(tuple(sorted([*others, node.node_id])))
    if refuses(node, known, end):
        node.batch(peer, (COPYIS, END_REFUSED, ()), job_id)
        return
    ends.put(node, end)
    for holder in end.holders:
        if holder != node.node_id:
            node.batch(holder, (COPYIS, END_KEPT, ()), job_id)
    if job_id in node.ends.watched:
        node.ends.unsure.setdefault(job_id, [])
        ends.review(node, job_id)


def write(node: "Node", end: End) -> None:
    """Write an end before this node says that it keeps it: it has no record if its job expired before the start."""
    if node.journaling and end.lasts and not end.segment:
        ends.file(node, end)


def refuses(node: "Node", known: End | None, end: End) -> bool:
    """Whether this node does not keep a copy of an end for now. ``known`` is what it knows of how the job has ended.

    If it has the job, or knows an end that does not last, it will hear of it as a holder does.
    """
    job = node.find(end.id)
    if (job is not None and job.state != ACKED) or (known is not None and not known.is_strange):
        return True
    if node.membership.leaving or node.misconf or len(end.text) + len(end.body) > node.membership.myself.body_most:
        return True
    return node.used + end.size() > node.limits.warn


def widen(node: "Node", end: End, holders: tuple[bytes, ...]) -> None:
    """Note that these nodes may keep an end, too."""
    new = standing.fresh(node, end.holders, holders)
    if new:
        node.ends.hold(end, node.shared(tuple(sorted([*end.holders, *new]))))
        if node.journaling and end.segment:
            ends.file_holders(node, end)


def forget(node: "Node", gone: frozenset[bytes]) -> "Iterator[None]":
    """These nodes were forgotten: they keep no ends any more."""
    cursor = 1 if node.ends.by_id else 0
    while cursor:
        cursor, some = node.ends.index.look(cursor, SLICE)
        for end in some:
            if not gone.isdisjoint(end.holders):
                node.ends.hold(end, node.shared(tuple([one for one in end.holders if one not in gone])))
        yield
