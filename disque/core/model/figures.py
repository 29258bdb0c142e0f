"""What is counted of a queue beside its jobs, and how long these wait and run.

All jobs of a queue find the one object through their spec. Times are samples (see `replication.spans`). They go into a
histogram of four counts for each power of two, so a percentile is right within an eighth. When it has `TOTAL_MOST`
times all counts are halved: what was lately counts more.
"""

from typing import Final

from mypy_extensions import mypyc_attr

#: Times in a histogram.
TOTAL_MOST: Final = 8192
#: Longer times, in ms, are no times.
TIME_MOST: Final = (1 << 43) - 1
#: Counts that a histogram can have.
COUNTS_MOST: Final = 168


@mypyc_attr(acyclic=True)
class Histogram:
    """How often which times in ms were seen. ``counts`` are those by `place`, as far as there are any.

    ``aged`` is what halving took from them, ``sum_ms`` the sum of all times.
    """

    __slots__ = ("aged", "counts", "sum_ms", "total")

    def __init__(self) -> None:
        self.counts: list[int] = []
        self.aged: list[int] = []
        self.sum_ms = 0
        self.total = 0

    def add(self, ms: int) -> None:
        """Count a time."""
        ms = max(0, min(ms, TIME_MOST))
        at = place(ms)
        self.sum_ms += ms
        counts = self.counts
        while len(counts) <= at:
            counts.append(0)
        counts[at] += 1
        self.total += 1
        if self.total >= TOTAL_MOST:
            self._halve()

    def _halve(self) -> None:
        """Let the times so far count half."""
        counts, aged = self.counts, self.aged
        self.counts = [count >> 1 for count in counts]
        self.total = sum(self.counts)
        while len(aged) < len(counts):
            aged.append(0)
        for at, count in enumerate(counts):
            aged[at] += count - self.counts[at]

    def ever(self) -> list[int]:
        """How often each time was seen since the queue is there; this only grows."""
        ever = list(self.counts)
        for at, count in enumerate(self.aged):
            ever[at] += count
        return ever

    def merge(self, counts: list[int]) -> None:
        """Add the counts of another one."""
        mine = self.counts
        while len(mine) < len(counts):
            mine.append(0)
        for at, count in enumerate(counts):
            mine[at] += count
            self.total += count

    def percentile(self, percent: int) -> int:
        """The time, in ms, that so many of a hundred do not exceed; 0 where there is none."""
        wanted = (self.total * percent + 99) // 100
        seen = 0
        for at, count in enumerate(self.counts):
            seen += count
            if seen >= wanted and count:
                return middle(at)
        return 0


def place(ms: int) -> int:
    """Where a time is counted."""
    if ms < 8:
        return ms
    exponent = ms.bit_length() - 3
    return 4 * exponent + (ms >> exponent)


def middle(at: int) -> int:
    """The time in the middle of those that are counted there."""
    if at < 8:
        return at
    exponent = at // 4 - 1
    return (2 * (at - 4 * exponent) + 1 << exponent) // 2


@mypyc_attr(acyclic=True)
class Figures:
    """Those of one queue at one node, since that knows jobs of it.

    Counts only grow. ``waits`` are times from due to the first delivery, ``runs`` from a delivery to its
    acknowledgement. ``sample_ms`` is when the next of these may be taken. ``noted`` is what was added, acknowledged,
    given back and died when QHISTORY looked last.
    """

    __slots__ = ("acked", "added", "cancelled", "died", "dropped", "expired", "nacked", "noted", "retried", "runs",
                 "sample_ms", "waits")  # fmt: skip

    def __init__(self) -> None:
        self.added = 0
        self.acked = 0
        self.sample_ms = 0
        self.nacked = 0
        self.retried = 0
        self.died = 0
        self.expired = 0
        self.cancelled = 0
        self.dropped = 0
        self.noted = (0, 0, 0, 0)
        self.waits: Histogram | None = None
        self.runs: Histogram | None = None

    def waited(self, ms: int) -> None:
        """A job was delivered for the first time."""
        if self.waits is None:
            self.waits = Histogram()
        self.waits.add(ms)

    def ran(self, ms: int) -> None:
        """A job was acknowledged."""
        if self.runs is None:
            self.runs = Histogram()
        self.runs.add(ms)
