"""What the state of a feature is to the node that is composed of it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from disque.core.model.job import Job


class Part:
    """The state of one feature: its tables, its timers, what it takes of memory.

    A node has a list of them, so that a job that goes, or everything that goes, needs no line for each feature.
    """

    __slots__ = ()

    def drop_job(self, job: "Job") -> int:
        """``job`` is gone, or is done and only its ID matters. Returns the bytes that this frees."""
        raise NotImplementedError

    def clear(self) -> None:
        """Everything is forgotten: jobs, timers and the count of memory begin anew."""
        raise NotImplementedError

    def cost(self) -> int:
        """Bytes of memory that it counts for now, counted anew: for tests."""
        raise NotImplementedError
