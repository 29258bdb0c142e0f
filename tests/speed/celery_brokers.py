"""Celery on a node beside Celery on Redis: tasks that do nothing, one producer, one worker of two processes.

A scene of `make bench`; alone: `make bench ARGS="--only celery"`. Neither server writes to disk. What is done is what
the server has no more.
"""

import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Final

from tests.end_to_end.node import ROOT
from tests.speed.server import REDIS, Server
from tests.speed.setting import Setting

APP: Final = "tests.speed.celery_app"
PROCESSES: Final = 2
POLL_S: Final = 0.02
PATIENCE_S: Final = 60.0
#: What the two measurements are called.
PUBLISHED: Final = "publish"
DONE: Final = "work"
ON_OURS: Final = "on disque://"
ON_REDIS: Final = "on redis://"


def celery(run: Setting) -> None:
    """Both brokers in turn, each in a server of its own."""
    if importlib.util.find_spec("celery") is None:
        run.book.notes.append("Celery is not installed beside this: its brokers are left out.")
        return
    names = [run.best, *[REDIS] * (REDIS in run.others)]
    for turn in range(run.scale.rival_rounds):
        for name in names if turn % 2 else names[::-1]:
            with run.server(name) as server:
                title, scheme, left = (ON_REDIS, "redis", of_redis) if name == REDIS else (ON_OURS, "disque", of_node)
                published, done = measure(server, f"{scheme}://127.0.0.1:{server.port}", left, run.scale.celery_tasks)
                run.note("celery", title, PUBLISHED, PROCESSES, turn, rate=published)
                run.note("celery", title, DONE, PROCESSES, turn, rate=done)


def of_node(server: Server) -> int:
    """How many tasks a node has, queued or with a worker."""
    return int(server.info("registered_jobs")) - len(server.ask("QPEEK", "kombu:bindings:celery", 100))


def of_redis(server: Server) -> int:
    """The same of Redis."""
    return int(server.ask("LLEN", "celery")) + int(server.ask("HLEN", "unacked"))


def measure(server: Server, url: str, left: Callable[[Server], int], tasks: int) -> tuple[float, float]:
    """Tasks a second: published, done. Raises RuntimeError when the worker does nothing."""
    environment = {**os.environ, "BROKER": url, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", APP, str(tasks)], env=environment, cwd=ROOT, capture_output=True, text=True, check=True
    )
    words = ["-m", "celery", "-A", APP, "worker", "--concurrency", str(PROCESSES), "--loglevel", "ERROR"]
    silent = subprocess.DEVNULL
    worker = subprocess.Popen(
        [sys.executable, *words], env=environment, cwd=ROOT, stdout=silent, stderr=silent, start_new_session=True
    )
    try:
        deadline_s = time.monotonic() + PATIENCE_S
        while (first := left(server)) >= tasks:
            if time.monotonic() > deadline_s:
                raise RuntimeError(f"{url}: the worker does nothing")
            time.sleep(POLL_S)
        begin_s = time.monotonic()
        while (now := left(server)) and time.monotonic() < begin_s + PATIENCE_S:
            time.sleep(POLL_S)
        return float(done.stdout), (first - now) / (time.monotonic() - begin_s)
    finally:
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
