"""Watching a server: `--stat` prints a row of numbers regularly, `--latency` measures round trips.

Both are loops around one connection. Time, sleep and output are arguments. Both go on until Ctrl-C. Only `--latency`
away from a terminal measures for one interval and prints one line.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Final

from disque.cli.client import Connection
from disque.cli.shell_reply import ErrorReply

ROWS_PER_HEADER: Final = 20
PING_EVERY_S: Final = 0.01
HISTORY_EVERY_S: Final = 15.0
_LIVE_LINE: Final = "\r\x1b[2K"
_COLUMNS: Final = (
    ("jobs", 10, "registered_jobs"),
    ("queues", 8, "registered_queues"),
    ("mem", 10, "used_memory_human"),
    ("clients", 8, "connected_clients"),
    ("blocked", 8, "blocked_clients"),
    ("requests", 24, "total_commands_processed"),
    ("connections", 11, "total_connections_received"),
)
"""The columns of --stat: title, width, the field of INFO."""


class WatchError(Exception):
    """The server answered with an error; the message is its text."""


@dataclass(slots=True)
class Clockwork:
    """What a loop needs of the outside: where lines go, the time in seconds, a way to wait."""

    write: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


def parse_info(text: bytes) -> dict[str, str]:
    """Read the `field:value` lines of INFO."""
    lines = text.decode("utf-8", "replace").splitlines()
    return {name: value for name, colon, value in (line.partition(":") for line in lines) if colon}


def stat_header() -> str:
    """Give the line of titles of --stat."""
    return "".join(title.ljust(width) for title, width, _field in _COLUMNS).rstrip()


def stat_row(info: dict[str, str], requests_before: int | None) -> str:
    """Give a row of --stat; after the requests stands how many came since the last row."""
    cells = []
    for title, width, name in _COLUMNS:
        cell = info.get(name, "-")
        if title == "requests":
            cell += f" (+{_requests(info) - (_requests(info) if requests_before is None else requests_before)})"
        cells.append(cell.ljust(width - 1) + " ")
    return "".join(cells).rstrip()


def _requests(info: dict[str, str]) -> int:
    text = info.get("total_commands_processed", "")
    return int(text) if text.isdigit() else 0


def stat(connection: Connection, interval_s: float, outside: Clockwork, rows: int | None = None) -> None:
    """Print a row each `interval_s`, a header each twenty; end after `rows`. Raises WatchError, OSError."""
    before: int | None = None
    for number in count():
        if number == rows:
            return
        if number:
            outside.sleep(interval_s)
        if number % ROWS_PER_HEADER == 0:
            outside.write(stat_header() + "\n")
        info = parse_info(_ask(connection, b"INFO"))
        outside.write(stat_row(info, before) + "\n")
        before = _requests(info)


def _ask(connection: Connection, command: bytes) -> bytes:
    reply = connection.call([command])
    if isinstance(reply, ErrorReply):
        raise WatchError(reply.decode("utf-8", "replace"))
    return reply if isinstance(reply, bytes) else b""


class Latency:
    """Round trips of one interval, counted by whole microseconds: hours of them take no more room than minutes."""

    def __init__(self) -> None:
        self.samples = 0
        self._total_us = 0
        self._counts: dict[int, int] = {}

    def add(self, elapsed_s: float) -> None:
        """Count a round trip."""
        elapsed_us = round(elapsed_s * 1_000_000)
        self.samples += 1
        self._total_us += elapsed_us
        self._counts[elapsed_us] = self._counts.get(elapsed_us, 0) + 1

    def percentile_us(self, percent: float) -> int:
        """Give the time within which so many of a hundred replies came (nearest rank)."""
        left = math.ceil(self.samples * percent / 100)
        for elapsed_us in sorted(self._counts):
            left -= self._counts[elapsed_us]
            if left <= 0:
                return elapsed_us
        return 0

    def numbers(self) -> dict[str, float]:
        """Give minimum, maximum, average and 99th percentile in milliseconds, and how many samples they are of."""
        return {
            "min": min(self._counts) / 1000,
            "max": max(self._counts) / 1000,
            "avg": self._total_us / self.samples / 1000,
            "p99": self.percentile_us(99) / 1000,
            "samples": self.samples,
        }


def _sentence(numbers: dict[str, float]) -> str:
    return "min: {min:.3f}, max: {max:.3f}, avg: {avg:.3f}, p99: {p99:.3f} ms ({samples} samples)".format_map(numbers)


_FORMS: Final[dict[str, str]] = {
    "raw": "{min:.3f} {max:.3f} {avg:.3f} {p99:.3f} {samples}",
    "csv": "{min:.3f},{max:.3f},{avg:.3f},{p99:.3f},{samples}",
    "json": '{{"min_ms":{min:.3f},"max_ms":{max:.3f},"avg_ms":{avg:.3f},"p99_ms":{p99:.3f},"samples":{samples}}}',
}


def latency_line(latency: Latency, form: str = "") -> str:
    """Show an interval as a sentence, or in the form "raw", "csv" or "json"."""
    numbers = latency.numbers()
    return _FORMS[form].format_map(numbers) if form in _FORMS else _sentence(numbers)


def sample(connection: Connection, outside: Clockwork) -> float:
    """Measure one PING, in seconds. Raises WatchError, OSError."""
    started_s = outside.clock()
    _ask(connection, b"PING")
    return outside.clock() - started_s


def measure(
    connection: Connection, duration_s: float, outside: Clockwork, on_sample: Callable[[Latency], None] | None = None
) -> Latency:
    """Measure every ten milliseconds for `duration_s`, once at least; tell `on_sample` after each."""
    latency = Latency()
    end_s = outside.clock() + duration_s
    while not latency.samples or outside.clock() < end_s:
        latency.add(sample(connection, outside))
        if on_sample is not None:
            on_sample(latency)
        outside.sleep(PING_EVERY_S)
    return latency


def latency_live(connection: Connection, interval_s: float, outside: Clockwork, rounds: int | None = None) -> None:
    """Keep one line up to date on a terminal; a new one after each `interval_s`, which may be infinite."""
    for number in count():
        if number == rounds:
            return
        measure(connection, interval_s, outside, lambda latency: outside.write(_LIVE_LINE + latency_line(latency)))
        outside.write("\n")


def latency_lines(
    connection: Connection, interval_s: float, outside: Clockwork, form: str, rounds: int | None = None
) -> None:
    """Print a line in `form` after each `interval_s`."""
    for number in count():
        if number == rounds:
            return
        outside.write(latency_line(measure(connection, interval_s, outside), form) + "\n")
