"""The commands that run a node: CONFIG, DEBUG, SHUTDOWN, BGREWRITEAOF, LOADJOB."""

from typing import TYPE_CHECKING, Final

from disque.core.base import errors, resp
from disque.core.base.numbers import parse_int
from disque.core.commands.helped import helped
from disque.core.config.kinds import as_bytes, as_text
from disque.core.config.settings import SettingError
from disque.core.host import HostRefusedError
from disque.core.jobs import sessions
from disque.core.model import claims as may
from disque.core.model.command import ADMIN, HELP, LOADING, READONLY, WRITE, Command, Handler
from disque.core.model.session import Session

if TYPE_CHECKING:
    from disque.core.node import Node

SLEEP_MAX_S: Final = 3600.0
#: Words of one CONFIG GET or SET.
WORDS_MOST: Final = 256


def config(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """CONFIG GET pattern ... | SET name value ... | RESETSTAT | REWRITE."""
    entry = CONFIG.get(args[1].upper())
    if helped(node, session, args):
        pass
    elif entry is None:
        session.out.append(resp.error(b"ERR CONFIG subcommand must be one of GET, SET, RESETSTAT, REWRITE"))
    elif not entry[0] <= len(args) <= entry[1] or (args[1].upper() == b"SET" and len(args) % 2):
        name = errors.one_line(args[1][:64])
        session.out.append(resp.error(b"ERR Wrong number of arguments for CONFIG %b" % name))
    else:
        entry[2](node, session, args, now_ms)


def config_get(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """CONFIG GET pattern [pattern ...]: names and values that fit one of them; a map in RESP3."""
    del now_ms
    found = {name: value for pattern in args[2:] for name, value in node.config.matching(pattern)}
    pairs = [as_bytes(word) for pair in found.items() for word in pair]
    session.out.append(resp.mapping([resp.bulk(word) for word in pairs], session.protocol))


def config_set(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """CONFIG SET name value [name value ...]: all of it takes effect at once, or nothing."""
    del now_ms
    try:
        before = settings_before(node, args)
    except SettingError as wrong:
        session.out.append(resp.error(errors.one_line(b"ERR %b" % as_bytes(str(wrong)))))
        return
    for at in range(2, len(args), 2):
        node.config.set_text(as_text(args[at]), as_text(args[at + 1]))
    acted: list[str] = []
    try:
        for name in sorted(before, key=lambda name: name != "dir"):  # first: the names of others count from there
            node.host.configure(name)
            acted.append(name)
    except HostRefusedError as refusal:
        take_back(node, before, acted)
        session.out.append(resp.error(errors.one_line(as_bytes(str(refusal)))))
        return
    except Exception:
        take_back(node, before, acted)
        raise
    node.apply_settings()
    session.out.append(resp.OK)


def settings_before(node: "Node", args: list[bytes]) -> dict[str, str]:
    """The settings that a CONFIG SET names, as they are. Raises SettingError if it cannot be done."""
    before: dict[str, str] = {}
    for at in range(2, len(args), 2):
        name = as_text(args[at]).lower()
        node.config.check_text(name, as_text(args[at + 1]))
        if name in before:
            raise SettingError(f"CONFIG SET failed (possibly related to argument '{name}') - duplicate parameter")
        before[name] = node.config.get_text(name)
    return before


def take_back(node: "Node", before: dict[str, str], acted: list[str]) -> None:
    """One of several settings was refused by the host: none of them counts."""
    for name, value in before.items():
        node.config.set_text(name, value)
    for name in reversed(acted):
        try:
            node.host.configure(name)
        except HostRefusedError:
            continue  # it worked a moment ago with this value


def config_resetstat(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """CONFIG RESETSTAT: counters start again."""
    del args, now_ms
    node.stats.reset()
    node.calls = [0] * len(node.calls)
    node.calls_us = [0.0] * len(node.calls_us)
    session.out.append(resp.OK)


def config_rewrite(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """CONFIG REWRITE: the file says what is true now."""
    del args, now_ms
    try:
        node.host.rewrite_config(session)
    except HostRefusedError as refusal:
        session.out.append(resp.error(errors.one_line(as_bytes(str(refusal)))))


#: Subcommand: the least and the largest number of words, the function.
CONFIG: Final[dict[bytes, tuple[int, int, Handler]]] = {
    b"GET": (3, WORDS_MOST, config_get),
    b"SET": (4, WORDS_MOST, config_set),
    b"RESETSTAT": (2, 2, config_resetstat),
    b"REWRITE": (2, 2, config_rewrite),
}


def debug(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """DEBUG subcommand: for tests of this server and of its clients."""
    allowed = node.config.text("enable-debug-command")
    entry = DEBUG.get(args[1].upper())
    if allowed == "no" or (allowed == "local" and not session.local):
        session.out.append(resp.error(errors.NO_DEBUG))
    elif helped(node, session, args):
        pass
    elif entry is None or not entry[0] <= len(args) <= entry[1]:
        name = errors.one_line(args[1][:128])
        session.out.append(resp.error(b"ERR Unknown DEBUG subcommand or wrong number of arguments for '%b'" % name))
    else:
        entry[2](node, session, args, now_ms)


def debug_flushall(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """DEBUG FLUSHALL: all jobs, queues and keys are gone.

    Not where that cannot be noted: a restart would bring them back.
    """
    del args
    if node.misconf:
        session.out.append(resp.error(node.misconf))
        return
    sessions.flush_all(node, now_ms)
    session.out.append(resp.OK)


def debug_loadaof(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """DEBUG LOADAOF: forget everything and read the journal again, as after a crash."""
    del args, now_ms
    node.host.reload_journal(session)


def debug_sleep(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """DEBUG SLEEP seconds: the whole server stands still."""
    del now_ms
    try:
        seconds = float(args[2])
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= SLEEP_MAX_S:
        session.out.append(resp.error(b"ERR the time to sleep must be a number of seconds from 0 to 3600"))
        return
    node.host.sleep(seconds)
    session.out.append(resp.OK)


def debug_error(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """DEBUG ERROR text: an error reply with that text."""
    del node, now_ms
    session.out.append(resp.error(errors.one_line(args[2])))


def debug_structsize(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """DEBUG STRUCTSIZE: what a job, a queue and a key are counted for."""
    del args, now_ms
    node.host.facts()
    session.out.append(resp.bulk(sessions.struct_sizes()))


def debug_crash(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """DEBUG SEGFAULT | ASSERT | OOM: die at once."""
    del session, now_ms
    node.host.crash(args[1].decode("latin-1").lower())


def debug_restart(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """DEBUG RESTART | CRASH-AND-RECOVER [ms]: the same process starts again, after a clean stop or without one."""
    del now_ms
    delay_ms = parse_int(args[2]) if len(args) == 3 else 0
    if delay_ms is None or delay_ms < 0:
        session.out.append(resp.error(errors.NOT_AN_INTEGER))
        return
    try:
        node.host.restart(session, delay_ms, clean=args[1].upper() == b"RESTART")
    except HostRefusedError as refusal:
        session.out.append(resp.error(errors.one_line(as_bytes(str(refusal)))))


DEBUG: Final[dict[bytes, tuple[int, int, Handler]]] = {
    b"FLUSHALL": (2, 2, debug_flushall),
    b"LOADAOF": (2, 2, debug_loadaof),
    b"SLEEP": (3, 3, debug_sleep),
    b"ERROR": (3, 3, debug_error),
    b"STRUCTSIZE": (2, 2, debug_structsize),
    b"SEGFAULT": (2, 2, debug_crash),
    b"ASSERT": (2, 2, debug_crash),
    b"OOM": (2, 2, debug_crash),
    b"RESTART": (2, 3, debug_restart),
    b"CRASH-AND-RECOVER": (2, 3, debug_restart),
}


def shutdown(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """SHUTDOWN [REWRITE-AOF]: a clean stop; everything that was answered before is on disk."""
    del now_ms
    if len(args) > 2 or (len(args) == 2 and args[1].upper() != b"REWRITE-AOF"):
        session.out.append(resp.error(errors.SYNTAX))
    else:
        node.host.shutdown(session, rewrite=len(args) == 2)


def bgrewriteaof(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """BGREWRITEAOF: write what is alive anew and drop the old segments of the journal, while serving."""
    del args, now_ms
    try:
        started = node.host.rewrite_journal()
    except HostRefusedError as refusal:
        session.out.append(resp.error(errors.one_line(as_bytes(str(refusal)))))
        return
    if started:
        session.out.append(resp.status(b"Background append only file rewriting started"))
    else:
        session.out.append(resp.error(b"ERR Background append only file rewriting already in progress"))


def loadjob(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """LOADJOB: a record of old append-only files, never a command."""
    del node, args, now_ms
    session.out.append(resp.error(b"ERR LOADJOB is a special command only processed from AOF"))


COMMANDS: Final = (
    Command(
        "config",
        -2,
        READONLY | ADMIN,
        config,
        "server",
        "GET pattern [pattern ...] | SET name value [name value ...] | RESETSTAT | REWRITE",
        "Read and change the settings.",
        (
            ("GET", "pattern [pattern ...]", "Settings whose names fit."),
            ("SET", "name value [name value ...]", "Change settings now, all of them or none."),
            ("RESETSTAT", "", "Let the counters of INFO start again."),
            ("REWRITE", "", "Write the settings into the configuration file."),
            HELP,
        ),
    ),
    Command(
        "debug",
        -2,
        ADMIN,
        debug,
        "server",
        "subcommand [word ...]",
        "For tests and debugging.",
        (
            ("FLUSHALL", "", "Drop all jobs and queues."),
            ("LOADAOF", "", "Read the journal again."),
            ("SLEEP", "seconds", "Stand still."),
            ("ERROR", "text", "Answer an error."),
            ("STRUCTSIZE", "", "What things are counted for."),
            ("RESTART", "[ms]", "Stop cleanly and start again."),
            ("CRASH-AND-RECOVER", "[ms]", "Start again without stopping."),
            ("SEGFAULT", "", "Crash."),
            ("ASSERT", "", "Crash."),
            ("OOM", "", "Crash."),
            HELP,
        ),
        touches=may.everything,
    ),
    Command("shutdown", -1, READONLY | ADMIN | LOADING, shutdown, "server", "[REWRITE-AOF]", "Stop the node cleanly."),
    Command("bgrewriteaof", 1, READONLY | ADMIN, bgrewriteaof, "server", "", "Compact the journal while serving."),
    Command("loadjob", 2, WRITE, loadjob, "server", "blob", "Only in append-only files of Disque 1.0."),
)
