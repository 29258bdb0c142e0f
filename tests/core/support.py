"""A bench for one node: a fake clock, a fake host, clients without sockets, nodes that only exist in its table.

Everything goes through the doors of `step`, as in the server, and after every step the bench counts again what the node
believes: counters equal the jobs in each state, a queue holds exactly the queued jobs, accounted memory equals a
recount, every wait and every timer belongs to something; every message that it sends can be encoded and comes out of
the decoder as it went in, every record is one that a start would believe. A word of a request may be bytes, text or a
number.
`Client.__call__` sends a request and gives the decoded reply, `Client.raw` its bytes; a reply that is not there yet is
NOTHING.
"""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, Final

import hiredis

from cluster import membership
from cluster.capabilities import MINE
from cluster.membership import UNREACHABLE
from cluster.messages import (
    ASKKEY,
    BIND,
    BOUND,
    GOTJOB,
    KEEPKEY,
    KEYFREE,
    KEYKEPT,
    KINDS,
    decode,
    encode_message,
    frame,
)
from disque.core import links, pubsub, step
from disque.core.base import resp
from disque.core.base.timers import IDLE, NEVER, Timed
from disque.core.commands import ROWS
from disque.core.config.settings import Config
from disque.core.host import HostRefusedError
from disque.core.jobs import sessions
from disque.core.journal import kinds
from disque.core.journal.schema import Record
from disque.core.model import memory
from disque.core.model.ack_batch import AckBatch, AckStage
from disque.core.model.job import (
    ACKED,
    ACTIVE,
    AMONG_RETURNED,
    EXTRA,
    IN_LINE,
    QUEUED,
    SPENT,
    STATE_NAMES,
    WAIT_REPL,
    Job,
)
from disque.core.model.key import TENTATIVE
from disque.core.model.lane import leaving_order
from disque.core.model.pubsub import SUBSCRIPTION_BYTES
from disque.core.model.session import (
    NOT_WAITING,
    WAIT_COPIES,
    WAIT_ENDS,
    WAIT_ENTRIES,
    WAIT_HOST,
    WAIT_JOBS,
    WAIT_LINES,
    WAIT_LOGIN,
    WAIT_NODES,
    Session,
)
from disque.core.node import Node
from tests.support import formats
from tests.support.keys import keys

#: The first moment of every test, in ms. Not a whole second, so that nothing is exact by chance.
START_MS: Final = 1_800_000_000_123
MYSELF: Final = b"a0" * 20
#: A valid ID that no node ever made.
UNKNOWN_ID: Final = b"D-ffffffff-AAAAAAAAAAAAAAAAAAAAAAAA-05a1"

#: What INFO asks the host for.
NUMBERS: Final = (
    *("arch_bits", "pid", "tcp_port", "longest_output", "biggest_input", "rss_bytes", "ops_per_s", "input_kbps"),
    *("output_kbps", "cpu_sys_s", "cpu_user_s", "cpu_sys_children_s", "cpu_user_children_s"),
)
TEXTS: Final = (
    *("build_id", "core", "os", "multiplexing_api", "compiler", "python", "run_id", "executable", "config_file"),
    "allocator",
)

#: The number of every peer's process, unless a test starts it anew.
PROCESS: Final = 7
#: How often a process looks after the other nodes.
BEAT_MS: Final = 100
#: A node is counted again after each turn while it has fewer jobs, with twice as many each second one, and so on; and
#: while only time passes after so many turns more.
FEW_JOBS: Final = 50
IDLE_TURNS: Final = 9

#: What a node that knows of no UNIQUE key answers to which message, and where the IDs stand in that.
AGREED: Final = {BIND: (BOUND, 3), KEEPKEY: (KEYKEPT, 4), ASKKEY: (KEYFREE, 2)}

Word = bytes | str | int


def foreign_id(number: int = 1, retry: int = 60) -> bytes:
    """The ID of a job that another node made."""
    return b"D-b0b0b0b0-%024d-%04x" % (number, 60 | (retry > 0))


