"""Other nodes may say anything that has the shape of a message: nothing breaks, and the journal starts again.

Random walks over one node. What it hears is made from the table of messages: all kinds, with values at their bounds,
IDs from a small pool so that they meet, from peers, strangers, and in its own name. Between that are commands, time,
links that come and go. The bench recounts everything after every step; now and then a node that reads the journal must
be as this one is, and goes on in its place.

MODEL_EXAMPLES=5000 in the environment makes so many walks, other ones each time.
"""

import os
from collections.abc import Callable
from random import Random, SystemRandom
from typing import Any, Final

import pytest
from msgpack import packb

from cluster.membership import PFAIL, Member
from cluster.messages import (
    BIND,
    DELJOB,
    ENQUEUE,
    ENTRIES,
    ENTRY_SHAPE,
    FIELDS,
    GOSSIP_SHAPE,
    GOTACK,
    GOTJOB,
    HOLD,
    JOB_SHAPE,
    KEEPKEY,
    KINDS,
    QUEUED,
    REPLJOB,
    SETACK,
    SURVEY,
    UNBIND,
    WILLQUEUE,
    YOURJOBS,
    Message,
    Shape,
    decode,
    encode_message,
    frame,
)
from disque.core import step
from disque.core.dedup.keys import digest_of
from disque.core.jobs import orders
from disque.core.journal import codec, kinds
from disque.core.journal import replay as journal
from disque.core.model import extra, spec
from disque.core.model.job import ACKED, ACTIVE, COUNTER_MAX, DEFERRED, SPENT
from disque.core.model.jobid import comes_again
from disque.core.model.key import TENTATIVE
from disque.core.model.session import NOT_WAITING, WAIT_COPIES
from disque.core.node import Node
from tests.conftest import examples
from tests.core.support import (
    MYSELF,
    PROCESS,
    START_MS,
    UNKNOWN_ID,
    Bench,
    all_jobs,
    assert_counters_are_true,
    foreign_id,
    repljob,
)
from tests.support.formats import encoded, jobs_record, pause_everywhere
from tests.support.keys import keys

STEPS: Final = 60
STRANGER: Final = b"c" * 40
BOOT: Final = "boot"
#: Jobs that other nodes speak of: of both kinds, with the name of this node in them, and what is no ID at all.
POOL: Final = (
    *(foreign_id(1), foreign_id(1, 0), foreign_id(2), foreign_id(2, 0), UNKNOWN_ID),
    *(b"D-a0a0a0a0-%024d-003d" % 1, b"D-a0a0a0a0-%024d-003c" % 1),
    *(b"D-b0b0b0b0-%024d-zzzz" % 3, b"x" * 40),
)
BOUNDS: Final = (2**16 - 1, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**43 - 1)
KEYS: Final = (digest_of(b"q", b"k"), digest_of(b"q", b"l"), digest_of(b"q", b"m"))

