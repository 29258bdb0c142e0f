"""UNIQUE keys: one job for one key of a queue, within a window or for as long as the job lives.

A key with a window outlives its job until the window ends, which begins when the job is decided; a key with window 0
goes with its job. This module has the keys that a node keeps; `acquire` has what an ADDJOB does to get one,
`key_keeper` what a node does that keeps one, `key_ring` which nodes these are.

*The promise.* Two IDs are answered for one key only if their windows do not overlap, or the nodes that answered did not
agree who can be reached, or all that kept the key forgot it.

*Getting a key.* The node that was given the ADDJOB (the owner) draws an ID and asks the R keepers (R: REPLICATE) for
the key: BIND. A keeper without that key notes the ID as TENTATIVE and says BOUND; it notes no other one until that is
taken back. Only when all keepers are bound, MAXLEN, PAUSED and memory are looked at, the job is made and its copies are
spread. So whoever finds the key taken has sent no body anywhere, and gets its answer whatever the state of the queue.
When the copies are there and all keepers are still bound, the owner has *decided*: it starts the job, and all keepers
are told (KEEPKEY), note the ID as COMMITTED, in the journal too, and say KEYKEPT. When all have, the key is SETTLED:
the owner answers its client and tells them (KEYSAFE). The owner keeps the key as well, keeper or not.

No two IDs can be decided: each would have to be noted by all keepers, and a keeper notes one.

What a node asks or tells another one in a turn is one message for all keys that it concerns.

*Finding it taken.* A keeper that has another ID says so, with its state: KEYHELD. A SETTLED one is answered. What was
never answered can still end as nothing, so nobody else is told of it: the asker waits and asks again. Of two that are
both undecided the smaller ID keeps what it has; the larger takes everything back (UNBIND) before it asks again, with a
new ID, so no answer to an old question can be taken for one to a new question. ADDJOBs with the same key on one node
wait in line for the first one.

*When a node fails.* Whoever has noted a TENTATIVE ID asks its owner now and then (ASKKEY). An owner that still asks is
silent. If it does not (KEYFREE) or fails, the other keepers are asked: one that has the key COMMITTED sends it
(KEEPKEY); if none has, nobody was told the ID, since all keepers must have it before, and the note is dropped. A keeper
that fails is a keeper no more: others take its place, and nobody waits for it. That is what the promise excuses: if the
owner takes a keeper for failed that does not fail, that one may drop a note of a job that is answered; it takes an
owner and a keeper that disagree who can be reached, or the loss of all the others, to answer another ID then.

*When that went wrong.* A keeper that restarts forgets what is TENTATIVE, so its BOUND may be worth nothing. Therefore
COMMITTED replaces TENTATIVE (and the owner of that is told), but nothing that is COMMITTED goes for another one that is
not SETTLED: the owner hears KEYHELD. Since nobody was told an ID that is not SETTLED, the owner can still give in: it
takes key and job back, as well as that goes, and asks again. It does so when the other ID is SETTLED or smaller; if the
owner is no more, the keepers do that for it. After a start nobody knows whether a key of the journal was SETTLED: it is
COMMITTED, and the first ADDJOB that wants it has the other keepers asked. Of two SETTLED, which only nodes that did not
reach each other can have made, the smaller ID stays where they meet, and the window of the other is over: when that of
the one that stayed ends, the key is free.

Of a key that it decided itself, and that was not SETTLED, the owner knows after a start: its journal says that nobody
was told (`Key.is_pending`). See `orphans`.

*When nodes come and go.* Keys move to the nodes that are new among their keepers, also when one of them has restarted;
the first of those that kept a key sends it, until it is kept. A key that a node need not keep any more stays there
until its window ends.

So a keeper that has just started, or that sees other nodes than a moment ago, may miss a key that others know: the one
that it has lost, or one of which all other keepers fail. Until the keys have moved, it asks all nodes that it reaches
(ASKKEY) before it says BOUND. A node that has another ID for certain says so (KEYHELD), the others say KEYFREE; who
fails is not waited for.

*What a key is.* Its digest, of the queue and its name, stands for it everywhere: names are neither kept nor sent. Keys
with a window about which nothing is asked lie in the key store (see `key_store`): these may be millions. All others are
`Key` objects in a table. `find` gives either as an object, which is in the table only if it was there; `index` puts it
where it belongs.

*Window 0.* The keepers are noted as holders of the job, so SETACK and DELJOB reach them; the end of the job's life goes
with the key.
"""

