"""Celery on a node beside Celery on Redis: tasks that do nothing, one producer, one worker of two processes.

`python -m tests.speed.celery_brokers [tasks] [rounds]` prints how many tasks a second are published and done, in turns,
and at the end the medians and their ratio. Neither server writes to disk. What is done is what the server has no more.
"""

import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import redis

from tests.end_to_end.node import ROOT, free_port

APP: Final = "tests.speed.celery_app"
POLL_S: Final = 0.02
PATIENCE_S: Final = 60.0


class Broker:
    """A server with the URL that Celery takes; ``left`` says how many tasks it has, queued or with a worker."""

    def __init__(self, name: str, command: list[str], url: str, left: Callable[[redis.Redis], int], port: int) -> None:
        self.name = name
        self.url = url
        self.client = redis.Redis(port=port)
        self._left = left
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                self.client.ping()
            except redis.ConnectionError:
                if time.monotonic() > deadline_s:
                    raise
                time.sleep(POLL_S)
            else:
                return

    def left(self) -> int:
        return self._left(self.client)

    def close(self) -> None:
        self.client.close()
        self._process.kill()
        self._process.wait()


def node(folder: str) -> Broker:
    port = free_port()
    command = [sys.executable, "-m", "disque.cli.serve", "--port", str(port), "--dir", folder]
    return Broker("disque", command, f"disque://127.0.0.1:{port}", of_node, port)


def of_node(client: redis.Redis) -> int:
    info = client.execute_command("INFO")
    return int(info["registered_jobs"]) - len(client.execute_command("QPEEK", "kombu:bindings:celery", 100))


def redis_server(folder: str) -> Broker:
    port = free_port()
    command = ["redis-server", "--port", str(port), "--save", "", "--dir", folder]
    return Broker("redis", command, f"redis://127.0.0.1:{port}/0", of_redis, port)


def of_redis(client: redis.Redis) -> int:
    waiting = client.llen("celery")
    taken = client.hlen("unacked")
    return int(waiting) + int(taken)


def measure(broker: Broker, tasks: int) -> tuple[float, float]:
    """Tasks a second: published, done."""
    environment = {**os.environ, "BROKER": broker.url, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", APP, str(tasks)], env=environment, cwd=ROOT, capture_output=True, text=True, check=True
    )
    words = [sys.executable, "-m", "celery", "-A", APP, "worker", "--concurrency", "2", "--loglevel", "ERROR"]
    silent = subprocess.DEVNULL
    worker = subprocess.Popen(words, env=environment, cwd=ROOT, stdout=silent, stderr=silent, start_new_session=True)
    try:
        deadline_s = time.monotonic() + PATIENCE_S
        while (first := broker.left()) >= tasks and time.monotonic() < deadline_s:
            time.sleep(POLL_S)
        begin_s = time.monotonic()
        while broker.left() and time.monotonic() < begin_s + PATIENCE_S:
            time.sleep(POLL_S)
        return float(done.stdout), (first - broker.left()) / (time.monotonic() - begin_s)
    finally:
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()


def main() -> None:
    tasks = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    makers = [node, *[redis_server] * bool(shutil.which("redis-server"))]
    rates: dict[str, list[tuple[float, float]]] = {}
    for turn in range(rounds):
        for make in makers if turn % 2 else makers[::-1]:
            with ExitStack() as stack:
                folder = stack.enter_context(tempfile.TemporaryDirectory())
                broker = make(folder)
                stack.callback(broker.close)
                published, done = measure(broker, tasks)
                rates.setdefault(broker.name, []).append((published, done))
                print(f"{broker.name:8}published {published:6.0f}/s   done {done:6.0f}/s", flush=True)
    for at, what in enumerate(("published", "done")):
        medians = {name: statistics.median(pair[at] for pair in found) for name, found in rates.items()}
        ratio = medians["disque"] / medians["redis"] if "redis" in medians else float("nan")
        print(
            f"{what}: " + ", ".join(f"{name} {rate:.0f}/s" for name, rate in medians.items()) + f", ratio {ratio:.2f}"
        )


if __name__ == "__main__":
    assert Path(ROOT).is_dir()
    main()
