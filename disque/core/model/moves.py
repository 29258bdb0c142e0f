"""Moves of jobs that other holders must still hear of."""

from typing import TYPE_CHECKING

from disque.core.base.timers import IDLE, Timed
from disque.core.model.memory import MOVE_BYTES
from disque.core.model.part import Part

if TYPE_CHECKING:
    from disque.core.base.timers import Timers
    from disque.core.model.job import Job


class Move(Timed):
    """A job has moved: its holders are told until each has confirmed. ``tries`` counts how often they were."""

    __slots__ = ("job", "tries")

    def __init__(self, job: "Job") -> None:
        self.due_ms = 0
        self.slot = IDLE
        self.job = job
        self.tries = 0


class Moves(Part):
    """Those of a node, by the ID of the job. See `moves` of replication."""

    __slots__ = ("by_id", "timers")

    def __init__(self, timers: "Timers") -> None:
        self.timers = timers
        self.by_id: dict[bytes, Move] = {}

    def drop_job(self, job: "Job") -> int:
        """Nobody must hear any more where this job is."""
        return self.drop(job.id) if self.by_id else 0

    def drop(self, job_id: bytes) -> int:
        """All have heard of this move, or nobody must. Returns the bytes that this frees."""
        move = self.by_id.pop(job_id, None)
        if move is None:
            return 0
        self.timers.disarm(move)
        return MOVE_BYTES

    def clear(self) -> None:
        """Nothing is told any more."""
        self.by_id.clear()

    def cost(self) -> int:
        """Bytes of memory that they count for."""
        return MOVE_BYTES * len(self.by_id)
