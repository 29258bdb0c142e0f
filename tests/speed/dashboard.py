"""The dashboard beside very many queues and jobs: how long its pages take, and how busy an open page keeps a node.

All queues have as many jobs. A page is asked for without a cache, over a new connection, as by somebody who comes; the
first time the gateway knows nothing yet. An open page is the stream by which the overview renews itself.
"""

import http.client
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Final

from disque.client import Disque, NewJob
from tests.end_to_end.node import LOOPBACK, free_port
from tests.speed.gateway import served
from tests.speed.server import address
from tests.speed.setting import BODY, Setting

QUEUES: Final = 10_000
#: Pages by their name in the report, in the order in which they are asked for.
PAGES: Final = {
    "queues, first of all": "/queues",
    "overview": "/",
    "queues": "/queues",
    "queues by a part of the name": "/queues?q=q99",
    "queues, the last page": "/queues?after=q09949",
    "one queue": "/queues/q00042",
    "jobs of a queue": "/jobs?queue=q00042",
    "jobs by state": "/jobs?state=queued",
    "dead letters": "/dead",
    "nodes": "/nodes",
    "workers": "/workers",
}
STREAM: Final = "an open overview"


def dashboard(run: Setting) -> None:
    """Fill a node, and look at it."""
    jobs = min(run.scale.jobs, run.jobs_most)
    with run.server(run.best) as node:
        host, port = address(node)
        with Disque(f"disque://{host}:{port}") as client:
            client.add_many(new_jobs(jobs))
        for turn in range(run.scale.rival_rounds):
            where = free_port()
            words = ["--nodes", f"{host}:{port}", "--listen", f"{LOOPBACK}:{where}"]
            with served([sys.executable, "-m", "disque.gateway.main", *words], where, run.folder):
                for name, path in PAGES.items():
                    run.note("dashboard", "gateway", name, jobs, turn, ms=seconds_of(where, path) * 1000)
                percent = busy(run, node.cpu_s, where)
                run.note("dashboard", "gateway", STREAM, jobs, turn, node_percent=percent)


def new_jobs(count: int) -> Iterator[NewJob]:
    """So many jobs, one after the other into each queue."""
    for number in range(count):
        yield NewJob(f"q{number % QUEUES:05}", BODY)


def seconds_of(port: int, path: str) -> float:
    """How long a page takes to come."""
    begin_s = time.perf_counter()
    with closing(http.client.HTTPConnection(LOOPBACK, port, timeout=60)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        assert answer.status == 200, path
        answer.read()
    return time.perf_counter() - begin_s


def busy(run: Setting, cpu_s: Callable[[], float], port: int) -> float:
    """How busy a node is while the overview is open, in percent of a processor."""
    with closing(http.client.HTTPConnection(LOOPBACK, port, timeout=60)) as connection:
        connection.request("GET", "/", headers={"Accept": "text/event-stream"})
        answer = connection.getresponse()
        answer.readline()
        before_s, begin_s = cpu_s(), time.monotonic()
        while (took_s := time.monotonic() - begin_s) < run.scale.rival_s:
            answer.readline()  # a page that has nothing new says that, too
    return 100 * (cpu_s() - before_s) / took_s
