"""taskiq on Redis: a task that does nothing, and a producer: `taskiq_app.py PORT JOBS` prints jobs a second."""

import asyncio
import os
import sys
import time

from taskiq_redis import ListQueueBroker

BODY = "x" * 100

broker = ListQueueBroker(f"redis://127.0.0.1:{os.environ['RIVAL_PORT']}/0")


async def noop(body: str) -> None:
    """Do nothing."""


task = broker.task("noop")(noop)


async def produce(jobs: int) -> None:
    await broker.startup()
    begin_s = time.perf_counter()
    for _ in range(jobs):
        await task.kiq(BODY)
    print(jobs / (time.perf_counter() - begin_s))
    await broker.shutdown()


if __name__ == "__main__":
    asyncio.run(produce(int(sys.argv[2])))
