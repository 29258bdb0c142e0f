"""What all parts of a gateway share."""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any

from disque.gateway.asgi import Reading
from disque.gateway.cluster import Clusters
from disque.gateway.ended import Ended
from disque.gateway.failures import Failures
from disque.gateway.lmstfy.metrics import LmstfyMetrics
from disque.gateway.lmstfy.tokens import FileTokens, Tokens
from disque.gateway.lmstfy.user_tokens import UserTokens
from disque.gateway.metrics import Metrics
from disque.gateway.sessions import Sessions
from disque.gateway.settings import Settings
from disque.gateway.ulid import UlidMaker

log = logging.getLogger("disque.gateway")


class Hub:
    """One gateway. ``stopping`` is set when it ends: what streams or waits looks at it."""

    def __init__(self, settings: Settings, wall_s: Callable[[], float] = time.time) -> None:
        self.settings = settings
        self.wall_s = wall_s
        self.clusters = Clusters(settings.cluster())
        self.metrics = Metrics()
        self.sessions = Sessions(settings.secret, wall_s)
        #: What other gateways with the same secret have ended.
        self.ended = Ended(self.clusters.own, time.monotonic) if settings.secret else None
        self.reading = Reading()
        self.failures = Failures(time.monotonic)
        self.tokens: Tokens
        if settings.tokens is None and settings.secret:
            self.tokens = UserTokens(self.clusters.own, settings.secret, time.monotonic)
        else:
            self.tokens = FileTokens(settings.tokens)
        self.request_id = UlidMaker(wall_s)
        self.access_log = settings.access_log
        self.stopping = asyncio.Event()
        #: What clients listen to at this moment.
        self.streams: set[object] = set()
        self._later: set[asyncio.Task[None]] = set()
        self.lmstfy = LmstfyMetrics(wall_s) if settings.metrics_compat else None
        if self.lmstfy is not None:
            self.clusters.own.adding.watch = self.clusters.own.asking.watch = self.lmstfy.asked
        self.metrics.watch(lambda: self.clusters.polls)

    def note(self, method: str, place: str, status: int, seconds: float, request_id: str) -> None:
        """Count a request, and log it if wanted. ``place`` is what may be told of its path: no token, no query."""
        self.metrics.note(method, place, status, seconds)
        if self.access_log:
            log.info("%s %s %d %.1f ms %s", method, printable(place), status, seconds * 1000, request_id)

    def later(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something that nobody waits for."""
        task = asyncio.get_running_loop().create_task(work)
        self._later.add(task)
        task.add_done_callback(self._later.discard)

    async def close(self) -> None:
        """Close all connections to the cluster."""
        if self._later:
            await asyncio.wait(self._later)
        await self.clusters.close()

    async def stop(self) -> None:
        """Let what waits come to an end."""
        self.stopping.set()
        await self.clusters.end_polls()


def printable(text: str) -> str:
    """A text that stays in its line of the log."""
    return text.encode("ascii", "backslashreplace").decode().translate(CONTROL)[:200]


CONTROL = {number: f"\\x{number:02x}" for number in (*range(32), 127)}
