"""Our tasks: `tasks_app.py PORT JOBS` enqueues and prints how fast, one by one and together. `disque worker` works."""

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
    """Enqueue so many in each way: rates, and microseconds of CPU for each."""
    singles = max(1, jobs // 10)
    async with app:
        begin_s, begin_cpu_s = time.perf_counter(), time.process_time()
        for _ in range(singles):
            await noop.enqueue(BODY)
        middle_s, middle_cpu_s = time.perf_counter(), time.process_time()
        await app.enqueue_many(noop.bind(BODY) for _ in range(jobs))
        print(singles / (middle_s - begin_s), jobs / (time.perf_counter() - middle_s))
        print((middle_cpu_s - begin_cpu_s) * 1e6 / singles, (time.process_time() - middle_cpu_s) * 1e6 / jobs)


if __name__ == "__main__":
    asyncio.run(produce(int(sys.argv[2])))
