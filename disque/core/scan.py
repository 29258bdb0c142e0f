"""QSCAN and JSCAN: walks through queues and jobs that need no memory between calls.

JSCAN's cursor is the number of the next dict of jobs: a job never moves to another one. QSCAN's is the number of the
next queue (see `roll`). An element that is there throughout a walk is returned.
"""

from typing import TYPE_CHECKING

from disque.core import errors, resp, show
from disque.core.federation import import_rate
from disque.core.job import STATE_NAMES, Job
from disque.core.numbers import parse_int, parse_uint64

if TYPE_CHECKING:
    from disque.core.node import Node

#: What one call without BUSYLOOP does, whatever its COUNT: elements that it looks at, and bytes of its reply. It ends
#: with the hundred queues, or the dict of jobs, that reaches this.
LOOK_MOST = 10_000  # not Final: tests want less, compiled too
BYTES_MOST = 1 << 18  # not Final: tests want less, compiled too

Found = tuple[int, list[bytes]]


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

    def enough(self, found: int, looked: int, size: int) -> bool:
        """Whether the call ends: it found what was asked for, or has looked at so much that others want their turn."""
        if self.busy:
            return False
        return found >= self.count or looked >= min(self.count * 10, LOOK_MOST) or size >= BYTES_MOST

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
        if value.lower() not in STATE_NAMES:
            return errors.BAD_STATE
        options.states |= 1 << STATE_NAMES.index(value.lower())
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


def queues(node: "Node", args: list[bytes], now_ms: int) -> Found | bytes:
    """The next queues of a QSCAN, or the text of an error."""
    options = parse(args, QUEUE_NUMBERS, NO_WORDS)
    if isinstance(options, bytes):
        return options
    cursor = max(options.cursor, 0)
    names: list[bytes] = []
    looked = size = 0
    while True:
        cursor, some = node.roll.look(cursor, 100)
        for queue in some:
            too_short = options.min_length >= 0 and queue.length < options.min_length
            too_long = options.max_length >= 0 and queue.length > options.max_length
            too_slow = options.import_rate > 0 and import_rate(queue, now_ms) < options.import_rate
            if not too_short and not too_long and not too_slow:
                names.append(resp.bulk(queue.name))
                size += len(queue.name)
        looked += 100
        if not cursor or options.enough(len(names), looked, size):
            return cursor, names


def jobs(node: "Node", args: list[bytes], protocol: int, now_ms: int) -> Found | bytes:
    """The next jobs of a JSCAN, or the text of an error."""
    options = parse(args, JOB_NUMBERS, JOB_WORDS)
    if isinstance(options, bytes):
        return options
    cursor = max(options.cursor, 0)
    found: list[bytes] = []
    looked = size = 0
    while cursor < len(node.shards):
        some = [job for job in node.shards[cursor].values() if matches(job, options)]
        if options.show:
            shown = [show.encode(node, job, protocol, now_ms) for job in some]
        else:
            shown = [resp.status(job.id) for job in some]
        found += shown
        size += sum(map(len, shown))
        looked += len(node.shards[cursor])
        cursor += 1
        if options.enough(len(found), looked, size):
            break
    return (cursor if cursor < len(node.shards) else 0), found


def matches(job: Job, options: ScanOptions) -> bool:
    """Whether a JSCAN wants ``job``."""
    if options.queue is not None and job.queue != options.queue:
        return False
    if options.states and not options.states >> job.state & 1:
        return False
    return bool(job.holders)


def encode(cursor: int, found: list[bytes]) -> bytes:
    """The reply of a scan."""
    return resp.array([resp.bulk(b"%d" % cursor), resp.array(found)])
