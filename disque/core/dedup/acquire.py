"""What an ADDJOB does to get a UNIQUE key. See `keys`.

An `Acquisition` stands for all ADDJOBs of this node that want one key: the first one asks the keepers for it and makes
the job, the others wait in line. When its job is decided and the key settled, or somebody else's is, all are answered;
when the first one comes to nothing, the next one begins anew.
"""

from typing import TYPE_CHECKING, Final

from cluster.messages import ASKKEY, GOES_WITH_JOB, IS_SETTLED, KEYFREE, KEYHELD
from disque.core.base import resp
from disque.core.base.timers import IDLE
from disque.core.dedup import key_keeper, keys
from disque.core.model.jobid import ttl_suffix, valid
from disque.core.model.key import COMMITTED, SETTLED, TENTATIVE, Key
from disque.core.model.session import Acquisition, PendingAdd
from disque.core.replication import acks, coordinator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disque.core.model.peers import Peer
    from disque.core.model.request import Request
    from disque.core.node import Node

#: Who finds a key in the hands of somebody undecided asks again after so long: doubled each time, up to the second.
AGAIN_MS: Final = 25
AGAIN_MOST_MS: Final = 400


# -- asking ------------------------------------------------------------------------------------------------------------


def hold(
    node: "Node", pending: PendingAdd, request: "Request", digest: bytes, now_ms: int, *, is_new: bool = False
) -> bool:
    """Whether ``pending`` holds the key with this digest and may make its job.

    If not, it is answered, or will be, or waits and is tried again. ``is_new``: nothing is known of it here.
    """
    key: Key | None = None
    bid: Acquisition | None = None
    if not is_new:
        nodes_changed(node, now_ms)
        bid = node.unique.acquisitions.get(digest)
        # Of a key that this node bids for none rests: that would have ended the bid.
        key = keys.find(node, digest, now_ms) if bid is None or not bid.job_id else node.unique.table.get(digest)
    if key is not None:
        key_keeper.wake(node, key, now_ms)
    if key is not None and key.state == SETTLED:
        hit(node, pending, bid, key.job_id)
        return False
    if bid is None:
        bid = begin(node, pending, request, digest, now_ms)
    elif bid.add is not pending:
        pending.key = bid
        bid.waiting.append(pending)
        node.used += pending.size
        return False
    if bid.decided or pending.spread is not None:
        return False
    if not bid.job_id:
        attempt(node, bid, now_ms)
    if not bid.complete():
        return False
    if is_known(node, bid.job_id):
        step_back(node, bid, now_ms)  # somebody lies about the IDs of jobs
        return False
    return True


def is_known(node: "Node", job_id: bytes) -> bool:
    """Whether there is something of this ID already."""
    return node.find(job_id) is not None or job_id in node.acks.by_id or job_id in node.tombstones


def begin(node: "Node", pending: PendingAdd, request: "Request", digest: bytes, now_ms: int) -> Acquisition:
    """The first ADDJOB of this node that wants the key."""
    bid = Acquisition(request, digest, pending)
    node.unique.acquisitions[digest] = bid
    pending.key = bid
    if pending.slot == IDLE:  # TIMEOUT 0 waits as long as the job would live
        node.timers.arm(pending, now_ms + request.ttl * 1000)
    return bid


def hit(node: "Node", pending: PendingAdd, bid: Acquisition | None, job_id: bytes) -> None:
    """The key is settled: answer ``pending`` and all that wait for it."""
    if bid is not None and not bid.decided:
        finish(node, bid, job_id)
    if not pending.reply:
        key_keeper.leave(node, pending)
        answer(node, pending, job_id)


def attempt(node: "Node", bid: Acquisition, now_ms: int) -> None:
    """Ask the keepers to note a new ID."""
    request = bid.request
    node.timers.disarm(bid)
    kind = request.kind
    bid.job_id = node.ids.make(ttl_suffix(request.ttl, request.retry) if kind is None else kind[0])
    bid.keepers = node.unique.ring.keepers(bid.digest, request.key_copies())
    node.unique.bids[bid.job_id] = bid
    if node.node_id in bid.keepers and not bind_here(node, bid, now_ms):
        step_back(node, bid, now_ms)
        return
    for keeper in bid.keepers:
        key_keeper.ask(node, bid, keeper)


