"""From options to figures: prefill, warm up, measure, clean up; with one server, or two in turns.

In a comparison the servers take turns in slices (A B A B ...). So other load on the machine affects both alike, and the
spread of the ratio shows how far to trust it.
"""

import contextlib
import dataclasses
import secrets
import statistics
from collections.abc import Callable
from typing import Final

from disque.cli.bench_crew import Crew, new_crew, shares
from disque.cli.bench_options import WORKLOADS, Address, Amount, Options
from disque.cli.bench_resp import BenchError
from disque.cli.bench_station import Job
from disque.cli.bench_tally import Tally
from disque.cli.bench_target import Target

# What must be in the server before a workload that consumes: steps, and whether each needs COUNT times as much.
_PREFILL: Final[dict[str, tuple[tuple[str, bool], ...]]] = {
    "get": (("stock", True),),
    "ack": (("add", False), ("fetch", False)),
    "rpop": (("restock", True),),
    "del": (("set", False),),
}

Progress = Callable[[str, int, Amount], bool]
"""Is told what is being done, how much of it is done, and how much there is; says whether to go on."""


@dataclasses.dataclass(slots=True)
class Figures:
    """What one workload cost on one server; `server_cpu_s` is None while no slice has come to its end."""

    workload: str
    address: str
    server: str
    source: str
    tally: Tally
    clients: int
    server_cpu_s: float | None = None
    rss_before_bytes: int = 0
    rss_after_bytes: int = 0
    rates: list[float] = dataclasses.field(default_factory=list)


class Side:
    """One server with the crew that loads it."""

    def __init__(self, options: Options, address: Address, progress: Progress) -> None:
        self.target = Target(address)
        self._options = options
        self._address = address
        self._progress = progress
        self._crew: Crew | None = None

    def begin(self, workload: str) -> Figures:
        """Get ready for a workload.

        Raises BenchError when this kind of server does not know it.
        """
        need = WORKLOADS[workload]
        if need.server != self.target.kind:
            advice = f", its yardstick is '{need.twin}'" if need.twin and self.target.kind == "redis" else ""
            raise BenchError(f"{self._address} is {self.target.name}: it cannot do '{workload}'{advice}")
        own = dataclasses.replace(self._options, address=self._address, workloads=(workload,))
        self._crew = new_crew(own, f"bench-{secrets.token_hex(4)}")
        target = self.target
        return Figures(workload, str(self._address), target.name, target.source, Tally(), self._options.clients)

    def prepare(self, workload: str, amount: Amount) -> None:
        """Put into the server what a workload of this size will consume."""
        operations = amount.operations or self._options.prefill_operations()
        for step, counted in _PREFILL.get(workload, ()):
            size = operations * (self._options.count if counted else 1)
            self._check(self._step(f"{workload}: prefill", Job(step, size), Amount(size, None)))

    def warm_up(self, workload: str) -> None:
        """Do the workload for a while without measuring."""
        amount = self._options.warmup
        if amount.operations == 0:
            return
        self.prepare(workload, amount)
        self._check(self._step(f"{workload}: warm-up", Job(workload, *amount), amount))

    def measure(self, figures: Figures, amount: Amount) -> None:
        """Do the workload and add what it cost to `figures`.

        Raises BenchError when it ended early, and KeyboardInterrupt.
        """
        workload = figures.workload
        operations = amount.operations
        if workload in _PREFILL:
            operations = operations or self._options.prefill_operations()
        before = self.target.usage()
        job = Job(workload, operations, amount.seconds, self._options.rate)
        tally = self._step(f"{workload} {self._address}", job, amount)
        figures.tally.merge(tally, parallel=False)
        figures.rss_before_bytes = figures.rss_before_bytes or before.rss_bytes
        if tally.fatal:
            raise BenchError(_with_place(tally.fatal, self._address, tally.operations))
        after = self.target.usage()
        figures.rates.append(tally.rate)
        figures.server_cpu_s = (figures.server_cpu_s or 0.0) + after.cpu_s - before.cpu_s
        figures.rss_after_bytes = after.rss_bytes
        if tally.interrupted:
            raise KeyboardInterrupt

    def _step(self, label: str, job: Job, amount: Amount) -> Tally:
        assert self._crew is not None
        return self._crew.run(job, lambda operations: self._progress(label, operations, amount))

    def _check(self, tally: Tally) -> None:
        """Raise BenchError when a step that is not measured went wrong: the next would measure something else."""
        if tally.interrupted:
            raise KeyboardInterrupt
        if tally.failed:
            text = tally.fatal or next(iter(tally.errors), "jobs were lost or came twice during the warm-up")
            raise BenchError(_with_place(text, self._address, None))

    def end(self, *, clean: bool) -> None:
        """Remove what is left in the server, if asked, and let the crew go."""
        if self._crew is None:
            return
        crew, self._crew = self._crew, None
        try:
            if clean:
                self._progress("cleaning up", 0, Amount(None, None))
                crew.clean()
        finally:
            crew.close()

    def close(self) -> None:
        """Let the crew and the server go."""
        self.end(clean=False)
        self.target.close()