from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from disque.core.base.timers import NEVER
from disque.core.model.jobid import valid
from disque.core.model.key import COMMITTED, PENDING, SETTLED, TENTATIVE, Key
from disque.core.model.key_store import DIGEST_BYTES, REPL_MAX, SHARDS, KeyStore
from disque.core.model.memory import KEY_BYTES, STORED_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disque.core.journal.compaction import Copying
    from disque.core.journal.recovery import Recovery
    from disque.core.model.job import Job
    from disque.core.model.key_store import Row
    from disque.core.node import Node

#: Arrays of keys without anything to write that may be looked at in the time of one record.
SHARDS_A_RECORD: Final = 16

#: Bounds of a key: bytes of its name, seconds of the window.
KEY_MAX: Final = 512
WINDOW_MAX: Final = 7 * 86400
#: Windows that one tick ends.
EXPIRE_MOST: Final = 1000
#: By so much, in ms, a key must outlast its job to be kept when that expires: transit and rounding are less.
LIVES_ON_MS: Final = 1000


def digest_of(queue: bytes, name: bytes) -> bytes:
    """What stands for the key ``name`` of ``queue``: no two have the same, even if somebody looks for them."""
    return blake2b(b"%d:%b%b" % (len(queue), queue, name), digest_size=DIGEST_BYTES).digest()


def sound(node: "Node", digest: bytes, job_id: bytes, repl: int, window_ms: int) -> bool:
    """Whether another node can mean this key for this job; counted when not.

    A job has one key, and nobody else can decide for what this node asks, or whether a job is made that it was given.
    """
    fits = len(digest) == DIGEST_BYTES and valid(job_id) and repl <= REPL_MAX
    if fits and window_ms <= WINDOW_MAX * 1000:
        key = node.unique.by_job.get(job_id)
        spread = node.copies.wanted.get(job_id)
        is_open = job_id in node.unique.attempts or (spread is not None and spread.add is not None)
        if not is_open and (key is None or key.digest == digest):
            return True
    node.messages_skipped += 1
    return False


def keep_alone(node: "Node", digest: bytes, job: "Job", window_ms: int, repl: int, now_ms: int) -> None:
    """``job`` has a key that nobody else keeps: it is settled at once. With others, ``repl`` nodes will."""
    if window_ms:
        segment = 0
        expires_ms = now_ms + window_ms
        if node.journaling:
            node.outbox.file_key(digest, job.id, expires_ms, 0, repl)
            segment = node.segment
            node.live[segment] = node.live.get(segment, 0) + 1
        put_into_store(node, digest, (job.id, expires_ms, segment, repl, SETTLED), was_stored=False)
        return
    key = Key(digest, job.id, 0, node.node_id)
    key.life_ms, key.copies, key.state = job.expires_ms, (), SETTLED
    key.repl = repl
    put(node, key)
    count(node, key)
    if node.journaling:
        file(node, key)
    node.timers.arm(key, key.life_ms)


def find(node: "Node", digest: bytes, now_ms: int) -> Key | None:
    """The key with this digest. One whose window has ended is none."""
    key = node.unique.table.get(digest)
    if key is not None:
        return key
    row = node.unique.store.get(digest) if len(digest) == DIGEST_BYTES else None  # other nodes may ask for anything
    if row is None:
        return None
    key = Key(digest, row[0], row[1], b"")
    _, _, key.segment, key.repl, key.state = row
    key.was_stored = True
    if key.expires_ms <= now_ms:
        drop(node, key)
        return None
    return key