def bind_here(node: "Node", bid: Acquisition, now_ms: int) -> bool:
    """This node is a keeper itself; whether it has no other ID for the key. It is bound when nobody else has, too."""
    key = node.unique.table.get(bid.digest)
    if key is None:
        key = key_keeper.note(node, node.node_id, bid.digest, bid.job_id, bid.request.window * 1000, now_ms)
    elif key.job_id != bid.job_id:
        return False
    if key_keeper.is_bound(node, key, now_ms):
        bid.bind(node.node_id)
    return True


def due(node: "Node", bid: Acquisition, now_ms: int) -> None:
    """Some time has passed: make another attempt, or ask those again that had another ID; or all are bound."""
    if bid.decided:
        return
    if bid.job_id and node.node_id in bid.keepers and not bind_here(node, bid, now_ms):
        step_back(node, bid, now_ms)
    elif bid.complete():
        advance(node, bid, now_ms)
    elif bid.job_id:
        for keeper in bid.keepers:
            key_keeper.ask(node, bid, keeper)
    elif bid.add is not None:
        node.retries.append(bid.add)


def say_again(node: "Node", peer: "Peer", now_ms: int) -> "Iterator[bool]":
    """There is a new link: what ``peer`` was asked or told, or what it answered, may be lost."""
    saying = peer.saying
    for bid in list(node.unique.acquisitions.values()):
        if node.unique.acquisitions.get(bid.digest) is bid:
            say_bid(node, bid, peer.id, max(now_ms, node.beat_ms))
            if peer.tell():
                yield True
                if peer.saying != saying:
                    return


def say_bid(node: "Node", bid: Acquisition, peer_id: bytes, now_ms: int) -> None:
    """Say again what ``peer_id`` was asked or told about one key."""
    key = node.unique.table.get(bid.digest)
    if bid.decided:
        if key is not None and key.state == COMMITTED and key.told is not None and peer_id not in key.told:
            key_keeper.gather(node, peer_id, key_keeper.head_of(key, now_ms), key.job_id, key.digest)
    elif bid.job_id and peer_id in bid.keepers:
        key_keeper.ask(node, bid, peer_id)
    elif key is not None and key.doubts and key.job_id == bid.job_id:
        key_keeper.is_bound(node, key, now_ms)


# -- answers -----------------------------------------------------------------------------------------------------------


def bound(node: "Node", peer: bytes, message: tuple[int, tuple[bytes, ...]], now_ms: int) -> None:
    """BOUND: ``peer`` has noted these IDs."""
    for job_id in message[1]:
        bid = node.unique.bids.get(job_id)
        # Who was taken for failed meanwhile may have given the key to somebody else: it will be asked again.
        if bid is not None and peer in bid.asked and peer in node.unique.ring.nodes:
            bid.bind(peer)
            advance(node, bid, now_ms)


def advance(node: "Node", bid: Acquisition, now_ms: int) -> None:
    """When all keepers are bound, the job is made at the next settle; when it waits for that only, it is decided."""
    add = bid.add
    if not bid.complete() or add is None:
        return
    node.timers.disarm(bid)
    spread = add.spread
    if spread is None:
        node.retries.append(add)
    else:
        coordinator.count(node, spread, now_ms)


def held(node: "Node", peer: bytes, message: tuple[int, int, bytes, bytes], now_ms: int) -> None:
    """KEYHELD: ``peer`` has another ID for the key."""
    _, state, job_id, held_id = message
    bid = node.unique.bids.get(job_id)
    if not valid(held_id) or held_id == job_id:
        return
    if state != TENTATIVE and key_keeper.is_doubted(node, job_id, peer):
        found(node, job_id, state, held_id, now_ms)
        return
    if bid is None:
        refused(node, peer, message, now_ms)
        return
    if peer not in bid.keepers:
        return
    bid.unbind(peer)
    if state == SETTLED:
        finish(node, bid, held_id)
    elif state == COMMITTED or held_id < job_id:
        step_back(node, bid, now_ms)
    elif bid.slot == IDLE:
        node.timers.arm(bid, now_ms + pause_ms(node, bid))


def found(node: "Node", job_id: bytes, state: int, held_id: bytes, now_ms: int) -> None:
    """What this node noted as a keeper cannot be bound: a node that it asked knows another ID."""
    bid = node.unique.bids.get(job_id)
    if bid is None:
        key = node.unique.by_job[job_id]
        key_keeper.say(node, key.owner, (KEYHELD, state, job_id, held_id))
        keys.drop(node, key)
    elif state == SETTLED:
        finish(node, bid, held_id)
    else:
        step_back(node, bid, now_ms)


