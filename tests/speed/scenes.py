"""What is measured on one node: speed, memory, standing jobs, journal, mixed load, restart, millions of cycles."""

import time
from contextlib import ExitStack
from typing import Final

from tests.end_to_end.node import ServerError
from tests.speed import beanstalk, drive
from tests.speed.redis_benchmark import redis_benchmark
from tests.speed.scale import levels_within
from tests.speed.server import BEANSTALKD, REDIS, Server, missing
from tests.speed.setting import BODY, Setting

CYCLE_DEPTH: Final = 16
CYCLE_PARTS: Final = 5
SMALL_BYTES: Final = 20
#: Delays of standing jobs: spread over an hour, and not due while anything is measured.
HOUR_S: Final = range(3600, 7200)


def warm(server: Server) -> None:
    """Let a server that has just started find its feet."""
    if server.name == BEANSTALKD:
        beanstalk.compare(server, 16, 2000, BODY)
    else:
        drive.compare(server, 16, 2000)


def depth(run: Setting) -> None:
    """Adding, getting, acknowledging one job at a time and many, on all servers in turn."""
    with ExitStack() as stack:
        servers = [stack.enter_context(run.server(name)) for name in run.names]
        for server in servers:
            warm(server)
        for turn in range(run.scale.rounds):
            for size in run.scale.depths:
                for server in servers:
                    operations = run.scale.operations_at(size)
                    if server.name == BEANSTALKD:
                        rows = beanstalk.compare(server, size, operations, BODY)
                    else:
                        rows = drive.compare(server, size, operations)
                    for what, values in rows.items():
                        run.note("depth", server.name, what, size, turn, **values)


def driver(run: Setting) -> None:
    """`disque bench` beside redis-benchmark, both loading the same redis-server."""
    if REDIS not in run.others or missing(["redis-benchmark"]):
        return
    with run.server(REDIS) as server:
        for turn in range(run.scale.rounds):
            for size in (1, 16):
                operations = run.scale.operations * min(8, size)
                for words in (["LPUSH", "q", BODY.decode()], ["RPOP", "q"]):
                    values = redis_benchmark(server, size, operations, words)
                    run.note("driver", "redis-benchmark", words[0], size, turn, **values)
                [push, pop] = drive.bench(server.port, "-P", str(size), "-n", str(operations), "lpush", "rpop")
                for name, row in (("LPUSH", push), ("RPOP", pop)):
                    run.note("driver", "disque bench", name, size, turn, **drive.figures(row))


def memory(run: Setting) -> None:
    """What a job adds to the resident memory of a fresh server."""
    jobs = min(run.scale.jobs, run.jobs_most)
    for what in ("queued", "delayed"):
        for name in run.names:
            if name == REDIS and what == "delayed":
                continue
            with run.server(name) as server:
                before = server.rss()
                if name == BEANSTALKD:
                    beanstalk.fill(server, jobs, BODY, HOUR_S[0] * (what == "delayed"))
                elif name == REDIS:
                    drive.bench(server.port, "-P", "64", "-n", str(jobs), "--warmup", "0", "--keep", "lpush")
                else:
                    drive.fill(server, jobs, len(BODY), HOUR_S if what == "delayed" else None)
                run.note("memory", name, what, jobs, 0, job_bytes=(server.rss() - before) / jobs)


def standing(run: Setting) -> None:
    """What a job costs, from adding to acknowledging, with more and more other jobs in the node."""
    for what in ("queued", "delayed"):
        with run.server(run.best) as server:
            before, there = server.rss(), 0
            for level in levels_within(run.scale.levels, run.jobs_most):
                drive.fill(server, level - there, SMALL_BYTES, HOUR_S if what == "delayed" else None)
                there = level
                grown = server.rss() - before
                for turn in range(run.scale.level_rounds):
                    values = drive.cycle(server, run.scale.operations * 2, CYCLE_DEPTH, SMALL_BYTES)
                    run.note("standing", server.name, what, level, turn, **values, rss_bytes=grown)


def journal(run: Setting) -> None:
    """The same node with a journal and without."""
    kinds = {"off": (), "everysec": ("--appendonly", "yes")}
    with ExitStack() as stack:
        servers = {kind: stack.enter_context(run.server(run.best, *words)) for kind, words in kinds.items()}
        for server in servers.values():
            warm(server)
        for turn in range(run.scale.rounds):
            for size in (1, 16):
                for kind, server in servers.items():
                    words = ["-P", str(size), "-n", str(run.scale.operations_at(size)), "add", "cycle"]
                    for row in drive.bench(server.port, *words):
                        run.note("journal", kind, row["workload"], size, turn, **drive.figures(row))


def mixed(run: Setting) -> None:
    """Producers and waiting consumers at half of what is possible, among very many other jobs."""
    live = min(run.scale.live_jobs, run.jobs_most)
    with run.server(run.best) as server:
        drive.fill(server, live // 2, len(BODY))
        drive.fill(server, live - live // 2, len(BODY), HOUR_S)
        [most] = drive.bench(server.port, "--seconds", str(max(3.0, run.scale.mixed_s / 4)), "mixed")
        server.ask("CONFIG", "SET", "latency-monitor-threshold", 1)
        server.ask("LATENCY", "RESET")
        rate = most["operations_per_s"] / 2
        [row] = drive.bench(server.port, "--seconds", str(run.scale.mixed_s), "--rate", str(rate), "mixed")
        slow = server.ask("LATENCY", "LATEST")
        assert not isinstance(slow, ServerError), slow
        turn_ms = max([event[3] for event in slow], default=0)
        values = drive.figures(row)
        run.note("mixed", server.name, "half", live, 0, most=most["operations_per_s"], turn_ms=turn_ms, **values)


def restart(run: Setting) -> None:
    """How long a node that was killed takes to read its journal."""
    jobs = min(run.scale.restart_jobs, run.jobs_most)
    with run.server(run.best, "--appendonly", "yes") as server:
        drive.fill(server, jobs, len(BODY))
        time.sleep(1.5)  # everysec: what was written is on the disk
        for turn in range(min(3, run.scale.level_rounds)):
            server.kill()
            begin_s = time.monotonic()
            server.start()
            seconds = time.monotonic() - begin_s
            there = int(server.info("registered_jobs"))
            if there != jobs:
                raise RuntimeError(f"{there} jobs are there after the restart, {jobs} should be")
            run.note("restart", server.name, "kill -9", jobs, turn, seconds=seconds)


def flat(run: Setting) -> None:
    """Memory over very many jobs that come and go."""
    part = run.scale.cycles // CYCLE_PARTS
    with run.server(run.best) as server:
        drive.cycle(server, part // 5, 64, len(BODY))
        run.note("flat", server.name, "cycle", 0, 0, rss_bytes=server.rss())
        for number in range(1, CYCLE_PARTS + 1):
            drive.cycle(server, part, 64, len(BODY))
            run.note("flat", server.name, "cycle", number * part, 0, rss_bytes=server.rss())