#: What a field may say: what is usual first, then what is not. A lie in every fourth is enough.
USUAL: Final[dict[str, tuple[Any, ...]]] = {
    "queue": (b"q", b"q", b"q", b"r"),
    "key": KEYS,
    "ip": (b"", b"127.0.0.1"),
    "body": (b"body", b"other body"),
    "bodies": (b"body", b"other body"),
    "retry_s": (5, 5, 0, 60),
    "repl": (1, 2, 3),
    "flags": (0, 1, 2, 3),
    "state": (0, 1, 2),
    "reason": tuple(range(7)),
    "what": (0, 1),
    "why": (0, 1, 2, 3, 4),
    "known": (0, 1),
    "ttl_s": (60, 3600),
    "left_ms": (60_000, 3_600_000),
    "delay_ms": (0, 0, 5000),
    "window_ms": (0, 3000, 60_000),
    "count": (0, 1, 100),
    "nacks": (0, 1),
    "deliveries": (0, 1),
    "ms": (1, 500, 5000),
    "kind": (1, 1, 1, 2),
    "name": (b"q", b"q", b"r"),
    "field": (b"",),
    "value": (b"1", b"3", b""),
    "deleted": (0, 0, 1),
    "survey": (1, 2, 3),
}
#: What stands in the rows of an extra, a newer node's among them.
EXTRA_ROWS: Final[dict[int, tuple[Any, ...]]] = {
    extra.HEADERS: ((), (b"name", b"value")),
    extra.TRIES: (0, 1, COUNTER_MAX),
    extra.ERROR: (b"", b"why", bytes(extra.ERROR_MOST)),
    extra.ERROR_AGE_MS: (0, 5000, extra.AGE_MOST),
    extra.GENERATION: (0, 1, 2, extra.GENERATION_MOST - 1, extra.GENERATION_MOST),
    extra.MOVER: (b"",),
    extra.ORIGIN: (b"", b"q", b"r"),
    extra.DIED: (0, 1, 2, 3, COUNTER_MAX),
    extra.FIRST: (b"", encoded(60, 5), encoded(60, 0), b"\x80", b"nonsense"),
    extra.PROGRESS: (b"", b"half"),
    extra.PROGRESS_AGE_MS: (0, 5000),
    60_000: (7, b"", b"new", (b"a", b"b"), bytes(extra.NEWER_BYTES - spec.VALUE_BYTES), bytes(extra.NEWER_BYTES)),
}
#: Rows of a spec, those of a newer node among them.
SPEC_ROWS: Final[tuple[dict[int, Any] | None, ...]] = (
    *(None, None, None),
    {spec.TRIES.number: 1},
    {spec.TRIES.number: 2, spec.RETAIN.number: 60},
    {spec.DEADLETTER.number: b"="},
    {spec.DEADLETTER.number: b"=r", spec.TRIES.number: 1},
    {spec.TRIES.number: 1, **dict.fromkeys(range(60_000, 60_000 + spec.NEWER_MOST), 2**64 - 1)},
    {spec.TRIES.number: 1, 60_000: bytes(spec.NEWER_BYTES - spec.VALUE_BYTES)},
    {60_000: bytes(1000)},
)
#: What stands in the rows of fields that are lists of rows.
SHAPES: Final = {"jobs": JOB_SHAPE, "gossip": GOSSIP_SHAPE, "entries": ENTRY_SHAPE}
STRANGE: Final[dict[str, tuple[Any, ...]]] = {
    "bytes": (b"", b"long" * 100),
    "number": (0, 1, 1000, 60_000, *BOUNDS),
    "stamp": (0, 1, 2, START_MS, 2**62 - 1),
}
#: Messages that bring jobs, or answers about them: they come more often than others.
MADE_OF_JOBS: Final = (
    *((REPLJOB, YOURJOBS) * 3),
    *(GOTJOB, SETACK, WILLQUEUE, QUEUED, HOLD, ENQUEUE, BIND, KEEPKEY, ENTRIES),
)
#: What stands in questions to all nodes, and in their answers.
WORDS: Final = (b"q", b"r", b"", b"0", b"1", b"2", b"7", b"-1", b"9" * 30, b"1 2 3", b"x" * 40, *KEYS, b"1 0", b"0 9 1")
LISTS: Final = {"numbers": "number", "stamps": "stamp", "bodies": "bytes"}


