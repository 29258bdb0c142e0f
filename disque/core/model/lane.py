"""Jobs in the order in which they leave: what a queue consists of.

Jobs leave in the order of (ctime, id). New jobs of this node arrive in that order and go to the end of a line. Jobs
that come back (NACK, retry, a delay that ended) belong somewhere before that end and go into a sorted list. The head is
the smaller of the two heads.

A job taken out of the middle of the line leaves a shell. The line is two deques, ``_front`` before ``_back``: when
shells are the majority, each further removal moves a few entries from the one to the other and drops the shells among
them, so cleaning costs no pause however long the line is. The head is never a shell.

Jobs with a PRIORITY have lanes of their own, one for each priority that is there at the moment; the highest leave
first. Where all jobs have priority 0, which is the default, there is nothing but the line.
"""

from bisect import bisect_left
from collections import deque
from heapq import heapify, heappop, heapreplace
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from sortedcontainers import SortedKeyList

from disque.core.base.timers import IDLE, Timed
from disque.core.model.job import AMONG_RETURNED, IN_LINE, OUT, SHELL, Job
from disque.core.model.spec import PRIORITY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: A longer line is not freed at once.
LONG: Final = 500

#: Entries of the line that one removal looks at while shells are swept out.
SWEEP: Final = 8


def job_order(job: Job) -> tuple[int, bytes]:
    """The order of jobs of one priority in every queue of every node."""
    return (job.ctime, job.id)


def leaving_order(job: Job) -> tuple[int, int, bytes]:
    """The order in which jobs leave every queue of every node."""
    return (-priority_of(job), job.ctime, job.id)


def priority_of(job: Job) -> int:
    """How urgent a job is: 0 for most."""
    spec = job.spec
    return 0 if spec.rows is None else spec.number(PRIORITY)


