"""QSCAN and JSCAN: walks through queues and jobs that need no memory between calls.

JSCAN's cursor is the number of the next dict of jobs: a job never moves to another one. Behind the last dict it goes on
with the number of the next end that is kept, if such are asked for. QSCAN's is the number of the next queue. These two
are numbers of an index (see `model.index`). An element that is there throughout a walk is returned.

With BUSYLOOP the client waits for a whole walk, and others do not: what one turn does not reach is done in the ticks,
one walk after the other. Its reply can be as large as all jobs, so while clients do not read such replies, and they are
too many bytes together, the other walks stand still. METRICS, PUBSUB CHANNELS and ACL LIST are such walks, too.
"""

from typing import TYPE_CHECKING, Final

from disque.core.base import errors, resp
from disque.core.base.numbers import parse_int, parse_uint64
from disque.core.commands import show
from disque.core.federation.supply import import_rate
from disque.core.jobs import census, results
from disque.core.jobs.deliver import LARGE_REPLY
from disque.core.model.claims import READ
from disque.core.model.ends import ENDINGS, End
from disque.core.model.ends import NAMES as END_NAMES
from disque.core.model.job import STATE_NAMES, Job, is_in_flight
from disque.core.model.queue import Queue
from disque.core.model.session import NOT_WAITING, WAIT_SCAN, Session
from disque.core.model.sliced import Sliced
from disque.core.replication.ends import words_of

if TYPE_CHECKING:
    from disque.core.node import Node

#: What one turn does, whatever the COUNT: elements that it looks at, and bytes of the reply. It ends with the hundred
#: queues, or the dict of jobs, that reaches this.
LOOK_MOST = 10_000  # not Final: tests want less, compiled too
BYTES_MOST = 1 << 18  # not Final: tests want less, compiled too
#: The same for a tick, which goes on with a walk.
TICK_LOOK_MOST = 2000  # not Final: tests want less, compiled too


class ScanOptions:
    """The words of QSCAN or JSCAN as values; -1 stands for "not given"."""

    __slots__ = ("busy", "count", "cursor", "import_rate", "max_length", "min_length", "queue", "show", "states")

    def __init__(self) -> None:
        self.cursor = -1
        self.count = 100
        self.busy = False
        self.min_length = -1
        self.max_length = -1
        self.import_rate = -1
        self.queue: bytes | None = None
        self.states = 0
        self.show = False

    def number(self, word: bytes, value: int) -> None:
        """Take one of the options that carry a number."""
        if word == b"COUNT":
            self.count = value if value >= 0 else 2**62
        elif word == b"MINLEN":
            self.min_length = value
        elif word == b"MAXLEN":
            self.max_length = value
        else:
            self.import_rate = value


QUEUE_NUMBERS = frozenset({b"COUNT", b"MINLEN", b"MAXLEN", b"IMPORTRATE"})
#: States that JSCAN knows: those of jobs, what QSTAT counts beside them, and those of jobs that have ended.
STATES: Final = (*STATE_NAMES, b"delayed", b"in-flight", *[END_NAMES[one] for one in ENDINGS])
DELAYED: Final = 1 << 4
IN_FLIGHT: Final = 1 << 5
#: The bit of DONE, and all those before it.
ENDED: Final = 6
OF_JOBS: Final = (1 << ENDED) - 1
JOB_NUMBERS = frozenset({b"COUNT"})
JOB_WORDS = frozenset({b"QUEUE", b"STATE", b"REPLY"})
NO_WORDS: frozenset[bytes] = frozenset()


def parse(args: list[bytes], numbers: frozenset[bytes], words: frozenset[bytes]) -> ScanOptions | bytes:
    """The words of a scan as values, or the text of the error."""
    options = ScanOptions()
    at = 1
    while at < len(args):
        word = args[at].upper()
        more = at + 1 < len(args)
        if word in numbers and more:
            value = parse_int(args[at + 1])
            wrong = errors.NOT_AN_INTEGER if value is None else b""
            options.number(word, value or 0)
            at += 2
        elif word in words and more:
            wrong = take_word(options, word, args[at + 1])
            at += 2
        elif word == b"BUSYLOOP":
            options.busy, wrong = True, b""
            at += 1
        else:
            wrong = take_cursor(options, args[at])
            at += 1
        if wrong:
            return wrong
    return options


