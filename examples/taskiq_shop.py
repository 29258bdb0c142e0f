"""A web shop's tasks with taskiq.

Start a node (`make run NODES=1`), a worker, and this program:

    taskiq worker examples.taskiq_shop:broker
    python -m examples.taskiq_shop
"""

import asyncio
import os

from disque.taskiq import DisqueBroker, DisqueResultBackend, DisqueScheduleSource

URL = os.environ.get("DISQUE", "disque://127.0.0.1:7711")

broker = DisqueBroker(URL).with_result_backend(DisqueResultBackend(URL))
schedules = DisqueScheduleSource(broker)  # written to the servers when a worker starts; no scheduler process is needed


@broker.task("price")
async def price(items: list[str]) -> int:
    """What an order costs, in cents."""
    return sum(100 * len(item) for item in items)


@broker.task("report", schedule=[{"cron": "0 9 * * mon-fri", "cron_offset": "Europe/Berlin"}])
async def report() -> str:
    """A report each morning."""
    return "good morning"


async def main() -> None:
    """Order something."""
    await broker.startup()
    order = await price.kiq(["tea", "honey"])
    later = await price.kicker().with_labels(delay=0.2, priority=9).kiq(["milk"])
    for task in (order, later):
        print((await task.wait_result(timeout=30)).return_value)
    await broker.shutdown()


if __name__ == "__main__":
    asyncio.run(main())
