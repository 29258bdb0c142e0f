"""What an ADDJOB does to get a UNIQUE key. See `keys`.

An `Acquisition` stands for all ADDJOBs of this node that want one key: the first one asks the keepers for it and makes
the job, the others wait in line. When its job is decided and the key settled, or somebody else's is, all are answered;
when the first one comes to nothing, the next one begins anew.
"""

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from cluster.messages import ASKKEY, GOES_WITH_JOB, IS_SETTLED, KEYFREE, KEYHELD
from disque.core.base import resp
from disque.core.base.timers import IDLE
from disque.core.dedup import key_keeper, keys, orphans
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
    acquisition: Acquisition | None = None
    if not is_new:
        nodes_changed(node, now_ms)
        acquisition = node.unique.acquisitions.get(digest)
        # Of a key that this node asks for none rests: that would have ended the acquisition.
        may_rest = acquisition is None or not acquisition.job_id
        key = keys.find(node, digest, now_ms) if may_rest else node.unique.table.get(digest)
    if key is not None:
        key_keeper.wake(node, key, now_ms)
    if key is not None and key.state == SETTLED:
        hit(node, pending, acquisition, key.job_id)
        return False
    if acquisition is None:
        acquisition = begin(node, pending, request, digest, now_ms)
    elif acquisition.add is not pending:
        line_up(node, acquisition, pending)
        return False
    if acquisition.decided or pending.spread is not None:
        return False
    if not acquisition.job_id:
        attempt(node, acquisition, now_ms)
    if not acquisition.complete():
        return False
    if is_known(node, acquisition.job_id):
        step_back(node, acquisition, now_ms)  # somebody lies about the IDs of jobs
        return False
    return True


def line_up(node: "Node", acquisition: Acquisition, pending: PendingAdd) -> None:
    """Let ``pending`` wait for the one that asks for the key."""
    pending.key = acquisition
    if acquisition.waiting is None:
        acquisition.waiting = OrderedDict()
    acquisition.waiting[pending] = None
    node.used += pending.size


def is_known(node: "Node", job_id: bytes) -> bool:
    """Whether there is something of this ID already."""
    return node.find(job_id) is not None or job_id in node.acks.by_id or job_id in node.tombstones


def begin(node: "Node", pending: PendingAdd, request: "Request", digest: bytes, now_ms: int) -> Acquisition:
    """The first ADDJOB of this node that wants the key."""
    acquisition = Acquisition(request, digest, pending)
    node.unique.acquisitions[digest] = acquisition
    take_over(node, acquisition, pending, request, now_ms)
    return acquisition


def take_over(node: "Node", acquisition: Acquisition, pending: PendingAdd, request: "Request", now_ms: int) -> None:
    """It is the job of ``pending`` from now on."""
    acquisition.request = request
    acquisition.is_next = False
    pending.key = acquisition
    if pending.slot == IDLE:  # TIMEOUT 0 waits as long as the job would live
        node.timers.arm(pending, now_ms + request.ttl * 1000)


def hit(node: "Node", pending: PendingAdd, acquisition: Acquisition | None, job_id: bytes) -> None:
    """The key is settled: answer ``pending`` and all that wait for it."""
    if acquisition is not None and not acquisition.decided:
        finish(node, acquisition, job_id)
    if not pending.reply:
        key_keeper.leave(node, pending)
        answer(node, pending, job_id)


def attempt(node: "Node", acquisition: Acquisition, now_ms: int) -> None:
    """Ask the keepers to note a new ID."""
    request = acquisition.request
    node.timers.disarm(acquisition)
    kind = request.kind
    acquisition.job_id = node.ids.make(ttl_suffix(request.ttl, request.retry) if kind is None else kind[0])
    acquisition.keepers = node.unique.ring.keepers(acquisition.digest, request.key_copies())
    node.unique.attempts[acquisition.job_id] = acquisition
    if node.node_id in acquisition.keepers and not bind_here(node, acquisition, now_ms):
        step_back(node, acquisition, now_ms)
        return
    for keeper in acquisition.keepers:
        key_keeper.ask(node, acquisition, keeper)


