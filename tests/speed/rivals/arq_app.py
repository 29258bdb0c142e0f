"""arq on Redis: a task that does nothing, and a producer: `arq_app.py PORT JOBS` prints jobs a second."""

import asyncio
import os
import sys
import time
from typing import Any

from arq import create_pool
from arq.connections import RedisSettings

BODY = "x" * 100
SETTINGS = RedisSettings(port=int(os.environ["RIVAL_PORT"]))


async def noop(_context: dict[str, Any], body: str) -> None:
    """Do nothing."""


class Worker:
    """What `arq arq_app.Worker` runs."""

    functions = (noop,)
    redis_settings = SETTINGS
    max_jobs = 100
    keep_result = 0


async def produce(jobs: int) -> None:
    pool = await create_pool(SETTINGS)
    begin_s = time.perf_counter()
    for _ in range(jobs):
        await pool.enqueue_job("noop", BODY)
    print(jobs / (time.perf_counter() - begin_s))
    await pool.aclose()


if __name__ == "__main__":
    asyncio.run(produce(int(sys.argv[2])))
