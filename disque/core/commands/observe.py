"""The commands that watch a node: SLOWLOG, LATENCY, MONITOR, COMMAND, TIME."""

from typing import TYPE_CHECKING, Final

from disque.core.base import errors, resp
from disque.core.base.numbers import parse_int
from disque.core.commands.helped import helped
from disque.core.model import claims as may
from disque.core.model.command import ADMIN, DANGEROUS, FAST, HELP, LOADING, READONLY, Command
from disque.core.model.session import Session

if TYPE_CHECKING:
    from disque.core.node import Node

BAD_SLOWLOG: Final = b"ERR Unknown SLOWLOG subcommand or wrong # of args. Try GET, RESET, LEN."


def slowlog(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """SLOWLOG GET [n] | LEN | RESET."""
    del now_ms
    if helped(node, session, args):
        return
    word = args[1].upper()
    if word == b"RESET" and len(args) == 2:
        node.slowlog.reset()
        session.out.append(resp.OK)
    elif word == b"LEN" and len(args) == 2:
        session.out.append(resp.integer(len(node.slowlog)))
    elif word == b"GET" and len(args) in {2, 3}:
        count = 10 if len(args) == 2 else parse_int(args[2])
        session.out.append(resp.error(errors.NOT_AN_INTEGER) if count is None else slow_entries(node, count))
    else:
        session.out.append(resp.error(BAD_SLOWLOG))


def slow_entries(node: "Node", count: int) -> bytes:
    """The newest slow commands; a negative count shows all."""
    return resp.array(
        [
            resp.array(
                [
                    resp.integer(entry.id),
                    resp.integer(entry.time_s),
                    resp.integer(entry.duration_us),
                    resp.bulks(entry.args),
                ]
            )
            for entry in node.slowlog.get(count)
        ]
    )


def latency(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """LATENCY HISTORY event | LATEST | RESET [event ...] | GRAPH event | DOCTOR."""
    if helped(node, session, args):
        return
    word = args[1].upper()
    if word == b"RESET":
        session.out.append(resp.integer(node.latency.reset(args[2:])))
    elif word == b"LATEST" and len(args) == 2:
        rows = [
            resp.array([resp.bulk(event), resp.integer(time_s), resp.integer(last), resp.integer(worst)])
            for event, time_s, last, worst in node.latency.latest()
        ]
        session.out.append(resp.array(rows))
    elif word == b"HISTORY" and len(args) == 3:
        samples = node.latency.history(args[2])
        session.out.append(resp.array([resp.array([resp.integer(at), resp.integer(ms)]) for at, ms in samples]))
    elif word == b"GRAPH" and len(args) == 3:
        graph = node.latency.graph(args[2], now_ms // 1000)
        none = b"ERR No samples available for event '%b'" % errors.one_line(args[2][:128])
        session.out.append(resp.error(none) if graph is None else resp.text(graph, session.protocol))
    elif word == b"DOCTOR" and len(args) == 2:
        threshold = node.config.number("latency-monitor-threshold")
        session.out.append(resp.text(node.latency.doctor(now_ms // 1000, threshold), session.protocol))
    else:
        session.out.append(resp.error(errors.SYNTAX))


def monitor(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """MONITOR: from here on the connection is told every command that is executed. The second one says nothing."""
    del args, now_ms
    if not session.monitoring:
        session.monitoring = True
        node.monitors[session.id] = session
        session.out.append(resp.OK)


def time(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """TIME: the wall clock in seconds and the microseconds of the current one."""
    del args, now_ms
    seconds, micros = divmod(node.host.wall_us(), 1_000_000)
    session.out.append(resp.bulks([b"%d" % seconds, b"%d" % micros]))


COMMANDS: Final = (
    Command(
        "slowlog",
        -2,
        READONLY | DANGEROUS,
        slowlog,
        "server",
        "GET [n] | LEN | RESET",
        "The commands that took longest.",
        (
            ("GET", "[n]", "The newest entries."),
            ("LEN", "", "How many there are."),
            ("RESET", "", "Forget them."),
            HELP,
        ),
        touches=may.everything,
        tame=frozenset({"HELP"}),
    ),
    Command(
        "latency",
        -2,
        READONLY | ADMIN | LOADING,
        latency,
        "server",
        "HISTORY event | LATEST | RESET [event ...] | GRAPH event | DOCTOR",
        "Where time was lost.",
        (
            ("HISTORY", "event", "Samples of one event."),
            ("LATEST", "", "The last and the worst sample of each event."),
            ("RESET", "[event ...]", "Forget samples."),
            ("GRAPH", "event", "Draw the samples."),
            ("DOCTOR", "", "Explain what was seen."),
            HELP,
        ),
    ),
    Command(
        "monitor",
        1,
        READONLY | ADMIN,
        monitor,
        "server",
        "",
        "Show every command that is executed.",
        touches=may.everything,
    ),
    Command("time", 1, READONLY | FAST, time, "server", "", "The wall clock of the node."),
)