class Walk:
    """What a walk with this number does, to a node with three others."""

    def __init__(self, number: int) -> None:
        self.random = Random(number)
        self.bench = Bench(peers=3, journaling=True)
        self.bench.agreeable = self.random.random() < 0.5
        self.client = self.bench.client()
        self.starts = 0
        #: What lies in the files, with the numbers of these.
        self.payloads: list[tuple[int, bytes]] = []
        self.begin_segment()

    def step(self) -> None:
        name = self.random.choices(list(DOES), list(DOES.values()))[0]
        does: Callable[[], None] = getattr(self, name)
        does()

    # -- what is said --------------------------------------------------------------------------------------------------

    def ids(self) -> list[bytes]:
        mine = [job.id for job in all_jobs(self.bench.node)][-3:]
        mine += [*self.bench.node.unique.attempts][:2]
        mine += [key.job_id for key in keys(self.bench.node).values()][:2]
        return [*mine, *mine, *POOL]

    def nodes(self) -> list[bytes]:
        return [*[peer.id for peer in self.bench.peers] * 2, MYSELF, MYSELF, STRANGER, b"." * 40]

    def one(self, name: str, kind: str) -> Any:
        """A value for a field that is no list."""
        random = self.random
        if kind == "id":
            return random.choice(self.nodes() if name == "node_id" else self.ids())
        if random.random() < 0.25:
            return random.choice(STRANGE[kind])
        now_ms = self.bench.now_ms
        if name == "survey" and random.random() < 0.7:
            return random.choice([*self.bench.node.surveys.by_number, self.bench.node.surveys.base + 1])
        moments = (now_ms, now_ms - 100, now_ms * 10**6, START_MS * 10**6 + 1)
        return random.choice(moments if kind == "stamp" else USUAL.get(name, STRANGE[kind]))

    def field(self, name: str, kind: str, count: int) -> Any:
        """A value for a field; a list that belongs to the one before is as long as that."""
        random = self.random
        if kind == "ids":
            some = self.nodes() if name == "holders" else self.ids()
            given = random.choices(some, k=random.randrange(5))
            return tuple(sorted(set(given))) if random.random() < 0.7 else tuple(given)
        if kind in SHAPES:
            shape = SHAPES[kind]
            return tuple([self.values(shape) for _ in range(random.randrange(4))])
        if kind == "words":
            return tuple(random.choices(WORDS, k=random.choice([0, 1, 1, 1, 2, 5])))
        if kind in LISTS:
            return tuple([self.one(name, LISTS[kind]) for _ in range(count)])
        return self.one(name, kind)

    def values(self, shape: Shape) -> tuple[Any, ...]:
        """The fields of a message. What it says of RETRY mostly fits the IDs, or nothing would be believed."""
        random = self.random
        made: dict[str, Any] = {}
        count = 0
        for name in shape.fields:
            made[name] = self.field(name, FIELDS[name], count)
            count = len(made[name]) if name == "ids" else count
        ids = made.get("ids") or (made.get("id"),)
        if "spec" in made and ids and ids[0] is not None and random.random() < 0.8:
            retry = random.choice([5, 60]) if comes_again(ids[0]) else 0
            rows = random.choice(SPEC_ROWS) if retry else None
            made["spec"] = encoded(60, retry, random.choice([1, 2, 3]), rows)
        if "more" in made and random.random() < 0.5:
            made["more"] = self.extra()
        return tuple(made.values())

    def extra(self) -> bytes:
        """What is said of a job beyond its fields: any rows, whether or not they go together."""
        random = self.random
        rows = {number: random.choice(EXTRA_ROWS[number]) for number in sorted(EXTRA_ROWS) if random.random() < 0.3}
        if random.random() < 0.7:
            rows[extra.GENERATION] = rows.get(extra.GENERATION, 1)
            rows[extra.MOVER] = random.choice(self.nodes()[:-1])
        packed: bytes = packb({number: rows[number] for number in sorted(rows)})
        return packed

    def hear(self) -> None:
        """Some messages arrive: mostly from a peer; or from a stranger, or in the name of this node."""
        random = self.random
        senders = [*[peer.id for peer in self.bench.peers] * 4, STRANGER, MYSELF]
        for _ in range(random.randrange(1, 6)):
            kind = random.choice([*KINDS, *MADE_OF_JOBS])
            message: Message = (kind, *self.values(KINDS[kind][1]))
            if kind == SURVEY and random.random() < 0.6:
                message = (*message[:2], *self.order())
            (heard,) = decode(frame([encode_message(message)])[4:])
            step.message(self.bench.node, random.choice(senders), heard, self.bench.now_ms)
        self.bench.settle()

    def order(self) -> tuple[int, tuple[bytes, ...]]:
        """A question that is an order about jobs."""
        pick = self.random.choice
        ids = tuple(self.random.choices(self.ids(), k=2))
        order = (pick([*orders.DEEDS, b"q"]), pick([b"q", b"r"]), pick([b"q", b"r"]), pick([b"0", b"0", b"500", b"x"]))
        rest = pick([ids, ids, (b"",), (b"2",), (b"5 0 0",), (b"0 700 1",), WORDS[:2]])
        what = pick([orders.WHERE, orders.THESE, orders.OLDEST, orders.ALL])
        return (what, rest if what == orders.WHERE else (*order, *rest))

    # -- what clients do -----------------------------------------------------------------------------------------------

    def ask(self, *words: Any) -> None:
        """A request, unless the client waits for something."""
        may_add = self.client.session.waiting == WAIT_COPIES and words[0] == "ADDJOB"
        if may_add or self.client.session.waiting == NOT_WAITING:
            self.client.send(*words)
            self.client.read_all()

    def add(self) -> None:
        pick = self.random.choice
        options: list[Any] = ["REPLICATE", pick([1, 2, 3]), "RETRY", pick([0, 5, 5]), "DELAY", pick([0, 0, 3])]
        options += ["TTL", pick([10, 100, 2**32 - 1])]
        options += pick(HOW)
        self.ask("ADDJOB", "q", "body", pick([0, 100]), *options)

    def get(self) -> None:
        how: tuple[Any, ...] = self.random.choice([("TIMEOUT", 100), ("NOHANG",)])
        self.ask("GETJOB", *how, "COUNT", self.random.choice([1, 3]), "FROM", "q", "r", "new")

    def touch(self) -> None:
        touch = self.random.choice(TOUCHES)
        self.ask(touch[0], *self.random.choices(self.ids(), k=2), *touch[1:])

    def survey(self) -> None:
        self.ask(*self.random.choice(SURVEYS))

    def pause(self) -> None:
        how = self.random.choice([[], ["bcast"]])
        self.ask("PAUSE", "q", self.random.choice(["in", "out", "all", "none", "none"]), *how)

    def leave(self) -> None:
        self.ask("CLUSTER", "LEAVING", self.random.choice(["YES", "NO", "NO"]))

    def flush_all(self) -> None:
        self.ask("DEBUG", "FLUSHALL")

    def hang_up(self) -> None:
        self.client.disconnect()
        self.client = self.bench.client()

    # -- time and links ------------------------------------------------------------------------------------------------

    def advance(self) -> None:
        ms = self.random.choice([1, 100, 500, 1000, 5000, 5000, 61_000])
        self.bench.checked = False  # else each of its turns would be counted again
        if ms <= 1000:
            self.bench.live(ms)
        else:
            self.bench.advance(ms)
        self.bench.checked = True
        self.bench.settle()
        self.client.read_all()

    def link(self) -> None:
        peer = self.random.choice(self.bench.peers)
        if self.bench.node.peers[peer.id].linked:
            self.bench.link_down(peer)
        else:
            self.join(peer, self.random.choice([PROCESS, PROCESS, PROCESS + 1]))

    def join(self, peer: Member, start: int = PROCESS) -> None:
        """There are links both ways."""
        self.bench.checked = False
        self.bench.link_up(peer, start)
        self.bench.called(peer, start)
        self.bench.checked = True
        self.bench.settle()

    def fail(self) -> None:
        self.bench.fail(self.random.choice(self.bench.peers), self.random.choice([0, PFAIL]))

    def keep_back(self) -> None:
        """What waits to be sent to a node comes back."""
        peer_id = self.random.choice(self.bench.peers).id
        messages = [message for receiver, message in self.bench.sent() if receiver == peer_id]
        step.undelivered(self.bench.node, peer_id, messages, self.bench.now_ms)
        self.bench.settle()

    # -- the journal ---------------------------------------------------------------------------------------------------

    def begin_segment(self) -> None:
        node = self.bench.node
        node.segment = max([segment for segment, _ in self.payloads], default=0) + 1
        self.payloads.append((node.segment, codec.head(node, BOOT, "everysec", self.bench.now_ms)))

    def write(self) -> None:
        node = self.bench.node
        self.bench.settle()
        records = node.outbox.take()
        if records:
            self.payloads += [(node.segment, payload) for payload in codec.encode(records, self.bench.now_ms)]

    def compact(self) -> None:
        self.write()
        upto = self.bench.node.segment
        self.begin_segment()
        copying = kinds.begin_copy(self.bench.node, upto)
        while not copying.step(100, self.bench.now_ms):
            pass
        self.write()
        assert not any(count for segment, count in self.bench.node.live.items() if segment <= upto)
        self.payloads = [payload for payload in self.payloads if payload[0] > upto]

    def replayed(self) -> Bench:
        """What a start finds."""
        self.starts += 1
        fresh = Bench(journaling=True, seed=1 + self.starts)  # no two starts make the same IDs
        fresh.now_ms = self.bench.now_ms
        fresh.agreeable = self.bench.agreeable
        for known in self.bench.peers:
            peer = Member(known.id, known.ip, known.port)
            fresh.membership.add(peer)
            fresh.peers.append(peer)
        fresh.node.journaling = False
        replay = journal.Replay(fresh.node, BOOT)
        for segment, payload in self.payloads:
            replay.apply(payload, segment)
        for _ in replay.finish(fresh.now_ms):
            pass
        assert not replay.dropped
        fresh.node.journaling = True
        assert_counters_are_true(fresh.node)
        return fresh

    def look(self) -> None:
        """A node that reads the journal is as this one is."""
        self.bench.tick()
        self.write()
        compare(self.bench.node, self.replayed().node, self.bench.now_ms)

    def start(self) -> None:
        """It goes on in its place, after a crash or a clean stop."""
        self.look()
        if self.random.random() < 0.5:
            for record in journal.clean_list(self.bench.node):
                self.bench.node.outbox.add(record)
            self.write()
        self.start_anew()

    def start_anew(self) -> None:
        """Read the journal and go on."""
        self.write()
        self.bench = self.replayed()
        self.client = self.bench.client()
        self.begin_segment()
        for peer in self.bench.peers:
            self.join(peer)


