"""What a worker counts, as Prometheus reads it. Each process counts for itself."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

#: Upper bounds of histograms, in seconds.
BOUNDS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 300.0, 1800.0)


class Histogram:
    """How many values were below which bound, and their sum."""

    __slots__ = ("counts", "sum")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        """One more value."""
        self.counts[bisect_left(BOUNDS, value)] += 1
        self.sum += value


class Metrics:
    """Counters of one worker process."""

    def __init__(self) -> None:
        self.fetched = 0
        self.ended: Counter[tuple[str, str]] = Counter()
        self.run_s: dict[str, Histogram] = {}
        self.wait_s: dict[str, Histogram] = {}

    def began(self, queue: str, waited_s: float) -> None:
        """A job begins, for which its queue was waiting so long."""
        found = self.wait_s.get(queue)
        if found is None:
            found = self.wait_s[queue] = Histogram()
        found.add(waited_s)

    def over(self, task: str, outcome: str, seconds: float) -> None:
        """A call is over."""
        self.ended[task, outcome] += 1
        found = self.run_s.get(task)
        if found is None:
            found = self.run_s[task] = Histogram()
        found.add(seconds)

    def text(self, gauges: Mapping[str, tuple[str, float]]) -> str:
        """Everything in the text format; ``gauges`` are more values, each with what it means."""
        lines: list[str] = []
        head(lines, "disque_worker_fetched_total", "counter", "Jobs that were taken.")
        lines.append(f"disque_worker_fetched_total {self.fetched}")
        head(lines, "disque_worker_runs_total", "counter", "Calls that are over, by what became of them.")
        lines += [
            f'disque_worker_runs_total{{task="{escaped(task)}",outcome="{outcome}"}} {count}'
            for (task, outcome), count in sorted(self.ended.items())
        ]
        histograms(lines, "disque_worker_run_seconds", "How long calls ran.", "task", self.run_s.items())
        histograms(lines, "disque_worker_wait_seconds", "How long jobs were due.", "queue", self.wait_s.items())
        for name, (meaning, value) in gauges.items():
            head(lines, name, "gauge", meaning)
            lines.append(f"{name} {value:g}")
        return "\n".join(lines) + "\n"


def head(lines: list[str], name: str, kind: str, meaning: str) -> None:
    """The lines above a metric."""
    lines += (f"# HELP {name} {meaning}", f"# TYPE {name} {kind}")


def histograms(lines: list[str], name: str, meaning: str, label: str, found: Iterable[tuple[str, Histogram]]) -> None:
    """All histograms of a metric."""
    head(lines, name, "histogram", meaning)
    for value, histogram in sorted(found):
        own = f'{label}="{escaped(value)}"'
        below = 0
        for bound, count in zip((*map(str, BOUNDS), "+Inf"), histogram.counts, strict=True):
            below += count
            lines.append(f'{name}_bucket{{{own},le="{bound}"}} {below}')
        lines += (f"{name}_sum{{{own}}} {histogram.sum:g}", f"{name}_count{{{own}}} {below}")


def escaped(text: str) -> str:
    """A text as the value of a label."""
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
