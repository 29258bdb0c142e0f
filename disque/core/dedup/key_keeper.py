"""What a node does that keeps UNIQUE keys: it binds them, keeps them, asks about them and moves them. See `keys`."""

from typing import TYPE_CHECKING, Final

from cluster.messages import (
    ASKKEY,
    BIND,
    BOUND,
    GOES_WITH_JOB,
    IS_SETTLED,
    JOB_HAS_MOVED,
    JOB_IS_DONE,
    KEEPKEY,
    KEYFREE,
    KEYHELD,
    KEYKEPT,
    KEYSAFE,
    UNBIND,
)
from disque.core.dedup import keys, orphans
from disque.core.model.job import ACKED
from disque.core.model.key import COMMITTED, SETTLED, TENTATIVE, Key
from disque.core.model.key_ring import ranked
from disque.core.model.key_store import SHARDS
from disque.core.replication import replica

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disque.core.model.job import Job
    from disque.core.model.session import Acquisition, PendingAdd
    from disque.core.node import Message, Node

    #: The fields of KEEPKEY: flags, REPLICATE, ms left; IDs, keys.
    KeepKey = tuple[int, int, int, int, tuple[bytes, ...], tuple[bytes, ...]]

#: After so long, in ms: a TENTATIVE key is asked about; who has not said KEYKEPT is told again. These timers hardly
#: ever go off: two seconds ahead they are a place in a list, nearer ones go through a heap (see `timers`).
CHECK_MS: Final = 2000
DRIVE_MS: Final = 2000
#: Who has not said whether it knows another ID is asked again after so long, in ms.
DOUBT_MS: Final = 250
#: In ms: so long, beyond the node timeout, keys may take to reach the nodes that are new among their keepers.
MOVE_MS: Final = 5000
#: Keys that one step of a chore looks at.
SLICE: Final = 200

SAY_BOUND: Final = (BOUND,)
SAY_KEPT: Final = (KEYKEPT,)
SAY_SAFE: Final = (KEYSAFE,)
SAY_FREE: Final = (KEYFREE,)

#: Who doubts when nobody does: nothing is ever added to it.
NOBODY: Final[set[bytes]] = set()

#: Messages that carry the keys of their jobs, and how many go in one: the other side takes it apart in one go.
WITH_KEYS: Final = frozenset({BIND, KEEPKEY})
KEYS_MOST: Final = 200


def say(node: "Node", peer_id: bytes, message: "Message") -> None:
    """Send ``message`` to a peer, if there is a link: who has none is asked or told again when there is one."""
    peer = node.peers.get(peer_id)
    if peer is not None and peer.linked:
        node.send(peer_id, message)


def gather(node: "Node", peer_id: bytes, head: "Message", job_id: bytes, digest: bytes) -> None:
    """Send ``head`` with this job and its key at the next settle, with others of the same head, if there is a link."""
    peer = node.peers.get(peer_id)
    if peer is not None and peer.linked:
        place = (peer_id, head)
        gathered = node.batches.get(place)
        if gathered is None:
            gathered = node.batches[place] = []
        gathered.append(job_id)
        gathered.append(digest)


def send(node: "Node", peer_id: bytes, head: "Message", gathered: list[bytes]) -> None:
    """Make messages of jobs and keys that were gathered in turns."""
    ids, keys = gathered[::2], gathered[1::2]
    for at in range(0, len(ids), KEYS_MOST):
        end = at + KEYS_MOST
        node.send(peer_id, (*head, tuple(ids[at:end]), tuple(keys[at:end])))


def say_unbound(node: "Node", peer_id: bytes, job_id: bytes, what: int = JOB_IS_DONE) -> None:
    """UNBIND, behind what was gathered of the same job."""
    for place in [place for place in node.batches if place[0] == peer_id and place[1][0] in WITH_KEYS]:
        send(node, peer_id, place[1], node.batches.pop(place))
    say(node, peer_id, (UNBIND, (job_id,), what))


def others(node: "Node", key: Key) -> list[bytes]:
    """The keepers of ``key`` beside this node."""
    return [one for one in node.unique.ring.keepers(key.digest, key.repl) if one != node.node_id]


# -- while it is undecided ---------------------------------------------------------------------------------------------


def ask(node: "Node", acquisition: "Acquisition", keeper: bytes) -> None:
    """BIND, to another keeper that has not bound the key."""
    if keeper not in acquisition.bound and keeper != node.node_id:
        request = acquisition.request
        if keeper not in acquisition.asked:
            acquisition.asked = (*acquisition.asked, keeper)
        head = (BIND, request.key_copies(), request.window * 1000)
        gather(node, keeper, head, acquisition.job_id, acquisition.digest)