#: What happens how often.
DOES: Final = {
    "hear": 60,
    "add": 16,
    "get": 12,
    "touch": 16,
    "pause": 4,
    "survey": 6,
    "leave": 1,
    "flush_all": 0.5,
    "hang_up": 1,
    "advance": 20,
    "link": 4,
    "fail": 2,
    "keep_back": 4,
    "compact": 4,
    "look": 4,
    "start": 3,
}
HOW: Final[list[list[Any]]] = [[], [], ["ASYNC"], *[["UNIQUE", key, window] for key in "kl" for window in (0, 3)]]
TOUCHES: Final[list[tuple[Any, ...]]] = [
    *[(word,) for word in ("ACKJOB", "ACKJOB", "FASTACK", "DELJOB", "NACK", "ENQUEUE", "DEQUEUE", "WORKING")],
    ("NACK", "DELAY", 4),
]


SURVEYS: Final[list[tuple[Any, ...]]] = [
    *(("QLEN", "q", "CLUSTER"), ("QSTAT", "q"), ("QSTAT", "q", "CLUSTER"), ("FIND", "q", "k"), ("FIND", "q", "l")),
    *(("MOVE", "r", *POOL[:3]), ("REVIVEJOB", POOL[0]), ("QMOVE", "q", "r"), ("QMOVE", "r", "q", "COUNT", 2)),
    *(("CLUSTER", "REPAIR", "b0" * 20), ("QHISTORY", "q", "minute"), ("QHISTORY", "q", "day", "CLUSTER")),
    *(("REVIVE", "q"), ("REVIVE", "r", "COUNT", 1), ("QFLUSH", "q", "COUNT", 1), ("QFLUSH", "r")),
]