def repljob(
    *holders: bytes,
    job_id: bytes = b"",
    retry: int = 60,
    flags: int = 0,
    delay_ms: int = 0,
    queue: bytes = b"q",
    body: bytes = b"body",
    ttl: int = 3600,
) -> tuple[Any, ...]:
    """REPLJOB for a job of another node; ``holders`` are the other nodes that may have a copy, too."""
    return formats.repljob(
        job_id or foreign_id(1, retry),
        queue=queue,
        ttl=ttl,
        retry=retry,
        flags=flags,
        delay_ms=delay_ms,
        holders=tuple(sorted({MYSELF, *holders})),
        bodies=(body,),
        ctimes=(START_MS * 1_000_000,),
    )


class Nothing:
    """No reply yet."""

    def __repr__(self) -> str:
        return "NOTHING"


NOTHING: Final = Nothing()


def words(*given: Word) -> list[bytes]:
    """A request."""
    return [word if isinstance(word, bytes) else str(word).encode() for word in given]


class FakeHost:
    """The outside as tests want it: notes what is asked, refuses what `refusal` says. IDs follow from ``seed``."""

    def __init__(self, seed: int = 1) -> None:
        self.random = Random(seed)
        self.asked: list[tuple[Any, ...]] = []
        self.refusal = ""
        self.rewriting = False
        self.now_us = 1_700_000_000_000_042
        self.disconnect: Callable[[Session], None] | None = None

    def note(self, *what: Any) -> None:
        self.asked.append(what)
        if self.refusal:
            raise HostRefusedError(self.refusal)

    def facts(self) -> dict[str, int | float | str]:
        facts: dict[str, int | float | str] = {name: number for number, name in enumerate(NUMBERS, 1)}
        facts.update({name: f"the {name}" for name in TEXTS})
        return {**facts, "persist:loading": 0, "persist:aof_enabled": 1, "persist:aof_state": "on"}

    def client_facts(self, session: Session) -> dict[str, int | str]:
        numbers = {"fd": session.id + 6, "qbuf": 0, "qbuf_free": 32768, "obl": 0, "oll": 0, "omem": 0}
        return {**numbers, "events": "r", "unix": 0}

    def kill(self, session: Session) -> None:
        self.note("kill", session.id)

    def suspect(self, session: Session, what: str) -> None:
        self.note("suspect", session.id, what)

    def warn(self, text: str) -> None:
        self.note("warn", text)

    def configure(self, name: str) -> None:
        self.note("configure", name)

    def rewrite_config(self, session: Session) -> None:
        self.note("rewrite_config")
        session.out.append(resp.OK)

    def save_cluster(self) -> None:
        self.note("save_cluster")

    def shutdown(self, session: Session, *, rewrite: bool) -> None:
        self.note("shutdown", session.id, rewrite)

    def rewrite_journal(self) -> bool:
        self.note("rewrite_journal")
        return not self.rewriting

    def reload_journal(self, session: Session) -> None:
        self.note("reload_journal", session.id)
        session.waiting = WAIT_HOST

    def sleep(self, seconds: float) -> None:
        self.note("sleep", seconds)

    def restart(self, session: Session, delay_ms: int, *, clean: bool) -> None:
        self.note("restart", session.id, delay_ms, clean)

    def crash(self, how: str) -> None:
        self.note("crash", how)

    def entropy(self, size: int) -> bytes:
        return self.random.randbytes(size)

    def wall_us(self) -> int:
        return self.now_us