def bind_here(node: "Node", acquisition: Acquisition, now_ms: int) -> bool:
    """This node is a keeper itself; whether it has no other ID for the key. It is bound when nobody else has, too."""
    key = node.unique.table.get(acquisition.digest)
    if key is None:
        window_ms = acquisition.request.window * 1000
        key = key_keeper.note(node, node.node_id, acquisition.digest, acquisition.job_id, window_ms, now_ms)
    elif key.job_id != acquisition.job_id:
        return False
    if key_keeper.is_bound(node, key, now_ms):
        acquisition.bind(node.node_id)
    return True


def due(node: "Node", acquisition: Acquisition, now_ms: int) -> None:
    """Some time has passed: make another attempt, or ask those again that had another ID; or all are bound."""
    if acquisition.decided:
        return
    if acquisition.job_id and node.node_id in acquisition.keepers and not bind_here(node, acquisition, now_ms):
        step_back(node, acquisition, now_ms)
    elif acquisition.complete():
        advance(node, acquisition, now_ms)
    elif acquisition.job_id:
        for keeper in acquisition.keepers:
            key_keeper.ask(node, acquisition, keeper)
    elif acquisition.add is not None:
        node.retries.append(acquisition.add)


def say_again(node: "Node", peer: "Peer", now_ms: int) -> "Iterator[bool]":
    """There is a new link: what ``peer`` was asked or told, or what it answered, may be lost."""
    saying = peer.saying
    for acquisition in list(node.unique.acquisitions.values()):
        if node.unique.acquisitions.get(acquisition.digest) is acquisition:
            say_acquisition(node, acquisition, peer.id, max(now_ms, node.beat_ms))
            if peer.tell():
                yield True
                if peer.saying != saying:
                    return


def say_acquisition(node: "Node", acquisition: Acquisition, peer_id: bytes, now_ms: int) -> None:
    """Say again what ``peer_id`` was asked or told about one key."""
    key = node.unique.table.get(acquisition.digest)
    if acquisition.decided:
        if key is not None and key.state == COMMITTED and key.told is not None and peer_id not in key.told:
            key_keeper.gather(node, peer_id, key_keeper.head_of(key, now_ms), key.job_id, key.digest)
    elif acquisition.job_id and peer_id in acquisition.keepers:
        key_keeper.ask(node, acquisition, peer_id)
    elif key is not None and key.doubts and key.job_id == acquisition.job_id:
        key_keeper.is_bound(node, key, now_ms)


# -- answers -----------------------------------------------------------------------------------------------------------


def bound(node: "Node", peer: bytes, message: tuple[int, tuple[bytes, ...]], now_ms: int) -> None:
    """BOUND: ``peer`` has noted these IDs."""
    for job_id in message[1]:
        acquisition = node.unique.attempts.get(job_id)
        # Who was taken for failed meanwhile may have given the key to somebody else: it will be asked again.
        if acquisition is not None and peer in acquisition.asked and peer in node.unique.ring.nodes:
            acquisition.bind(peer)
            advance(node, acquisition, now_ms)


def advance(node: "Node", acquisition: Acquisition, now_ms: int) -> None:
    """When all keepers are bound, the job is made at the next settle; when it waits for that only, it is decided."""
    add = acquisition.add
    if not acquisition.complete() or add is None:
        return
    node.timers.disarm(acquisition)
    spread = add.spread
    if spread is None:
        node.retries.append(add)
    else:
        coordinator.count(node, spread, now_ms)


def held(node: "Node", peer: bytes, message: tuple[int, int, bytes, bytes], now_ms: int) -> None:
    """KEYHELD: ``peer`` has another ID for the key."""
    _, state, job_id, held_id = message
    acquisition = node.unique.attempts.get(job_id)
    if not valid(held_id) or held_id == job_id:
        return
    if state != TENTATIVE and key_keeper.is_doubted(node, job_id, peer):
        found(node, job_id, state, held_id, now_ms)
        return
    if acquisition is None:
        orphans.free(node, peer, job_id, now_ms)  # it has another ID
        refused(node, peer, message, now_ms)
        return
    if peer not in acquisition.keepers:
        return
    acquisition.unbind(peer)
    if state == SETTLED:
        finish(node, acquisition, held_id)
    elif state == COMMITTED or held_id < job_id:
        step_back(node, acquisition, now_ms)
    elif acquisition.slot == IDLE:
        node.timers.arm(acquisition, now_ms + pause_ms(node, acquisition))