def take_word(options: ScanOptions, word: bytes, value: bytes) -> bytes:
    """Take QUEUE, STATE or REPLY; returns the text of an error, or nothing."""
    if word == b"QUEUE":
        options.queue = value
        return b""
    if word == b"STATE":
        if value.lower() not in STATES:
            return errors.BAD_STATE
        options.states |= 1 << STATES.index(value.lower())
        return b""
    if value.upper() not in {b"ALL", b"ID"}:
        return errors.BAD_REPLY_TYPE
    options.show = value.upper() == b"ALL"
    return b""


def take_cursor(options: ScanOptions, word: bytes) -> bytes:
    """Take the one word that is no option; returns the text of an error, or nothing."""
    if options.cursor >= 0:
        return errors.SYNTAX
    cursor = parse_uint64(word)
    if cursor is None:
        return errors.BAD_CURSOR
    options.cursor = cursor
    return b""


class Walk(Sliced):
    """A QSCAN or JSCAN under way. ``parts`` is its reply so far, with ``found`` elements."""

    __slots__ = ("cursor", "found", "of_jobs", "options", "parts")

    def __init__(self, session: Session, options: ScanOptions, *, of_jobs: bool) -> None:
        super().__init__(session)
        self.options = options
        self.of_jobs = of_jobs
        self.cursor = max(options.cursor, 0)
        self.parts: list[bytes] = []
        self.found = 0

    def go_on(self, node: "Node", look_most: int, now_ms: int) -> bool:
        """Do one turn's part; whether the walk is through."""
        most = look_most if self.options.busy else min(self.options.count * 10, look_most)
        upto = self.size + BYTES_MOST
        looked = 0
        while True:
            looked += self.look(node, now_ms)
            if not self.cursor:
                return True
            if looked >= most or self.size >= upto or (not self.options.busy and self.found >= self.options.count):
                return not self.options.busy

    def look(self, node: "Node", now_ms: int) -> int:
        """Look at some elements; returns as how many they count. The cursor is 0 behind the last ones."""
        return self._look_at_jobs(node, now_ms) if self.of_jobs else self._look_at_queues(node, now_ms)

    def _look_at_queues(self, node: "Node", now_ms: int) -> int:
        self.cursor, some = node.queue_index.look(self.cursor, 100)
        user = self.session.user
        found = [queue.name for queue in some if suits(queue, self.options, now_ms)]
        self.take([resp.bulk(name) for name in found if user.all_queues or user.sees(name)])
        return 100 * user.looks()

    def _look_at_jobs(self, node: "Node", now_ms: int) -> int:
        options = self.options
        if self.cursor == 0 and options.states and not options.states & OF_JOBS:
            self.cursor = len(node.shards)
        if self.cursor >= len(node.shards):
            return self._look_at_ends(node, now_ms)
        shard = node.shards[self.cursor]
        user = self.session.user
        some = [job for job in shard.values() if matches(job, options)]
        if not user.all_queues:
            some = [job for job in some if user.may(job.queue, READ)]
        if options.show:
            protocol = self.session.protocol
            shown = [piece for job in some for piece in show.pieces(node, job, protocol, now_ms)]
            self.take(shown, len(some))
        else:
            self.take([resp.status(job.id) for job in some])
        self.cursor += 1
        if self.cursor >= len(node.shards) and not options.states >> ENDED:
            self.cursor = 0
        return len(shard) * user.looks()

    def _look_at_ends(self, node: "Node", now_ms: int) -> int:
        options, shards = self.options, len(node.shards)
        most = 1 if options.show else 100  # results and bodies may be long
        number, some = node.ends.index.look(self.cursor - shards, most) if options.states >> ENDED else (0, [])
        self.cursor = shards + number if number else 0
        user = self.session.user
        ends = [end for end in some if suits_end(end, options) and (user.all_queues or user.may(end.queue, READ))]
        if options.show:
            protocol = self.session.protocol
            self.take([results.shown(end.id, words_of(end, now_ms), protocol, end.body) for end in ends])
        else:
            self.take([resp.status(end.id) for end in ends])
        return most * user.looks()

    def take(self, shown: list[bytes], count: int = -1) -> None:
        """Let these pieces of ``count`` elements be part of the reply; without it, each is one."""
        size = sum([len(piece) for piece in shown])
        self.found += len(shown) if count < 0 else count
        self.size += size
        if size >= LARGE_REPLY:
            self.parts += shown
        else:
            self.parts.append(b"".join(shown))

    def head(self) -> bytes:
        """What stands before the elements."""
        return b"*2\r\n%b*%d\r\n" % (resp.bulk(b"%d" % self.cursor), self.found)

    def reply(self) -> list[bytes]:
        """The reply: in pieces if it is large, which nobody copies."""
        pieces = [self.head(), *self.parts]
        return pieces if self.size >= LARGE_REPLY else [b"".join(pieces)]


