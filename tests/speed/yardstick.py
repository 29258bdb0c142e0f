"""How fast this server is beside redis-server, driven by redis-benchmark: `make yardstick`.

Starts its own servers on free ports of 127.0.0.1 in a temporary folder and measures them in turn (A B A B ...), since
machines drift: the ratio of two runs side by side says more than either figure. LPUSH stands for ADDJOB and RPOP for
GETJOB; 50 connections, bodies of 100 bytes. Processor time is the server's, from the system.

Not a test: nothing here passes or fails.
"""

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from tests.speed.redis_benchmark import redis_benchmark
from tests.speed.server import PLAIN, REDIS, Redis, Server, missing, new_server
from tests.speed.setting import BODY

ADDJOB: Final = ["ADDJOB", "q", BODY.decode(), "0"]
LPUSH: Final = ["LPUSH", "q", BODY.decode()]
ALWAYS: Final = ("--appendonly", "yes", "--appendfsync", "always")


class Run(NamedTuple):
    """What one run of redis-benchmark gave."""

    per_second: float
    cpu_us: float


def load(server: Server, words: list[str], operations: int, pipeline: int) -> Run:
    """Let redis-benchmark send a command many times."""
    values = redis_benchmark(server, pipeline, operations, words)
    return Run(values["rate"], values["cpu_us"])


@contextmanager
def running(folder: Path, name: str, *options: str) -> Iterator[Server]:
    """Give a server that is gone afterwards."""
    server = new_server(name, folder, [PLAIN], *options)
    try:
        server.start()
        yield server
    finally:
        server.discard()


ADD: Final = (ADDJOB, LPUSH)
GET: Final = (["GETJOB", "FROM", "q"], ["RPOP", "q"])


def words_for(server: Server, pair: tuple[list[str], list[str]]) -> list[str]:
    """The command of ``pair`` that the server understands."""
    return pair[1] if isinstance(server, Redis) else pair[0]


def compare(title: str, ours: Server, other: Server, *, pipeline: int, operations: int, rounds: int, get: bool) -> None:
    """Measure both in turn and print a line for adding, and one for getting."""
    names = ["add", "get"] if get else ["add"]
    pairs: dict[str, list[tuple[Run, Run]]] = {name: [] for name in names}
    for _ in range(rounds):
        for server in (ours, other):
            server.flush()
        for name in names:
            pair = ADD if name == "add" else GET
            a = load(ours, words_for(ours, pair), operations, pipeline)
            b = load(other, words_for(other, pair), operations, pipeline)
            pairs[name].append((a, b))
    for name, runs in pairs.items():
        ratios = sorted(a.per_second / b.per_second for a, b in runs)
        print(
            f"{title:<34} {name}  P{pipeline:<3} {median(a.per_second for a, _ in runs):>9,.0f} /s "
            f"{median(b.per_second for _, b in runs):>11,.0f} /s   ratio {median(ratios):.2f} "
            f"({ratios[0]:.2f}-{ratios[-1]:.2f})   cpu {median(a.cpu_us for a, _ in runs):5.2f} us "
            f"{median(b.cpu_us for _, b in runs):5.2f} us",
            flush=True,
        )


def memory_per_job(folder: Path, jobs: int) -> None:
    """Print what a queued job of 100 bytes adds to the resident set of a fresh server."""
    with running(folder, PLAIN.name) as server:
        before = server.rss()
        load(server, ADDJOB, jobs, 16)
        grown = server.rss() - before
        print(f"memory: {grown / jobs:.0f} bytes of RSS a job, {jobs:,} jobs of 100 bytes")


def measure(folder: Path, rounds: int, scale: float) -> None:
    """Run everything."""
    with running(folder, PLAIN.name) as plain:
        with running(folder, REDIS) as redis:
            for pipeline, operations in ((1, 100_000), (16, 400_000)):
                count = int(operations * scale)
                compare("disque : redis", plain, redis, pipeline=pipeline, operations=count, rounds=rounds, get=True)
        with running(folder, PLAIN.name, "--appendonly", "yes") as every:
            for pipeline, operations in ((1, 100_000), (16, 400_000)):
                count = int(operations * scale)
                title = "everysec : journal off"
                compare(title, every, plain, pipeline=pipeline, operations=count, rounds=rounds, get=True)
    with running(folder, PLAIN.name, *ALWAYS) as ours, running(folder, REDIS, *ALWAYS) as theirs:
        for pipeline, operations in ((1, 60_000), (16, 200_000)):
            count = int(operations * scale)
            compare("both always", ours, theirs, pipeline=pipeline, operations=count, rounds=rounds, get=False)
    memory_per_job(folder, int(1_000_000 * scale))


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(description="Compare this server with redis-server, driven by redis-benchmark.")
    parser.add_argument("--rounds", type=int, default=5, help="how often each is measured (5)")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the number of operations (1.0)")
    options = parser.parse_args()
    if absent := missing(["redis-server", "redis-benchmark"]):
        raise SystemExit(f"missing: {' '.join(absent)}; apt-get install redis-tools redis-server")
    print("medians; a ratio is ours : theirs within a round, lowest and highest round in brackets; cpu is the server's")
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), options.rounds, options.scale)


if __name__ == "__main__":
    main()
