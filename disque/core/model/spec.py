"""What the jobs of a queue have in common: one small object for all of them.

Nearly all jobs of a queue were added by the same producers with the same options. What these say - TTL, RETRY and
REPLICATE - and the name of the queue would stand in each job by the million, so they stand in one object to which the
jobs point.

A queue remembers the terms that came last and a few before them, so two or three kinds of jobs that take turns share
theirs as well. Only where nearly every job is different, by a TTL counted down for each, has each job an object of its
own: 48 bytes more than if its numbers were in the job.
"""

from typing import Final

from mypy_extensions import i32, mypyc_attr

from disque.core.base.numbers import SECONDS_MAX

#: So many terms does one queue remember.
TERMS_MOST: Final = 4


@mypyc_attr(acyclic=True)
class JobSpec:
    """The terms of a job: its queue, TTL and RETRY in seconds, how many copies were asked for. They never change."""

    __slots__ = ("queue", "repl", "retry", "ttl")

    def __init__(self, queue: bytes, ttl: int, retry: int, repl: int) -> None:
        self.queue = queue
        self.ttl = min(ttl, SECONDS_MAX)
        self.retry = min(retry, SECONDS_MAX)
        self.repl = repl

    def says(self, ttl: int, retry: int, repl: int) -> bool:
        """Whether these are the numbers."""
        return self.ttl == ttl and self.retry == retry and self.repl == repl

    def equals(self, other: "JobSpec") -> bool:
        """Whether the other object says the same."""
        return self is other or (self.queue == other.queue and self.says(other.ttl, other.retry, other.repl))


@mypyc_attr(acyclic=True)
class SpecCache:
    """The terms that are usual in one queue. ``last`` are those that were wanted last."""

    __slots__ = ("_next", "_ring", "last")

    def __init__(self, first: JobSpec) -> None:
        self.last = first
        #: All that are remembered, from the second on: most queues know one. `_next` is to be replaced next.
        self._ring: list[JobSpec] | None = None
        self._next: i32 = 0

    def terms(self, ttl: int, retry: int, repl: int) -> JobSpec:
        """The one object for these numbers; a new one if they are not remembered."""
        last = self.last
        if last.ttl == ttl and last.retry == retry and last.repl == repl:
            return last
        ring = self._ring
        if ring is None:
            ring = self._ring = [last]
        for known in ring:
            if known.says(ttl, retry, repl):
                self.last = known
                return known
        new = self.last = JobSpec(last.queue, ttl, retry, repl)
        if len(ring) < TERMS_MOST:
            ring.append(new)
        else:
            ring[self._next] = new
            self._next = (self._next + 1) % TERMS_MOST
        return new