def refused(node: "Node", peer: bytes, message: tuple[int, int, bytes, bytes], now_ms: int) -> None:
    """KEYHELD as an answer to KEEPKEY: another job has the key at ``peer`` for certain, too.

    Of two that are settled the smaller ID goes to the other one's place. As an answer to ASKKEY it says that the job
    asked about is not known.
    """
    _, state, job_id, held_id = message
    key = node.unique.by_job.get(job_id)
    if key is not None and key.state == TENTATIVE:
        key_keeper.is_free(node, peer, (KEYFREE, (job_id,)), now_ms)
        return
    if key is None or key.told is None or peer not in key_keeper.others(node, key):
        return
    may_go = mine(node, key) is not None or (key.owner != node.node_id and owner_is_gone(node, key))
    if key.state == SETTLED:
        if state == SETTLED and held_id < job_id:
            key_keeper.retract(node, key)
            key_keeper.say(node, peer, (ASKKEY, key.digest, held_id))
    elif state == SETTLED or (state == COMMITTED and may_go and held_id < job_id):
        lost(node, key, now_ms)
    else:
        node.timers.arm(key, min(key.end_ms(), now_ms + AGAIN_MOST_MS))


def owner_is_gone(node: "Node", key: Key) -> bool:
    """Whether the process that asked for the key will not come back to it."""
    owner = node.peers.get(key.owner)
    return owner is None or node.failed(key.owner) or owner.start != key.owner_start


def mine(node: "Node", key: Key) -> Acquisition | None:
    """The bid of this node whose job has ``key``, while it is not answered."""
    bid = node.unique.acquisitions.get(key.digest)
    return bid if bid is not None and bid.decided and bid.job_id == key.job_id else None


def lost(node: "Node", key: Key, now_ms: int) -> None:
    """Another job has the key of ``key``. If the job of that is ours, it is taken back, and the key asked for again."""
    bid = mine(node, key)
    if bid is None:
        key_keeper.retract(node, key)
        return
    for one in key_keeper.others(node, key):
        key_keeper.say_unbound(node, one, key.job_id)
    bid.decided = False
    bid.forget()
    key_keeper.retract(node, key)
    acks.fast_ack(node, key.job_id, now_ms)
    if bid.add is not None:
        node.timers.arm(bid, now_ms + pause_ms(node, bid))
    else:
        node.retries.extend(key_keeper.release(node, bid))


def pause_ms(node: "Node", bid: Acquisition) -> int:
    """How long to wait before asking again."""
    bid.tries += 1
    longest = min(AGAIN_MS << min(bid.tries, 8), AGAIN_MOST_MS)
    return longest + int(node.random.random() * longest)


def step_back(node: "Node", bid: Acquisition, now_ms: int) -> None:
    """Leave the key to somebody else for now."""
    retract(node, bid)
    node.timers.arm(bid, now_ms + pause_ms(node, bid))


def retract(node: "Node", bid: Acquisition) -> None:
    """Take back what was asked for: the key, and the copies of the job."""
    add = bid.add
    if add is not None and add.spread is not None:
        spread, add.spread = add.spread, None
        coordinator.abort(node, spread)
        node.remove(spread.job)
    if bid.job_id:
        key_keeper.take_back(node, bid)


def outbid(node: "Node", key: Key, now_ms: int) -> None:
    """Somebody else's job has the key for certain."""
    bid = node.unique.acquisitions.get(key.digest)
    if bid is not None and not bid.decided and bid.job_id != key.job_id:
        retract(node, bid)
        node.timers.arm(bid, now_ms + (0 if key.state == SETTLED else pause_ms(node, bid)))


def keep(node: "Node", peer: bytes, message: "key_keeper.KeepKey", now_ms: int) -> None:
    """KEEPKEY: these jobs have their keys for certain."""
    ids, digests = message[4], message[5]
    kept = [ids[at] for at in range(len(ids)) if keep_one(node, peer, message, ids[at], digests[at], now_ms)]
    if kept:
        node.batch_all(peer, key_keeper.SAY_KEPT, kept)


