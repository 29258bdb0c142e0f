"""What a cluster costs that has nothing to do: CPU of each node over ten seconds.

    python tests/speed/idle.py [nodes] [seconds]

The nodes run on loopback with the settings that they have by default, and their journals on. Seven nodes are to stay
below 1 % of a core each.
"""

import sys
import tempfile
import time
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.end_to_end.cluster import Cluster

#: What follows from the start is over then, in seconds.
REST_S = 3.0


def cpu_s(pid: int) -> float:
    """Seconds of CPU that a process has had."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def measure(cluster: Cluster, seconds: float) -> list[float]:
    """CPU of each node in percent of a core."""
    pids = [node.pid for node in cluster.members]
    before, begin_s = [cpu_s(pid) for pid in pids], time.monotonic()
    time.sleep(seconds)
    passed_s = time.monotonic() - begin_s
    return [100 * (cpu_s(pid) - had_s) / passed_s for pid, had_s in zip(pids, before, strict=True)]


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
