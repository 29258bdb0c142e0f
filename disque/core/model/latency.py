"""The latency monitor: which kinds of work were slow, when, and what to do about it.

Whoever measures a piece of work that took at least `latency-monitor-threshold` milliseconds reports it under the name
of an event (`command`, `aof-fsync-always`, ...). An event keeps 160 samples, one for a second: the worst of it. So a
burst of slow commands does not push out the memory of the last hour, and a graph has a column for each moment that was
slow.
"""

from collections import deque
from typing import Final

SAMPLES_MAX: Final = 160
GRAPH_COLUMNS: Final = 80
GRAPH_ROWS: Final = 4
GRAPH_LEVELS: Final = b"_o#"  # a third, two thirds and all of the height of a row

AGE_UNITS: Final = ((86400, b"d"), (3600, b"h"), (60, b"m"))

COMMAND_ADVICE: Final = (
    b"SLOWLOG GET shows which commands they were; CONFIG SET slowlog-log-slower-than lowers the threshold.",
    b"Ask for less in one request: a smaller COUNT for QSCAN, JSCAN, QPEEK and GETJOB, no BUSYLOOP, fewer IDs.",
)
MACHINE_ADVICE: Final = (
    b"Commands of constant cost are slow: look for other programs, too few processors, or swapping.",
)
DISK_ADVICE: Final = (
    b"The disk keeps the server waiting: look for other programs that write to it, or give the journal its own.",
    b"With 'appendfsync everysec' clients do not wait for the disk; a crash of the machine can lose a second.",
)
QUEUE_ADVICE: Final = (b"Many jobs fall due in one moment: spread the DELAY or RETRY of jobs that are added together.",)
MEMORY_ADVICE: Final = (b"The node is at its limit of memory: raise maxmemory, or let the consumers catch up.",)
TURN_ADVICE: Final = (
    b"One event loop iteration, with all that was served in it. If no other event stands at the same time, the",
    b"machine kept the process waiting: look for other programs, too few processors, or swapping.",
)
NO_ADVICE: Final = (b"Look at what the machine and the clients did at the times that LATENCY HISTORY shows.",)

ADVICE: Final[tuple[tuple[bytes, tuple[bytes, ...]], ...]] = (  # the first beginning that fits the event
    (b"command", COMMAND_ADVICE),
    (b"fast-command", MACHINE_ADVICE),
    (b"aof-", DISK_ADVICE),
    (b"jobs-processing", QUEUE_ADVICE),
    (b"eviction", MEMORY_ADVICE),
    (b"event-loop", TURN_ADVICE),
    (b"", NO_ADVICE),
)


class LatencyEvent:
    """The samples of one event, oldest first, as (second since 1970, milliseconds), and the worst of all so far."""

    __slots__ = ("max_ms", "samples")

    def __init__(self) -> None:
        self.samples: deque[tuple[int, int]] = deque()
        self.max_ms = 0

    def add(self, time_s: int, latency_ms: int) -> None:
        """Take a sample. Of one second the worst is kept."""
        self.max_ms = max(self.max_ms, latency_ms)
        if self.samples and self.samples[-1][0] == time_s:
            latency_ms = max(latency_ms, self.samples.pop()[1])
        elif len(self.samples) == SAMPLES_MAX:
            self.samples.popleft()
        self.samples.append((time_s, latency_ms))