def keep_one(
    node: "Node", peer: bytes, message: "key_keeper.KeepKey", job_id: bytes, digest: bytes, now_ms: int
) -> bool:
    """Keep one of them: whether the answer is KEYKEPT. It replaces what is less certain; else the answer is KEYHELD."""
    flags, repl, left_ms = message[1], message[2], message[3]
    if not keys.sound(node, digest, job_id, repl, 0 if flags & GOES_WITH_JOB else left_ms):
        return False
    key = keys.find(node, digest, now_ms)
    if flags & GOES_WITH_JOB and key_keeper.is_over(node, job_id):
        return True
    if key is not None and key.job_id != job_id:
        if not key_keeper.gives_way(key, job_id, is_settled=flags & IS_SETTLED > 0):
            node.send(peer, (KEYHELD, key.state, job_id, key.job_id))
            key_keeper.wake(node, key, now_ms)
            return False
        if key.state == TENTATIVE and key.owner in node.peers:
            key_keeper.say(node, key.owner, (KEYHELD, COMMITTED, key.job_id, job_id))
        lost(node, key, now_ms)
        key = None
    if key is None:
        key = key_keeper.note(node, peer, digest, job_id, 0, now_ms)
    key_keeper.accept(node, key, peer, message, now_ms)
    outbid(node, key, now_ms)
    return True


# -- nodes come and go -------------------------------------------------------------------------------------------------


def nodes_changed(node: "Node", now_ms: int) -> None:
    """Take over who can be reached: bids ask other keepers, keys move. Costs next to nothing when nothing changed."""
    ring = node.unique.ring
    if ring.refresh(node.membership):
        ring.sure_ms = now_ms + node.membership.timeout_ms + key_keeper.MOVE_MS
        rekeep(node, now_ms)
        key_keeper.begin_move(node, now_ms)
    elif ring.sure_ms < 0:
        ring.sure_ms = now_ms + node.membership.timeout_ms + key_keeper.MOVE_MS


def restarted(node: "Node", peer_id: bytes, now_ms: int) -> None:
    """``peer_id`` is another process now: it has forgotten what was undecided, and perhaps more."""
    unbound(node, peer_id)
    node.unique.ring.moved = tuple([one for one in node.unique.ring.moved if one != peer_id])
    key_keeper.begin_move(node, now_ms)


def rekeep(node: "Node", now_ms: int) -> None:
    """Other nodes can be reached than before: ask the new keepers, wait for those that are gone no more."""
    for bid in list(node.unique.acquisitions.values()):
        if bid.decided:
            key = node.unique.table.get(bid.digest)
            if key is not None and key.state == COMMITTED:
                key_keeper.drive(node, key, now_ms)
        elif bid.job_id:
            widen(node, bid, now_ms)


def widen(node: "Node", bid: Acquisition, now_ms: int) -> None:
    """Ask those that are keepers now and were not before.

    Who cannot be reached may take this node for failed and free the key for others: its word counts no more.
    """
    request = bid.request
    bid.bound = tuple([one for one in bid.bound if one in node.unique.ring.nodes])
    bid.keepers = node.unique.ring.keepers(bid.digest, request.key_copies())
    if node.node_id in bid.keepers and node.node_id not in bid.bound and not bind_here(node, bid, now_ms):
        step_back(node, bid, now_ms)
        return
    for keeper in bid.keepers:
        key_keeper.ask(node, bid, keeper)
    advance(node, bid, now_ms)


def unbound(node: "Node", peer_id: bytes) -> None:
    """``peer_id`` is another process now: it has forgotten what it had noted."""
    for bid in node.unique.acquisitions.values():
        bid.unbind(peer_id)
        key = node.unique.table.get(bid.digest) if bid.decided else None
        if key is not None and key.told is not None:
            key.told = tuple([one for one in key.told if one != peer_id])


# -- the end -----------------------------------------------------------------------------------------------------------


def with_companions(node: "Node", bid: Acquisition, holders: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """These holders, and the nodes that must hear when the job of ``bid`` is done."""
    companions = bid.companions()
    return node.shared(tuple(sorted({*holders, *companions}))) if companions else holders


def finish(node: "Node", bid: Acquisition, job_id: bytes) -> None:
    """The key is settled: answer all that want it with the ID of its job."""
    if not bid.decided:
        retract(node, bid)
    for each in key_keeper.release(node, bid):
        answer(node, each, job_id)


def answer(node: "Node", pending: PendingAdd, job_id: bytes) -> None:
    """Answer one ADDJOB, when the records are safe."""
    pending.session.unsettled |= node.journaling
    coordinator.answer(node, pending, resp.status(job_id))


def end_all(node: "Node") -> None:
    """Answer those whose job was decided, but whose key has ended before all keepers had it."""
    while node.unique.ended:
        bid = node.unique.ended.pop()
        if bid.decided and node.unique.acquisitions.get(bid.digest) is bid:  # else it has lost the key after all
            finish(node, bid, bid.job_id)
