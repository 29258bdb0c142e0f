"""Our tasks: `tasks_app.py PORT JOBS` prints jobs enqueued a second, one by one and together. `disque worker` works."""

import asyncio
import os
import sys
import time

from disque.tasks import App

BODY = "x" * 100

app = App(f"disque://127.0.0.1:{os.environ['RIVAL_PORT']}?discover=no")


@app.task(queue="jobs")
async def noop(body: str) -> None:
    """Do nothing."""


LATENCIES: list[float] = []


@app.task(queue="stamps")
async def stamp(sent_s: float) -> None:
    """Note how long it took from the enqueue to the beginning: the clock is that of the machine."""
    LATENCIES.append(time.monotonic() - sent_s)


@app.task(queue="stamps", retain=60)
async def latencies() -> list[float]:
    """What was noted, and begin anew."""
    found, LATENCIES[:] = sorted(LATENCIES), []
    return found


async def produce(jobs: int) -> None:
    """Enqueue so many in each way."""
    async with app:
        begin_s = time.perf_counter()
        for _ in range(jobs // 10):
            await noop.enqueue(BODY)
        middle_s = time.perf_counter()
        await app.enqueue_many(noop.bind(BODY) for _ in range(jobs))
        print(jobs // 10 / (middle_s - begin_s), jobs / (time.perf_counter() - middle_s))


if __name__ == "__main__":
    asyncio.run(produce(int(sys.argv[2])))
