"""Produces and consumes with asyncio: `python examples/client_asyncio.py disque://127.0.0.1:7711 [jobs]`."""

import asyncio
import sys

from disque.client import AsyncDisque


async def produce(disque: AsyncDisque, jobs: int) -> None:
    """Add numbers as jobs."""
    await disque.add_many(("numbers", str(number)) for number in range(jobs))


async def consume(disque: AsyncDisque) -> int:
    """Add up what comes."""
    total = 0
    async with disque.jobs("numbers", timeout=2) as jobs:
        async for job in jobs:
            async with job:  # acknowledged, or given back if an exception leaves the block
                total += int(job.body)
    return total


async def main(url: str, jobs: int = 1000) -> None:
    """Produce and consume at the same time."""
    async with AsyncDisque.from_url(url) as disque:
        _, *totals = await asyncio.gather(produce(disque, jobs), consume(disque), consume(disque))
        print("sum:", sum(totals))


if __name__ == "__main__":
    if len(sys.argv) <= 1:
        sys.exit(__doc__)
    asyncio.run(main(sys.argv[1], *map(int, sys.argv[2:])))
