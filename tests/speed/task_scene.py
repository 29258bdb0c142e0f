"""Tasks on one node: how soon they begin at a tenth of the load, and whether a worker grows over very many of them."""

import asyncio
import gc
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import psutil

from disque.client import Config
from disque.tasks import App
from tests.end_to_end.node import ROOT, until
from tests.speed.rival import APPS, OUR_WORKER, TASKS
from tests.speed.server import Server
from tests.speed.setting import BODY, Setting

#: A tenth of the goal for one process, in tasks a second.
RATE: Final = 600
#: The worker's memory is looked at so often.
LOOKS: Final = 10
PART: Final = 5000


def tasks(run: Setting) -> None:
    """Latency and memory of a worker."""
    for turn in range(run.scale.rival_rounds):
        with run.server(run.best) as server, worker(server):
            found = asyncio.run(latencies(server, run.scale.task_latencies))
            at = {"p50_ms": found[len(found) // 2] * 1000, "p99_ms": found[len(found) * 99 // 100] * 1000}
            run.note("tasks", TASKS, "latency", RATE, turn, **at)
    with run.server(run.best) as server, worker(server) as process:
        part = run.scale.tasks_done // LOOKS
        for look in range(1, LOOKS + 1):
            asyncio.run(many(server, part))
            until(lambda: not int(server.info("registered_jobs")), "the tasks", 0.05, 600.0)
            run.note("tasks", TASKS, "done", look * part, 0, rss_bytes=process.memory_info().rss)


@contextmanager
def worker(server: Server) -> Iterator[psutil.Process]:
    """A worker process."""
    environment = {**os.environ, "RIVAL_PORT": str(server.port), "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([sys.executable, *OUR_WORKER], cwd=APPS, env=environment)
    try:
        yield psutil.Process(process.pid)
    finally:
        process.kill()
        process.wait()


def app_of(server: Server) -> App:
    """The app of the worker, as far as it must be known to enqueue."""
    app = App(Config(nodes=(("127.0.0.1", server.port),), discover=False))

    @app.task(queue="jobs")
    async def noop(body: str) -> None:
        del body

    @app.task(queue="stamps")
    async def stamp(sent_s: float) -> None:
        del sent_s

    @app.task(queue="stamps", retain=60)
    async def latencies() -> list[float]:
        return []

    return app


async def latencies(server: Server, count: int) -> list[float]:
    """How long each of so many tasks took to begin, sorted, at a steady rate."""
    gc.freeze()  # pauses of this process are none of the worker's
    app = app_of(server)
    stamp, report = app.tasks["stamp"], app.tasks["latencies"]
    async with app:
        await stamp.enqueue(time.monotonic())
        first = await report.enqueue()
        await first.result(60)
        begin_s = time.monotonic()
        waiting: set[asyncio.Task[Any]] = set()
        for number in range(count):
            await asyncio.sleep(max(0.0, begin_s + number / RATE - time.monotonic()))
            one = asyncio.create_task(stamp.enqueue(time.monotonic()))
            waiting.add(one)
            one.add_done_callback(waiting.discard)
        await asyncio.gather(*waiting)
        until_s = time.monotonic() + 60
        found: list[float] = []
        while len(found) < count and time.monotonic() < until_s:
            job = await report.enqueue()
            found += await job.result(60)
        return sorted(found)


async def many(server: Server, count: int) -> None:
    """Enqueue so many tasks that do nothing."""
    app = app_of(server)
    noop = app.tasks["noop"]
    async with app:
        for at in range(0, count, PART):
            await app.enqueue_many(noop.bind(BODY.decode()) for _ in range(min(PART, count - at)))
