"""How many jobs of each queue are delayed and in flight: counted when somebody asks, not while jobs come and go."""

from typing import TYPE_CHECKING, Final

from disque.core.model.memory import BEGAN_BYTES
from disque.core.model.part import Part

if TYPE_CHECKING:
    from disque.core.model.survey import Asked

#: Deliveries whose begin is remembered beyond what their jobs say: the oldest are dropped.
BEGAN_MOST = 10_000  # not Final: tests want less, compiled too
#: Before the first count.
NEVER_MADE: Final = -1


class Census(Part):
    """The last count of a node, by queue, made at ``made_ms``. See `jobs.census`.

    ``waiting`` are the questions that wait for the next one; ``running``: it is being made. ``began`` is when
    deliveries began whose consumers have said WORKING, by the ID of the job, with its NACKs and further deliveries
    then: see `replication.spans`.
    """

    __slots__ = ("began", "delayed", "in_flight", "made_ms", "running", "waiting")

    def __init__(self) -> None:
        self.delayed: dict[bytes, int] = {}
        self.in_flight: dict[bytes, int] = {}
        self.made_ms = NEVER_MADE
        self.running = False
        self.waiting: list[Asked] = []
        self.began: dict[bytes, tuple[int, int]] = {}

    def clear(self) -> None:
        """Everything is forgotten, and nothing is being counted any more."""
        self.delayed = {}
        self.in_flight = {}
        self.made_ms = NEVER_MADE
        self.running = False
        self.waiting = []
        self.began.clear()

    def cost(self) -> int:
        """Bytes of memory that it counts for."""
        return BEGAN_BYTES * len(self.began)
