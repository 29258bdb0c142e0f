"""A queue: jobs in the order of (ctime, id), and the line of sessions that wait for them.

New jobs of this node arrive in order and go to the end of a line. Jobs that come back (NACK, retry, a delay that
ended) belong somewhere before that end and go into a sorted list. The head of the queue is the smaller of the two
heads.

A job taken out of the middle of the line leaves a shell. The line is two deques, ``_front`` before ``_back``: when
shells are the majority, each further removal moves a few entries from the one to the other and drops the shells among
them, so cleaning costs no pause however long the line is. The head is never a shell.
"""

from collections import OrderedDict, deque
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from sortedcontainers import SortedKeyList

from disque.core.base.timers import IDLE, Timed
from disque.core.model.job import AMONG_RETURNED, IN_LINE, OUT, SHELL, Job

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from disque.core.model.flow import Flow, Want
    from disque.core.model.spec import SpecCache
    from disque.core.model.waiter import Waiter

#: Pause flags.
PAUSED_IN: Final = 1
PAUSED_OUT: Final = 2
PAUSE_NAMES: Final = (b"none", b"in", b"out", b"all")

#: How long a queue that nobody uses is kept, by memory level, in ms.
QUEUE_IDLE_MS: Final = (300_000, 10_000, 2_000)

#: Beside the places that `job` names: in a queue of another node, to which it was handed on.
ELSEWHERE: Final = 4

#: A longer line is not freed at once.
LONG: Final = 500

#: Entries of the line that one removal looks at while shells are swept out.
SWEEP: Final = 8


def job_order(job: Job) -> tuple[int, bytes]:
    """The order of jobs in every queue of every node."""
    return (job.ctime, job.id)


class Queue(Timed):
    """One queue. ``header`` is its name as a bulk reply; times are node time in ms."""

    __slots__ = (
        "_back",
        "_end",
        "_front",
        "_returned",
        "_shells",
        "consumed_ms",
        "created_ms",
        "flow",
        "given",
        "header",
        "jobs_in",
        "jobs_out",
        "length",
        "low",
        "name",
        "number",
        "paused",
        "ready",
        "sample_ms",
        "segment",
        "specs",
        "used_ms",
        "waiters",
        "wants",
    )

    def __init__(self, name: bytes, now_ms: int) -> None:
        self.due_ms = 0
        self.slot = IDLE
        self.name = name
        self.header = b"$%d\r\n%b\r\n" % (len(name), name)
        self.created_ms = now_ms
        self.used_ms = now_ms
        self.jobs_in = 0
        self.jobs_out = 0
        #: Of these, jobs that other nodes got.
        self.given = 0
        #: When it may be looked at again how long a job waited.
        self.sample_ms = 0
        self.paused = 0
        self.length = 0
        self.ready = False
        self.segment = 0
        self.number = 0
        #: Who waits, first come first: in a plain dict each look at the first would go over all that have left.
        self.waiters: OrderedDict[Waiter, None] | None = None
        #: Other nodes that want jobs of this queue, what this node asks others for, and the length at which to ask for
        #: more (-1: never): see `supply`.
        self.wants: dict[bytes, Want] | None = None
        self.flow: Flow | None = None
        self.low = -1
        #: What its jobs have in common, from the first one on: see `Node.spec`.
        self.specs: SpecCache | None = None
        #: When a consumer got a job here last.
        self.consumed_ms = 0
        self._front: deque[Job] = deque()
        self._back: deque[Job] = deque()
        self._returned: SortedKeyList[Job, tuple[int, bytes]] | None = None
        self._shells = 0
        #: No job in the line was made later than this (its ctime).
        self._end = -1

    def push(self, job: Job) -> None:
        """Put ``job`` where it belongs; it must not be in the queue."""
        self.length += 1
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

    def _is_last(self, job: Job) -> bool:
        """Whether ``job`` belongs behind the end of the line."""
        back = self._back or self._front
        return not back or back[-1].ctime < job.ctime or job_order(back[-1]) < job_order(job)

    def fill(self, jobs: list[Job]) -> None:
        """Put many jobs into an empty queue at once: ``jobs`` is in order."""
        assert not self.length
        assert not self._front
        assert not self._back
        self._back.extend(jobs)
        self.length = len(jobs)
        for job in jobs:
            job.place = IN_LINE
        if jobs:
            self._end = jobs[-1].ctime

    def head(self) -> Job | None:
        """The oldest job, which stays."""
        if not self.length:
            return None
        line = self._front or self._back
        if self._returned:
            other: Job = self._returned[0]
            if not line or job_order(other) < job_order(line[0]):
                return other
        return line[0]

    def pop(self) -> Job | None:
        """Take out the oldest job."""
        if not self.length:
            return None
        if self._returned:
            return self._pop_smaller()
        self.length -= 1
        job = (self._front or self._back).popleft()
        job.place = OUT
        if self._shells:
            self._trim()
        return job

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

    def jobs(self) -> "Iterator[Job]":
        """All jobs from the oldest to the newest."""
        return _merged(_in_line(chain(self._front, self._back)), iter(self._returned or ()), newest=False)

    def newest(self) -> "Iterator[Job]":
        """All jobs from the newest to the oldest."""
        return _merged(
            _in_line(chain(reversed(self._back), reversed(self._front))), reversed(self._returned or []), newest=True
        )

    def peek(self, count: int) -> list[Job]:
        """Up to ``count`` of the oldest jobs; with a negative count, of the newest, newest first."""
        jobs = self.jobs() if count >= 0 else self.newest()
        return list(islice(jobs, abs(count)))

    def lines(self) -> "list[deque[Job] | SortedKeyList[Job, tuple[int, bytes]]]":
        """What most of the queue consists of, for whoever frees it."""
        lines: list[deque[Job] | SortedKeyList[Job, tuple[int, bytes]]] = [self._front, self._back]
        if self._returned is not None:
            lines.append(self._returned)
        return [line for line in lines if len(line) > LONG]

    def wait(self, session: "Waiter") -> None:
        """Put ``session`` at the end of the line of those who wait for jobs; a session stands there once."""
        if self.waiters is None:
            self.waiters = OrderedDict()
        self.waiters[session] = None

    def leave(self, session: "Waiter") -> None:
        """Take ``session`` out of the line."""
        if self.waiters is not None:
            self.waiters.pop(session, None)
            if not self.waiters:
                self.waiters = None


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