class Client:
    """One connection. While `choked`, its replies stay where they are, as when a client does not read."""

    def __init__(self, bench: "Bench", session: Session) -> None:
        self.bench = bench
        self.session = session
        self.stream = b""
        self.choked = False
        self._asked = False

    def send(self, *request: Word) -> None:
        """Let the node execute a request, without a flush."""
        args = words(*request)
        waiting = self.session.waiting
        assert waiting == NOT_WAITING or (waiting == WAIT_COPIES and args[0].upper() == b"ADDJOB"), (
            "the shell would wait"
        )
        self._asked = True
        step.command(self.bench.node, self.session, args, self.bench.now_ms)

    def raw(self, *request: Word) -> bytes:
        """The bytes that have come by the flush behind a request, earlier unread ones included."""
        self.send(*request)
        return self.read_raw()

    def __call__(self, *request: Word) -> Any:
        """The one reply to a request; an error is an instance of hiredis.ReplyError, no reply is NOTHING."""
        self.send(*request)
        return self.read()

    def add(self, queue: Word, body: Word = "body", *options: Word, timeout: Word = 0) -> bytes:
        """ADDJOB that must work: the ID."""
        job_id = self("ADDJOB", queue, body, timeout, *options)
        assert isinstance(job_id, bytes), job_id
        return job_id

    def get(self, *queues: Word, count: int = 1) -> list[bytes]:
        """GETJOB NOHANG: the IDs."""
        return [job_id for _, job_id, _ in self("GETJOB", "NOHANG", "COUNT", count, "FROM", *queues) or []]

    def error(self, *request: Word) -> str:
        """The text of the error that a request must cause."""
        reply = self(*request)
        assert isinstance(reply, hiredis.ReplyError), reply
        return str(reply)

    def show(self, job_id: bytes) -> dict[str, Any]:
        """SHOW as a dict; empty for a job that is not known."""
        flat = self("SHOW", job_id) or []
        return {name.decode(): value for name, value in zip(flat[::2], flat[1::2], strict=True)}

    def read_raw(self) -> bytes:
        """Everything that has come."""
        self.bench.settle()
        stream, self.stream = self.stream, b""
        return stream

    def read_all(self) -> list[Any]:
        """All replies that have come."""
        stream = self.read_raw()
        reader = hiredis.Reader()
        reader.feed(stream)
        replies: list[Any] = []
        while reader.has_data():
            before = len(replies)
            replies.append(reader.gets())
            assert len(replies) > before
        return replies

    def read(self) -> Any:
        """The reply that has come, of which there is at most one."""
        replies = self.read_all()
        assert len(replies) <= 1, replies
        return replies[0] if replies else NOTHING

    def receive(self) -> None:
        """The flush: replies leave, if the client takes them."""
        session = self.session
        if not session.out or self.choked:
            return
        assert self._asked or session.touched, "nobody told the shell that there is a reply"
        self.stream += b"".join(session.out)
        session.out.clear()
        session.handed.clear()
        session.touched = False
        self._asked = False
        if session.walked:
            sessions.walk_taken(self.bench.node, session)

    @property
    def waiting(self) -> bool:
        return self.session.waiting != NOT_WAITING

    def disconnect(self) -> None:
        """The connection ends."""
        sessions.disconnect(self.bench.node, self.session, self.bench.now_ms)
        self.bench.clients.remove(self)
        self.bench.settle()


