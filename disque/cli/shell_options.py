"""The flags of `disque`: one table from which parsing and `--help` follow.

Flags come before the command; the first word that is no flag begins it, and the rest of the line belongs to it.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final, NamedTuple

from disque.cli.client import Target
from disque.cli.client_tls import SYSTEM, Trust, TrustError, context_of
from disque.cli.shell_url import apply_url, parse_port

PASSWORD_VARIABLE: Final = "DISQUE_AUTH"  # noqa: S105 - the name of a variable, no password
URL_VARIABLE: Final = "DISQUE_URL"


class UsageError(Exception):
    """The command line makes no sense; the message says what and why."""


@dataclass(slots=True)
class Options:
    """What the command line asks for. `notes` are for standard error; `manner` is None until the terminal decides.

    `placed`: a flag says where the server is.
    """

    target: Target = field(default_factory=Target)
    action: str = "command"
    command: list[bytes] = field(default_factory=list)
    manner: str | None = None
    delimiter: bytes = b"\n"
    repeat: int = 1
    interval_s: float | None = None
    pipe_timeout_s: float = 30.0
    placed: bool = False
    last_from_stdin: bool = False
    stdin_tag: bytes | None = None
    ask_password: bool = False
    password_on_line: bool = False
    auth_warning: bool = True
    resp_chosen: bool = False
    trust: Trust = SYSTEM
    notes: list[str] = field(default_factory=list)


class Flag(NamedTuple):
    """A row of the table: spellings, the name of the value ("" for a switch), what it does, its line in --help."""

    names: tuple[str, ...]
    value: str
    apply: Callable[[Options, str], None]
    help: str


def _host(options: Options, text: str) -> None:
    options.target.addresses = [(text.strip("[]"), options.target.addresses[0][1])]
    options.placed = True


def _port(options: Options, text: str) -> None:
    options.target.addresses = [(host, parse_port(text)) for host, _port in options.target.addresses]
    options.placed = True


def _socket(options: Options, text: str) -> None:
    options.target.path = text
    options.placed = True


def _password(options: Options, text: str) -> None:
    options.target.password = text
    options.password_on_line = True


def _user(options: Options, text: str) -> None:
    options.target.user = text


def _ask(options: Options, _text: str) -> None:
    options.ask_password = True


def _no_warning(options: Options, _text: str) -> None:
    options.auth_warning = False


def _url(options: Options, text: str) -> None:
    _database(options, apply_url(text, options.target) or "0")
    options.placed = True


def _database(options: Options, text: str) -> None:
    if text != "0":
        options.notes.append(f"Note: there are no numbered databases here, {text} is ignored.")


def _repeat(options: Options, text: str) -> None:
    options.repeat = int(text)


def _interval(options: Options, text: str) -> None:
    options.interval_s = _seconds(text)


def _timeout(options: Options, text: str) -> None:
    options.target.timeout_s = _seconds(text) or None


def _pipe_timeout(options: Options, text: str) -> None:
    options.pipe_timeout_s = _seconds(text)


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds < 1e9:
        raise ValueError(f"{text!r} is not a number of seconds")
    return seconds


def _stdin(options: Options, _text: str) -> None:
    options.last_from_stdin = True


def _tag(options: Options, text: str) -> None:
    options.stdin_tag = os.fsencode(text)


def _delimiter(options: Options, text: str) -> None:
    options.delimiter = os.fsencode(text)


def _ignore(_options: Options, _text: str) -> None:
    """For flags that mean nothing here but do no harm."""


def _tls(options: Options, _text: str) -> None:
    options.target.trust = options.target.trust or SYSTEM


def _cacert(options: Options, text: str) -> None:
    options.trust = options.trust._replace(cacert=text)


def _cacertdir(options: Options, text: str) -> None:
    options.trust = options.trust._replace(cacertdir=text)


def _cert(options: Options, text: str) -> None:
    options.trust = options.trust._replace(cert=text)


def _key(options: Options, text: str) -> None:
    options.trust = options.trust._replace(key=text)


def _sni(options: Options, text: str) -> None:
    options.trust = options.trust._replace(sni=text)


def _insecure(options: Options, _text: str) -> None:
    options.trust = options.trust._replace(insecure=True)


def _manner(name: str) -> Callable[[Options, str], None]:
    def apply(options: Options, _text: str) -> None:
        options.manner = name

    return apply


def _action(name: str) -> Callable[[Options, str], None]:
    def apply(options: Options, _text: str) -> None:
        options.action = name

    return apply


def _resp(version: int) -> Callable[[Options, str], None]:
    def apply(options: Options, _text: str) -> None:
        options.target.resp = version
        options.resp_chosen = True

    return apply


FLAGS: Final = (
    Flag(("-h",), "host", _host, "Server host name (127.0.0.1)."),
    Flag(("-p",), "port", _port, "Server port (7711)."),
    Flag(("-s",), "path", _socket, "Unix socket of the server; host and port are not used."),
    Flag(("-u",), "url", _url, "disque[s]://user:password@host:port,host, redis[s]://, unix:///path; or DISQUE_URL."),
    Flag(("-a", "--pass"), "password", _password, f"Password; {PASSWORD_VARIABLE} in the environment is safer."),
    Flag(("--user",), "name", _user, "User name for AUTH, together with a password."),
    Flag(("--askpass",), "", _ask, "Ask for the password at the terminal."),
    Flag(("--no-auth-warning",), "", _no_warning, "No warning about a password on the command line."),
    Flag(("--tls",), "", _tls, "Speak TLS, as with disques:// in a URL."),
    Flag(("--cacert",), "file", _cacert, "Authority to trust (those of the system)."),
    Flag(("--cacertdir",), "path", _cacertdir, "Directory of authorities to trust."),
    Flag(("--cert",), "file", _cert, "Certificate to show to the server."),
    Flag(("--key",), "file", _key, "Private key of --cert."),
    Flag(("--sni",), "name", _sni, "Name that the certificate of the server has, if it is not the host."),
    Flag(("--insecure",), "", _insecure, "Trust any certificate: anyone in between can read along."),
    Flag(("-n",), "number", _database, "Database number: accepted, there is only 0."),
    Flag(("-c",), "", _ignore, "Cluster mode: accepted, nodes never redirect."),
    Flag(("-r",), "count", _repeat, "Run the command this many times; -1 for ever."),
    Flag(("-i",), "seconds", _interval, "Wait between runs with -r, rows of --stat, lines of --latency."),
    Flag(("-x",), "", _stdin, "Take the last argument from standard input."),
    Flag(("-X",), "tag", _tag, "Take the argument that reads <tag> from standard input."),
    Flag(("-d",), "text", _delimiter, "What separates items of a raw reply (a newline)."),
    Flag(("-t",), "seconds", _timeout, "Give up connecting after this long; 0: never. Replies are always waited for."),
    Flag(("-2",), "", _resp(2), "Speak RESP2 (the default, but for --json)."),
    Flag(("-3",), "", _resp(3), "Speak RESP3."),
    Flag(("-e",), "", _ignore, "Exit code 1 after an error reply: always on here."),
    Flag(("--raw",), "", _manner("raw"), "Replies as they are (the default when the output is no terminal)."),
    Flag(("--no-raw",), "", _manner("pretty"), "Replies for people, even when the output is no terminal."),
    Flag(("--csv",), "", _manner("csv"), "Replies as CSV."),
    Flag(("--json",), "", _manner("json"), r"Replies as JSON; bytes that are no UTF-8 become \xHH."),
    Flag(("--pipe",), "", _action("pipe"), "Send standard input as raw protocol, count the replies."),
    Flag(("--pipe-timeout",), "seconds", _pipe_timeout, "With --pipe: wait for the last reply (30; 0 for ever)."),
    Flag(("--stat",), "", _action("stat"), "Print a row of statistics every second (or -i)."),
    Flag(("--latency",), "", _action("latency"), "Measure round trips: live at a terminal, else for a second."),
    Flag(("--latency-history",), "", _action("latency-history"), "A line of --latency every 15 seconds (or -i)."),
    Flag(("--version", "-v"), "", _action("version"), "Print the version."),
    Flag(("--help",), "", _action("help"), "Print this text."),
)

_FLAG_BY_NAME: Final[Mapping[str, Flag]] = {name: flag for flag in FLAGS for name in flag.names}

_LONGEST_FLAG: Final = 64  # longer words are not compared with any

_NO_KEYS: Final = "there are no keys here; use QSCAN for queues and JSCAN for jobs"
_NO_REPLICAS: Final = "there is no replication stream here; use MONITOR, or JSCAN for what is stored"
REDIS_ONLY: Final[Mapping[str, str]] = {
    **dict.fromkeys(("--scan", "--bigkeys", "--memkeys", "--hotkeys", "--pattern", "--quoted-pattern"), _NO_KEYS),
    **dict.fromkeys(("--slave", "--replica", "--rdb", "--functions-rdb"), _NO_REPLICAS),
    **dict.fromkeys(("--eval", "--ldb", "--ldb-sync-mode"), "there are no scripts here; send commands with --pipe"),
    "--lru-test": "there is no cache here; use `disque bench`",
    "--latency-dist": "use --latency or --latency-history",
    "--intrinsic-latency": "use --latency against a server on this machine",
    "--cluster": "use the command CLUSTER (NODES, INFO, MYID, LEAVING)",
}
"""Flags of redis-cli that cannot mean anything to a job queue, and what to use instead."""


def parse_options(argv: Sequence[str], environment: Mapping[str, str]) -> Options:
    """Read the command line. Without a flag that says where, DISQUE_URL does. Raises UsageError."""
    words = ["--help"] if list(argv) == ["-h"] else list(argv)
    options = _read(words, environment, None)
    url = environment.get(URL_VARIABLE)
    if url and not options.placed and options.action not in {"help", "version"}:
        options = _read(words, environment, url)
    _conclude(options)
    return options


def _read(argv: Sequence[str], environment: Mapping[str, str], url: str | None) -> Options:
    """Read the flags, which go before what the URL says, and the command behind them."""
    options = Options()
    options.target.password = environment.get(PASSWORD_VARIABLE)
    if url is not None:
        try:
            _url(options, url)
        except ValueError as error:
            raise UsageError(f"{URL_VARIABLE}: {error}") from None
    words = list(argv)
    while words and words[0].startswith("-") and words[0] != "-":
        _apply(options, words)
    options.command = [os.fsencode(word) for word in words]
    return options


def _apply(options: Options, words: list[str]) -> None:
    """Take one flag and its value off the front of `words`."""
    name = words.pop(0)
    if name in REDIS_ONLY:
        raise UsageError(f"{name} is for Redis: {REDIS_ONLY[name]}.")
    flag = _FLAG_BY_NAME.get(name)
    if flag is None:
        close = get_close_matches(name, _FLAG_BY_NAME, 1, 0.75) if 2 < len(name) <= _LONGEST_FLAG else []
        hint = f"Did you mean {close[0]}?" if close else "See `disque --help`."
        raise UsageError(f"Unrecognized option {name!r}. {hint}")
    if flag.value and not words:
        raise UsageError(f"Option {name} needs a value: {name} <{flag.value}>")
    text = words.pop(0) if flag.value else ""
    try:
        flag.apply(options, text)
    except ValueError as error:
        raise UsageError(f"Option {name}: {_explain(error, text)}") from None


def _explain(error: ValueError, text: str) -> str:
    """Word the errors of int() and float() for people; ours are already."""
    message = str(error)
    return f"{text!r} is not a number" if message.startswith(("invalid literal", "could not convert")) else message


def _conclude(options: Options) -> None:
    """Settle what follows from several flags together. Raises UsageError for what does not fit together."""
    if options.last_from_stdin and not options.command:
        raise UsageError("-x needs a command whose last argument is to be read")
    if options.stdin_tag is not None and options.stdin_tag not in options.command:
        raise UsageError(f"-X needs a command with the argument {os.fsdecode(options.stdin_tag)!r} in it")
    _conclude_tls(options)
    if options.password_on_line and options.auth_warning:
        options.notes.append(
            "Warning: a password on the command line may be seen by others; "
            f"use {PASSWORD_VARIABLE} in the environment or --askpass."
        )
    if options.manner == "json" and not options.resp_chosen:
        options.target.resp = 3
        options.target.resp_wish = True


def _conclude_tls(options: Options) -> None:
    """Read the files of TLS before anything is sent without it. Raises UsageError."""
    target, trust = options.target, options.trust
    if target.trust is None:
        if trust != SYSTEM:
            raise UsageError("--cacert, --cert, --key, --sni and --insecure need --tls or disques://")
        return
    if target.path:
        raise UsageError("there is no TLS on a unix socket")
    target.trust = trust
    try:
        context_of(trust)
    except TrustError as error:
        raise UsageError(str(error)) from None


def help_page() -> str:
    """Give the text of --help."""
    rows = [(", ".join(flag.names) + (f" <{flag.value}>" if flag.value else ""), flag.help) for flag in FLAGS]
    width = max(len(left) for left, _right in rows)
    lines = [f"  {left:{width}}  {right}" for left, right in rows]
    return _PAGE.format(flags="\n".join(lines))


_PAGE: Final = """\
Usage: disque [flags] [command [argument ...]]
       disque bench [flags]          measure a server (disque bench --help)
       disque check-aof [--fix] path check or repair a journal (disque check-aof --help)
       disque gateway [flags]        serve a cluster over HTTP (disque gateway --help)
       disque worker module:app      run the tasks of a Python app (disque worker --help)
       disque queues|jobs|dead|cron|workers|top      what waits, runs and fails (disque queues --help)
       disque completion bash        let bash, zsh or fish complete all this (disque completion --help)

{flags}

Without a command: the interactive shell at a terminal, else commands from standard input, one a line.
The exit code is 0 if every reply was good, 1 after an error reply, a lost connection or a flag that is unknown.

Examples:
  disque addjob mails "hello world" 1000 REPLICATE 1 RETRY 60
  disque getjob TIMEOUT 5000 COUNT 10 FROM mails
  disque -r -1 -i 1 qlen mails
  disque -X BODY addjob pictures BODY 1000 < picture.png
  disque --json show D-...
"""