def is_taken(node: "Node", digest: bytes, now_ms: int) -> bytes | None:
    """The ID of the job that has this key for certain; empty when that must be found out, None when the key is free."""
    key = node.unique.table.get(digest)
    if key is not None:
        return key.job_id if key.state == SETTLED else b""
    row = node.unique.store.get(digest)
    if row is None:
        return None
    if row[1] > now_ms:
        return row[0] if row[4] == SETTLED else b""
    find(node, digest, now_ms)  # which sees it off
    return None


def put(node: "Node", key: Key) -> None:
    """Take ``key`` into the table. There must be none of that digest."""
    node.unique.table[key.digest] = key
    node.unique.by_job[key.job_id] = key
    if key.owner != node.node_id:
        count(node, key)


def count(node: "Node", key: Key) -> None:
    """Let the key count as memory."""
    if not key.size:
        key.size = KEY_BYTES
        node.used += KEY_BYTES


def drop(node: "Node", key: Key) -> None:
    """Forget a key, unless its window has ended and the digest belongs to another one now."""
    node.used -= node.unique.drop(key)


def index(node: "Node", key: Key) -> None:
    """Put a certain key where it belongs: into the store, or into the table, where its job's ID finds it."""
    in_table = node.unique.table.get(key.digest) is key
    if not key.rests():
        if not in_table:
            node.unique.store.drop(key.digest)
            node.used -= STORED_BYTES
            end_other(node, key)
            put(node, key)
        node.unique.by_job[key.job_id] = key
    elif in_table:
        del node.unique.table[key.digest]
        node.unique.by_job.pop(key.job_id, None)
        node.timers.disarm(key)
        node.used -= key.cost()
        key.size = 0
        if node.journaling and 0 < key.segment < node.segment:
            file(node, key)  # whoever copies old segments may have looked at the store already
        put_into_store(
            node,
            key.digest,
            (key.job_id, key.expires_ms, key.segment, key.repl, key.state),
            was_stored=key.was_stored,
        )
    else:
        node.unique.store.drop(key.digest)
        row = (key.job_id, key.expires_ms, key.segment, key.repl, key.state)
        node.unique.store.put(key.digest, row, is_listed=True)


def end_other(node: "Node", key: Key) -> None:
    """A job has one key. Where it has another one in the table, that one goes.

    Of those in the store `sound` cannot know; and what ended with its job's life is written nowhere.
    """
    other = node.unique.by_job.get(key.job_id)
    if other is not None and other is not key:
        if node.journaling and other.segment:
            file_end(node, other)
        drop(node, other)


def put_into_store(node: "Node", digest: bytes, row: "Row", *, was_stored: bool) -> None:
    """Put a key in the store, where it is not, and have its window end."""
    store = node.unique.store
    node.used += STORED_BYTES
    if store.put(digest, row, is_listed=was_stored):
        next_ms = store.next_ms()
        if next_ms != store.due_ms:
            node.timers.arm(store, next_ms)


def store_due(node: "Node", store: KeyStore, now_ms: int) -> None:
    """Some windows have ended. Their records in the journal say so by themselves."""
    for segment in store.expire(now_ms, EXPIRE_MOST):
        node.used -= STORED_BYTES
        if segment:
            node.live[segment] -= 1
    next_ms = store.next_ms()
    if next_ms != NEVER:
        node.timers.arm(store, next_ms)


def forget_keys(node: "Node") -> "Iterator[None]":
    """No key has a record any more."""
    for key in node.unique.table.values():
        key.segment = 0
    node.unique.store.forget_segments()
    yield


