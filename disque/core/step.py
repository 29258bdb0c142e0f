"""The only doors to a node: `command`, `message`, `tick`, `settle`.

Whatever happens to a node happens through one of them, with the time handed in. They never fail for what a client or
another node sends: a request that is wrong gets an error reply, a message that is not understood is skipped and
counted.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from cluster.messages import GOTJOB
from disque.core import adding, delivery, errors, memory, queues, replication, requeue, resp
from disque.core.job import Job
from disque.core.queue import Queue
from disque.core.session import REPLY_ON, REPLY_SKIP, REPLY_SKIPPING, WAIT_HOST, WAIT_JOBS, PendingAdd, Session
from disque.core.table import DENYOOM, FAST, LOADING, NO_AUTH, SKIP_MONITOR, WRITE, Command
from disque.core.timers import Timed
from disque.core.unique import Key

if TYPE_CHECKING:
    from disque.core.node import Message, Node

#: Timers that one tick handles, so that a hundred thousand jobs due together stop nobody.
TICK_MOST: Final = 1000

#: Words of these commands that MONITOR and SLOWLOG must not show.
SECRETS: Final = frozenset({b"auth", b"hello"})


def command(node: "Node", session: Session, args: list[bytes], now_ms: int) -> Command | None:
    """Execute one request of at least one word. The row of the command that ran, or None when none did.

    Replies are in ``session.out`` or will be, when ``session.waiting`` says so. The order of the checks is Disque's.
    """
    row = node.lookup.get(args[0])
    if row is None:
        row = node.lookup.get(args[0].lower())
        if row is None:
            refuse(session, errors.unknown_command(args[0]))
            return None
    arity = row.arity
    wrong_count = len(args) != arity if arity > 0 else len(args) < -arity
    if wrong_count or node.password or node.misconf or node.loading or node.used > node.limits.full:
        wrong = refusal(node, session, row, args)
        if wrong:
            refuse(session, wrong)
            return None
    if node.monitors and not row.flags & SKIP_MONITOR:
        show_monitors(node, session, row, args)
    session.command = row.name
    if session.reply_mode:
        silently(node, session, row, args, now_ms)
    else:
        row.function(node, session, args, now_ms)
    return row


def refusal(node: "Node", session: Session, row: Command, args: list[bytes]) -> bytes:
    """Why a command must not run now, or nothing: the one place that decides, in Disque's order."""
    flags = row.flags
    if not row.accepts(len(args)):
        wrong = errors.wrong_arity(row.name)
    elif not flags & NO_AUTH and not session.may(node.password):
        wrong = errors.NO_AUTH
    elif flags & DENYOOM and node.used > node.limits.full and not has_room(node, args):
        wrong = errors.OUT_OF_MEMORY
    elif node.misconf and flags & WRITE:
        wrong = node.misconf
    elif node.loading and not flags & LOADING:
        wrong = errors.LOADING
    else:
        wrong = b""
    return wrong


def refuse(session: Session, text: bytes) -> None:
    """Answer a request that is not executed."""
    if session.reply_mode == REPLY_ON:
        session.out.append(resp.error(text))
    elif session.reply_mode == REPLY_SKIP:
        session.reply_mode = REPLY_ON


def silently(node: "Node", session: Session, row: Command, args: list[bytes], now_ms: int) -> None:
    """Execute a command of a client that wants no reply to it, now or when it has waited."""
    if session.reply_mode == REPLY_SKIP:
        session.reply_mode = REPLY_SKIPPING
    replies, handed = len(session.out), len(session.handed)
    row.function(node, session, args, now_ms)
    if session.reply_mode == REPLY_ON:
        return  # CLIENT REPLY ON, RESET
    if session.reply_mode == REPLY_SKIPPING:
        session.reply_mode = REPLY_ON
    del session.out[replies:]
    del session.handed[handed:]
    session.wait_silent = session.waiting in {WAIT_JOBS, WAIT_HOST}
    if session.adds:
        session.adds[-1].silent = True


def has_room(node: "Node", args: list[bytes]) -> bool:
    """Whether a command that needs memory may run: a UNIQUE ADDJOB may find its job there, so it is let in."""
    return memory.make_room(node) or (len(args) > 6 and b"UNIQUE" in [word.upper() for word in args[4:]])


