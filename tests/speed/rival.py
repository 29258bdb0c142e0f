"""Libraries that are used for the same purpose: what one producer process adds and one worker process finishes.

All of them keep their jobs in a redis-server that writes nothing to disk, beside a node of ours that does not either.
The task does nothing. A worker is the program that each brings, as one process with the settings that it has by
default; how fast it is, is seen from outside: by how many jobs are left.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final, NamedTuple

from tests.end_to_end.node import ROOT
from tests.speed.server import REDIS, Server
from tests.speed.setting import Setting

APPS: Final = Path(__file__).parent / "rivals"
POLL_S: Final = 0.01
PATIENCE_S: Final = 30.0
OURS: Final = "disque.client"
TASKS: Final = "disque.tasks"


class Rival(NamedTuple):
    """One of them: its program, the words of its worker, where its jobs wait, and how many times the jobs it is given.

    `length` asks how many there are. `place` is a folder in that of the programs, for one with packages of its own.
    `workers` has the words behind the folder of programs; `{port}` stands for the server's.
    """

    name: str
    package: str
    app: str
    workers: dict[str, tuple[str, ...]]
    key: str
    factor: int = 1
    length: str = "LLEN"
    place: str = ""


TWO: Final = "work, two processes"
OUR_WORKER: Final = ("-m", "disque.tasks.command", "tasks_app:app", "--log-level", "error")

RIVALS: Final = (
    Rival(OURS, "", "disque_app.py", {"work": ("disque_app.py", "{port}")}, "", 40),
    Rival(TASKS, "", "tasks_app.py", {"work": OUR_WORKER, TWO: (*OUR_WORKER, "--processes", "2")}, "", 20),
    Rival(
        "RQ",
        "rq",
        "rq_app.py",
        {
            "work": ("rq", "worker", "--quiet", "--url", "redis://127.0.0.1:{port}", "jobs"),
            "work, no fork": (
                *("rq", "worker", "--quiet", "-w", "rq.SimpleWorker", "--url", "redis://127.0.0.1:{port}", "jobs"),
            ),
        },
        "rq:queue:jobs",
    ),
    Rival(
        "Celery",
        "celery",
        "celery_app.py",
        {
            "work": ("celery", "-A", "celery_app", "worker", "--concurrency", "1", "--loglevel", "ERROR"),
            "work, no fork": ("celery", "-A", "celery_app", "worker", "--pool", "solo", "--loglevel", "ERROR"),
        },
        "celery",
    ),
    Rival(
        "dramatiq",
        "dramatiq",
        "dramatiq_app.py",
        {"work": ("dramatiq", "dramatiq_app", "--processes", "1")},
        "dramatiq:default",
    ),
    Rival(
        "taskiq",
        "taskiq",
        "taskiq_app.py",
        {"work": ("taskiq", "worker", "taskiq_app:broker", "--workers", "1", "--log-level", "ERROR")},
        "taskiq",
        4,
    ),
    Rival(
        "huey",
        "huey_consumer",
        "huey_app.py",
        {"work": ("huey_consumer", "huey_app.huey", "--quiet")},
        "huey.redis.jobs",
        10,
    ),
    Rival("arq", "arq", "arq_app.py", {"work": ("arq", "arq_app.Worker")}, "arq:queue", 1, "ZCARD", "arq"),
)


def rivals(run: Setting) -> None:
    """Producers and workers in turn, each on a server of its own."""
    there = [rival for rival in RIVALS if not rival.package or program(run, rival).exists()]
    if REDIS not in run.others:
        there = [rival for rival in there if not rival.package]
    for turn in range(run.scale.rival_rounds):
        for rival in there:
            with run.server(REDIS if rival.package else run.best) as server:
                one(run, rival, server, turn)


def program(run: Setting, rival: Rival, name: str = "") -> Path:
    """A program of a rival, by default the one that it is known by."""
    return run.rivals.absolute() / rival.place / "bin" / (name or rival.package)


def one(run: Setting, rival: Rival, server: Server, turn: int) -> None:
    """Measure one of them, once."""
    jobs = run.scale.rival_jobs * rival.factor
    python = [str(program(run, rival, "python"))] if rival.package else [sys.executable]
    environment = {**os.environ, "RIVAL_PORT": str(server.port)}
    if not rival.package:
        environment["PYTHONPATH"] = str(ROOT)
    command = [*python, rival.app, str(server.port), str(jobs)]
    done = subprocess.run(command, cwd=APPS, env=environment, capture_output=True, text=True, check=True)
    for what, text in zip(("add", "add, many at once"), done.stdout.split(), strict=False):
        run.note("rivals", rival.name, what, 1, turn, rate=float(text))
    for what, words in rival.workers.items():
        own = [str(program(run, rival, words[0])), *words[1:]] if rival.package else [*python, *words]
        rate = worker(server, rival, [word.format(port=server.port) for word in own], environment, run.scale.rival_s)
        run.note("rivals", rival.name, what, 1, turn, rate=rate)
        if not left(server, rival):
            subprocess.run(command, cwd=APPS, env=environment, capture_output=True, check=True)


def left(server: Server, rival: Rival) -> int:
    return int(server.ask(rival.length, rival.key) if rival.key else server.info("registered_jobs"))


def worker(server: Server, rival: Rival, command: list[str], environment: dict[str, str], most_s: float) -> float:
    """Let a worker work until nothing is left, or for `most_s`; give the jobs a second from its first one on."""
    total = left(server, rival)
    silent = subprocess.DEVNULL
    process = subprocess.Popen(
        command, cwd=APPS, env=environment, stdin=silent, stdout=silent, stderr=silent, start_new_session=True
    )
    try:
        first, begin_s = fewer(server, rival, total)
        while (now := left(server, rival)) and time.monotonic() - begin_s < most_s:
            time.sleep(POLL_S)
        return (first - now) / (time.monotonic() - begin_s)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def fewer(server: Server, rival: Rival, total: int) -> tuple[int, float]:
    """Wait for the first jobs to go; give how many are left, and since when. Raises RuntimeError when none goes."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if (now := left(server, rival)) < total:
            return now, time.monotonic()
        time.sleep(POLL_S)
    raise RuntimeError(f"{rival.name}: the worker does nothing")
