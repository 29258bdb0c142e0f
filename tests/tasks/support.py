"""An app for tests with a worker in the same process, on a real node."""

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from disque.client import AsyncDisque, Config
from disque.tasks import App
from disque.tasks.worker import Settings, Worker

PATIENCE_S: Final = 60.0
NUMBERS: Final = itertools.count()


class Shop:
    """An app with a queue of its own."""

    def __init__(self, config: Config, **options: Any) -> None:
        self.config = config
        self.queue = f"q{os.getpid()}-{next(NUMBERS)}"
        self.app = self.again(**options)

    def again(self, **options: Any) -> App:
        """A second app with the same queue."""
        words: dict[str, Any] = {"queue": self.queue, "lease": 30, "backoff": "fixed:0.05:0.05:0"}
        return App(self.config, **(words | options))

    @asynccontextmanager
    async def working(self, app: App | None = None, **settings: Any) -> AsyncIterator[Worker]:
        """A worker that is stopped at the end, and must stop well."""
        words: dict[str, Any] = {"grace_s": 10.0}
        worker = Worker(app or self.app, Settings(**(words | settings)))
        task = asyncio.create_task(worker.run())
        await asyncio.wait({asyncio.create_task(worker.ready.wait()), task}, return_when=asyncio.FIRST_COMPLETED)
        try:
            yield worker
        finally:
            worker.stop()
            await asyncio.wait_for(task, PATIENCE_S)

    async def until(self, ask: Callable[[], Any]) -> Any:
        """Wait until this is true."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                found = ask()
                found = await found if asyncio.iscoroutine(found) else found
                if found:
                    return found
                await asyncio.sleep(0.01)

    async def dead(self, queue: str | None = None) -> list[str]:
        """The errors of dead letters."""
        async with AsyncDisque(self.config) as client:
            taken = await client.get(f"{queue or self.queue}:dead", count=100, nohang=True, meta=True)
            return [job.error or "" for job in taken]