def promised(node: Node, now_ms: int) -> dict[bytes, tuple[Any, ...]]:
    """What a start must know of the jobs that are in the journal, or whatever it knows."""
    found = {}
    for job in all_jobs(node):
        if job.expires_ms > now_ms and (job.segment or job.id in node.acks.by_id):
            numbers = (job.retry, job.ttl, job.repl, job.ctime, job.expires_ms)
            alive = (job.body, job.nacks, job.flags & SPENT)
            found[job.id] = (job.queue, *numbers, job.state == ACKED, *(alive if job.state != ACKED else ()))
    return found


def held_ms(node: Node, now_ms: int) -> dict[bytes, int]:
    """Until when jobs must not be queued, not even after a crash."""
    held = [job for job in all_jobs(node) if job.state == ACTIVE and job.flags & DEFERRED]
    return {job.id: job.requeue_ms for job in held if min(job.requeue_ms, job.expires_ms) > now_ms}


def compare(node: Node, fresh: Node, now_ms: int) -> None:
    """``fresh`` has read the journal of ``node``. Jobs may be held for less than here."""
    jobs, found = promised(node, now_ms), promised(fresh, now_ms)
    for job_id in found.keys() - jobs.keys():
        job = fresh.find(job_id)
        assert job is not None
        assert job.state == ACKED  # that others may hold it too was not so: they will say that
        del found[job_id]
    for job_id in jobs.keys() - found.keys():
        assert node.shard(job_id)[job_id].state == ACKED  # others said that they hold it too, and know that as well
        del jobs[job_id]
    assert found == jobs
    held = held_ms(node, now_ms)
    for job_id, until_ms in held_ms(fresh, now_ms).items():
        assert until_ms <= held[job_id]
    assert set(fresh.acks.dummies) == set(node.acks.dummies)
    known = [
        {
            key.digest: (key.job_id, key.expires_ms, key.life_ms)
            for key in keys(one, now_ms).values()
            if key.state != TENTATIVE and key.end_ms() > now_ms
        }
        for one in (node, fresh)
    ]
    assert known[0] == known[1]
    paused = [{name: queue.paused for name, queue in one.queues.items() if queue.paused} for one in (node, fresh)]
    assert paused[0] == paused[1]
    told = [
        {entry.key: (entry.value, *entry.stamp()) for entry in one.registry.entries() if not entry.deleted}
        for one in (node, fresh)
    ]
    assert told[0] == told[1]


