"""The figures to reach, and whether a run reached them.

Each goal finds its figure in the book, says what was measured, and judges the median; without a measurement it says so.
What was measured smaller than it is asked for (fewer jobs, fewer cycles) is scaled up, and the text says from what.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from tests.speed.book import Book, Cell, Spread
from tests.speed.celery_brokers import DONE, ON_OURS, ON_REDIS, PROCESSES
from tests.speed.rival import TASKS
from tests.speed.server import REDIS

MILLION: Final = 1_000_000
GIGABYTE: Final = 1e9
CYCLES: Final = 100 * MILLION
#: 20,000 to 23,000 jobs a second with three copies were asked for, where LPUSH gave 72,000 on the same machine.
COPIES_OF_LPUSH: Final = 20_000 / 72_000
#: So much may a process grow over a hundred million cycles and still count as flat.
FLAT_BYTES: Final = 20e6


class Found(NamedTuple):
    """What a run says of a goal: words, and the figure that is judged."""

    text: str
    value: float


class Goal(NamedTuple):
    """A figure to reach: at least `bound`, or at most when `below`."""

    title: str
    bound: float
    below: bool
    asked: str
    find: Callable[[Book, str], Found | None]

    def row(self, book: Book, ours: str) -> tuple[str, str, str, str]:
        """Give title, what was asked, what was measured, and `reached`, `not reached` or `not measured`."""
        found = self.find(book, ours)
        if found is None:
            return self.title, self.asked, "-", "not measured"
        good = found.value < self.bound if self.below else found.value >= self.bound
        return self.title, self.asked, found.text, "reached" if good else "not reached"


def of_redis(what: str, depth: int, key: str = "rate") -> Callable[[Book, str], Found | None]:
    """A figure of the scene `depth` beside Redis'."""

    def find(book: Book, ours: str) -> Found | None:
        own, redis = Cell("depth", ours, what, depth), Cell("depth", REDIS, what, depth)
        ratio, rate = book.ratio(own, redis, key), book.spread(own, "rate")
        if ratio is None or rate is None:
            return None
        return Found(f"{ratio.text('.2f')}; {rate.middle:,.0f} /s{cpu_beside(book, own, redis)}", ratio.middle)

    return find


def cpu_beside(book: Book, cell: Cell, other: Cell) -> str:
    """Say what an operation costs each server: that holds on a busy machine too, where rates do not."""
    ours, theirs = book.spread(cell, "cpu_us"), book.spread(other, "cpu_us")
    return "" if ours is None or theirs is None else f", CPU {ours.middle:.2f} us against {theirs.middle:.2f}"


def copies_rate(book: Book, ours: str) -> Found | None:
    own, redis = Cell("nodes", ours, "add R3 P1", 3), Cell("nodes", REDIS, "lpush P1", 1)
    ratio, rate = book.ratio(own, redis, "rate"), book.spread(own, "rate")
    if ratio is None or rate is None:
        return None
    return Found(f"{ratio.text('.2f')}; {rate.middle:,.0f} /s", ratio.middle)


def copies_cpu(book: Book, ours: str) -> Found | None:
    cell = Cell("nodes", ours, "add R3 P16", 3)
    cpu, rate = book.spread(cell, "cpu_us"), book.spread(cell, "rate")
    if cpu is None or rate is None:
        return None
    return Found(f"{cpu.text('.1f')} us; {rate.middle:,.0f} /s", cpu.middle)


def full_cycle(depth: int) -> Callable[[Book, str], Found | None]:
    def find(book: Book, ours: str) -> Found | None:
        cycle, add = Cell("nodes", ours, f"cycle R3 P{depth}", 3), Cell("nodes", ours, f"add R3 P{depth}", 3)
        ratio = book.ratio(cycle, add, "rate")
        return ratio and Found(ratio.text(".2f"), ratio.middle)

    return find


def job_bytes(what: str) -> Callable[[Book, str], Found | None]:
    def find(book: Book, ours: str) -> Found | None:
        for jobs in reversed(book.sizes("memory", ours, what)):
            one = book.spread(Cell("memory", ours, what, jobs), "job_bytes")
            return one and Found(f"{one.text()} bytes ({jobs:,} jobs)", one.middle)
        return None

    return find


def ten_million(book: Book, ours: str) -> Found | None:
    """Resident memory at ten million delayed jobs, or at the most that there were, scaled up."""
    for jobs in reversed(book.sizes("standing", ours, "delayed")):
        one = book.spread(Cell("standing", ours, "delayed", jobs), "rss_bytes")
        if one is not None:
            whole = one.times(10 * MILLION / jobs / GIGABYTE)
            scaled = "" if jobs == 10 * MILLION else f", scaled up from {jobs:,} jobs"
            return Found(f"{whole.text('.2f')} GB{scaled}", whole.middle)
    return None


