"""The options of `disque bench`, its workloads, and the checks that refuse impossible combinations early."""

import argparse
import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, NoReturn

from disque.cli.client_tls import Trust, TrustError, context_of
from disque.cli.shell_options import PASSWORD_VARIABLE


class UsageError(Exception):
    """The arguments make no sense; the message says which."""


class Workload(NamedTuple):
    """One kind of load: the server it speaks to, its counterpart on a Redis server, and a line of help."""

    server: str
    twin: str
    summary: str


WORKLOADS: Final = {
    "add": Workload("disque", "lpush", "ADDJOB"),
    "get": Workload("disque", "rpop", "GETJOB NOHANG of jobs that were added beforehand"),
    "ack": Workload("disque", "del", "ACKJOB of jobs that were added and fetched beforehand"),
    "cycle": Workload("disque", "", "ADDJOB, GETJOB, ACKJOB on the same connection"),
    "mixed": Workload("disque", "", "producers and blocking consumers at once; every job is accounted for"),
    "lpush": Workload("redis", "lpush", "LPUSH to a Redis server, the yardstick of add"),
    "rpop": Workload("redis", "rpop", "RPOP from a Redis server, the yardstick of get"),
    "del": Workload("redis", "del", "DEL on a Redis server, the yardstick of ack"),
}
DEFAULT_WORKLOADS: Final = ("add", "get", "ack")
DEFAULT_OPERATIONS: Final = 100_000
MIXED_BODY_MIN_BYTES: Final = 33  # number, time of sending, two colons
_CLIENTS_MAX: Final = 64
_CLIENTS_UNASKED_MAX: Final = 4  # more than any server that one process makes can answer


class Amount(NamedTuple):
    """How long something runs: a number of operations, a number of seconds, or whichever comes first."""

    operations: int | None
    seconds: float | None


class Address(NamedTuple):
    """Where a server listens and who logs in there. `unix_path`, when there is one, wins over host and port.

    With `trust` TLS is spoken.
    """

    host: str = "127.0.0.1"
    port: int = 7711
    unix_path: str = ""
    user: str = ""
    password: str = ""
    trust: Trust | None = None

    def __str__(self) -> str:
        return self.unix_path or f"{self.host}:{self.port}"


@dataclass(slots=True)
class Options:
    """Everything that the arguments say. Sizes in bytes; TTL, RETRY and DELAY in seconds, None for the server's."""

    address: Address
    workloads: tuple[str, ...] = DEFAULT_WORKLOADS
    connections: int = 50
    pipeline: int = 1
    body_bytes: int = 100
    amount: Amount = field(default_factory=lambda: Amount(DEFAULT_OPERATIONS, None))
    rate: float | None = None
    warmup: Amount = field(default_factory=lambda: Amount(2000, None))
    clients: int = 1
    queues: int = 1
    count: int = 1
    replicate: int | None = None
    retry_s: int | None = None
    ttl_s: int | None = None
    delay_s: int | None = None
    asynchronous: bool = False
    compare: Address | None = None
    compare_workload: str | None = None
    slices: int = 10
    json: bool = False
    progress: bool = True
    keep: bool = False
    seed: int = 1

    def addjob_words(self) -> tuple[bytes, ...]:
        """Give the options of every ADDJOB of this run."""
        table = (
            (b"REPLICATE", self.replicate),
            (b"RETRY", self.retry_s),
            (b"TTL", self.ttl_s),
            (b"DELAY", self.delay_s),
        )
        words = [word for name, value in table if value is not None for word in (name, b"%d" % value)]
        return (*words, b"ASYNC") if self.asynchronous else tuple(words)

    def prefill_operations(self) -> int:
        """Say how many operations a workload that consumes must find prepared."""
        return self.amount.operations or DEFAULT_OPERATIONS