def show_monitors(node: "Node", session: Session, row: Command, args: list[bytes]) -> None:
    """Tell those who monitor what is executed; passwords are left out."""
    seconds, micros = divmod(node.host.wall_us(), 1_000_000)
    words = b" ".join([quoted(word) for word in visible(row, args)])
    plain = b"+%d.%06d [%b] %b\r\n" % (seconds, micros, session.address, words)
    numbered = plain.replace(b"[", b"[0 ", 1)  # Redis shows a database, and its clients look for it
    for watcher in node.monitors.values():
        watcher.out.append(numbered if watcher.protocol >= 3 else plain)
        node.touch(watcher)


def visible(row: Command, args: list[bytes]) -> list[bytes]:
    """The words of a request that may be shown."""
    secret = row.name in SECRETS and len(args) > 1
    if row.name == b"config" and len(args) > 3 and args[2].lower() == b"requirepass":
        return [*args[:3], b"(redacted)"]
    return [args[0], b"(redacted)"] if secret else args


ESCAPES: Final = {34: b'\\"', 92: b"\\\\", 10: b"\\n", 13: b"\\r", 9: b"\\t", 7: b"\\a", 8: b"\\b"}


def quoted(word: bytes) -> bytes:
    """A word in double quotes, everything that does not print escaped."""
    if word.isalnum():
        return b'"%b"' % word
    shown = [ESCAPES.get(char) or (b"%c" % char if 32 <= char < 127 else b"\\x%02x" % char) for char in word]
    return b'"%b"' % b"".join(shown)


def account(node: "Node", session: Session, row: Command, args: list[bytes], spent_us: float, now_ms: int) -> None:
    """A command took so long that SLOWLOG or LATENCY want to know.

    The connection measures; counting calls is done there too.
    """
    threshold_us = node.config.number("slowlog-log-slower-than")
    if 0 <= threshold_us <= spent_us and row.name != b"slowlog":
        node.slowlog.add(now_ms // 1000, int(spent_us), visible(row, args))
    threshold_ms = node.config.number("latency-monitor-threshold")
    if 0 < threshold_ms <= spent_us / 1000:
        node.latency.add(b"fast-command" if row.flags & FAST else b"command", now_ms // 1000, int(spent_us / 1000))
    del session


Receiver = Callable[["Node", bytes, tuple[object, ...], int], None]

#: What each message of another node does.
MESSAGES: Final[dict[int, Receiver]] = {
    GOTJOB: replication.got_job,
}


def message(node: "Node", peer: bytes, received: "Message", now_ms: int) -> None:
    """Take one message from the node with ID ``peer``: kind first. Kinds that are not known are skipped and counted."""
    kind = received[0] if received else None
    receiver = MESSAGES.get(kind) if isinstance(kind, int) else None
    if receiver is None:
        node.messages_skipped += 1
    else:
        receiver(node, peer, received, now_ms)


def tick(node: "Node", now_ms: int) -> None:
    """Do what is due, at most so much that nobody notices; `next_due_ms` of the node says when to come back."""
    items = node.timers.due(now_ms, TICK_MOST)
    items.reverse()
    try:
        while items:
            due(node, items.pop(), now_ms)
    finally:
        for item in items:  # a fault of ours in one of them must not cost the others their timers
            node.timers.arm(item, now_ms)
    if node.trash:
        free_some(node)


def due(node: "Node", item: Timed, now_ms: int) -> None:
    """Do what ``item`` was armed for."""
    if isinstance(item, Job):
        requeue.due(node, item, now_ms)
    elif isinstance(item, Session):
        delivery.time_out(node, item)
    elif isinstance(item, Queue):
        queues.due(node, item, now_ms)
    elif isinstance(item, PendingAdd):
        replication.time_out(node, item)
    else:
        assert isinstance(item, Key)
        node.drop_key(item)


def free_some(node: "Node") -> None:
    """Free a part of what was forgotten: to free a million jobs or queues at once takes a second."""
    some = node.trash[-1]
    for _ in range(min(len(some), TICK_MOST)):
        some.popitem()
    if not some:
        node.trash.pop()


def settle(node: "Node", now_ms: int) -> None:
    """Once before each flush: serve those who wait for jobs, try again the ADDJOBs whose rival failed."""
    while node.retries:
        adding.again(node, node.retries.popleft(), now_ms)
    if node.ready:
        delivery.serve_lines(node, now_ms)
