"""Questions about jobs that this node wants to queue again."""

from typing import TYPE_CHECKING

from disque.core.model.memory import VOTE_BYTES
from disque.core.model.part import Part

if TYPE_CHECKING:
    from disque.core.base.timers import Timers
    from disque.core.model.job import Job
    from disque.core.model.vote import RequeueVote


class Votes(Part):
    """Those of a node, by the ID of the job. See `arbitration`."""

    __slots__ = ("by_id", "timers")

    def __init__(self, timers: "Timers") -> None:
        self.timers = timers
        self.by_id: dict[bytes, RequeueVote] = {}

    def drop_job(self, job: "Job") -> int:
        """Ask no more about this job."""
        return self.drop(job.id) if self.by_id else 0

    def drop(self, job_id: bytes) -> int:
        """Ask no more about this job. Returns the bytes that this frees."""
        vote = self.by_id.pop(job_id, None)
        if vote is None:
            return 0
        self.timers.disarm(vote)
        return VOTE_BYTES

    def clear(self) -> None:
        """Nothing is asked any more."""
        self.by_id.clear()

    def cost(self) -> int:
        """Bytes of memory that they count for."""
        return VOTE_BYTES * len(self.by_id)