def growth(what: str) -> Callable[[Book, str], Found | None]:
    """CPU of a job's life among the most jobs that there were, beside that among the fewest."""

    def find(book: Book, ours: str) -> Found | None:
        sizes = book.sizes("standing", ours, what)
        if len(sizes) < 2:
            return None
        most, least = sizes[-1], sizes[0]
        high, low = (book.spread(Cell("standing", ours, what, size), "cpu_us") for size in (most, least))
        if high is None or low is None:
            return None
        ratio = high.middle / low.middle
        return Found(f"{ratio:.2f}; {low.middle:.2f} us at {least:,} jobs, {high.middle:.2f} us at {most:,}", ratio)

    return find


def of_mixed(key: str, name: str) -> Callable[[Book, str], Found | None]:
    def find(book: Book, ours: str) -> Found | None:
        for live in book.sizes("mixed", ours):
            cell = Cell("mixed", ours, "half", live)
            value, rate = book.spread(cell, key), book.spread(cell, "rate")
            slowest = book.spread(cell, "max_ms")
            if value is not None and rate is not None and slowest is not None:
                load = f"{live:,} jobs, {rate.middle:,.0f} /s, slowest ADDJOB {slowest.middle:.1f} ms"
                return Found(f"{name} {value.text('.1f')} ms ({load})", value.middle)
        return None

    return find


def with_journal(depth: int) -> Callable[[Book, str], Found | None]:
    def find(book: Book, _ours: str) -> Found | None:
        on, off = Cell("journal", "everysec", "add", depth), Cell("journal", "off", "add", depth)
        ratio = book.ratio(on, off, "rate")
        return ratio and Found(ratio.text(".2f") + cpu_beside(book, on, off), ratio.middle)

    return find


def restart_s(book: Book, ours: str) -> Found | None:
    for jobs in reversed(book.sizes("restart", ours)):
        one = book.spread(Cell("restart", ours, "kill -9", jobs), "seconds")
        if one is not None:
            whole = one.times(MILLION / jobs)
            scaled = "" if jobs == MILLION else f", scaled up from {jobs:,} jobs"
            return Found(f"{whole.text('.1f')} s{scaled}", whole.middle)
    return None