class Listing(Walk):
    """The list of another command, which says how to `look`: the reply is an array of all elements that it takes."""

    __slots__ = ()

    def __init__(self, session: Session) -> None:
        super().__init__(session, ScanOptions(), of_jobs=False)
        self.options.busy = True

    def head(self) -> bytes:
        """There is no cursor in the reply."""
        return b"*%d\r\n" % self.found


def start(node: "Node", session: Session, args: list[bytes], now_ms: int, *, of_jobs: bool) -> None:
    """Answer a QSCAN or JSCAN, now or when its walk is through."""
    options = parse(args, JOB_NUMBERS, JOB_WORDS) if of_jobs else parse(args, QUEUE_NUMBERS, NO_WORDS)
    if isinstance(options, bytes):
        session.out.append(resp.error(options))
        return
    begin(node, Walk(session, options, of_jobs=of_jobs), now_ms)


def begin(node: "Node", walk: Walk, now_ms: int) -> None:
    """Do the first part of a walk, and answer it, or let the client wait until the ticks have done the others."""
    if walk.go_on(node, LOOK_MOST, now_ms):
        answer(walk.session, walk.reply())
    else:
        walk.session.waiting = WAIT_SCAN
        node.walks.append(walk)


def go_on(node: "Node", now_ms: int) -> None:
    """Do a part of the first walk that a client waits for: only one at a time fills memory with its reply."""
    walk = node.walks[0]
    assert isinstance(walk, Walk)
    session = walk.session
    try:
        if not session.closing and not walk.go_on(node, TICK_LOOK_MOST, now_ms):
            return
        reply = walk.reply()
    except Exception:
        finish(node, session, [resp.error(errors.INTERNAL)])
        session.closing = True
        raise
    finish(node, session, reply)


def answer(session: Session, reply: list[bytes]) -> None:
    """Reply, in one piece or in several."""
    if len(reply) > 1:
        session.large = True
    session.out += reply


def finish(node: "Node", session: Session, reply: list[bytes]) -> None:
    """The first walk is over."""
    node.walks.popleft()
    if session.closing:
        return
    session.waiting = NOT_WAITING
    if session.wait_silent:
        session.wait_silent = False
    else:
        answer(session, reply)
        session.walked = sum([len(piece) for piece in reply])
        node.unread += session.walked
    node.touch(session)


def suits(queue: Queue, options: ScanOptions, now_ms: int) -> bool:
    """Whether a QSCAN wants ``queue``."""
    too_short = options.min_length >= 0 and queue.length < options.min_length
    too_long = options.max_length >= 0 and queue.length > options.max_length
    too_slow = options.import_rate > 0 and import_rate(queue, now_ms) < options.import_rate
    return not too_short and not too_long and not too_slow


def matches(job: Job, options: ScanOptions) -> bool:
    """Whether a JSCAN wants ``job``."""
    if options.queue is not None and job.queue != options.queue:
        return False
    if options.states and not is_in_one_of(job, options.states):
        return False
    return bool(job.holders)


def suits_end(end: End, options: ScanOptions) -> bool:
    """Whether a JSCAN wants a job that has ended so: it is kept, and that it has ended is known for sure here."""
    is_kept = end.lasts and not end.is_strange and not end.sure_ms
    if not is_kept or (options.queue is not None and end.queue != options.queue):
        return False
    return options.states >> (ENDED + ENDINGS.index(end.status)) & 1 > 0


def is_in_one_of(job: Job, states: int) -> bool:
    """Whether ``job`` is in one of these states."""
    state: int = job.state  # a byte that is compiled would make one of ``states``
    if states >> state & 1:
        return True
    if states < DELAYED or not census.is_out(job):
        return False
    return states & (IN_FLIGHT if is_in_flight(job) else DELAYED) != 0