def copy_keys(node: "Node", copying: "Copying") -> "Iterator[int]":
    """Write again the keys whose record is in an old segment. What rests later is written then."""
    rows = 0
    while node.unique.store.count and rows < SHARDS:
        digests = node.unique.store.digests(rows, copying.upto)
        rows += 1
        if rows % SHARDS_A_RECORD == 0:
            yield 1
        while digests:
            digest = digests.pop()
            key = find(node, digest, copying.now_ms)
            if key is not None and digest not in node.unique.table and is_to_copy(key, copying):
                file(node, key)
                yield 1
    for key in list(node.unique.table.values()):
        if node.unique.table.get(key.digest) is key and is_to_copy(key, copying):
            file(node, key)
            yield 1


def is_to_copy(key: Key, copying: "Copying") -> bool:
    """Whether the record of ``key`` is in an old segment."""
    return key.segment <= copying.upto and key.state != TENTATIVE


def apply_keys(recovery: "Recovery", record: tuple[Any, ...], segment: int) -> None:
    """KEYS: each replaces what an earlier record said of that key."""
    _, expires_ms, life_ms, repl, digests, ids = record
    for digest, job_id in zip(digests, ids, strict=True):
        restore(recovery, digest, job_id, expires_ms, life_ms, repl, segment)


def restore(
    recovery: "Recovery", digest: bytes, job_id: bytes, expires_ms: int, life_ms: int, repl: int, segment: int
) -> None:
    """Take in what the journal says of one key."""
    node = recovery.node
    held = find(node, digest, 0)
    if held is not None:
        recovery.pending.pop(digest, None)
        drop(node, held)
    node.live[segment] = node.live.get(segment, 0) + 1
    if expires_ms and life_ms != PENDING:
        put_into_store(node, digest, (job_id, expires_ms, segment, repl, COMMITTED), was_stored=False)
        return
    key = Key(digest, job_id, expires_ms, b"")
    key.repl, key.segment, key.state = repl, segment, COMMITTED
    if expires_ms:
        key.is_pending = True
        recovery.pending[digest] = key
    else:
        key.life_ms = life_ms
    end_other(node, key)
    put(node, key)
    node.timers.arm(key, key.end_ms())


def expired(node: "Node", job: "Job") -> None:
    """Remove ``job``, whose life is over by the clock here, with its key: but for one that others said lasts longer.

    Then the clock is wrong, or was it.
    """
    key = node.unique.by_job.get(job.id)
    if key is not None and not key.expires_ms and key.life_ms > job.expires_ms + LIVES_ON_MS:
        part(node, job)
    else:
        node.remove(job)


def part(node: "Node", job: "Job") -> None:
    """Remove ``job``, which is on another node now: its key does not end with it."""
    key = node.unique.by_job.pop(job.id, None)
    node.remove(job)
    if key is not None:
        node.unique.by_job[job.id] = key
        if node.journaling:
            file(node, key)  # behind the record that deletes the job, which frees it


def stays(node: "Node", job_id: bytes) -> None:
    """The job has been deleted from the journal, but its key does not end with it: write the key behind that."""
    key = node.unique.by_job.get(job_id)
    if key is not None and node.journaling:
        file(node, key)


def file_end(node: "Node", key: Key) -> None:
    """Write that the key is free: as one whose window ended long ago."""
    node.outbox.file_key(key.digest, key.job_id, 1, 0, key.repl)


def file(node: "Node", key: Key) -> None:
    """Write the key to the journal, if it is certain; it counts for the newest segment from here on."""
    if key.state == TENTATIVE:
        return
    node.outbox.file_key(key.digest, key.job_id, key.expires_ms, key.filed_life_ms(), key.repl)
    if key.segment:
        node.live[key.segment] -= 1
    key.segment = node.segment
    node.live[node.segment] = node.live.get(node.segment, 0) + 1
    if key.was_stored and node.unique.table.get(key.digest) is not key:
        node.unique.store.lies_in(key.digest, key.segment)
