"""What a phase measured, in a form that adds up: lanes of a process, processes of a run, slices of a comparison."""

from disque.cli.bench_histogram import Histogram
from disque.cli.bench_resp import BenchError, ErrorReply, Reply, is_fatal

_ERROR_TEXTS_MAX = 50


class Tally:
    """Counts, latencies and cost of one phase. `fatal` is the line that ended it early, or empty."""

    __slots__ = (
        "added",
        "client_cpu_s",
        "delivered",
        "elapsed_s",
        "empty",
        "errors",
        "fatal",
        "foreign",
        "interrupted",
        "jobs",
        "last_ns",
        "latency",
        "lost",
        "operations",
        "requests",
        "twice",
    )

    def __init__(self) -> None:
        self.operations = 0
        self.requests = 0
        self.jobs = 0
        self.empty = 0
        self.errors: dict[str, int] = {}
        self.latency = Histogram()
        self.delivered: Histogram | None = None
        self.added = 0
        self.lost = 0
        self.twice = 0
        self.foreign = 0
        self.last_ns = 0  # when the last job came, where the phase goes on for a while after it
        self.elapsed_s = 0.0
        self.client_cpu_s = 0.0
        self.fatal = ""
        self.interrupted = False

    def complain(self, text: str) -> None:
        """Count a reply that should not have come; texts beyond the first 50 are counted together."""
        key = text if text in self.errors or len(self.errors) < _ERROR_TEXTS_MAX else "(other errors)"
        self.errors[key] = self.errors.get(key, 0) + 1

    def refuse(self, reply: Reply) -> None:
        """Count a reply of the wrong kind.

        Raises BenchError when the server would answer all that follows in the same way.
        """
        text = str(reply) if isinstance(reply, ErrorReply) else f"unexpected reply {reply!r:.60}"
        self.complain(text)
        if isinstance(reply, ErrorReply) and is_fatal(text):
            raise BenchError(text)

    def merge(self, other: "Tally", *, parallel: bool) -> None:
        """Add the figures of another tally, which was measured at the same time (`parallel`) or after this one."""
        for name in ("operations", "requests", "jobs", "empty", "added", "lost", "twice", "foreign", "client_cpu_s"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for text, times in other.errors.items():
            self.errors[text] = self.errors.get(text, 0) + times
        self.latency.merge(other.latency)
        if other.delivered is not None:
            self.delivered = self.delivered or Histogram()
            self.delivered.merge(other.delivered)
        longest_s = max(self.elapsed_s, other.elapsed_s)
        self.elapsed_s = longest_s if parallel else self.elapsed_s + other.elapsed_s
        self.fatal = self.fatal or other.fatal
        self.interrupted = self.interrupted or other.interrupted

    @property
    def rate(self) -> float:
        """Give operations per second."""
        return self.operations / self.elapsed_s if self.elapsed_s > 0 else 0.0

    @property
    def failed(self) -> bool:
        """Say whether anything came that should not have come, or did not come that should."""
        return bool(self.errors or self.fatal or self.lost or self.twice or self.foreign)
