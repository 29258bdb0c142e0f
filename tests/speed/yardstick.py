"""How fast this server is beside redis-server, driven by redis-benchmark: `make yardstick`.

Starts its own servers on free ports of 127.0.0.1 in a temporary folder and measures them in turn (A B A B ...), since
machines drift: the ratio of two runs side by side says more than either figure. LPUSH stands for ADDJOB and RPOP for
GETJOB; 50 connections, bodies of 100 bytes. Processor time is the server's, from the system.

Not a test: nothing here passes or fails.
"""

import argparse
import csv
import io
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

import psutil

BODY = "x" * 100
DISQUE = [sys.executable, "-m", "disque.cli.serve", "--maxmemory", "8gb", "--loglevel", "warning"]
REDIS = ["redis-server", "--save", "", "--loglevel", "warning"]


class Run(NamedTuple):
    """What one run of redis-benchmark gave."""

    per_second: float
    cpu_us: float


class Server:
    """A server of either kind in a process of its own."""

    def __init__(self, folder: Path, name: str, command: list[str], *options: str) -> None:
        self.name = name
        self.is_redis = command is REDIS
        self.port = free_port()
        home = folder / name
        home.mkdir()
        words = [*command, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(home), *options]
        self.process = psutil.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.wait()

    def wait(self) -> None:
        """Return when the server answers."""
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
            except ConnectionRefusedError:
                time.sleep(0.05)
            else:
                return
        raise SystemExit(f"{self.name} does not answer")

    def load(self, words: list[str], operations: int, pipeline: int) -> Run:
        """Let redis-benchmark send a command many times."""
        before = self.process.cpu_times()
        options = ["-p", str(self.port), "-c", "50", "-P", str(pipeline), "-n", str(operations), "--csv"]
        report = subprocess.run(
            ["redis-benchmark", *options, *words], capture_output=True, check=True, text=True
        ).stdout
        after = self.process.cpu_times()
        spent_s = after.user + after.system - before.user - before.system
        rate = float(list(csv.reader(io.StringIO(report)))[-1][1])
        return Run(rate, spent_s * 1e6 / operations)

    def flush(self) -> None:
        """Forget everything."""
        words = ["FLUSHALL"] if self.is_redis else ["DEBUG", "FLUSHALL"]
        subprocess.run(["redis-cli", "-p", str(self.port), *words], check=True, stdout=subprocess.DEVNULL)
        time.sleep(0.3)

    def stop(self) -> None:
        """End the process."""
        self.process.terminate()
        self.process.wait()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


ADD = (["ADDJOB", "q", BODY, "0"], ["LPUSH", "q", BODY])
GET = (["GETJOB", "FROM", "q"], ["RPOP", "q"])


def words_for(server: Server, pair: tuple[list[str], list[str]]) -> list[str]:
    """The command of ``pair`` that the server understands."""
    return pair[1] if server.is_redis else pair[0]


def compare(title: str, ours: Server, other: Server, *, pipeline: int, operations: int, rounds: int, get: bool) -> None:
    """Measure both in turn and print a line for adding, and one for getting."""
    names = ["add", "get"] if get else ["add"]
    pairs: dict[str, list[tuple[Run, Run]]] = {name: [] for name in names}
    for _ in range(rounds):
        for server in (ours, other):
            server.flush()
        for name in names:
            pair = ADD if name == "add" else GET
            a = ours.load(words_for(ours, pair), operations, pipeline)
            b = other.load(words_for(other, pair), operations, pipeline)
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
    server = Server(folder, "memory", DISQUE)
    before = server.process.memory_info().rss
    server.load(ADD[0], jobs, 16)
    grown = server.process.memory_info().rss - before
    print(f"memory: {grown / jobs:.0f} bytes of RSS a job, {jobs:,} jobs of 100 bytes")
    server.stop()


def measure(folder: Path, rounds: int, scale: float) -> None:
    """Run everything."""
    plain = Server(folder, "disque", DISQUE)
    redis = Server(folder, "redis", REDIS)
    for pipeline, operations in ((1, 100_000), (16, 400_000)):
        count = int(operations * scale)
        compare("disque : redis", plain, redis, pipeline=pipeline, operations=count, rounds=rounds, get=True)
    redis.stop()
    every = Server(folder, "everysec", DISQUE, "--appendonly", "yes")
    for pipeline, operations in ((1, 100_000), (16, 400_000)):
        count = int(operations * scale)
        compare("everysec : journal off", every, plain, pipeline=pipeline, operations=count, rounds=rounds, get=True)
    plain.stop()
    every.stop()
    always = ["--appendonly", "yes", "--appendfsync", "always"]
    ours, theirs = Server(folder, "always", DISQUE, *always), Server(folder, "redis-always", REDIS, *always)
    for pipeline, operations in ((1, 60_000), (16, 200_000)):
        count = int(operations * scale)
        compare("both always", ours, theirs, pipeline=pipeline, operations=count, rounds=rounds, get=False)
    ours.stop()
    theirs.stop()
    memory_per_job(folder, int(1_000_000 * scale))


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(description="Compare this server with redis-server, driven by redis-benchmark.")
    parser.add_argument("--rounds", type=int, default=5, help="how often each is measured (5)")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the number of operations (1.0)")
    options = parser.parse_args()
    missing = [tool for tool in ("redis-server", "redis-benchmark", "redis-cli") if shutil.which(tool) is None]
    if missing:
        raise SystemExit(f"missing: {' '.join(missing)}; apt-get install redis-tools redis-server")
    print("medians; a ratio is ours : theirs within a round, lowest and highest round in brackets; cpu is the server's")
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), options.rounds, options.scale)


if __name__ == "__main__":
    main()