class Bench:
    """A node with ``peers`` reachable nodes beside it; ``checked`` says whether every step is counted again.

    Links to the peers stand. The peers only exist in the node's table: they say what a test lets them say (`hear`).
    """

    def __init__(self, *, peers: int = 0, journaling: bool = False, checked: bool = True, seed: int = 1) -> None:
        self.now_ms = START_MS
        self.checked = checked
        #: Turns since it was counted last.
        self._unchecked = 0
        #: Whether the other nodes keep whatever UNIQUE key they are asked to keep.
        self.agreeable = True
        self.host = FakeHost(seed)
        self.membership = membership.Membership(membership.Member(MYSELF, b"127.0.0.1", 7711))
        self.peers: list[membership.Member] = []
        self.clients: list[Client] = []
        self.node = Node(self.membership, Config(), Random(seed), self.host, ROWS, self.now_ms)
        self.node.journaling = journaling
        self.node.segment = 1 if journaling else 0
        self.node.registry.is_met = True  # it has been there for a while
        for number in range(peers):
            self.meet(number)

    def meet(self, number: int) -> membership.Member:
        """Another node, reachable."""
        peer = membership.Member(b"%02x" % (0xB0 + number) * 20, b"127.0.0.1", 7712 + number)
        self.membership.add(peer)
        self.membership.set_capabilities(peer.id, MINE)
        self.peers.append(peer)
        step.link_up(self.node, peer.id, PROCESS, self.now_ms)
        self.membership.messages.clear()
        self.node.messages.clear()
        self.node.early.clear()
        if not any(self.node.shards):
            self.node.chores.clear()  # walks through no jobs, but hundreds of ticks long
        return peer

    # -- what comes from other nodes -----------------------------------------------------------------------------------

    def hear(self, peer: membership.Member, *messages: tuple[Any, ...]) -> None:
        """These messages arrive from ``peer`` in one frame; then comes the flush."""
        for message in decode(frame([encode_message(message) for message in messages])[4:]):
            step.message(self.node, peer.id, message, self.now_ms)
        self.settle()

    def link_down(self, peer: membership.Member, *, refused: bool = False) -> None:
        """The link to ``peer`` ends, or cannot be made."""
        step.link_down(self.node, peer.id, refused, self.now_ms)
        self.settle()

    def link_up(self, peer: membership.Member, start: int = PROCESS) -> None:
        """There is a new link to ``peer``, whose process has the number ``start``."""
        step.link_up(self.node, peer.id, start, self.now_ms)
        self.tick()

    def called(self, peer: membership.Member, start: int = PROCESS) -> None:
        """``peer`` makes a new link to this node."""
        step.heard(self.node, peer.id, start, self.now_ms)
        self.tick()

    def fail(self, peer: membership.Member, flags: int = membership.PFAIL) -> None:
        """``peer`` does not answer any more, in the eyes of this node."""
        self.membership.set_flags(peer, peer.flags & ~membership.FAILING | flags)
        links.review(self.node, self.now_ms)
        self.settle()

    def tick(self) -> None:
        """What is due now, and all that the node has put off until there is time."""
        while self.node.next_due_ms <= self.now_ms:
            step.tick(self.node, self.now_ms)
            self.settle()
        self.settle()

    def client(self) -> Client:
        """A client that has just connected."""
        number = self.node.stats.connections + 1
        address = b"127.0.0.1:%d" % (50000 + number)
        session = sessions.connect(self.node, number, address, b"127.0.0.1:7711", self.now_ms)
        client = Client(self, session)
        self.clients.append(client)
        return client

    def set(self, name: str, value: Word) -> None:
        """CONFIG SET."""
        self.node.config.set_text(name, str(value))
        self.node.apply_settings()

    def settle(self, *, is_idle: bool = False) -> None:
        """The end of a turn of the loop: `step.settle` and the flush.

        What is counted again takes time for each job: where there are many, and in turns in which only time passes, not
        each turn is followed by that.
        """
        step.settle(self.node, self.now_ms)
        while self.agreeable and self.agree():
            step.settle(self.node, self.now_ms)
        news = self.node.pubsub
        while news.said:
            news.say_next()
        while news.pending:
            news.tell_next()
        pubsub.tell(self.node)
        for client in self.clients:
            client.receive()
        self.node.touched.clear()
        for session in self.node.sessions.values():
            session.touched = False
        self._unchecked += 1
        rest = IDLE_TURNS if is_idle else 0
        if self.checked and self._unchecked > rest and self._unchecked > rest + self.node.jobs_registered() // FEW_JOBS:
            self._unchecked = 0
            assert_counters_are_true(self.node)
            assert_it_can_be_sent(self.node)
            for record in self.node.outbox.records:
                kinds.check(as_read(record))

    def agree(self) -> bool:
        """The other nodes keep whatever UNIQUE key they are asked to keep; whether they were asked."""
        asked = [sent for sent in self.node.messages if sent[1][0] in AGREED]
        self.node.messages = [sent for sent in self.node.messages if sent not in asked]
        for peer, message in asked:
            kind = message[0]
            assert isinstance(kind, int)
            answer, at = AGREED[kind]
            what = message[at]
            step.message(self.node, peer, (answer, what if isinstance(what, tuple) else (what,)), self.now_ms)
        if asked:
            step.tick(self.node, self.now_ms)
        return bool(asked)

    def live(self, ms: int) -> None:
        """Let time pass with all that a process does ten times a second, while the other nodes answer their pings."""
        until_ms = self.now_ms + ms
        while self.now_ms < until_ms:
            self.advance(min(BEAT_MS, until_ms - self.now_ms))
            for peer in self.peers:
                if not peer.flags & UNREACHABLE:
                    peer.ping_sent_ms, peer.pong_received_ms = 0, self.now_ms
            step.beat(self.node, self.now_ms)
            self.settle(is_idle=self.now_ms < until_ms)

    def advance(self, ms: int) -> None:
        """Let time pass; whatever is due happens at its time."""
        target_ms = self.now_ms + ms
        turns = 0
        while self.node.next_due_ms <= target_ms:
            self.now_ms = max(self.now_ms, self.node.next_due_ms)
            step.tick(self.node, self.now_ms)
            self.settle(is_idle=True)
            turns += 1
            assert turns < 1_000_000, "time stands still"
        self.now_ms = target_ms

    def advance_to(self, due_ms: int) -> None:
        """Let time pass until ``due_ms`` after the start of the test."""
        self.advance(START_MS + due_ms - self.now_ms)

    def confirm(self, job_id: bytes, *peers: membership.Member) -> None:
        """GOTJOB from each of ``peers``."""
        for peer in peers:
            step.message(self.node, peer.id, (GOTJOB, (job_id,)), self.now_ms)
        self.settle()

    def sent(self, *kinds: int) -> list[tuple[bytes, tuple[Any, ...]]]:
        """(peer, message) of these kinds, or any, that were sent; all messages sent so far are forgotten."""
        self.settle()
        messages, self.node.messages, self.node.early = [*self.node.early, *self.node.messages], [], []
        return [(peer, message) for peer, message in messages if not kinds or message[0] in kinds]

    def told(self, peer: membership.Member, *kinds: int) -> list[tuple[Any, ...]]:
        """What was sent to ``peer``; all messages sent so far are forgotten."""
        return [message for peer_id, message in self.sent(*kinds) if peer_id == peer.id]

    def records(self) -> list[tuple[Any, ...]]:
        """The records for the journal since the last call."""
        records = self.node.outbox.take()
        return list(map(as_read, records))

    def job(self, job_id: bytes) -> Job:
        """A job that must be there."""
        job = self.node.find(job_id)
        assert job is not None, job_id
        return job

    def state(self, job_id: bytes) -> str:
        """The state of a job by name; ``gone`` when it is not known."""
        job = self.node.find(job_id)
        return "gone" if job is None else STATE_NAMES[job.state].decode()


