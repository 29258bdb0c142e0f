"""The commands about queues: QLEN, QPEEK, QSTAT, QSCAN, JSCAN, PAUSE."""

from typing import TYPE_CHECKING, Final

from disque.core import entries, questions
from disque.core.base import errors, resp
from disque.core.base.numbers import parse_int
from disque.core.commands import scan
from disque.core.dedup import finding, keys
from disque.core.jobs import deliver, figures
from disque.core.jobs.queues import pause, pause_flags
from disque.core.model import claims as may
from disque.core.model.claims import Claims
from disque.core.model.command import CHANGES, FAST, READONLY, Command
from disque.core.model.job import Job
from disque.core.model.queue import PAUSE_NAMES, PAUSED_IN, PAUSED_OUT
from disque.core.model.registry import PAUSED_QUEUE
from disque.core.model.session import Session

if TYPE_CHECKING:
    from disque.core.node import Node

#: Bounds of one QPEEK: jobs that it shows, and bytes of their bodies.
PEEK_MOST = 10_000  # not Final: tests want less, compiled too
PEEK_BYTES_MOST = 8 << 20  # not Final: tests want less, compiled too


def qlen(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """QLEN: how many jobs are in the queue on this node, or on all together."""
    if len(args) == 2:
        session.out.append(resp.integer(figures.length(node, args[1])))
    elif is_of_cluster(args):
        questions.ask(node, session, figures.Lengths(args[1]), now_ms)
    else:
        session.out.append(resp.error(errors.wrong_arity(b"qlen")))


def is_of_cluster(args: list[bytes]) -> bool:
    """Whether the one word behind the name of a queue is CLUSTER."""
    return len(args) == 3 and args[2].upper() == b"CLUSTER"


def find(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """FIND: the job that has a UNIQUE key of the queue."""
    if not 1 <= len(args[2]) <= keys.KEY_MAX or node.misconf:
        session.out.append(resp.error(node.misconf or errors.BAD_KEY))
        return
    digest = keys.digest_of(args[1], args[2])
    everywhere = not finding.is_sure(node, digest, now_ms)
    questions.ask(node, session, finding.Finding(digest, session.protocol), now_ms, everywhere=everywhere)


def qpeek(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """QPEEK: jobs as GETJOB would give them, which stay; a negative count shows the last, from the end."""
    del now_ms
    count = parse_int(args[2])
    if count is None:
        session.out.append(resp.error(errors.NOT_AN_INTEGER))
        return
    queue = node.queues.get(args[1])
    jobs = queue.peek(max(-PEEK_MOST, min(count, PEEK_MOST))) if queue is not None and count else []
    shown: list[Job] = []
    size = 0
    for job in jobs:
        shown.append(job)
        size += len(job.body) + len(args[1])
        if size >= PEEK_BYTES_MOST:
            break
    reply = deliver.encode(node, shown, counters=False, bodies=True)
    if len(reply) > 1:
        session.large = True
    session.out += reply


def qstat(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """QSTAT: figures of one queue at this node or at all together, or nothing where there is none."""
    is_whole = is_of_cluster(args)
    if len(args) > 2 and not is_whole:
        session.out.append(resp.error(errors.wrong_arity(b"qstat")))
    elif not is_whole and args[1] not in node.queues:
        session.out.append(resp.null_array(session.protocol))
    else:
        totals = figures.Totals(args[1], session.protocol, is_whole=is_whole)
        questions.ask(node, session, totals, now_ms, everywhere=is_whole)


def qscan(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """QSCAN: names of queues, some at a time."""
    scan.start(node, session, args, now_ms, of_jobs=False)


def jscan(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """JSCAN: jobs, some at a time."""
    scan.start(node, session, args, now_ms, of_jobs=True)


PAUSE_WORDS: Final = {
    b"IN": PAUSED_IN,
    b"OUT": PAUSED_OUT,
    b"ALL": PAUSED_IN | PAUSED_OUT,
    b"NONE": 0,
    b"STATE": 0,
    b"BCAST": 0,
}


def pause_queue(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """PAUSE: stop a queue from taking jobs in, from giving them out, or both; the reply is how it stands now."""
    words = [word.upper() for word in args[2:]]
    if any(word not in PAUSE_WORDS for word in words):
        session.out.append(resp.error(errors.SYNTAX))
        return
    flags = 0
    wanted = False
    for word in words:
        if word == b"NONE":
            flags, wanted = 0, True
        elif PAUSE_WORDS[word]:
            flags, wanted = flags | PAUSE_WORDS[word], True
    if (wanted or b"BCAST" in words) and node.misconf:
        session.out.append(resp.error(node.misconf))
        return
    if flags and not node.may_make_queues(args[1:2]):
        session.out.append(resp.error(errors.OUT_OF_MEMORY))
        return
    if not wanted:
        flags = pause_flags(node, args[1])
    if b"BCAST" in words and not pause_everywhere(node, session, args, flags, now_ms):
        return
    if wanted:
        pause(node, args[1], flags, now_ms)
        entries.settled(node, (PAUSED_QUEUE, args[1], b""))
    session.out.append(resp.status(PAUSE_NAMES[pause_flags(node, args[1])]))


def walked(args: list[bytes]) -> Claims:
    """JSCAN may name a queue; else it shows the jobs that its client may look at."""
    options = scan.parse(args, scan.JOB_NUMBERS, scan.JOB_WORDS)
    claims = Claims()
    if isinstance(options, scan.ScanOptions) and options.queue is not None:
        claims.queues.append((options.queue, may.READ))
    return claims


def paused(args: list[bytes]) -> Claims:
    """PAUSE is for who may do anything with the queue; to look is for who may look."""
    changes = [word for word in args[2:] if word.upper() != b"STATE"]  # BCAST alone tells others how it is here
    return may.of_queue(args, may.READ, may.WRITE) if changes else may.looks(args)


def pause_everywhere(node: "Node", session: Session, args: list[bytes], flags: int, now_ms: int) -> bool:
    """Let all nodes know how a queue stands. False if that was refused, or the client has to wait."""
    if entries.must_wait(node, session, args, now_ms):
        return False
    value = b"%d" % flags if flags else b""
    wrong = entries.set_value(node, (PAUSED_QUEUE, args[1], b""), value, now_ms, deleted=not flags)
    if wrong:
        session.out.append(resp.error(wrong))
    return not wrong


COMMANDS: Final = (
    Command(
        "qlen",
        -2,
        READONLY | FAST,
        qlen,
        "queues",
        "queue [CLUSTER]",
        "Length of a queue on this node, or on all nodes together.",
        touches=may.looks,
    ),
    Command(
        "find",
        3,
        READONLY,
        find,
        "queues",
        "queue key",
        "The job that has a UNIQUE key, on any node.",
        touches=lambda args: may.of_queue(args, may.EITHER),
    ),
    Command(
        "qpeek",
        3,
        READONLY,
        qpeek,
        "queues",
        "queue count",
        "Look at jobs without taking them.",
        touches=may.looks,
    ),
    Command(
        "qstat",
        -2,
        READONLY | FAST,
        qstat,
        "queues",
        "queue [CLUSTER]",
        "Figures of a queue on this node, or on all nodes together.",
        touches=may.looks,
    ),
    Command(
        "qscan",
        -1,
        READONLY,
        qscan,
        "queues",
        "[cursor] [COUNT n] [BUSYLOOP] [MINLEN n] [MAXLEN n] [IMPORTRATE n]",
        "Walk through the queues.",
        touches=may.nothing,
    ),
    Command(
        "jscan",
        -1,
        READONLY,
        jscan,
        "queues",
        "[cursor] [COUNT n] [BUSYLOOP] [QUEUE queue] [STATE state ...] [REPLY ALL|ID]",
        "Walk through the jobs.",
        touches=walked,
    ),
    Command(
        "pause",
        -3,
        READONLY | FAST | CHANGES,
        pause_queue,
        "queues",
        "queue option [option ...]",
        "Pause a queue (in, out, all), let it go on (none), or ask (state).",
        (
            ("in", "", "Take no new jobs in."),
            ("out", "", "Give no jobs out."),
            ("all", "", "Both."),
            ("none", "", "Neither."),
            ("state", "", "Only show the state."),
            ("bcast", "", "Tell all nodes."),
        ),
        touches=paused,
    ),
)
