"""The command `disque`: a shell for the queue, and its tools `bench`, `check-aof`, `completion` and `gateway`.

`main` decides what to run. Each way of running is a small function from options to an exit code: 0 when every reply was
good, 1 when something went wrong, 130 when Ctrl-C ended a command.
"""

import contextlib
import getpass
import importlib
import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Final, cast

from disque import VERSION
from disque.cli import shell_pipe, streams, watch
from disque.cli.client import ConnectError, Connection
from disque.cli.shell_help import Table
from disque.cli.shell_options import Options, UsageError, help_page, parse_options
from disque.cli.shell_reply import ReplyError
from disque.cli.shell_session import Output, Session

SUBCOMMANDS: Final = {
    "bench": "disque.cli.bench",
    "check-aof": "disque.cli.check_aof",
    "completion": "disque.cli.completion",
    "gateway": "disque.gateway.main",
    "worker": "disque.tasks.command",
}
"""Tools with a command line of their own, imported only when they are called."""

LISTINGS: Final = frozenset({"cron", "dead", "jobs", "queues", "top", "workers"})
"""What `disque.tasks.listing` shows. `cron` with more words is the server's CRON."""

INTERRUPTED: Final = 130


def main(argv: list[str] | None = None) -> int:
    """Run the command line (`sys.argv` unless given) and give the exit code."""
    streams.open_missing()
    words = sys.argv[1:] if argv is None else argv
    try:
        code = _run(words)
        sys.stdout.flush()
    except BrokenPipeError:
        streams.drop_output()  # nobody reads it any more (`disque ... | head`)
        return 1
    except (UsageError, ConnectError, watch.WatchError, ReplyError) as error:
        complain(str(error))
        return 1
    except ConnectionError as error:
        complain(f"Error: {error.strerror or error}")
        return 1
    except OSError as error:
        streams.drop_output()  # it may be the one that cannot be written
        complain(f"Error: {error.strerror or error}{f': {error.filename}' if error.filename else ''}")
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def _run(words: list[str]) -> int:
    if words and words[0] in SUBCOMMANDS:
        return _tool(words[0], words[1:])
    if words and is_listing(words):
        return _listing(words)
    options = parse_options(words, os.environ)
    name = os.fsdecode(options.command[0]) if options.command else ""
    if is_listing([os.fsdecode(word) for word in options.command]):
        return _listing(words)
    if name in SUBCOMMANDS:
        behind = [os.fsdecode(word) for word in options.command[1:]]
        # Only the bench asks a server; for the others it makes no difference which one.
        return _tool(name, [*words[: len(words) - len(options.command)], *behind] if name == "bench" else behind)
    for note in options.notes:
        complain(note)
    if options.ask_password:
        options.target.password = getpass.getpass("Password: ")
    return _ACTIONS[options.action](options)


def _tool(name: str, words: list[str]) -> int:
    return cast("int", _imported(SUBCOMMANDS[name]).main(words))


def _listing(words: list[str]) -> int:
    return cast("int", _imported("disque.tasks.listing").main(words))


