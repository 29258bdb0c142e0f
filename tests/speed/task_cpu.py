"""CPU of a task of `disque.tasks`, of everybody who has a part in it: `python -m tests.speed.task_cpu`.

A node, worker processes and a sender on this machine, tasks that do nothing. Printed are microseconds of CPU a task: of
the sender and of the node while tasks are added, of the node and of the workers while they are done. Rates depend on
what else the machine does, these hardly: two processors have 2,000,000 of them a second. Rates are printed, too.

Workers stand still (SIGTSTP) while tasks are added, so that neither their start nor the adding is in the figures of the
work. Not a test: nothing here passes or fails.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Final

import psutil

from disque.cli.bench_target import cpu_s_of
from tests.end_to_end.node import ROOT, until
from tests.speed.rival import APPS, OUR_WORKER
from tests.speed.server import PLAIN, Form, Ours

POLL_S: Final = 0.02
PATIENCE_S: Final = 300.0
#: A worker that was told to stand still takes this long at most to notice.
STILL_S: Final = 1.0


def main() -> None:
    """Print figures of each round, and their medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=20_000, help="in a round (20000)")
    parser.add_argument("--processes", type=int, default=1, help="of the worker (1)")
    parser.add_argument("--rounds", type=int, default=3, help="(3)")
    parser.add_argument("--compiled", metavar="python", help="an interpreter that has the compiled form of the node")
    options = parser.parse_args()
    form = Form("compiled", options.compiled) if options.compiled else PLAIN
    rounds: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        server = Ours(Path(folder), form)
        server.start()
        try:
            with worker(server, options.processes) as process:
                for _ in range(options.rounds):
                    rounds.append(one_round(server, process, options.tasks))
                    print(line(rounds[-1]), flush=True)
        finally:
            server.discard()
    print("medians")
    print(line({name: median(one[name] for one in rounds) for name in rounds[0]}))


def line(figures: dict[str, float]) -> str:
    """One round in words."""
    return ", ".join(
        f"{name} {value:,.1f}" if value < 1000 else f"{name} {value:,.0f}" for name, value in figures.items()
    )


@contextmanager
def worker(server: Ours, processes: int) -> Iterator[psutil.Process]:
    """A worker of so many processes, which runs as soon as it has done a task."""
    command = [sys.executable, *OUR_WORKER, "--processes", str(processes)]
    with subprocess.Popen(command, cwd=APPS, env=environment(server)) as process:
        try:
            send(server, processes * 10)
            until(lambda: not left(server), "the first tasks", POLL_S, PATIENCE_S)
            yield psutil.Process(process.pid)
        finally:
            process.terminate()


def environment(server: Ours) -> dict[str, str]:
    return {**os.environ, "RIVAL_PORT": str(server.port), "PYTHONPATH": str(ROOT)}


def left(server: Ours) -> int:
    return int(server.info("registered_jobs"))


def send(server: Ours, tasks: int) -> list[float]:
    """Add tasks: what the program of the sender prints."""
    command = [sys.executable, "tasks_app.py", str(server.port), str(tasks)]
    done = subprocess.run(
        command, cwd=APPS, env=environment(server), capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    return [float(word) for word in done.stdout.split()]


def cpu_s(process: psutil.Process) -> float:
    """CPU of a worker with all its processes."""
    return sum(cpu_s_of(one) for one in [process, *process.children(recursive=True)])


def tell(process: psutil.Process, number: signal.Signals) -> None:
    """Tell a worker; one of several processes passes it on."""
    process.send_signal(number)
    time.sleep(STILL_S)


def one_round(server: Ours, process: psutil.Process, tasks: int) -> dict[str, float]:
    """Add so many tasks, and have them done."""
    tell(process, signal.SIGTSTP)
    node_s = server.cpu_s()
    one, many, sender_one_us, sender_many_us = send(server, tasks)
    total = left(server)
    added_us = (server.cpu_s() - node_s) * 1e6 / total
    node_s, work_s, begin_s = server.cpu_s(), cpu_s(process), time.monotonic()
    process.send_signal(signal.SIGCONT)
    until(lambda: not left(server), "the tasks", POLL_S, PATIENCE_S)
    took_s = time.monotonic() - begin_s
    return {
        "enqueue /s": one,
        "enqueue_many /s": many,
        "done /s": total / took_s,
        "us: enqueue": sender_one_us,
        "enqueue_many": sender_many_us,
        "node, add": added_us,
        "node, work": (server.cpu_s() - node_s) * 1e6 / total,
        "worker": (cpu_s(process) - work_s) * 1e6 / total,
    }


if __name__ == "__main__":
    main()