# -- assertions -------------------------------------------------------------------------------------------------------


def assert_delivered(client: Client, *job_ids: bytes) -> None:
    """The client has just been given exactly these jobs, in this order, in one reply."""
    reply = client.read()
    assert isinstance(reply, list), reply
    assert [entry[1] for entry in reply] == list(job_ids)


def assert_still_waiting(*clients: Client) -> None:
    """No reply has come, and one is owed."""
    for client in clients:
        assert client.read() is NOTHING
        assert client.waiting


def all_jobs(node: Node) -> list[Job]:
    """Every job of a node."""
    return [job for shard in node.shards if shard for job in shard.values()]


def all_sessions(node: Node) -> list[Session]:
    """Those of clients, and those by which schedules add jobs."""
    return [*node.sessions.values(), *[one.session for one in node.schedules.open if one.session is not None]]


def assert_counters_are_true(node: Node) -> None:
    """Everything that a node keeps twice agrees."""
    jobs = all_jobs(node)
    assert node.jobs_registered() == len(jobs)
    assert_queues_are_true(node, jobs)
    assert_memory_is_true(node, jobs)
    assert_waits_are_true(node)
    assert_timers_are_true(node, jobs)
    assert {job_id for job_id, spread in node.copies.wanted.items() if spread.add is not None or spread.outside} == {
        job.id for job in jobs if job.state == WAIT_REPL
    }
    waiting = [spread for spread in node.copies.wanted.values() if spread.add is not None and spread.comes_here()]
    assert node.copies.inbound == Counter(spread.job.queue for spread in waiting)
    assert set(node.acks.by_id) == {job.id for job in jobs if job.state == ACKED} | set(node.acks.dummies)
    assert_claims_are_true(node)
    assert node.ends.done == Counter(end.queue for end in node.ends.by_id.values() if node.ends.counts(end))
    assert set(node.evictable) == {job.id for job in jobs if job.flags & SPENT}