def grown(book: Book, ours: str) -> Found | None:
    """How far a process would grow over a hundred million cycles, by its growth over the second half of those tried."""
    sizes = book.sizes("flat", ours)
    if len(sizes) < 3:
        return None
    first, last = sizes[len(sizes) // 2], sizes[-1]
    low, high = (book.spread(Cell("flat", ours, "cycle", size), "rss_bytes") for size in (first, last))
    if low is None or high is None:
        return None
    whole = max(0.0, high.middle - low.middle) * CYCLES / (last - first)
    return Found(
        f"{low.middle / 1e6:.1f} MB after {first:,} cycles, {high.middle / 1e6:.1f} after {last:,}: "
        f"{whole / 1e6:.1f} MB more after a hundred million",
        whole,
    )


def of_tasks(what: str) -> Callable[[Book, str], Found | None]:
    """A rate of `disque.tasks`, and what the fastest of the others reached in the same run."""

    def find(book: Book, _ours: str) -> Found | None:
        one = book.spread(Cell("rivals", TASKS, what, 1), "rate")
        if one is None:
            return None
        names = [name for name in book.servers("rivals") if not name.startswith("disque.")]
        plain = "add" if what.startswith("add") else "work"
        rates = {name: book.spread(Cell("rivals", name, plain, 1), "rate") for name in names}
        fastest = max(((rate.middle, name) for name, rate in rates.items() if rate is not None), default=None)
        beside = "" if fastest is None else f"; the fastest other, {fastest[1]}: {fastest[0]:,.0f}"
        return Found(f"{one.text(',.0f')} /s{beside}", one.middle)

    return find


def celery(book: Book, _ours: str) -> Found | None:
    """Celery on a node beside Celery on Redis."""
    ours, theirs = (Cell("celery", name, DONE, PROCESSES) for name in (ON_OURS, ON_REDIS))
    ratio, rate = book.ratio(ours, theirs, "rate"), book.spread(ours, "rate")
    if ratio is None or rate is None:
        return None
    return Found(f"{ratio.text('.2f')}; {rate.middle:,.0f} /s", ratio.middle)


def latency(key: str) -> Callable[[Book, str], Found | None]:
    def find(book: Book, _ours: str) -> Found | None:
        for rate in book.sizes("tasks", TASKS, "latency"):
            one = book.spread(Cell("tasks", TASKS, "latency", rate), key)
            return one and Found(f"{one.text('.2f')} ms at {rate:,} a second", one.middle)
        return None

    return find


def worker_growth(book: Book, _ours: str) -> Found | None:
    """How much a worker grows over a million tasks, by its growth over the second half of those that were tried."""
    sizes = book.sizes("tasks", TASKS, "done")
    if len(sizes) < 3:
        return None
    first, last = sizes[len(sizes) // 2], sizes[-1]
    low, high = (book.spread(Cell("tasks", TASKS, "done", size), "rss_bytes") for size in (first, last))
    if low is None or high is None:
        return None
    whole = max(0.0, high.middle - low.middle) * MILLION / (last - first)
    return Found(f"{whole / 1e6:.1f} MB more after a million, from {first:,} to {last:,} tasks", whole)


GOALS: Final = (
    Goal("add beside LPUSH, one at a time", 0.95, False, "0.95", of_redis("add", 1)),
    Goal("get beside RPOP, one at a time", 0.95, False, "0.95", of_redis("get", 1)),
    Goal("ack beside DEL, one at a time", 0.9, False, "0.9", of_redis("ack", 1)),
    Goal("CPU of an add beside LPUSH, one at a time", 1.3, True, "below 1.3", of_redis("add", 1, "cpu_us")),
    Goal("CPU of a get beside RPOP, one at a time", 1.3, True, "below 1.3", of_redis("get", 1, "cpu_us")),
    Goal("CPU of an ack beside DEL, one at a time", 1.3, True, "below 1.3", of_redis("ack", 1, "cpu_us")),
    Goal("add beside LPUSH, pipeline 16", 0.36, False, "0.36 (dream 0.5)", of_redis("add", 16)),
    Goal("get beside RPOP, pipeline 16", 0.40, False, "0.40 (dream 0.45)", of_redis("get", 16)),
    Goal("ack beside DEL, pipeline 16", 0.4, False, "0.4", of_redis("ack", 16)),
    Goal("three copies on three nodes, one at a time, beside LPUSH", COPIES_OF_LPUSH, False, "0.28", copies_rate),
    Goal("three copies, pipeline 16: CPU of a job over all nodes", 24, True, "below 24 us", copies_cpu),
    Goal("three copies: add, get, ack beside add, one at a time", 0.5, False, "0.5", full_cycle(1)),
    Goal("three copies: add, get, ack beside add, pipeline 16", 0.5, False, "0.5", full_cycle(16)),
    Goal("memory of a queued 100-byte job", 420, True, "below 420 bytes", job_bytes("queued")),
    Goal("memory of a delayed 100-byte job", 400, True, "below 400 bytes (dream 350)", job_bytes("delayed")),
    Goal("ten million delayed 20-byte jobs over an hour", 3.5, True, "below 3.5 GB", ten_million),
    Goal("flat memory over a hundred million cycles", FLAT_BYTES, True, "below 20 MB of growth", grown),
    Goal("a million live jobs, half the load: ADDJOB", 10, True, "p99.9 below 10 ms", of_mixed("p99.9_ms", "p99.9")),
    Goal(
        "a million live jobs, half the load: until delivery",
        *(10, True, "p99.9 below 10 ms", of_mixed("delivery_p99.9_ms", "p99.9")),
    ),
    Goal("a million live jobs, half the load: the loop", 50, True, "turns below 50 ms", of_mixed("turn_ms", "longest")),
    Goal("journal everysec beside none, add, one at a time", 0.85, False, "0.85", with_journal(1)),
    Goal("journal everysec beside none, add, pipeline 16", 0.85, False, "0.85", with_journal(16)),
    Goal("restart with a million jobs after kill -9", 6, True, "below 6 s", restart_s),
    Goal("CPU of a job among very many queued ones", 1.3, True, "within 1.3", growth("queued")),
    Goal("CPU of a job among very many delayed ones", 1.3, True, "within 1.3", growth("delayed")),
    Goal("tasks a second, one worker process", 6000, False, "6,000 /s", of_tasks("work")),
    Goal("tasks a second, two worker processes", 12_600, False, "12,600 /s", of_tasks("work, two processes")),
    Goal("enqueue_many, one process", 20_000, False, "20,000 /s", of_tasks("add, many at once")),
    Goal("from enqueue to start at a tenth of the load: p50", 2, True, "below 2 ms", latency("p50_ms")),
    Goal("from enqueue to start at a tenth of the load: p99", 10, True, "below 10 ms", latency("p99_ms")),
    Goal("memory of a worker over a million tasks", 20e6, True, "below 20 MB of growth", worker_growth),
    Goal("Celery on disque:// beside Celery on Redis, tasks done", 1.0, False, "level", celery),
)


def judged(book: Book, ours: str) -> list[tuple[str, str, str, str]]:
    """Give a row for each goal."""
    return [goal.row(book, ours) for goal in GOALS]


def middle(value: Spread | None) -> float:
    """Give the median, or nan where nothing was measured."""
    return value.middle if value is not None else float("nan")