def numbers() -> list[int]:
    """Which walks are made."""
    wanted = os.environ.get("MODEL_EXAMPLES")
    return [SystemRandom().getrandbits(40) for _ in range(int(wanted))] if wanted else list(range(examples(400)))


@pytest.mark.parametrize("number", numbers())
def test_no_lie_breaks_anything(number: int) -> None:
    walk = Walk(number)
    for _ in range(STEPS):
        walk.step()
    walk.look()


# -- what such walks have found ----------------------------------------------------------------------------------------


@pytest.fixture
def walk() -> Walk:
    """Nobody has taken a step yet; the other nodes keep whatever key they are asked to keep."""
    walk = Walk(0)
    walk.bench.agreeable = True
    return walk


def keepkey(job_id: bytes, digest: bytes = KEYS[0], flags: int = 3) -> Message:
    return (KEEPKEY, flags, 2, 60_000, (job_id,), (digest,))


def test_numbers_go_on_from_no_job_that_could_be_the_last_of_all(walk: Walk) -> None:
    """One in an old journal, which bears the name of this node: the next job had a number that no start believes."""
    mine = b"D-a0a0a0a0-%024d-003d" % 1
    record = jobs_record(mine, ttl=60, retry=5, left_ms=-4 * 10**12, holders=(MYSELF,), ctimes=(2**62 - 1,))
    walk.payloads += [(1, payload) for payload in codec.encode([record], START_MS)]
    walk.start_anew()
    walk.client.add("q", "body", "REPLICATE", 1)
    walk.look()