def assert_it_can_be_sent(node: Node) -> None:
    """Every message that waits to leave is one of those that nodes know, and arrives as it left."""
    outgoing = [message for _, message in (*node.messages, *node.early, *node.membership.messages)]
    for message in outgoing:
        assert message[0] in KINDS
        assert decode(frame([encode_message(message)])[4:]) == [message]


def assert_claims_are_true(node: Node) -> None:
    """A claim belongs to a job that waits; a peer waits for nothing but wanted copies."""
    for job_id, claim in node.votes.by_id.items():
        job = node.find(job_id)
        assert job is claim.job
        assert job.state == ACTIVE
        assert job.requeue_ms
        assert len(job.holders) > 1 or claim.due_ms
    for peer in node.peers.values():
        assert all(node.copies.wanted.get(job_id) is spread for job_id, spread in peer.waiting.items())
    assert all(node.copies.wanted.get(job_id) is spread for job_id, spread in node.copies.short.items())


def assert_queues_are_true(node: Node, jobs: list[Job]) -> None:
    """Each queue holds exactly the queued jobs that name it, once each, in order."""
    queued: dict[bytes, list[Job]] = {}
    for job in jobs:
        assert (job.state == QUEUED) == (job.place in {IN_LINE, AMONG_RETURNED}), (job.id, job.state, job.place)
        if job.state == QUEUED:
            queued.setdefault(job.queue, []).append(job)
        assert not job.flags & SPENT or job.state == ACTIVE
    assert set(queued) <= set(node.queues)
    for name, queue in node.queues.items():
        wanted = sorted(queued.get(name, []), key=leaving_order)
        assert list(queue.jobs()) == wanted
        assert queue.length == len(wanted)
        assert queue.head() is (wanted[0] if wanted else None)
    assert {queue.name for queue in node.queue_index.look(0, 1 << 40)[1]} == set(node.queues)


def subscriptions_cost(node: Node) -> int:
    """What those who listen count for, by what their sessions say."""
    said = [one.subscriptions for one in node.sessions.values() if one.subscriptions is not None]
    names = [name for one in said for name in (*one.channels, *one.patterns)]
    topics = [*node.pubsub.channels.values(), *node.pubsub.patterns.values()]
    assert sum(len(topic.subscribers) for topic in topics) == len(names)
    assert all(topic.subscribers for topic in topics)
    assert [topic.name for topic in node.pubsub.index.look(0, 1 << 40)[1]] == list(node.pubsub.channels)
    return sum(SUBSCRIPTION_BYTES + len(name) for name in names)


def assert_memory_is_true(node: Node, jobs: list[Job]) -> None:
    """The accounted memory equals a recount."""
    recount = sum(memory.JOB_BYTES + len(job.body) for job in jobs)
    recount += sum(memory.QUEUE_BYTES + len(name) for name in node.queues)
    recount += sum(part.cost() for part in (*node.parts, *node.jobless)) + memory.GONE_BYTES * len(node.tombstones)
    recount += memory.PLACE_BYTES * node.places
    recount += subscriptions_cost(node)
    assert node.unread == sum(session.walked for session in node.sessions.values())
    assert node.used == recount
    if node.journaling:
        segments = [job.segment for job in jobs if job.segment]
        segments += [queue.segment for queue in node.queues.values() if queue.segment]
        segments += [key.segment for key in keys(node).values() if key.segment]
        segments += [ack.segment for ack in node.acks.by_id.values() if ack.segment]
        segments += [end.segment for end in node.ends.by_id.values() if end.segment]
        segments += [entry.segment for entry in node.registry.entries() if entry.segment]
        segments += [node.registry.purged_segment] if node.registry.purged_segment else []
        segments += [node.repairs.noted] if node.repairs.noted else []
        segments += [history.segment for history in node.histories.by_queue.values() if history.segment]
        assert {segment: count for segment, count in node.live.items() if count} == Counter(segments)