def found(node: "Node", job_id: bytes, state: int, held_id: bytes, now_ms: int) -> None:
    """What this node noted as a keeper cannot be bound: a node that it asked knows another ID."""
    acquisition = node.unique.attempts.get(job_id)
    if acquisition is None:
        key = node.unique.by_job[job_id]
        key_keeper.say(node, key.owner, (KEYHELD, state, job_id, held_id))
        keys.drop(node, key)
    elif state == SETTLED:
        finish(node, acquisition, held_id)
    else:
        step_back(node, acquisition, now_ms)


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
    """The acquisition of this node whose job has ``key``, while it is not answered."""
    acquisition = node.unique.acquisitions.get(key.digest)
    return acquisition if acquisition is not None and acquisition.decided and acquisition.job_id == key.job_id else None


def lost(node: "Node", key: Key, now_ms: int) -> None:
    """Another job has the key of ``key``. If the job of that is ours, it is taken back, and the key asked for again."""
    acquisition = mine(node, key)
    if acquisition is None:
        if key.is_pending:
            for one in key_keeper.others(node, key):
                key_keeper.say_unbound(node, one, key.job_id)
        key_keeper.retract(node, key)
        orphans.lost(node, key.job_id)
        return
    for one in key_keeper.others(node, key):
        key_keeper.say_unbound(node, one, key.job_id)
    acquisition.decided = False
    acquisition.forget()
    key_keeper.retract(node, key)
    acks.fast_ack(node, key.job_id, now_ms)
    if acquisition.add is not None:
        node.timers.arm(acquisition, now_ms + pause_ms(node, acquisition))
    else:
        node.retries.extend(key_keeper.release(node, acquisition))


def pause_ms(node: "Node", acquisition: Acquisition) -> int:
    """How long to wait before asking again."""
    acquisition.tries += 1
    longest = min(AGAIN_MS << min(acquisition.tries, 8), AGAIN_MOST_MS)
    return longest + int(node.random.random() * longest)


def step_back(node: "Node", acquisition: Acquisition, now_ms: int) -> None:
    """Leave the key to somebody else for now."""
    retract(node, acquisition)
    node.timers.arm(acquisition, now_ms + pause_ms(node, acquisition))


def retract(node: "Node", acquisition: Acquisition) -> None:
    """Take back what was asked for: the key, and the copies of the job."""
    add = acquisition.add
    if add is not None and add.spread is not None:
        spread, add.spread = add.spread, None
        coordinator.abort(node, spread)
        node.remove(spread.job)
    if acquisition.job_id:
        key_keeper.take_back(node, acquisition)


def yield_to(node: "Node", key: Key, now_ms: int) -> None:
    """Somebody else's job has the key for certain: take back what was asked for."""
    acquisition = node.unique.acquisitions.get(key.digest)
    if acquisition is not None and not acquisition.decided and acquisition.job_id != key.job_id:
        retract(node, acquisition)
        node.timers.arm(acquisition, now_ms + (0 if key.state == SETTLED else pause_ms(node, acquisition)))


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
    if node.unique.orphans and (key is None or not key.is_pending):
        node.unique.orphans.pop(job_id, None)  # somebody has it for certain
    if flags & GOES_WITH_JOB and key_keeper.is_over(node, job_id):
        return True
    if key is not None and key.job_id != job_id:
        if not key_keeper.gives_way(key, job_id, is_settled=flags & IS_SETTLED > 0):
            if not flags & IS_SETTLED and orphans.is_silent(node, peer, job_id):
                return False
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
    yield_to(node, key, now_ms)
    return True


# -- nodes come and go -------------------------------------------------------------------------------------------------


def nodes_changed(node: "Node", now_ms: int) -> None:
    """Take over who can be reached: other keepers are asked, keys move. Costs next to nothing when nothing changed."""
    ring = node.unique.ring
    if ring.refresh(node.membership):
        ring.sure_ms = now_ms + node.membership.timeout_ms + key_keeper.MOVE_MS
        rekeep(node, now_ms)
        key_keeper.begin_move(node, now_ms)
        take_up(node, now_ms)
    elif ring.sure_ms < 0:
        ring.sure_ms = now_ms + node.membership.timeout_ms + key_keeper.MOVE_MS


