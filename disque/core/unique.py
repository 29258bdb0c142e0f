"""UNIQUE keys: one job for one key of a queue, within a window or for as long as the job lives.

A key with a window outlives its job until the window ends, which begins when the job is decided; a key with window 0
goes with its job. This module has the keys that a node keeps; `bids` has what an ADDJOB does to get one, `keeping` what
a node does that keeps one, `ring` which nodes these are.

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

*Finding it taken.* A keeper that has another ID says so, with its state: KEYHELD. A SETTLED one is answered. What was
never answered can still end as nothing, so nobody else is told of it: the asker waits and asks again. Of two that are
both undecided the smaller ID keeps what it has; the larger takes everything back (UNBIND) before it asks again, with a
new ID, so no answer to an old question can be taken for one to a new question. ADDJOBs with the same key on one node
wait in line for the first one.

*When a node fails.* Whoever has noted a TENTATIVE ID asks its owner now and then (ASKKEY). An owner that still bids is
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
COMMITTED, and the first ADDJOB that wants it has the other keepers asked. Of two
SETTLED, which only nodes that did not reach each other can have made, the smaller ID stays.

*When nodes come and go.* Keys move to the nodes that are new among their keepers, also when one of them has restarted;
the first of those that kept a key sends it, until it is kept. A key that a node need not keep any more stays there
until its window ends.

So a keeper that has just started, or that sees other nodes than a moment ago, may miss a key that others know: the one
that it has lost, or one of which all other keepers fail. Until the keys have moved, it asks all nodes that it reaches
(ASKKEY) before it says BOUND. A node that has another ID for certain says so (KEYHELD), the others say KEYFREE; who
fails is not waited for.

*Window 0.* The keepers are noted as holders of the job, so SETACK and DELJOB reach them; the end of the job's life goes
with the key.
"""

from typing import TYPE_CHECKING, Final

from disque.core.jobid import valid
from disque.core.memory import KEY_BYTES
from disque.core.records import KEY
from disque.core.timers import IDLE, Timed

if TYPE_CHECKING:
    from disque.core.job import Job
    from disque.core.node import Node

#: Bounds of a key: bytes of the key, seconds of the window.
KEY_MAX: Final = 512
WINDOW_MAX: Final = 7 * 86400

#: The states of a key.
TENTATIVE: Final = 0
COMMITTED: Final = 1
SETTLED: Final = 2


class Key(Timed):
    """One key, as this node keeps it.

    ``expires_ms`` is the end of the window in node time, 0 for a key that lives as long as its job, which ends at
    ``life_ms``. ``owner`` is the node that asked for it (``owner_start``: which of its processes), empty when it will
    not come back. ``told`` are the nodes that have answered what this one is asking about the key: None when it asks
    nothing. ``doubts`` are the nodes that may know another ID and must answer before a TENTATIVE one counts as bound;
    None before it was looked whether there are any. ``size`` is what it counts for: one for which this node bids itself
    counts when it is certain. ``copies`` are the nodes that had a copy of the job when it was decided;
    None but where it was made.
    """

    __slots__ = (
        "copies",
        "doubts",
        "expires_ms",
        "job_id",
        "life_ms",
        "name",
        "owner",
        "owner_start",
        "queue",
        "repl",
        "segment",
        "size",
        "state",
        "told",
    )

    def __init__(self, queue: bytes, name: bytes, job_id: bytes, expires_ms: int, owner: bytes) -> None:
        self.due_ms = 0
        self.slot = IDLE
        self.queue = queue
        self.name = name
        self.job_id = job_id
        self.expires_ms = expires_ms
        self.life_ms = 0
        self.repl = 1
        self.state = TENTATIVE
        self.owner = owner
        self.owner_start = 0
        self.segment = 0
        self.size = 0
        self.told: set[bytes] | None = None
        self.doubts: set[bytes] | None = None
        self.copies: tuple[bytes, ...] | None = None

    def cost(self) -> int:
        """Bytes of memory that the key counts for."""
        return self.size

    def end_ms(self) -> int:
        """When a key that is not TENTATIVE ends, at the latest."""
        return self.expires_ms or self.life_ms


def sound(node: "Node", queue: bytes, name: bytes, job_id: bytes, window_ms: int) -> bool:
    """Whether another node can mean this key for this job; counted when not.

    A job has one key, and nobody else can decide for what this node bids.
    """
    if 1 <= len(name) <= KEY_MAX and valid(job_id) and window_ms <= WINDOW_MAX * 1000:
        key = node.keyed.get(job_id)
        if job_id not in node.bidding and (key is None or (key.queue == queue and key.name == name)):
            return True
    node.messages_skipped += 1
    return False


def put(node: "Node", key: Key) -> None:
    """Take ``key`` into the table. There must be none of that name."""
    node.keys[key.queue, key.name] = key
    node.keyed[key.job_id] = key
    if key.owner != node.node_id:
        count(node, key)


def count(node: "Node", key: Key) -> None:
    """Let the key count as memory, with the name of its queue if that is not known otherwise."""
    if not key.size:
        key.size = KEY_BYTES + len(key.name) + (0 if key.queue in node.queues or not key.owner else len(key.queue))
        node.used += key.size


def restore(
    node: "Node", queue: bytes, name: bytes, job_id: bytes, expires_ms: int, life_ms: int, repl: int, segment: int
) -> None:
    """Take in what a KEY record says; it replaces what an earlier one said."""
    held = node.keys.get((queue, name))
    if held is not None:
        node.drop_key(held)
    key = Key(queue, name, job_id, expires_ms, b"")
    key.life_ms, key.repl, key.segment, key.state = life_ms, repl, segment, COMMITTED
    put(node, key)
    index(node, key)
    node.live[segment] = node.live.get(segment, 0) + 1
    node.timers.arm(key, key.end_ms())


def index(node: "Node", key: Key) -> None:
    """Note whether ``key`` must be found by its job's ID: while something is asked about it, or if it goes with it."""
    if key.expires_ms and key.state != TENTATIVE and key.told is None:
        node.keyed.pop(key.job_id, None)
    else:
        node.keyed[key.job_id] = key


def part(node: "Node", job: "Job") -> None:
    """Remove ``job``, which is on another node now: its key does not end with it."""
    key = node.keyed.pop(job.id, None)
    node.remove(job)
    if key is not None:
        node.keyed[job.id] = key
        if node.journaling:
            file(node, key)  # behind the record that deletes the job, which frees it


def file_end(node: "Node", key: Key) -> None:
    """Write that the key is free: as one whose window ended long ago."""
    node.journal.append((KEY, key.queue, key.name, key.job_id, 1, 0, key.repl))


def file(node: "Node", key: Key) -> None:
    """Write the key to the journal, if it is certain; it counts for the newest segment from here on."""
    if key.state == TENTATIVE:
        return
    node.journal.append((KEY, key.queue, key.name, key.job_id, key.expires_ms, key.life_ms, key.repl))
    if key.segment:
        node.live[key.segment] -= 1
    key.segment = node.segment
    node.live[node.segment] = node.live.get(node.segment, 0) + 1