def assert_waits_are_true(node: Node) -> None:
    """Every waiting session is pointed to by exactly what it waits for."""
    leavers = set(node.leavers)
    assert node.places == sum(len(session.wait_queues) for session in {*node.sessions.values(), *leavers})
    assert all(session.waiting == WAIT_LINES or session.closing for session in leavers)
    for session in node.sessions.values():
        if session in leavers:
            continue
        in_lines = [queue for queue in node.queues.values() if session in (queue.waiters or ())]
        assert len(in_lines) == len(session.wait_queues)
        assert set(in_lines) == set(session.wait_queues)
        assert (session.waiting == WAIT_JOBS) == bool(in_lines)
        assert (session.waiting == WAIT_COPIES) == bool(session.adds)
        assert (session.waiting == WAIT_ENDS) == (session.id in node.ends.by_session)
        assert (session.waiting == WAIT_NODES) == (session.id in node.surveys.by_session)
        assert (session.waiting == WAIT_ENTRIES) == (session.id in node.registry.held)
        assert not session.adds or not session.adds[0].reply
        assert session.adds_bytes == sum(pending.size for pending in session.adds)
    owed = {pending for session in all_sessions(node) for pending in session.adds if not pending.reply}
    acquisitions = list(node.unique.acquisitions.values())
    in_lines_of_keys = [pending for one in acquisitions for pending in one.waiting or ()]
    in_lines_of_keys += [one.add for one in acquisitions if one.add is not None and one.add.spread is None]
    spread_for = [spread.add for spread in node.copies.wanted.values() if spread.add is not None]
    reasons = [*spread_for, *in_lines_of_keys, *node.retries]
    assert len(reasons) == len(set(reasons))
    assert set(reasons) <= owed
    for pending in owed:
        assert pending in reasons
        acquisition = pending.key
        assert acquisition is None or (pending is acquisition.add) != (pending in (acquisition.waiting or ()))
        assert acquisition is None or acquisition in acquisitions
    for queue in node.queues.values():
        assert queue.waiters is None or all(
            session in leavers or session in node.sessions.values() for session in queue.waiters
        )
        assert queue.ready == (queue in node.ready)
    for job_id, spread in node.copies.wanted.items():
        assert spread.job is node.find(job_id)
        assert spread.add is None or spread.add.spread is spread


def batches_of(node: Node) -> list[AckBatch]:
    """The batches of acknowledgements; each counts those that are left of it, and has a list with all of them."""
    left: dict[AckBatch, set[bytes]] = {}
    for job_id, ack in node.acks.by_id.items():
        if isinstance(ack, AckStage):
            assert ack.slot == IDLE
            left.setdefault(ack.batch, set()).add(job_id)
    for batch, ids in left.items():
        assert batch.left == len(ids)
        assert ids <= set(batch.ids)
    return list(left)