def bind(
    node: "Node", peer: bytes, message: tuple[int, int, int, tuple[bytes, ...], tuple[bytes, ...]], now_ms: int
) -> None:
    """BIND: ``peer`` wants keys for some of its jobs."""
    _, repl, window_ms, ids, digests = message
    bound: list[bytes] = []
    for at in range(len(ids)):
        job_id, digest = ids[at], digests[at]
        if not keys.sound(node, digest, job_id, repl, window_ms):
            continue
        key = keys.find(node, digest, now_ms)
        if key is None:
            key = note(node, peer, digest, job_id, window_ms, now_ms)
        if key.job_id == job_id:
            if key.state == TENTATIVE:
                key.repl = max(key.repl, repl)
                claim(node, key, peer)
            if is_bound(node, key, now_ms):
                bound.append(job_id)
        else:
            node.send(peer, (KEYHELD, key.state, job_id, key.job_id))
            wake(node, key, now_ms)
    if bound:
        node.batch_all(peer, SAY_BOUND, bound)


def wake(node: "Node", key: Key, now_ms: int) -> None:
    """Somebody wants a key that is as the journal had it: find out whether all keepers have it."""
    if key.state == COMMITTED and key.told is None:
        drive(node, key, now_ms)


def note(node: "Node", owner: bytes, digest: bytes, job_id: bytes, window_ms: int, now_ms: int) -> Key:
    """Note that ``job_id`` wants the key, which nobody has."""
    key = Key(digest, job_id, now_ms + window_ms if window_ms else 0, owner)
    peer = node.peers.get(owner)
    if peer is not None:
        key.owner_start = peer.start
    keys.put(node, key)
    if owner != node.node_id:
        node.timers.arm(key, now_ms + CHECK_MS)
    return key


def claim(node: "Node", key: Key, owner: bytes) -> None:
    """``owner`` asks for ``key``, whatever was thought of it meanwhile."""
    if not key.owner:
        key.owner = owner
        key.owner_start = node.peers[owner].start if owner in node.peers else 0
        key.told = None


def is_bound(node: "Node", key: Key, now_ms: int) -> bool:
    """Whether nobody can know another ID for a key that was noted here; those who might are asked."""
    if key.state != TENTATIVE:
        return True
    if key.doubts is None:
        if not node.unique.ring.is_unsure(now_ms):
            key.doubts = NOBODY
            return True
        key.doubts = {one for one in node.unique.ring.nodes if one not in {node.node_id, key.owner}}
    if not key.doubts:
        return True
    key.doubts.intersection_update(node.unique.ring.nodes)
    for one in sorted(key.doubts):
        say(node, one, (ASKKEY, key.digest, key.job_id))
    if key.doubts:
        node.timers.arm(node.unique.attempts.get(key.job_id, key), now_ms + DOUBT_MS)
    return not key.doubts


def is_doubted(node: "Node", job_id: bytes, peer: bytes) -> bool:
    """Whether ``peer`` is asked for another ID before a note counts."""
    key = node.unique.by_job.get(job_id)
    return key is not None and key.state == TENTATIVE and key.doubts is not None and peer in key.doubts


def knows_none(node: "Node", key: Key, peer: bytes, now_ms: int) -> None:
    """``peer`` has no other ID for ``key``: when nobody has, it is bound."""
    if key.doubts and peer in key.doubts:
        key.doubts.discard(peer)
        if not key.doubts:
            say_bound(node, key, now_ms)


def say_bound(node: "Node", key: Key, now_ms: int) -> None:
    """What was noted counts now: tell the owner, which may be this node."""
    acquisition = node.unique.attempts.get(key.job_id)
    if acquisition is not None:
        acquisition.bind(node.node_id)
        node.timers.arm(acquisition, now_ms)
        return
    if key.owner in node.peers:
        node.batch(key.owner, SAY_BOUND, key.job_id)
    node.timers.arm(key, now_ms + CHECK_MS)


def reconsider(node: "Node", key: Key, now_ms: int) -> None:
    """Some time has passed since ``key`` was noted for another node."""
    if key.doubts and not node.failed(key.owner):
        if is_bound(node, key, now_ms):
            say_bound(node, key, now_ms)
    else:
        examine(node, key, now_ms)


def unbind(node: "Node", peer: bytes, message: tuple[int, tuple[bytes, ...], int], now_ms: int) -> None:
    """UNBIND: the owner takes it back; or the job of a key with window 0 is done, or in another queue."""
    del now_ms
    for job_id in message[1]:
        key = node.unique.by_job.get(job_id)
        if key is not None and key.state != SETTLED and peer == key.owner:
            retract(node, key)
        elif key is not None and not key.expires_ms and message[2] == JOB_HAS_MOVED:
            retract(node, key)  # the job lives: nothing may refuse it
        elif key is not None and not key.expires_ms:
            job_done(node, job_id, None)


