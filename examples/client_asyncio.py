"""Produces and consumes with asyncio: `python examples/client_asyncio.py disque://127.0.0.1:7711 [jobs]`.

Ends when no job came for two seconds, or with SIGTERM or Ctrl-C; then what was fetched but not begun is given back.
"""

import asyncio
import signal
import sys

from disque.client import AsyncDisque


async def produce(disque: AsyncDisque, jobs: int) -> None:
    """Add numbers as jobs."""
    await disque.add_many(("numbers", str(number)) for number in range(jobs))


async def consume(disque: AsyncDisque) -> int:
    """Add up what comes."""
    total = 0
    async with disque.jobs("numbers", timeout=2) as jobs:
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, jobs.stop)
        async for job in jobs:
            async with job.attempt():  # acknowledged; if an exception leaves the block, logged and tried again later
                total += int(job.body)
    return total


async def main(url: str, jobs: int = 1000) -> None:
    """Produce and consume at the same time."""
    async with AsyncDisque.from_url(url) as disque:
        _, total = await asyncio.gather(produce(disque, jobs), consume(disque))
        print("sum:", total)


if __name__ == "__main__":
    if len(sys.argv) <= 1:
        sys.exit(__doc__)
    asyncio.run(main(sys.argv[1], *map(int, sys.argv[2:])))
