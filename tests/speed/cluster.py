"""What is measured on several nodes of one machine: what a job costs all of them together."""

import time
from contextlib import ExitStack
from typing import Final

from tests.speed import drive
from tests.speed.server import REDIS, Nodes
from tests.speed.setting import Setting

DEPTHS: Final = (1, 16)
COPIES: Final = 3
#: After the load, in seconds: what nodes still tell each other belongs to it.
TAIL_S: Final = 0.5
WARMING: Final = 2000


def nodes(run: Setting) -> None:
    """A job on one node and on three, among one node and more."""
    form = run.forms[-1]
    with ExitStack() as stack:
        clusters = {}
        for size in run.scale.nodes:
            clusters[size] = cluster = Nodes(run.folder / f"nodes{size}", size, form)
            stack.callback(cluster.discard)
            cluster.start_whole()
            measure(cluster, "add", min(COPIES, size), 16, WARMING)
        redis = stack.enter_context(run.server(REDIS)) if REDIS in run.others else None
        for turn in range(run.scale.node_rounds):
            for depth in DEPTHS:
                operations = run.scale.operations * min(2, depth)
                if redis is not None:
                    [row] = drive.bench(redis.port, "-P", str(depth), "-n", str(operations), "lpush")
                    run.note("nodes", REDIS, f"lpush P{depth}", 1, turn, **drive.figures(row))
                for size, cluster in clusters.items():
                    for copies in sorted({1, min(COPIES, size)}):
                        values = measure(cluster, "add", copies, depth, operations)
                        run.note("nodes", form.name, f"add R{copies} P{depth}", size, turn, **values)
                    if size == COPIES:
                        values = measure(cluster, "cycle", COPIES, depth, operations)
                        run.note("nodes", form.name, f"cycle R{COPIES} P{depth}", size, turn, **values)


def measure(cluster: Nodes, workload: str, copies: int, depth: int, operations: int) -> dict[str, float]:
    """Load the first node; CPU is that of all of them."""
    words = ["-P", str(depth), "-n", str(operations), "--warmup", "0", "--keep", "--replicate", str(copies), workload]
    cpu_s = cluster.cpu_s()
    [row] = drive.bench(cluster.nodes()[0].port, *words)
    time.sleep(TAIL_S)
    spent_s = cluster.cpu_s() - cpu_s
    cluster.flush()
    return drive.figures(row) | {"cpu_us": spent_s * 1e6 / operations}