def retract(node: "Node", key: Key) -> None:
    """A key is free again: it was not settled, or another job has it since the two parts of the cluster met."""
    orphans.note_answered(node, key)
    if node.journaling and key.segment:
        keys.file_end(node, key)
    keys.drop(node, key)


def examine(node: "Node", key: Key, now_ms: int) -> None:
    """Find out what has become of a TENTATIVE key: first from its owner, then from the other keepers."""
    question = (ASKKEY, key.digest, key.job_id)
    if key.told is None or (key.owner and node.failed(key.owner)):
        key.told = ()
        if key.owner and node.failed(key.owner):
            key.owner = b""
    if key.owner:
        say(node, key.owner, question)
    else:
        silent = [one for one in others(node, key) if one not in key.told]
        if not silent:
            orphans.note(node, key)
            keys.drop(node, key)
            return
        for one in silent:
            say(node, one, question)
    node.timers.arm(key, now_ms + CHECK_MS)


def asked(node: "Node", peer: bytes, message: tuple[int, bytes, bytes], now_ms: int) -> None:
    """ASKKEY: ``peer`` has noted an ID for a key and wants to know what has become of it."""
    _, digest, job_id = message
    key = keys.find(node, digest, now_ms)
    if key is not None and key.state != TENTATIVE:
        if key.job_id == job_id:
            gather(node, peer, head_of(key, now_ms), job_id, digest)
        elif not orphans.is_silent(node, peer, job_id):
            node.send(peer, (KEYHELD, key.state, job_id, key.job_id))
            wake(node, key, now_ms)
        return
    acquisition = node.unique.attempts.get(job_id)
    if acquisition is None:
        if not orphans.is_silent(node, peer, job_id):
            node.batch(peer, SAY_FREE, job_id)
    elif peer in acquisition.keepers:
        ask(node, acquisition, peer)  # it may have taken this node for failed, and its BOUND may be lost


def is_free(node: "Node", peer: bytes, message: tuple[int, tuple[bytes, ...]], now_ms: int) -> None:
    """KEYFREE: ``peer`` does not ask for these jobs, and has no such key COMMITTED."""
    for job_id in message[1]:
        key = node.unique.by_job.get(job_id)
        if key is None or key.state != TENTATIVE:
            orphans.free(node, peer, job_id, now_ms)
            continue
        knows_none(node, key, peer, now_ms)
        if key.told is None:
            continue
        if peer == key.owner:
            key.owner = b""
        elif not key.owner:
            key.told = (*key.told, peer)
        else:
            continue
        examine(node, key, now_ms)


def take_back(node: "Node", acquisition: "Acquisition") -> None:
    """Free the key that was asked for, here and elsewhere."""
    job_id = acquisition.job_id
    node.timers.disarm(acquisition)
    node.unique.attempts.pop(job_id, None)
    if not job_id:
        return  # it was taken back already, to be asked for again
    for keeper in sorted(acquisition.asked):
        say_unbound(node, keeper, job_id)
    key = node.unique.table.get(acquisition.digest)
    if key is not None and key.job_id == job_id:
        keys.drop(node, key)
    acquisition.forget()


def leave(node: "Node", pending: "PendingAdd") -> None:
    """An ADDJOB wants its key no more. Unless its job is decided, the next one in line for it tries itself."""
    acquisition, pending.key = pending.key, None
    if acquisition is None:
        return
    waiting = acquisition.waiting
    if acquisition.add is not pending:
        assert waiting is not None
        del waiting[pending]
        node.used -= pending.size
    elif acquisition.decided:
        acquisition.add = None
    else:
        take_back(node, acquisition)
        if not waiting:
            acquisition.add = None
            release(node, acquisition)
            return
        acquisition.add, _ = waiting.popitem(last=False)
        acquisition.is_next = True
        node.used -= acquisition.add.size
        node.retries.append(acquisition.add)


def release(node: "Node", acquisition: "Acquisition") -> "list[PendingAdd]":
    """An acquisition is over: forget it. Returns who wants the key, in order."""
    node.timers.disarm(acquisition)
    if node.unique.acquisitions.get(acquisition.digest) is acquisition:
        del node.unique.acquisitions[acquisition.digest]
    add, acquisition.add = acquisition.add, None
    waiting, acquisition.waiting = list(acquisition.waiting or ()), None
    for each in waiting:
        node.used -= each.size
    wanting = waiting if add is None else [add, *waiting]
    for each in wanting:
        each.key = None
    return wanting


