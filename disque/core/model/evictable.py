"""The at-most-once jobs that were delivered, oldest delivery first: what goes when memory is short.

There may be millions of them, so they stand in a line without an index: eight bytes each. One that goes by itself, by
an acknowledgement or at its end, leaves a gap, which is closed when it comes to the head. When gaps are the majority,
each further one has some entries of the line looked at, so the line is never more than twice as long as it must be.
"""

from collections import deque
from typing import TYPE_CHECKING, Final

from disque.core.model.job import OUT, SPENT, SPENT_GONE, SPENT_LINE, Job
from disque.core.model.part import Part

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Entries that one removal looks at while gaps are closed.
SWEEP: Final = 8
#: So many gaps do not matter.
GAPS_LEAST: Final = 64


class Evictable(Part):
    """A line of jobs; each job knows by its ``place`` whether it stands there."""

    __slots__ = ("_back", "_front", "_gaps", "count")

    def __init__(self) -> None:
        #: How many jobs there are.
        self.count = 0
        self._gaps = 0
        self._front: deque[Job] = deque()
        self._back: deque[Job] = deque()

    def add(self, job: Job) -> None:
        """Put ``job``, which is in no queue, at the end, unless it stands in the line."""
        if job.place == SPENT_LINE:
            return
        job.place = SPENT_LINE
        self.count += 1
        self._back.append(job)

    def drop_job(self, job: Job) -> int:
        """``job`` is gone: if it is there, take it out. It counts for nothing beside the job."""
        if job.flags & SPENT:
            self.drop(job)
        return 0

    def drop(self, job: Job) -> None:
        """Take ``job`` out for good, if it is there."""
        if job.place != SPENT_LINE:
            return
        job.place = SPENT_GONE
        self.count -= 1
        self._gaps += 1
        self._trim()
        if self._gaps > self.count and self._gaps > GAPS_LEAST:
            self._sweep()

    def take_back(self, job: Job) -> None:
        """Take ``job`` out, which goes back to its queue: it was delivered lately, so it is near the end."""
        if job.place != SPENT_LINE:
            return
        later: list[Job] = []
        while self._back or self._front:
            one = (self._back or self._front).pop()
            if one is job:
                break
            later.append(one)
        later.reverse()
        self._back.extend(later)
        self.count -= 1
        job.place = OUT
        self._trim()

    def first(self) -> Job:
        """The job that was delivered first; there must be one."""
        return (self._front or self._back)[0]

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> "Iterator[bytes]":
        """The IDs, in order: for tests."""
        for line in (self._front, self._back):
            for job in line:
                if job.place == SPENT_LINE:
                    yield job.id

    def _trim(self) -> None:
        """Close the gaps at the head."""
        while self._gaps:
            line = self._front or self._back
            if line[0].place == SPENT_LINE:
                return
            line.popleft()
            self._gaps -= 1

    def _sweep(self) -> None:
        """Look at the next few entries and close the gaps among them."""
        if not self._back:
            self._front, self._back = self._back, self._front
        back = self._back
        for _ in range(min(SWEEP, len(back))):
            job = back.popleft()
            if job.place == SPENT_LINE:
                self._front.append(job)
            else:
                self._gaps -= 1

    def clear(self) -> None:
        """Begin anew: who frees the jobs has taken `lines`."""
        self.count = 0
        self._gaps = 0
        self._front = deque()
        self._back = deque()

    def cost(self) -> int:
        """Bytes of memory that they count for beside their jobs."""
        return 0

    def lines(self) -> "list[deque[Job]]":
        """What all of it consists of, for whoever frees it."""
        return [self._front, self._back]