def _with_place(text: str, address: Address, operations: int | None) -> str:
    line = text if str(address) in text else f"{address}: {text}"
    return line if operations is None else f"{line} (after {operations} operations)"


class Run:
    """All workloads of the options; `figures` grows as it is measured."""

    def __init__(self, options: Options, progress: Progress) -> None:
        self.options = options
        self.figures: list[Figures] = []
        self._sides: list[Side] = []
        self._progress = progress

    def run(self) -> None:
        """Measure everything.

        Raises BenchError and KeyboardInterrupt; what was measured until then is in `figures`.
        """
        addresses = [self.options.address, *([self.options.compare] if self.options.compare else [])]
        try:
            for address in addresses:
                self._sides.append(Side(self.options, address, self._progress))
            for workload in self.options.workloads:
                self._workload(workload)
        except BenchError:
            self._clean_up()
            raise
        finally:
            for side in self._sides:
                side.close()

    def _clean_up(self) -> None:
        """Remove what can be removed after a failure: one of the servers may be well."""
        for side in self._sides:
            with contextlib.suppress(BenchError):
                side.end(clean=not self.options.keep)

    def _workload(self, workload: str) -> None:
        names = [workload, *(self._twin(workload, side) for side in self._sides[1:])]
        measured = [side.begin(name) for side, name in zip(self._sides, names, strict=True)]
        self.figures += measured
        for side, figures in zip(self._sides, measured, strict=True):
            side.warm_up(figures.workload)
        for amount in self._slices():
            for side, figures in zip(self._sides, measured, strict=True):
                side.prepare(figures.workload, amount)
                side.measure(figures, amount)
        for side in self._sides:
            side.end(clean=not self.options.keep)

    def _twin(self, workload: str, side: Side) -> str:
        """Name what the second server does while the first does `workload`."""
        if self.options.compare_workload:
            return self.options.compare_workload
        need = WORKLOADS[workload]
        if side.target.kind == "redis" and need.server == "disque":
            if not need.twin:
                raise BenchError(f"{side.target.address} is a Redis server, and Redis has nothing like '{workload}'")
            return need.twin
        return workload

    def _slices(self) -> list[Amount]:
        amount, count = self.options.amount, self.options.slices if self.options.compare else 1
        seconds = None if amount.seconds is None else amount.seconds / count
        if amount.operations is None:
            return [Amount(None, seconds)] * count
        return [Amount(share, seconds) for share in shares(amount.operations, count) if share]


def ratio(first: Figures, second: Figures) -> dict[str, object]:
    """Give the rate of the first server over that of the second: median, extremes, and one a slice."""
    pairs = zip(first.rates, second.rates, strict=False)
    each = [mine / theirs for mine, theirs in pairs if theirs > 0]
    if not each:
        return {"median": None, "min": None, "max": None, "slices": []}
    middle = statistics.median(each)
    return {
        "median": round(middle, 4),
        "min": round(min(each), 4),
        "max": round(max(each), 4),
        "slices": [round(one, 4) for one in each],
    }