# -- from the decision on ----------------------------------------------------------------------------------------------


def commit(node: "Node", acquisition: "Acquisition", job: "Job", now_ms: int) -> bool:
    """The job of ``acquisition`` is there, and all keepers have its ID: tell them that it is decided.

    Whether it is settled already, since there are no others. No such key rests here: that would have ended
    the acquisition.
    """
    request = acquisition.request
    node.unique.attempts.pop(job.id, None)
    node.timers.disarm(acquisition)
    key = node.unique.table.get(acquisition.digest)
    if key is not None and key.job_id != job.id:
        keys.drop(node, key)
        key = None
    if key is None:
        key = Key(acquisition.digest, job.id, 0, node.node_id)
        keys.put(node, key)
    key.expires_ms = now_ms + request.window * 1000 if request.window else 0
    key.life_ms = 0 if request.window else job.expires_ms
    key.repl = request.key_copies()
    key.copies = () if request.replicate == 1 else acquisition.copies
    key.state = COMMITTED
    key.is_pending = key.expires_ms > 0 and len(others(node, key)) > 0
    keys.count(node, key)
    if node.journaling:
        keys.file(node, key)
    drive(node, key, now_ms)
    acquisition.decided = True
    return key.state == SETTLED


def head_of(key: Key, now_ms: int) -> "Message":
    """KEEPKEY for a key, up to what it shares with no other."""
    flags = (0 if key.expires_ms else GOES_WITH_JOB) | (IS_SETTLED if key.state == SETTLED else 0)
    return (KEEPKEY, flags, key.repl, max(1, key.end_ms() - now_ms))


def gives_way(key: Key, job_id: bytes, *, is_settled: bool) -> bool:
    """Whether ``key`` must go since another job has it for certain."""
    if key.state == TENTATIVE:
        return True
    if key.state == COMMITTED:
        return is_settled
    return is_settled and job_id < key.job_id


def accept(node: "Node", key: Key, peer: bytes, message: "KeepKey", now_ms: int) -> None:
    """Take over what KEEPKEY says of ``key``, as far as it is news."""
    flags, repl, left_ms = message[1], message[2], message[3]
    if key.state == TENTATIVE:
        end_ms = now_ms + left_ms
        key.expires_ms, key.life_ms = (0, end_ms) if flags & GOES_WITH_JOB else (end_ms, 0)
        key.repl = repl
        key.state = COMMITTED
        key.told = (peer,)
        if node.journaling:
            keys.file(node, key)
    if flags & IS_SETTLED and key.state == COMMITTED:
        settle(node, key, now_ms, tell=False)
    elif key.told is not None:
        node.timers.arm(key, min(key.end_ms(), now_ms + DRIVE_MS))


def is_over(node: "Node", job_id: bytes) -> bool:
    """Whether it is known here that this job is done."""
    job = node.find(job_id)
    return (job is not None and job.state == ACKED) or job_id in node.tombstones or job_id in node.acks.by_id


def drive(node: "Node", key: Key, now_ms: int) -> None:
    """See that all keepers have ``key``; look again after a while."""
    told = key.told
    if told is None:
        told = key.told = ()
        keys.index(node, key)
    silent = [one for one in others(node, key) if one not in told]
    if not silent:
        settle(node, key, now_ms, tell=True)
        return
    head = head_of(key, now_ms)
    for one in silent:
        gather(node, one, head, key.job_id, key.digest)
    node.timers.arm(key, min(key.end_ms(), now_ms + DRIVE_MS))


def kept(node: "Node", peer: bytes, message: tuple[int, tuple[bytes, ...]], now_ms: int) -> None:
    """KEYKEPT: ``peer`` keeps these keys."""
    for job_id in message[1]:
        key = node.unique.by_job.get(job_id)
        if key is not None and key.state != TENTATIVE and key.told is not None:
            if peer not in key.told:
                key.told = (*key.told, peer)
            review(node, key, now_ms)


def review(node: "Node", key: Key, now_ms: int) -> None:
    """When all keepers have the key, it is settled."""
    told = key.told
    if told is None:
        return
    for one in node.unique.ring.keepers(key.digest, key.repl):
        if one not in told and one != node.node_id:
            return
    settle(node, key, now_ms, tell=True)