def test_a_job_that_ends_before_its_key_is_written_frees_it_at_a_start_too(walk: Walk) -> None:
    """Somebody has delivered a copy whose ADDJOB still waits for others."""
    bench = walk.bench
    walk.client.send("ADDJOB", "q", "body", 0, "REPLICATE", 3, "UNIQUE", "k", 0)
    bench.settle()
    (job_id,) = bench.node.copies.wanted
    bench.hear(bench.peers[0], (SETACK, bench.job(job_id).holders, (job_id,)))
    walk.look()
    assert not keys(bench.node)


def test_an_acknowledgement_is_known_after_a_start_when_only_its_key_has_ended(walk: Walk) -> None:
    bench = walk.bench
    bench.hear(bench.peers[0], keepkey(foreign_id()))
    walk.client.send("ACKJOB", foreign_id())
    bench.hear(bench.peers[0], (UNBIND, (foreign_id(),)))
    walk.look()
    assert foreign_id() in bench.node.acks.dummies


def test_an_acknowledgement_of_a_job_that_has_ended_here_is_known_after_a_start(walk: Walk) -> None:
    bench = walk.bench
    bench.hear(bench.peers[0], repljob(bench.peers[0].id, ttl=1))
    bench.advance(2000)
    bench.hear(bench.peers[0], keepkey(foreign_id()))
    walk.client.send("ACKJOB", foreign_id())
    walk.look()
    assert foreign_id() in bench.node.acks.dummies


def test_a_job_has_one_key(walk: Walk) -> None:
    """What has ended with its job's life is written nowhere: a start finds it beside a later one."""
    bench, job_id = walk.bench, foreign_id()
    bench.hear(bench.peers[0], keepkey(job_id, KEYS[0]))
    bench.advance(70_000)
    bench.hear(bench.peers[0], keepkey(job_id, KEYS[1]))
    bench.hear(bench.peers[0], (DELJOB, (job_id,)))
    walk.look()


def test_a_key_counts_for_no_job_that_is_not_decided(walk: Walk) -> None:
    bench = walk.bench
    walk.client.send("ADDJOB", "q", "body", 100, "REPLICATE", 3)
    bench.settle()
    (job_id,) = bench.node.copies.wanted
    bench.hear(bench.peers[0], keepkey(job_id))
    assert bench.node.messages_skipped == 1
    bench.advance(200)
    walk.look()


def test_holders_that_others_name_when_a_job_is_done_are_written(walk: Walk) -> None:
    bench = walk.bench
    bench.hear(bench.peers[0], repljob(bench.peers[0].id))
    walk.client.send("ACKJOB", foreign_id())
    bench.hear(bench.peers[0], (GOTACK, 1, tuple([peer.id for peer in bench.peers]), (foreign_id(),)))
    walk.look()
    fresh = walk.replayed().node
    assert fresh.acks.by_id[foreign_id()].holders == bench.node.acks.by_id[foreign_id()].holders
    assert len(fresh.acks.by_id[foreign_id()].holders) == 4


def test_no_pause_is_newer_than_all_that_can_come(walk: Walk) -> None:
    bench = walk.bench
    bench.hear(bench.peers[0], pause_everywhere(b"q", 3, 2**62 - 1, bench.peers[0].id))
    assert bench.node.messages_skipped == 1
    walk.client.send("PAUSE", "q", "in", "bcast")
    walk.look()
