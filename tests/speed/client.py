"""How fast the Python client is beside redis-py, in one run: `python -m tests.speed.client`.

Rounds of both sides alternate, on one node without a journal, bodies of 100 bytes:

- `add_many` against a pipeline of redis-py of the same size, both with ADDJOB,
- `jobs()` with prefetch, each job acknowledged, against GETJOB and ACKJOB of redis-py one by one, and against `get` and
  `ack` of this client one by one,
- the same with asyncio.

Printed are medians over the rounds, and the median, lowest and highest ratio.
"""

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

import redis
import redis.asyncio
from redis.backoff import NoBackoff
from redis.retry import Retry

from disque.client import AsyncDisque, Config, Disque
from tests.end_to_end.node import LOOPBACK, Node

BODY: Final = b"x" * 100
PIPELINE: Final = 1000

Measure = Callable[[int], float]


class Bench:
    """One node and two clients of it."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.config = Config(nodes=((LOOPBACK, node.port),))
        self.disque = Disque(self.config)
        self.plain: Any = redis.Redis(host=LOOPBACK, port=node.port, retry=Retry(NoBackoff(), 0))

    def close(self) -> None:
        self.disque.close()
        self.plain.close()

    def empty(self) -> None:
        self.node.ask("DEBUG", "FLUSHALL")

    def fill(self, jobs: int) -> None:
        self.empty()
        self.disque.add_many((("q", BODY) for _ in range(jobs)), replicate=1)

    # -- adding ----------------------------------------------------------------------------------------------------

    def add_many(self, jobs: int) -> float:
        self.empty()
        begin = time.perf_counter()
        assert len(self.disque.add_many((("q", BODY) for _ in range(jobs)), pipeline=PIPELINE)) == jobs
        return time.perf_counter() - begin

    def add_redis(self, jobs: int) -> float:
        self.empty()
        begin = time.perf_counter()
        for _ in range(0, jobs, PIPELINE):
            pipeline = self.plain.pipeline(transaction=False)
            for _ in range(PIPELINE):
                pipeline.execute_command("ADDJOB", "q", BODY, 3000)
            assert len(pipeline.execute()) == PIPELINE
        return time.perf_counter() - begin

    # -- consuming -------------------------------------------------------------------------------------------------

    def iterate(self, jobs: int) -> float:
        self.fill(jobs)
        begin = time.perf_counter()
        with self.disque.jobs("q") as found:
            for number, job in enumerate(found, 1):
                job.ack()
                if number == jobs:
                    break
        return time.perf_counter() - begin

    def one_by_one(self, jobs: int) -> float:
        self.fill(jobs)
        begin = time.perf_counter()
        for _ in range(jobs):
            [job] = self.disque.get("q")
            job.ack()
        return time.perf_counter() - begin

    def one_by_one_redis(self, jobs: int) -> float:
        self.fill(jobs)
        begin = time.perf_counter()
        for _ in range(jobs):
            [[_, job_id, _]] = self.plain.execute_command("GETJOB", "FROM", "q")
            self.plain.execute_command("ACKJOB", job_id)
        return time.perf_counter() - begin

    # -- the same with asyncio -------------------------------------------------------------------------------------

    def asynchronous(self, work: Callable[[Any, int], Awaitable[None]], jobs: int) -> float:
        async def run() -> float:
            async with AsyncDisque(self.config) as disque:
                await disque.ping()
                begin = time.perf_counter()
                await work(disque, jobs)
                return time.perf_counter() - begin

        return asyncio.run(run())

    def add_many_async(self, jobs: int) -> float:
        self.empty()
        return self.asynchronous(add_many_async, jobs)

    def add_redis_async(self, jobs: int) -> float:
        self.empty()

        async def run() -> float:
            async with redis.asyncio.Redis(host=LOOPBACK, port=self.node.port) as plain:
                await plain.ping()
                begin = time.perf_counter()
                for _ in range(0, jobs, PIPELINE):
                    pipeline = plain.pipeline(transaction=False)
                    for _ in range(PIPELINE):
                        pipeline.execute_command("ADDJOB", "q", BODY, 3000)
                    assert len(await pipeline.execute()) == PIPELINE
                return time.perf_counter() - begin

        return asyncio.run(run())

    def iterate_async(self, jobs: int) -> float:
        self.fill(jobs)
        return self.asynchronous(iterate_async, jobs)

    def one_by_one_async(self, jobs: int) -> float:
        self.fill(jobs)
        return self.asynchronous(one_by_one_async, jobs)


async def add_many_async(disque: AsyncDisque, jobs: int) -> None:
    assert len(await disque.add_many((("q", BODY) for _ in range(jobs)), pipeline=PIPELINE)) == jobs


async def iterate_async(disque: AsyncDisque, jobs: int) -> None:
    number = 0
    async with disque.jobs("q") as found:
        async for job in found:
            await job.ack()
            number += 1
            if number == jobs:
                break


async def one_by_one_async(disque: AsyncDisque, jobs: int) -> None:
    for _ in range(jobs):
        [job] = await disque.get("q")
        await job.ack()


def compare(name: str, ours: Measure, other: Measure, jobs: int, rounds: int) -> None:
    """Measure both in turn and print a row."""
    times = [(ours(jobs), other(jobs)) for _ in range(rounds)]
    ratios = sorted(theirs / mine for mine, theirs in times)
    mine_s, theirs_s = median(mine for mine, _ in times), median(theirs for _, theirs in times)
    print(
        f"{name:62} {jobs / mine_s:9,.0f} /s {jobs / theirs_s:9,.0f} /s "
        f"{median(ratios):6.2f} ({ratios[0]:.2f}-{ratios[-1]:.2f})",
        flush=True,
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--jobs", type=int, default=50_000)
    options.add_argument("--rounds", type=int, default=5)
    chosen = options.parse_args()
    with TemporaryDirectory() as directory:
        node = Node(Path(directory)).start()
        bench = Bench(node)
        few = chosen.jobs // 5
        try:
            rows: list[tuple[str, Measure, Measure, int]] = [
                ("add_many : pipeline of redis-py", bench.add_many, bench.add_redis, chosen.jobs),
                ("jobs() : get and ack one by one", bench.iterate, bench.one_by_one, few),
                ("jobs() : GETJOB and ACKJOB of redis-py", bench.iterate, bench.one_by_one_redis, few),
                ("asyncio, add_many : pipeline of redis-py", bench.add_many_async, bench.add_redis_async, chosen.jobs),
                ("asyncio, jobs() : get and ack one by one", bench.iterate_async, bench.one_by_one_async, few),
            ]
            for name, ours, other, jobs in rows:
                compare(name, ours, other, jobs, chosen.rounds)
        finally:
            bench.close()
            node.discard()


if __name__ == "__main__":
    main()