def settle(node: "Node", key: Key, now_ms: int, *, tell: bool) -> None:
    """All keepers have the key: whoever asks is answered its ID from here on."""
    del now_ms
    told, key.told = key.told, None
    if tell and key.state == COMMITTED and told:
        for peer in told if len(told) == 1 else sorted(told):
            node.batch(peer, SAY_SAFE, key.job_id)
    key.state = SETTLED
    if key.is_pending:
        key.is_pending = False
        node.unique.orphans.pop(key.job_id, None)
        if node.journaling:
            keys.file(node, key)
    keys.index(node, key)
    if not key.expires_ms:
        node.timers.arm(key, key.life_ms)
    acquisition = node.unique.acquisitions.get(key.digest)
    if acquisition is not None and acquisition.decided:
        node.unique.ended.append(acquisition)


def is_safe(node: "Node", peer: bytes, message: tuple[int, tuple[bytes, ...]], now_ms: int) -> None:
    """KEYSAFE: all keepers have these keys."""
    del peer
    for job_id in message[1]:
        key = node.unique.by_job.get(job_id)
        if key is not None and key.state == COMMITTED:
            settle(node, key, now_ms, tell=False)


def due(node: "Node", key: Key, now_ms: int) -> None:
    """The key ends, or something is still asked about it."""
    if node.unique.table.get(key.digest) is not key:
        return
    if key.state == TENTATIVE:
        reconsider(node, key, now_ms)
    elif now_ms >= key.end_ms():
        keys.drop(node, key)  # its record in the journal says so by itself
    else:
        drive(node, key, now_ms)


def job_done(node: "Node", job_id: bytes, told: tuple[bytes, ...] | None) -> None:
    """A job that this node has no copy of is done: free the key that goes with it.

    Keepers that may not be among the holders ``told`` are told; None tells nobody.
    """
    key = node.unique.by_job.get(job_id)
    if key is None or key.expires_ms or node.find(job_id) is not None:
        return
    if node.journaling and key.segment:
        keys.file_end(node, key)  # not DELETE: others may still have to hear from here that the job is done
    if told is not None:
        for one in others(node, key):
            if one not in told:
                say_unbound(node, one, job_id)
    node.remember_gone(job_id)
    keys.drop(node, key)


def job_moved(node: "Node", job_id: bytes) -> None:
    """A job has moved to another queue: the key that goes with it is free, and its keepers hear of that."""
    key = node.unique.by_job.get(job_id)
    if key is None or key.expires_ms:
        return
    for one in others(node, key):
        say_unbound(node, one, job_id, JOB_HAS_MOVED)
    retract(node, key)


# -- nodes come and go -------------------------------------------------------------------------------------------------


def begin_move(node: "Node", now_ms: int) -> None:
    """Have the keys looked through for those that have new keepers."""
    ring = node.unique.ring
    if not node.unique.table and not node.unique.store.count:
        ring.moved = ring.nodes
    elif not ring.moving and ring.moved != ring.nodes:
        ring.moving = True
        node.chores.append(move(node, now_ms))


def move(node: "Node", now_ms: int) -> "Iterator[None]":
    """Send keys to their new keepers: each key by the first of those that had it."""
    ring = node.unique.ring
    old = ring.moved
    new = ring.moved = ring.nodes
    for count, key in enumerate(list(node.unique.table.values()), 1):
        if key.state != TENTATIVE and node.unique.table.get(key.digest) is key:
            shift(node, key, old, new, now_ms)
        if count % SLICE == 0:
            yield
    looked = 0
    for shard in range(SHARDS):
        digests = node.unique.store.digests(shard)
        for digest in digests:
            resting = keys.find(node, digest, now_ms)
            if resting is not None and digest not in node.unique.table:
                shift(node, resting, old, new, now_ms)
        looked += 1 + len(digests)
        if looked >= SLICE:
            looked = 0
            yield
    ring.moving = False
    begin_move(node, now_ms)


def shift(node: "Node", key: Key, old: tuple[bytes, ...], new: tuple[bytes, ...], now_ms: int) -> None:
    """Send ``key`` to its new keepers soon, if it has any and this node is the one to do that."""
    before = ranked(old, key.digest, key.repl)
    after = ranked(new, key.digest, key.repl)
    fresh = [one for one in after if one not in before]
    if key.state == COMMITTED and key.told is not None:  # its timer sees to it; who has restarted has to be told again
        key.told = tuple([one for one in key.told if one not in fresh])
        node.timers.arm(key, now_ms)
        return
    sender = next((one for one in before if one in new), node.node_id)
    if not fresh or sender != node.node_id:
        return
    key.told = () if key.is_pending else tuple([one for one in after if one in before])
    keys.index(node, key)
    node.timers.arm(key, now_ms)
    job = None if key.expires_ms else node.find(key.job_id)
    if job is not None and job.state != ACKED:
        replica.add_holders(node, job, fresh)
