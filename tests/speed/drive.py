"""Loading a server: by `disque bench` in a process of its own, or by its engine in this one with other requests."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import count
from typing import Any, Final

from disque.cli.bench_lane import Budget, CycleLane, Lane
from disque.cli.bench_load import Engine
from disque.cli.bench_options import Address
from disque.cli.bench_resp import addjob_ends, getjob
from disque.cli.bench_tally import Tally
from disque.cli.bench_target import open_socket
from tests.end_to_end.node import LOOPBACK, ROOT
from tests.speed.server import Server

CONNECTIONS: Final = 50
FILL_DEPTH: Final = 64
STOCK: Final = b"stock"
TIMEOUT_MS: Final = 10_000
#: What a workload on one of our servers is on a Redis server.
TWINS: Final = {"add": "lpush", "get": "rpop", "ack": "del"}

#: Makes the load on some connections: given budget, tally and clock, the lane of each.
Lanes = Callable[[Budget, Tally], list[Lane]]


def bench(port: int, *words: str) -> list[dict[str, Any]]:
    """Run `disque bench` and give what it says of each workload."""
    command = [sys.executable, "-m", "disque.cli.main", "bench", "-p", str(port), "--json", "--no-progress", *words]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip() or f"disque bench ended with {done.returncode}: {done.stdout[-500:]}")
    rows: list[dict[str, Any]] = json.loads(done.stdout)["workloads"]
    return rows


def figures(row: dict[str, Any]) -> dict[str, float]:
    """Give what is kept of a workload: operations a second, CPU an operation in us, latencies in ms."""
    kept = {
        "rate": row["operations_per_s"],
        "cpu_us": row["server_cpu_s_per_1000"] * 1000,
        "client_us": row["client_cpu_s_per_1000"] * 1000,
        **{f"{name}_ms": value for name, value in row["latency_ms"].items()},
        **{f"delivery_{name}_ms": value for name, value in row.get("delivery_ms", {}).items()},
    }
    return {name: float(value) for name, value in kept.items()}


def compare(server: Server, depth: int, operations: int) -> dict[str, dict[str, float]]:
    """Measure adding, getting and acknowledging, or what Redis has for that."""
    names = list(TWINS) if server.name != "redis" else list(TWINS.values())
    rows = bench(server.port, "-P", str(depth), "-n", str(operations), *names)
    return {name: figures(row) for name, row in zip(TWINS, rows, strict=True)}


def load(server: Server, lanes: Lanes, operations: int, connections: int = CONNECTIONS) -> dict[str, float]:
    """Drive lanes from this process. Raises RuntimeError when anything comes that should not."""
    place = Address(LOOPBACK, server.port)
    sockets = [open_socket(place) for _ in range(connections)]
    try:
        return run_lanes(server, sockets, lanes, operations)
    finally:
        for sock in sockets:
            sock.close()


def run_lanes(server: Server, sockets: list[Any], lanes: Lanes, operations: int) -> dict[str, float]:
    """Drive lanes on these connections."""
    budget, tally = Budget(operations), Tally()
    engine = Engine(Address(LOOPBACK, server.port), budget, lambda: True)
    cpu_s, begin_s = server.cpu_s(), time.perf_counter()
    engine.run(sockets, lanes(budget, tally), None)
    elapsed_s, spent_s = time.perf_counter() - begin_s, server.cpu_s() - cpu_s
    if tally.failed or tally.empty:
        raise RuntimeError(f"{server.name}: {tally.fatal or tally.errors or f'{tally.empty} replies brought nothing'}")
    done = tally.operations
    latency = {f"{name}_ms": value for name, value in tally.latency.summary_ms().items()}
    return {"rate": done / elapsed_s, "cpu_us": spent_s * 1e6 / done, **latency}


def addjob(queue: bytes, body: bytes, *words: bytes) -> bytes:
    head, tail = addjob_ends(queue, len(body), TIMEOUT_MS, words)
    return head + body + tail


def fill(server: Server, jobs: int, body_bytes: int, delays_s: range | None = None) -> dict[str, float]:
    """Add jobs to the queue `stock`, delayed by each of these delays in turn, or not at all."""
    body = b"x" * body_bytes
    if delays_s is None:
        requests = [addjob(STOCK, body)]
    else:
        requests = [addjob(STOCK, body, b"DELAY", b"%d" % delay_s) for delay_s in delays_s]
    turn = count()

    def batch(_batch: int, size: int) -> bytes:
        return b"".join([requests[next(turn) * 7919 % len(requests)] for _ in range(size)])

    def lanes(budget: Budget, tally: Tally) -> list[Lane]:
        return [Lane(budget, tally, time.perf_counter_ns, FILL_DEPTH, batch) for _ in range(CONNECTIONS)]

    return load(server, lanes, jobs)


def cycle(server: Server, operations: int, depth: int, body_bytes: int, queue: bytes = STOCK) -> dict[str, float]:
    """Add to the end of a queue, get from its beginning and acknowledge: what stands in it stays as many."""
    request = addjob(queue, b"y" * body_bytes)

    def lanes(budget: Budget, tally: Tally) -> list[Lane]:
        args = (budget, tally, time.perf_counter_ns, depth, lambda _batch, size: request * size)
        return [CycleLane(*args, lambda _batch, size: (getjob((queue,), 1) * size, size)) for _ in range(CONNECTIONS)]

    return load(server, lanes, operations)