def take_up(node: "Node", now_ms: int) -> None:
    """Go on with the keys of jobs that this node was adding when it died, once it reaches all others. See `orphans`."""
    if not node.unique.orphans or not orphans.reaches_all(node):
        return
    for job_id, orphan in list(node.unique.orphans.items()):
        if orphan.owner != node.node_id:
            continue
        key = node.unique.table.get(orphan.digest)
        if orphans.is_over(orphan, now_ms):
            del node.unique.orphans[job_id]
        elif key is None or key.job_id != job_id:
            orphans.ask(node, job_id, orphan)
        elif key.told is None:
            key_keeper.drive(node, key, now_ms)


def restarted(node: "Node", peer_id: bytes, now_ms: int) -> None:
    """``peer_id`` is another process now: it has forgotten what was undecided, and perhaps more."""
    unbound(node, peer_id)
    node.unique.ring.moved = tuple([one for one in node.unique.ring.moved if one != peer_id])
    key_keeper.begin_move(node, now_ms)


def rekeep(node: "Node", now_ms: int) -> None:
    """Other nodes can be reached than before: ask the new keepers, wait for those that are gone no more."""
    for acquisition in list(node.unique.acquisitions.values()):
        if acquisition.decided:
            key = node.unique.table.get(acquisition.digest)
            if key is not None and key.state == COMMITTED:
                key_keeper.drive(node, key, now_ms)
        elif acquisition.job_id:
            widen(node, acquisition, now_ms)


def widen(node: "Node", acquisition: Acquisition, now_ms: int) -> None:
    """Ask those that are keepers now and were not before.

    Who cannot be reached may take this node for failed and free the key for others: its word counts no more.
    """
    request = acquisition.request
    acquisition.bound = tuple([one for one in acquisition.bound if one in node.unique.ring.nodes])
    acquisition.keepers = node.unique.ring.keepers(acquisition.digest, request.key_copies())
    is_new = node.node_id in acquisition.keepers and node.node_id not in acquisition.bound
    if is_new and not bind_here(node, acquisition, now_ms):
        step_back(node, acquisition, now_ms)
        return
    for keeper in acquisition.keepers:
        key_keeper.ask(node, acquisition, keeper)
    advance(node, acquisition, now_ms)


def unbound(node: "Node", peer_id: bytes) -> None:
    """``peer_id`` is another process now: it has forgotten what it had noted."""
    for acquisition in node.unique.acquisitions.values():
        acquisition.unbind(peer_id)
        key = node.unique.table.get(acquisition.digest) if acquisition.decided else None
        if key is not None and key.told is not None:
            key.told = tuple([one for one in key.told if one != peer_id])


# -- the end -----------------------------------------------------------------------------------------------------------


def with_companions(node: "Node", acquisition: Acquisition, holders: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """These holders, and the nodes that must hear when the job of ``acquisition`` is done."""
    companions = acquisition.companions()
    return node.shared(tuple(sorted({*holders, *companions}))) if companions else holders


def finish(node: "Node", acquisition: Acquisition, job_id: bytes) -> None:
    """The key is settled: answer all that want it with the ID of its job."""
    if not acquisition.decided:
        retract(node, acquisition)
    for each in key_keeper.release(node, acquisition):
        answer(node, each, job_id)


def answer(node: "Node", pending: PendingAdd, job_id: bytes) -> None:
    """Answer one ADDJOB, when the records are safe."""
    pending.session.unsettled |= node.journaling
    coordinator.answer(node, pending, resp.status(job_id))


def end_all(node: "Node") -> None:
    """Answer those whose job was decided, but whose key has ended before all keepers had it."""
    while node.unique.ended:
        acquisition = node.unique.ended.pop()
        # Else it has lost the key after all.
        if acquisition.decided and node.unique.acquisitions.get(acquisition.digest) is acquisition:
            finish(node, acquisition, acquisition.job_id)
