"""Whether workers grow over very many tasks: `python -m tests.speed.long_runs worker` and `... celery`.

`worker`: a worker of `disque.tasks` does tasks, a million unless the time is over before. Its resident memory is
printed on the way.

`celery`: a worker of Celery on `disque://`, for whose queue a million tasks wait that are due in some hours. One is
published by Celery, the others are copies of what it wrote, under IDs of their own. Printed is the worker's resident
memory before and after; at the end it does a task with a countdown, so it is the one that they wait for.

Each is one process after another on this machine, for at most so many minutes. Not a test: nothing here passes or
fails.
"""

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import psutil

from disque.client import Config, Disque, NewJob
from tests.end_to_end.node import ROOT, until
from tests.speed.celery_brokers import APP
from tests.speed.server import PLAIN, Form, Ours
from tests.speed.task_scene import many, worker

MILLION: Final = 1_000_000
PART: Final = 20_000
LOOKS: Final = 20
PATIENCE_S: Final = 300.0
#: Celery's tasks are due after so long.
COUNTDOWN_S: Final = 6 * 3600
QUEUE: Final = "celery"


def main() -> None:
    """Do one of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("worker", "celery"))
    parser.add_argument("--tasks", type=int, default=MILLION, help="(1000000)")
    parser.add_argument("--minutes", type=float, default=60.0, help="no more of them after so long (60)")
    parser.add_argument("--compiled", metavar="python", help="an interpreter that has the compiled form of the node")
    options = parser.parse_args()
    form = Form("compiled", options.compiled) if options.compiled else PLAIN
    with tempfile.TemporaryDirectory() as folder:
        server = Ours(Path(folder), form, "--maxmemory", "100gb")
        server.start()
        try:
            chosen: Callable[[Ours, int, float], None] = tasks if options.what == "worker" else etas
            chosen(server, options.tasks, time.monotonic() + options.minutes * 60)
        finally:
            server.discard()


def megabytes(process: psutil.Process) -> float:
    """The resident memory of a process."""
    rss: int = process.memory_info().rss
    return rss / 1e6


def jobs(server: Ours) -> int:
    return int(server.info("registered_jobs"))


def tasks(server: Ours, count: int, until_s: float) -> None:
    """A worker does tasks."""
    with worker(server) as process:
        done, looked = 0, 0
        while done < count and time.monotonic() < until_s:
            part = min(PART, count - done)
            asyncio.run(many(server, part))
            until(lambda: not jobs(server), "the tasks", 0.05, PATIENCE_S)
            done += part
            if done >= looked + count // LOOKS or done == count:
                looked = done
                print(f"{done:>9,} tasks: {megabytes(process):6.1f} MB", flush=True)
        print(f"{done:>9,} tasks: {megabytes(process):6.1f} MB at the end")


def etas(server: Ours, count: int, until_s: float) -> None:
    """Tasks with an eta wait for a worker of Celery."""
    broker = f"disque://127.0.0.1:{server.port}"
    with celery_worker(broker) as process, Disque(Config(nodes=(("127.0.0.1", server.port),))) as client:
        publish(broker, countdown=1)
        until(lambda: not tasks_of(client), "the first task", 0.1, PATIENCE_S)
        print(f"before: the worker has {megabytes(process):.1f} MB, the node {megabytes(node_of(server)):.1f} MB")
        publish(broker, countdown=COUNTDOWN_S)
        [body] = until(lambda: tasks_of(client), "a task that waits", 0.1, PATIENCE_S)
        message = json.loads(body)
        added = 1
        while added < count and time.monotonic() < until_s:
            part = min(PART, count - added)
            client.add_many(copy_of(message) for _ in range(part))
            added += part
            if added % (count // LOOKS or 1) < PART:
                print(f"{added:>9,} tasks wait: the worker has {megabytes(process):6.1f} MB", flush=True)
        print(
            f"after {added:,}: the worker has {megabytes(process):.1f} MB, the node {megabytes(node_of(server)):.1f} MB"
        )
        before = jobs(server)
        publish(broker, countdown=1)
        until(lambda: jobs(server) > before, "one more", 0.1, PATIENCE_S)
        until(lambda: jobs(server) == before, "the last task", 0.1, PATIENCE_S)
        print(f"it has done one more: {megabytes(process):.1f} MB")


def node_of(server: Ours) -> psutil.Process:
    return psutil.Process(server.pid)


def tasks_of(client: Disque) -> list[Any]:
    """The bodies of some tasks that a node has."""
    _, found = client.scan_job_infos(0, count=1000, queue=QUEUE)
    return [job["body"] for job in found]


def copy_of(message: dict[str, Any]) -> NewJob:
    """The same task once more."""
    ident = str(uuid4())
    properties = {**message["properties"], "correlation_id": ident, "delivery_tag": str(uuid4())}
    headers = {**message["headers"], "id": ident, "root_id": ident}
    body = json.dumps({**message, "properties": properties, "headers": headers})
    return NewJob(QUEUE, body, delay=COUNTDOWN_S, ttl=2 * COUNTDOWN_S)


@contextmanager
def celery_worker(broker: str) -> Iterator[psutil.Process]:
    """A worker of Celery with one process for the work: it is the other one, that takes tasks, which is given."""
    words = ["-m", "celery", "-A", APP, "worker", "--concurrency", "1", "--loglevel", "ERROR"]
    process = subprocess.Popen(
        [sys.executable, *words],
        env=environment(broker), cwd=ROOT, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield psutil.Process(process.pid)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def publish(broker: str, countdown: int) -> None:
    """Let Celery publish a task."""
    program = f"from {APP} import noop; noop.apply_async(('x',), countdown={countdown})"
    subprocess.run([sys.executable, "-c", program], env=environment(broker), cwd=ROOT, check=True, timeout=PATIENCE_S)


def environment(broker: str) -> dict[str, str]:
    return {**os.environ, "BROKER": broker, "PYTHONPATH": str(ROOT)}


if __name__ == "__main__":
    main()
