"""Deliveries that last for a time of their own instead of the job's RETRY: GETJOB LEASE."""

from typing import TYPE_CHECKING

from disque.core.model.memory import LEASE_BYTES
from disque.core.model.part import Part

if TYPE_CHECKING:
    from disque.core.model.job import Job


class Leases(Part):
    """Those of a node, by the ID of the job, in ms. See `disque.core.jobs.leases`."""

    __slots__ = ("by_id",)

    def __init__(self) -> None:
        self.by_id: dict[bytes, int] = {}

    def begin(self, job_id: bytes, lease_ms: int) -> int:
        """Note the lease of a delivery. Returns the bytes that this costs."""
        costs = 0 if job_id in self.by_id else LEASE_BYTES
        self.by_id[job_id] = lease_ms
        return costs

    def drop_job(self, job: "Job") -> int:
        """The delivery is over with the job."""
        return self.drop(job.id) if self.by_id else 0

    def drop(self, job_id: bytes) -> int:
        """That delivery is over. Returns the bytes that this frees."""
        return 0 if self.by_id.pop(job_id, None) is None else LEASE_BYTES

    def clear(self) -> None:
        """No job is in flight any more."""
        self.by_id.clear()

    def cost(self) -> int:
        """Bytes of memory that they count for."""
        return LEASE_BYTES * len(self.by_id)