class _Parser(argparse.ArgumentParser):
    """An argument parser that leaves the exit to main()."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


def _whole(low: int, high: int | None = None) -> "type[int]":
    """Give a converter of integers from `low` to `high`, in the shape that argparse wants."""

    def convert(text: str) -> int:
        value = int(text)
        if value < low or (high is not None and value > high):
            raise argparse.ArgumentTypeError(f"{text} must be {low} or more" + (f", at most {high}" if high else ""))
        return value

    convert.__name__ = "integer"
    return convert  # type: ignore[return-value]  # argparse only calls it


def _positive(unit: str) -> Callable[[str], float]:
    """Give a converter of numbers above zero."""

    def convert(text: str) -> float:
        value = float(text)
        if not 0 < value < math.inf:
            raise argparse.ArgumentTypeError(f"{text} is not a number of {unit} above zero")
        return value

    convert.__name__ = "number"
    return convert


def _warmup(text: str) -> Amount:
    """Read `5000` as operations and `2s` as seconds."""
    if text.endswith("s"):
        return Amount(None, _positive("seconds")(text[:-1]))
    return Amount(_whole(0)(text), None)


def parse_address(text: str) -> Address:
    """Read `[[user]:password@]host:port` or `unix:/path`.

    Raises UsageError when it is neither.
    """
    if text.startswith("unix:"):
        return Address(unix_path=text[len("unix:") :])
    login, _, place = text.rpartition("@")
    user, _, password = login.partition(":")
    host, colon, port = place.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise UsageError(f"'{place}' is not host:port")
    return Address(host=host.strip("[]"), port=int(port), user=user, password=password)


def _add_target(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("server")
    group.add_argument("-h", "--host", default="127.0.0.1", help="host of the server (%(default)s)")
    group.add_argument("-p", "--port", type=_whole(1, 65535), default=7711, help="port (%(default)s)")
    group.add_argument("-s", "--socket", default="", metavar="path", help="unix socket instead of host and port")
    group.add_argument(
        "-a", "--pass", dest="password", default="", metavar="password", help="password (or the variable DISQUE_AUTH)"
    )
    group.add_argument("--user", default="", help="user of the password")
    group.add_argument("--tls", action="store_true", help="speak TLS, not to the server of --compare")
    group.add_argument("--cacert", default="", metavar="file", help="authority to trust (those of the system)")
    group.add_argument("--cert", default="", metavar="file", help="certificate to show to the server")
    group.add_argument("--key", default="", metavar="file", help="private key of --cert")
    group.add_argument("--sni", default="", metavar="name", help="name in the server's certificate, if not the host")
    group.add_argument("--insecure", action="store_true", help="trust any certificate")
    group.add_argument("--compare", type=parse_address, metavar="[[user]:password@]host:port", help="a second server")
    group.add_argument("--compare-workload", choices=sorted(WORKLOADS), help="what the second server does")
    group.add_argument("--slices", type=_whole(1), default=10, help="slices per server with --compare (%(default)s)")


def _add_load(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("load")
    group.add_argument("-c", dest="connections", type=_whole(1, 20000), default=50, help="connections (%(default)s)")
    group.add_argument("-P", dest="pipeline", type=_whole(1, 10000), default=1, help="pipeline depth (%(default)s)")
    group.add_argument("-d", dest="body_bytes", type=_whole(0, 1 << 29), default=100, help="body bytes (%(default)s)")
    group.add_argument("-n", dest="operations", type=_whole(1), help=f"operations ({DEFAULT_OPERATIONS})")
    group.add_argument("--seconds", type=_positive("seconds"), help="run for this long; with -n, whichever comes first")
    group.add_argument("--rate", type=_positive("operations"), help="operations a second, evenly (all it can)")
    group.add_argument("--warmup", type=_warmup, default="2000", metavar="n", help="before, unmeasured: 2000, or 2s")
    group.add_argument(
        "--clients",
        "--processes",
        type=_whole(1, _CLIENTS_MAX),
        help="client processes (a processor is left to the server, the others have one each, at most 4)",
    )
    group.add_argument("--queues", type=_whole(1, 100_000), default=1, help="queues of a process (%(default)s)")
    group.add_argument("--count", type=_whole(1, 100_000), default=1, help="jobs asked for by one GETJOB")
    group.add_argument("--seed", type=int, default=1, help="of bodies and of the order of queues")


def _add_job(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("job")
    group.add_argument("--replicate", type=_whole(1, 65535), help="copies of a job")
    group.add_argument("--retry", dest="retry_s", type=_whole(0), help="seconds until it is delivered again")
    group.add_argument("--ttl", dest="ttl_s", type=_whole(1), help="seconds that it lives")
    group.add_argument("--delay", dest="delay_s", type=_whole(0), help="seconds before it is first delivered")
    group.add_argument("--async", dest="asynchronous", action="store_true", help="do not wait for the copies")
    group.add_argument("--keep", action="store_true", help="leave jobs in the server instead of removing them")


def new_parser() -> argparse.ArgumentParser:
    """Give the parser of the arguments; -h is the host, as in every client of this family."""
    lines = "\n".join(f"  {name:6} {workload.summary}" for name, workload in WORKLOADS.items())
    parser = _Parser(
        prog="disque bench",
        add_help=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=f"Load a server and measure it.\n\nworkloads (default {' '.join(DEFAULT_WORKLOADS)}):\n{lines}",
    )
    parser.add_argument("workloads", nargs="*", metavar="workload", help="in the order given")
    _add_target(parser)
    _add_load(parser)
    _add_job(parser)
    group = parser.add_argument_group("output")
    group.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    group.add_argument("--no-progress", dest="progress", action="store_false", help="no progress bar")
    group.add_argument("--help", action="help", help="this text")
    return parser


def parse_options(argv: list[str]) -> Options:
    """Read the arguments.

    Raises UsageError when they make no sense and SystemExit(0) after --help.
    """
    given = vars(new_parser().parse_intermixed_args(argv))
    operations, seconds = given.pop("operations"), given.pop("seconds")
    user, password = given.pop("user"), given.pop("password") or os.environ.get(PASSWORD_VARIABLE, "")
    trust = _trust(given)
    address = Address(given.pop("host"), given.pop("port"), given.pop("socket"), user, password, trust)
    amount = Amount(operations or (None if seconds else DEFAULT_OPERATIONS), seconds)
    given["workloads"] = tuple(given["workloads"]) or DEFAULT_WORKLOADS
    given["clients"] = given["clients"] or unasked_clients(given["connections"])
    options = Options(address=address, amount=amount, **given)
    _check(options)
    return options


def unasked_clients(connections: int) -> int:
    """Say how many client processes there are when nobody says so: each with the two connections that `mixed` needs."""
    return max(1, min(processors() - 1, _CLIENTS_UNASKED_MAX, connections // 2))


def processors() -> int:
    """Count the processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _trust(given: dict[str, Any]) -> Trust | None:
    """Take the arguments of TLS out of all. Raises UsageError."""
    words = {name: given.pop(name) for name in ("cacert", "cert", "key", "sni", "insecure")}
    if not given.pop("tls"):
        if any(words.values()):
            raise UsageError("--cacert, --cert, --key, --sni and --insecure need --tls")
        return None
    if given["socket"]:
        raise UsageError("there is no TLS on a unix socket")
    trust = Trust(**words)
    try:
        context_of(trust)
    except TrustError as error:
        raise UsageError(str(error)) from None
    return trust


def _check(options: Options) -> None:
    """Raise UsageError for arguments that are well formed one by one and make no sense together."""
    unknown = [name for name in options.workloads if name not in WORKLOADS]
    delayed = {"get", "ack", "cycle"}.intersection(options.workloads) if options.delay_s else set()
    starving = "mixed" in options.workloads and options.connections < 2 * options.clients
    checks = (
        (bool(unknown), f"unknown workload '{''.join(unknown[:1])}', expected one of {' '.join(WORKLOADS)}"),
        (bool(delayed), f"--delay would leave nothing to fetch for {' '.join(sorted(delayed))}"),
        (starving, "mixed needs a producer and a consumer: two connections for each client process"),
        (options.connections < options.clients, "there are more client processes (--clients) than connections (-c)"),
        (options.compare_workload is not None and options.compare is None, "--compare-workload needs --compare"),
        ("mixed" in options.workloads and options.queues > 1000, "mixed takes at most 1000 queues"),
        (not options.address.password and bool(options.address.user), "--user needs a password (-a)"),
    )
    for wrong, message in checks:
        if wrong:
            raise UsageError(message)
