"""redis-benchmark: the load that Redis brings, and what it costs itself."""

import csv
import io
import resource
import subprocess

from tests.speed.server import Server


def redis_benchmark(server: Server, size: int, operations: int, words: list[str]) -> dict[str, float]:
    """Let redis-benchmark send a command many times."""
    options = ["-p", str(server.port), "-c", "50", "-P", str(size), "-n", str(operations), "--csv"]
    cpu_s, own_s = server.cpu_s(), children_cpu_s()
    done = subprocess.run(["redis-benchmark", *options, *words], capture_output=True, check=True, text=True)
    spent_s, client_s = server.cpu_s() - cpu_s, children_cpu_s() - own_s
    rate = rate_in(done.stdout)
    return {"rate": rate, "cpu_us": spent_s * 1e6 / operations, "client_us": client_s * 1e6 / operations}


def children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def rate_in(report: str) -> float:
    """Find the operations a second in what it prints with `--csv`: the second column of the last line."""
    return float(list(csv.reader(io.StringIO(report)))[-1][1])