def assert_timers_are_true(node: Node, jobs: list[Job]) -> None:
    """No timer without an item, no live job without a timer."""
    armed = [key for key in node.unique.table.values() if key.state != TENTATIVE or key.owner != node.node_id]
    acquisitions = [one for one in node.unique.acquisitions.values() if one.slot != IDLE]
    sessions = [session for session in node.sessions.values() if session.slot != IDLE]
    adds = [pending for session in all_sessions(node) for pending in session.adds if pending.slot != IDLE]
    live = [job for job in jobs if job.state != ACKED]
    acks = [ack for ack in node.acks.by_id.values() if not isinstance(ack, AckStage)]
    batches = batches_of(node)
    told = list(node.moves.by_id.values())
    surveys = [survey for survey in node.surveys.by_number.values() if survey.slot != IDLE]
    ends = node.ends.by_id.values()
    waits: list[Timed] = [wait for wait in node.ends.by_session.values() if wait.slot != IDLE]
    waits += [wanted for wanted in node.ends.wanted.values() if wanted.slot != IDLE]
    assert all(survey in surveys for survey in node.surveys.by_number.values() if survey.open - {node.node_id})
    for item in (*live, *node.queues.values(), *armed, *acks, *batches, *node.votes.by_id.values(), *told, *ends):
        assert item.slot != IDLE, item
        assert item.due_ms > 0
    for job in live:
        assert job.due_ms <= job.expires_ms
        if job.id in node.votes.by_id:
            continue
        if job.state == ACTIVE and job.requeue_ms:
            assert job.due_ms <= job.requeue_ms
    assert all(session.waiting in {WAIT_JOBS, WAIT_LOGIN} for session in sessions)
    asked_and_votes = (acquisitions, node.votes.by_id)
    timed = (live, node.queues, armed, *asked_and_votes, sessions, adds, acks, batches, surveys, told, ends, waits)
    alone = (node.unique.store.slot != IDLE) + (node.schedules.alarm.slot != IDLE)
    assert node.timers.count == alone + sum(map(len, timed))
    assert {job.id for job in jobs if job.flags & EXTRA} == set(node.extras.by_id)
    assert all(node.find(job_id) is move.job for job_id, move in node.moves.by_id.items())
    assert_the_store_is_true(node)
    assert_watches_are_true(node)
    asking = {key.job_id for key in node.unique.table.values() if key.state == TENTATIVE or key.told is not None}
    lasting = {key.job_id for key in node.unique.table.values() if not key.expires_ms or key.is_pending}
    assert set(node.unique.by_job) == lasting | asking
    attempts = [one for one in node.unique.acquisitions.values() if one.job_id and not one.decided]
    assert {one.job_id for one in attempts} == set(node.unique.attempts)


def assert_watches_are_true(node: Node) -> None:
    """What this node wants to hear of, somebody here waits for; what is kept twice of watches agrees."""
    ends = node.ends
    assert {(job_id, one) for job_id, nodes in ends.watched.items() for one in nodes} == {
        (job_id, one) for one, ids in ends.by_node.items() for job_id in ids
    }
    assert all(ends.watched.values())
    assert set(ends.by_node.get(node.node_id, ())) <= set(ends.wanted)
    for job_id, wanted in ends.wanted.items():
        assert wanted.id == job_id
        assert wanted.waits
        assert not wanted.status
        assert all(wanted in wait.wanted and ends.by_session[wait.session.id] is wait for wait in wanted.waits)
    for wait in ends.by_session.values():
        assert all(wait in wanted.waits for wanted in wait.wanted)
        assert wait.left == len({wanted for wanted in wait.wanted if not wanted.status})
        assert wait.is_over == (wait in ends.over)
    assert ends.strange == sum(end.strange_size() for end in ends.by_id.values())


def assert_the_store_is_true(node: Node) -> None:
    """In the store are exactly the keys with a window about which nothing is asked; it is due when a second is over."""
    resting = [key for digest, key in keys(node).items() if digest not in node.unique.table]
    assert len(resting) == node.unique.store.count
    assert all(key.rests() for key in resting)
    assert not any(key.rests() for key in node.unique.table.values())
    assert all(node.unique.store.next_ms() <= key.expires_ms // 1000 * 1000 + 1000 for key in resting)
    assert node.unique.store.next_ms() == (node.unique.store.due_ms or NEVER)


def as_read(record: Record) -> tuple[Any, ...]:
    """A record as replay gets it."""
    return tuple([tuple(value) if type(value) is list else value for value in record])