def _imported(name: str) -> ModuleType:
    """A module of a tool, whose packages may be missing: the error says which extra brings them."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        if error.name is None or error.name.startswith("disque"):
            raise
        raise UsageError(str(error)) from error


def is_listing(words: list[str]) -> bool:
    """Tell whether these words are a listing, and not a command of the server."""
    if not words or words[0] not in LISTINGS:
        return False
    return words[0] != "cron" or all(word.startswith("-") for word in words[1:2])


def complain(text: str) -> None:
    """Print a line on standard error."""
    print(text, file=sys.stderr, flush=True)


def command_table() -> Table:
    """Give the one command table, loaded only where help, hints or completion need it."""
    return cast("Table", importlib.import_module("disque.core.commands").COMMANDS)


def _for_people() -> bool:
    """Tell whether output goes to a person: a terminal, or FAKETTY in the environment."""
    return sys.stdout.isatty() or bool(os.environ.get("FAKETTY"))


def _output(options: Options) -> Output:
    manner = options.manner or ("pretty" if _for_people() else "raw")
    return Output(sys.stdout.buffer, manner, options.delimiter, show_pushes=_for_people())


def _session(options: Options) -> Session:
    output = _output(options)
    return Session(Connection(options.target, complain, output.push), output, command_table, complain)


def _page(_options: Options) -> int:
    print(help_page(), end="")
    return 0


def _version(_options: Options) -> int:
    print(f"disque {VERSION}")
    return 0


def _commands(options: Options) -> int:
    """Run the command of the command line, else the interactive shell, else what comes on standard input."""
    session = _session(options)
    with contextlib.closing(session.connection):
        return _run_session(session, options)


def _run_session(session: Session, options: Options) -> int:
    if options.command[:1] == [b"help"]:
        return 0 if session.help(options.command[1:]) else 1
    if options.command or options.last_from_stdin:
        return _one_command(session, options)
    if sys.stdin.isatty() and _for_people():
        return _interactive(session)
    return _lines(session)


def _interactive(session: Session) -> int:
    session.output.show_slow = True
    run_shell = importlib.import_module("disque.cli.shell").run_shell  # prompt_toolkit is slow to load
    return cast("int", run_shell(session))


def _one_command(session: Session, options: Options) -> int:
    _insert_stdin(options)
    good = session.connect()
    left = options.repeat
    while left != 0 and session.connection.is_open:
        good &= session.run(options.command)
        left -= 1
        if left and options.interval_s:
            time.sleep(options.interval_s)
    return 0 if good else 1


def _insert_stdin(options: Options) -> None:
    """Put standard input where -x or -X want it."""
    if options.last_from_stdin:
        options.command.append(sys.stdin.buffer.read())
    elif options.stdin_tag is not None:
        options.command[options.command.index(options.stdin_tag)] = sys.stdin.buffer.read()


def _lines(session: Session) -> int:
    """Run standard input line by line; a lost connection ends it, for what follows may rest on what was lost."""
    good = session.connect()
    while (good or session.connection.is_open) and not session.done and (line := sys.stdin.buffer.readline()):
        good &= session.run_line(line)
    return 0 if good else 1


def _pipe(options: Options) -> int:
    with _connected(options) as connection:
        return shell_pipe.run_pipe(connection.take_socket(), options.pipe_timeout_s, complain)


def _watching(watcher: Callable[[Options, Connection, watch.Clockwork], None]) -> Callable[[Options], int]:
    """Make an action of something that watches: Ctrl-C is its normal end."""

    def act(options: Options) -> int:
        try:
            with _connected(options) as connection:
                watcher(options, connection, watch.Clockwork(_write))
        except KeyboardInterrupt:
            _write("\n" if sys.stdout.isatty() else "")
        return 0

    return act


def _write(text: str) -> None:
    print(text, end="", flush=True)


def _stat(options: Options, connection: Connection, outside: watch.Clockwork) -> None:
    watch.stat(connection, options.interval_s or 1.0, outside)


def _latency(options: Options, connection: Connection, outside: watch.Clockwork) -> None:
    if options.manner is None and _for_people():
        watch.latency_live(connection, options.interval_s or math.inf, outside)
    else:
        watch.latency_lines(connection, options.interval_s or 1.0, outside, options.manner or "", rounds=1)


def _latency_history(options: Options, connection: Connection, outside: watch.Clockwork) -> None:
    interval_s = options.interval_s or watch.HISTORY_EVERY_S
    if options.manner is None and _for_people():
        watch.latency_live(connection, interval_s, outside)
    else:
        watch.latency_lines(connection, interval_s, outside, options.manner or "")


@contextlib.contextmanager
def _connected(options: Options) -> Iterator[Connection]:
    connection = Connection(options.target, complain, lambda _push: None)
    connection.connect()
    try:
        yield connection
    finally:
        connection.close()


_ACTIONS: Final[dict[str, Callable[[Options], int]]] = {
    "command": _commands,
    "pipe": _pipe,
    "stat": _watching(_stat),
    "latency": _watching(_latency),
    "latency-history": _watching(_latency_history),
    "help": _page,
    "version": _version,
}


if __name__ == "__main__":
    sys.exit(main())