class LatencyMonitor:
    """The events that were slow, by name. Whoever reports compares with the threshold first."""

    __slots__ = ("_events",)

    def __init__(self) -> None:
        self._events: dict[bytes, LatencyEvent] = {}

    def add(self, event: bytes, time_s: int, latency_ms: int) -> None:
        """Report that `event` took `latency_ms` at `time_s` (seconds since 1970)."""
        if event not in self._events:
            self._events[event] = LatencyEvent()
        self._events[event].add(time_s, latency_ms)

    def latest(self) -> list[tuple[bytes, int, int, int]]:
        """Give (event, second of its last sample, milliseconds of it, worst milliseconds) of each event."""
        return [(name, *event.samples[-1], event.max_ms) for name, event in self._events.items()]

    def history(self, event: bytes) -> list[tuple[int, int]]:
        """Give the samples of an event, oldest first, as (second since 1970, milliseconds); none if it is unknown."""
        known = self._events.get(event)
        return [] if known is None else list(known.samples)

    def reset(self, events: list[bytes]) -> int:
        """Forget the events named, or all if none is; give how many were there."""
        names = events or list(self._events)
        return sum([self._events.pop(name, None) is not None for name in names])

    def graph(self, event: bytes, now_s: int) -> bytes | None:
        """Draw the last 80 samples of an event, with their ages below; None if it has no samples."""
        known = self._events.get(event)
        return None if known is None else draw(event, known, now_s)

    def doctor(self, now_s: int, threshold_ms: int) -> bytes:
        """Tell in words what was slow, how slow and how often, and what may help."""
        if threshold_ms == 0 and not self._events:
            return b"Latency is not watched. Start with: CONFIG SET latency-monitor-threshold <milliseconds>\n"
        if not self._events:
            return b"All is well: nothing has taken %d ms or longer.\n" % threshold_ms
        lines = [b"%d kind(s) of work were slow. The worst comes first.\n\n" % len(self._events)]
        worst_first = sorted(self._events.items(), key=_worst_first)
        lines += [diagnosis(name, event, now_s) for name, event in worst_first]
        return b"".join(lines)


def _worst_first(item: tuple[bytes, LatencyEvent]) -> tuple[int, bytes]:
    return -item[1].max_ms, item[0]


def age(seconds: int) -> bytes:
    """Give an age in its largest whole unit: `42s`, `3m`, `5h`, `2d`."""
    for unit_s, name in AGE_UNITS:
        if seconds >= unit_s:
            return b"%d%s" % (seconds // unit_s, name)
    return b"%ds" % max(0, seconds)


def diagnosis(name: bytes, event: LatencyEvent, now_s: int) -> bytes:
    """Describe one event: how many samples, how bad, how regular, since when, and what may help."""
    samples = event.samples
    latencies = [latency_ms for _, latency_ms in samples]
    mean_ms = sum(latencies) / len(latencies)
    deviation_ms = sum([abs(latency_ms - mean_ms) for latency_ms in latencies]) / len(latencies)
    span_s = samples[-1][0] - samples[0][0]
    lines = [
        b"%s: %d slow second(s), mean %.0f ms (mean deviation %.0f ms), worst %d ms."
        % (name, len(samples), mean_ms, deviation_ms, event.max_ms),
        b"  The last one was %s ago%s." % (age(now_s - samples[-1][0]), _rhythm(len(samples), span_s)),
    ]
    lines += [b"  - " + advice for advice in advice_for(name)]
    return b"\n".join(lines) + b"\n\n"


def _rhythm(count: int, span_s: int) -> bytes:
    return b", on average one each %s" % age(span_s // (count - 1)) if count > 1 else b""


def advice_for(event: bytes) -> tuple[bytes, ...]:
    """Give what may help against an event."""
    return next(advice for beginning, advice in ADVICE if event.startswith(beginning))


def draw(name: bytes, event: LatencyEvent, now_s: int) -> bytes:
    """Draw the last samples of an event as columns, each with its age written downwards below it."""
    samples = list(event.samples)[-GRAPH_COLUMNS:]
    latencies = [latency_ms for _, latency_ms in samples]
    high_ms, low_ms = max(latencies), min(latencies)
    head = b"%s - high %d ms, low %d ms (all time high %d ms)" % (name, high_ms, low_ms, event.max_ms)
    columns = [column(latency_ms - low_ms, high_ms - low_ms) for latency_ms in latencies]
    labels = [age(now_s - time_s) for time_s, _ in samples]
    depth = max([len(label) for label in labels])
    bars = [row for row in across(columns) if row]
    rows = [head, b"-" * GRAPH_COLUMNS, *bars, b"", *across([label.ljust(depth) for label in labels])]
    return b"\n".join(rows) + b"\n"


def column(value: int, span: int) -> bytes:
    """Give one column, top first: `value` of `span` as height, at least the lowest step; all is low if `span` is 0."""
    steps = GRAPH_ROWS * len(GRAPH_LEVELS)
    height = value * (steps - 1) // span if span else 0
    full, level = divmod(height, len(GRAPH_LEVELS))
    return (b" " * (GRAPH_ROWS - full - 1)) + GRAPH_LEVELS[level : level + 1] + b"|" * full


def across(columns: list[bytes]) -> list[bytes]:
    """Turn columns of one length into rows, without blanks at their ends."""
    return [bytes(row).rstrip() for row in zip(*columns, strict=True)]
