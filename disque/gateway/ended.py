"""Sessions that were logged out, as all gateways with the same secret know of them.

That a session has ended is a UNIQUE key of the cluster, whose window is as long as a session can last: as safe as a
job, and gone by itself. Gateways ask for it once in `FRESH_S` for each session that is used. Where nodes do not answer
at once, what was known counts for the moment, and their answer for what comes next.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from disque.client import DisqueError, NoReplError, UnavailableError
from disque.gateway import circuit
from disque.gateway.cluster import Cluster
from disque.gateway.sessions import LASTS_S, Session, digest

log = logging.getLogger("disque.gateway")

#: The queue whose UNIQUE keys these are. A job is there for a second, and is for nobody.
QUEUE: Final = b"disque:logout"
LIVES: Final = (b"TTL", b"1")
#: For how long an answer counts, in seconds; sessions of which one is kept.
FRESH_S: Final = 5.0
KNOWN_MOST: Final = 10_000


class Ended:
    """Which sessions have ended. ``clock_s`` gives monotonic seconds."""

    def __init__(self, cluster: Cluster, clock_s: Callable[[], float]) -> None:
        self.cluster = cluster
        self._clock_s = clock_s
        #: When it was asked of a session last, and whether it had ended.
        self._known: dict[bytes, tuple[float, bool]] = {}
        self._asking: dict[bytes, asyncio.Task[bool]] = {}
        self._warned = False
        cluster.ends.append(self._stop)

    async def tell(self, session: Session) -> None:
        """A session has ended. Raises DisqueError where the nodes cannot be told."""
        wait = b"%d" % self.cluster.client.config.timeout_ms
        words = [b"ADDJOB", QUEUE, b"", wait, *LIVES, b"UNIQUE", digest(session), b"%d" % LASTS_S]
        try:
            await self.cluster.adding.ask(words)
        except NoReplError:  # better one copy than none
            await self.cluster.adding.ask([*words, b"REPLICATE", b"1"])

    async def has(self, session: Session) -> bool:
        """Whether a session has ended at any gateway, as of some seconds ago."""
        mark = digest(session)
        asked_s, ended = self._known.get(mark, (-FRESH_S, False))
        if ended or self._clock_s() - asked_s < FRESH_S:
            return ended
        asking = self._asking.get(mark)
        if asking is None:
            asking = self._asking[mark] = asyncio.get_running_loop().create_task(self._ask(mark))
            asking.add_done_callback(lambda _: self._asking.pop(mark, None))
        done, _ = await asyncio.wait([asking], timeout=circuit.PATIENCE_S)
        return bool(done) and asking.result()

    async def _ask(self, mark: bytes) -> bool:
        """Ask the nodes, however long they take."""
        ended = False
        try:
            ended = await self.cluster.client.find(QUEUE, mark) is not None
        except DisqueError as error:
            if not (self._warned or isinstance(error, UnavailableError)):
                self._warned = True
                log.warning("it is not known which sessions were logged out at other gateways: %s", error)
        if len(self._known) >= KNOWN_MOST:
            self._known.clear()
        self._known[mark] = self._clock_s(), ended
        return ended

    def _stop(self) -> None:
        for asking in list(self._asking.values()):
            asking.cancel()
