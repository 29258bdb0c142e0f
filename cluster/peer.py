"""The outgoing side of one known node: its address, the link to it, and the time of the next attempt."""

import asyncio
from random import Random
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cluster.link import Outgoing

#: Seconds before the first further attempt, and at most.
BACKOFF_S: Final = 0.1
BACKOFF_MOST_S: Final = 3.0


class Peer:
    """``id`` may be a temporary one until the node has said who it is; ``host`` is an address or a name."""

    __slots__ = ("failures", "half_met", "host", "id", "link", "port", "task", "timer", "why")

    def __init__(self, node_id: bytes, host: str, port: int) -> None:
        self.id = node_id
        self.host = host
        self.port = port
        self.link: Outgoing | None = None
        #: Attempts since the last link that held.
        self.failures = 0
        #: Why the last attempt was in vain, "" when that is said elsewhere; and whether it was never a full node yet.
        self.why = ""
        self.half_met = False
        self.task: asyncio.Task[None] | None = None
        self.timer: asyncio.TimerHandle | None = None

    @property
    def place(self) -> str:
        """Where it is, for the log."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def trying(self) -> bool:
        """Whether an attempt is under way."""
        return self.task is not None or (self.link is not None and not self.link.proven)

    @property
    def has_address(self) -> bool:
        """Whether there is somewhere to connect to."""
        return bool(self.host) and self.port > 0

    def delay_s(self, random: Random) -> float:
        """How long to wait before the next attempt: twice as long each time, and not all nodes at once."""
        doubled = BACKOFF_S * (1 << min(max(self.failures - 1, 0), 10))
        return min(doubled, BACKOFF_MOST_S) * (0.75 + random.random() / 2)

    def rest(self) -> None:
        """Stop trying."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        if self.task is not None:
            self.task.cancel()
            self.task = None