class Lane(Timed):
    """Jobs of one priority; in a queue, which is one too, also those of higher ones (``_above``).

    ``length`` counts all of them. Only a queue is ever armed.
    """

    __slots__ = ("_above", "_back", "_end", "_front", "_returned", "_shells", "length")

    def __init__(self) -> None:
        self.due_ms = 0
        self.slot = IDLE
        self.length = 0
        self._above: Lanes | None = None
        self._front: deque[Job] = deque()
        self._back: deque[Job] = deque()
        self._returned: SortedKeyList[Job, tuple[int, bytes]] | None = None
        self._shells = 0
        #: No job in the line was made later than this (its ctime).
        self._end = -1

    def push(self, job: Job) -> None:
        """Put ``job`` where it belongs; it must not be in the queue."""
        self.length += 1
        if job.spec.rows is not None and self.rises(job):
            return
        if job.place == SHELL:
            job.place = IN_LINE
            self._shells -= 1
            return
        if job.ctime > self._end or self._is_last(job):
            self._back.append(job)
            self._end = job.ctime
            job.place = IN_LINE
        else:
            if self._returned is None:
                self._returned = SortedKeyList(key=job_order)
            self._returned.add(job)
            job.place = AMONG_RETURNED

    def rises(self, job: Job) -> bool:
        """Put ``job`` into the lane of its priority, if that is another one."""
        del job
        return False

    def _is_last(self, job: Job) -> bool:
        """Whether ``job`` belongs behind the end of the line."""
        back = self._back or self._front
        return not back or back[-1].ctime < job.ctime or job_order(back[-1]) < job_order(job)

    def fill(self, jobs: list[Job]) -> None:
        """Put many jobs into an empty queue at once: ``jobs`` is in order."""
        assert not self.length
        assert not self._front
        assert not self._back
        self.length = len(jobs)
        jobs = [job for job in jobs if job.spec.rows is None or not self.rises(job)]
        self._back.extend(jobs)
        for job in jobs:
            job.place = IN_LINE
        if jobs:
            self._end = jobs[-1].ctime

    def head(self) -> Job | None:
        """The job that would leave next, which stays."""
        if not self.length:
            return None
        return self.own_head() if self._above is None else self._above.lanes[0].head()

    def own_head(self) -> Job | None:
        """The first job of this lane alone."""
        line = self._front or self._back
        if self._returned:
            other: Job = self._returned[0]
            if not line or job_order(other) < job_order(line[0]):
                return other
        return line[0] if line else None

    def pop(self) -> Job | None:
        """Take out the next job: of those with the highest priority, the oldest."""
        if not self.length:
            return None
        if self._above is not None:
            return self._pop_above(self._above)
        if self._returned:
            return self._pop_smaller()
        self.length -= 1
        job = (self._front or self._back).popleft()
        job.place = OUT
        if self._shells:
            self._trim()
        return job

    def _pop_above(self, above: "Lanes") -> Job | None:
        self.length -= 1
        lane = above.lanes[0]
        job = lane.pop()
        if not lane.length:
            self._drop(above, 0)
        return job

    def _drop(self, above: "Lanes", at: int) -> None:
        """Nothing is left in a lane."""
        del above.lanes[at], above.numbers[at]
        if not above.lanes:
            self._above = None

    def _pop_smaller(self) -> Job:
        line = self._front or self._back
        returned = self._returned
        assert returned
        self.length -= 1
        if line and job_order(line[0]) < job_order(returned[0]):
            job = line.popleft()
            job.place = OUT
            self._trim()
            return job
        job = returned.pop(0)
        job.place = OUT
        return job

    def remove(self, job: Job) -> None:
        """Take ``job`` out from wherever it is in the queue."""
        assert job.place in (IN_LINE, AMONG_RETURNED)
        self.length -= 1
        above = self._above
        if above is not None and job.spec.rows is not None:
            at = above.find(priority_of(job))
            if at >= 0:
                above.lanes[at].remove(job)
                if not above.lanes[at].length:
                    self._drop(above, at)
                return
        if job.place == AMONG_RETURNED:
            assert self._returned is not None
            self._returned.remove(job)
            job.place = OUT
            return
        job.place = SHELL
        self._shells += 1
        self._trim()
        if self._shells > self.length and self._shells > 64:
            self._sweep()

    def _trim(self) -> None:
        """Drop the shells at the head of the line."""
        while self._shells:
            line = self._front or self._back
            if line[0].place != SHELL:
                return
            line.popleft().place = OUT
            self._shells -= 1

    def _sweep(self) -> None:
        """Look at the next few entries of the line and drop the shells among them."""
        if not self._back:
            self._front, self._back = self._back, self._front
        back = self._back
        for _ in range(min(SWEEP, len(back))):
            job = back.popleft()
            if job.place == SHELL:
                job.place = OUT
                self._shells -= 1
            else:
                self._front.append(job)

    def oldest(self) -> Job | None:
        """The oldest job, whatever its priority."""
        return self.head() if self._above is None else next(self.oldest_first())

    def oldest_first(self) -> "Iterator[Job]":
        """The jobs, the oldest first, whatever their priority. Who asks for the next one has taken the last one out.

        Nothing else may come or go meanwhile. A step costs the same whatever the number of priorities; the first one
        looks at each of them.
        """
        above = self._above
        if above is not None:
            lanes: list[Lane] = [self, *above.lanes]
            heads = [(job.ctime, job.id, lane) for lane in lanes if (job := lane.own_head()) is not None]
            heapify(heads)
            while heads:
                lane = heads[0][2]
                job = lane.own_head()
                assert job is not None
                yield job
                job = lane.own_head()
                if job is None:
                    heappop(heads)
                else:
                    heapreplace(heads, (job.ctime, job.id, lane))
        while (job := self.head()) is not None:
            yield job

    def lanes(self) -> int:
        """How many lanes there are beside that of priority 0."""
        return 0 if self._above is None else len(self._above.lanes)

    def jobs(self) -> "Iterator[Job]":
        """All jobs in the order in which they would leave."""
        own = self._own()
        return own if self._above is None else chain(*[lane.jobs() for lane in self._above.lanes], own)

    def _own(self) -> "Iterator[Job]":
        return _merged(_in_line(chain(self._front, self._back)), iter(self._returned or ()), newest=False)

    def newest(self) -> "Iterator[Job]":
        """All jobs in the opposite order."""
        own = _merged(
            _in_line(chain(reversed(self._back), reversed(self._front))), reversed(self._returned or []), newest=True
        )
        return own if self._above is None else chain(own, *[lane.newest() for lane in reversed(self._above.lanes)])

    def peek(self, count: int) -> list[Job]:
        """Up to ``count`` of the next jobs; with a negative count, of the last, from the end."""
        jobs = self.jobs() if count >= 0 else self.newest()
        return list(islice(jobs, abs(count)))

    def lines(self) -> "list[deque[Job] | SortedKeyList[Job, tuple[int, bytes]]]":
        """What most of it consists of, for whoever frees it."""
        if self._above is None:
            return [line for line in self.own_lines() if len(line) > LONG]
        return sum([lane.own_lines() for lane in self._above.lanes], self.own_lines())  # many short ones are as much

    def own_lines(self) -> "list[deque[Job] | SortedKeyList[Job, tuple[int, bytes]]]":
        """The parts of this lane alone."""
        return [self._front, self._back] if self._returned is None else [self._front, self._back, self._returned]


class Lanes:
    """The lanes of higher priorities in one queue, the highest first; none of them is empty.

    ``numbers`` are their priorities, made negative so that they are in ascending order.
    """

    __slots__ = ("lanes", "numbers")

    def __init__(self) -> None:
        self.lanes: list[Lane] = []
        self.numbers: list[int] = []

    def find(self, priority: int) -> int:
        """Where the lane of this priority is; -1 if there is none."""
        at = bisect_left(self.numbers, -priority)
        return at if at < len(self.numbers) and self.numbers[at] == -priority else -1

    def lane(self, priority: int) -> Lane:
        """The lane of this priority, made when there is none: something comes into it at once."""
        at = bisect_left(self.numbers, -priority)
        if at == len(self.numbers) or self.numbers[at] != -priority:
            self.numbers.insert(at, -priority)
            self.lanes.insert(at, Lane())
        return self.lanes[at]


def _in_line(jobs: "Iterable[Job]") -> "Iterator[Job]":
    """Those that are no shells. A function, since mypyc would make a list of an expression in parentheses."""
    for job in jobs:
        if job.place == IN_LINE:
            yield job


def _merged(line: "Iterator[Job]", returned: "Iterator[Job]", *, newest: bool) -> "Iterator[Job]":
    """Both streams as one, in order; each of them is in order already."""
    left, right = next(line, None), next(returned, None)
    while left is not None and right is not None:
        if (job_order(left) < job_order(right)) != newest:
            yield left
            left = next(line, None)
        else:
            yield right
            right = next(returned, None)
    if left is not None:
        yield left
        yield from line
    if right is not None:
        yield right
        yield from returned
