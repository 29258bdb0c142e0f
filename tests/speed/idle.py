"""What a cluster costs that has nothing to do: CPU of each node over ten seconds.

    python -m tests.speed.idle [nodes] [seconds]

The nodes run on loopback with the settings that they have by default, and their journals on. Seven nodes are to stay
below 1 % of a core each.
"""

import sys
import tempfile
import time
from pathlib import Path

import psutil

from disque.cli.bench_target import cpu_s_of
from tests.end_to_end.cluster import Cluster

#: What follows from the start is over then, in seconds.
REST_S = 3.0


def measure(cluster: Cluster, seconds: float) -> list[float]:
    """CPU of each node in percent of a core."""
    processes = [psutil.Process(node.pid) for node in cluster.members]
    before, begin_s = [cpu_s_of(process) for process in processes], time.monotonic()
    time.sleep(seconds)
    passed_s = time.monotonic() - begin_s
    spent_s = [cpu_s_of(process) - had_s for process, had_s in zip(processes, before, strict=True)]
    return [100 * one_s / passed_s for one_s in spent_s]


def main() -> int:
    """Print a line for each node, and the mean."""
    count, seconds = [*map(int, sys.argv[1:]), *(7, 10)[len(sys.argv) - 1 :]]
    with tempfile.TemporaryDirectory() as directory:
        cluster = Cluster(Path(directory), count, "--cluster-node-timeout", "15000")
        try:
            cluster.start_whole()
            time.sleep(REST_S)
            shares = measure(cluster, seconds)
        finally:
            cluster.discard()
    for node, share in enumerate(shares, 1):
        print(f"node {node}  {share:5.2f} % of a core")
    print(f"mean    {sum(shares) / count:5.2f} % of a core, {count} idle nodes, {seconds} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
