"""Long polls that share connections: ten thousand of them on one queue cost the cluster one waiting client.

Polls for the same queues with the same terms stand in one line. For each line one GETJOB waits at a node; what it
brings is handed out in the order in which polls came. When the last poll of a line has left, the wait is ended in a way
that loses no job; jobs for which nobody is left go back to their queue, and count as no failure.
"""

import asyncio
from collections import deque
from collections.abc import Coroutine
from typing import Any, Final

from disque.client import AsyncDisque, DisqueError, UnavailableError
from disque.client.async_pool import AsyncInterrupt
from disque.client.delivery import Parcel, deliver
from disque.client.errors import typed
from disque.client.packing import pack
from disque.gateway.taken import WITHMETA, Taken, jobs_of

#: A GETJOB waits at most so long, in ms; then comes the next one, so a node that hangs is noticed.
WAIT_MS: Final = 10_000
#: Jobs that one GETJOB brings.
JOBS: Final = 100
#: Lines at one time, each with a connection.
LINES: Final = 2000

#: Names of queues, and words of GETJOB such as LEASE.
Terms = tuple[tuple[bytes, ...], tuple[bytes, ...]]


class CrowdedError(UnavailableError):
    """As many different long polls are waiting as one gateway has connections for."""


class Line:
    """Polls that wait for the same, in order."""

    def __init__(self) -> None:
        self.polls: deque[asyncio.Future[Taken | None]] = deque()
        self.interrupt = AsyncInterrupt()
        self.left = 0

    def next(self) -> "asyncio.Future[Taken | None] | None":
        """The poll that is first, or None; those that have left are dropped."""
        while self.polls:
            poll = self.polls.popleft()
            if not poll.done():
                return poll
        return None


class Polls:
    """All lines of one client of the cluster."""

    def __init__(self, client: AsyncDisque) -> None:
        self.client = client
        self.waiting = 0
        self._lines: dict[Terms, Line] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    async def wait(self, terms: Terms, timeout_s: float) -> Taken | None:
        """The next job, or None when the time is over, or the gateway stops. Raises DisqueError."""
        if self._closed:
            return None
        line = self._lines.get(terms)
        if line is None:
            if len(self._lines) >= LINES:
                raise CrowdedError("too many different queues are waited for; try again")
            line = self._lines[terms] = Line()
            self._begin(self._serve(terms, line))
        loop = asyncio.get_running_loop()
        poll: asyncio.Future[Taken | None] = loop.create_future()
        timer = loop.call_later(timeout_s, self._over, poll)
        line.polls.append(poll)
        line.left += 1
        self.waiting += 1
        try:
            return await poll
        except asyncio.CancelledError:
            if poll.done() and not poll.cancelled() and (job := poll.result()) is not None:
                self._begin(self.give_back([job.job_id]))
            raise
        finally:
            timer.cancel()
            self.waiting -= 1
            line.left -= 1
            if not line.left and self._lines.get(terms) is line:
                del self._lines[terms]
                line.interrupt.end()

    async def close(self) -> None:
        """Let all polls end without a job, and wait until their connections are closed."""
        self._closed = True
        for line in self._lines.values():
            for poll in line.polls:
                self._over(poll)
        while self._tasks:
            await asyncio.wait(self._tasks)

    @staticmethod
    def _over(poll: "asyncio.Future[Taken | None]") -> None:
        if not poll.done():
            poll.set_result(None)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, terms: Terms, line: Line) -> None:
        """Bring jobs to a line until it is empty."""
        while not line.interrupt.ended:
            try:
                jobs = await self._fetch(terms, line)
            except DisqueError as error:
                self._fail(terms, line, error)
                return
            spare: list[bytes] = []
            for job in jobs:
                poll = line.next()
                if poll is None:
                    spare.append(job.job_id)
                else:
                    poll.set_result(job)
            if spare:
                await self.give_back(spare)
            await asyncio.sleep(0)  # those that were served leave the line, and it may be over

    async def _fetch(self, terms: Terms, line: Line) -> list[Taken]:
        queues, how = terms
        count = min(max(1, len(line.polls)), JOBS)
        words = [b"GETJOB", b"TIMEOUT", b"%d" % WAIT_MS, b"COUNT", b"%d" % count, *how, WITHMETA, b"FROM", *queues]
        flow = deliver(self.client.router, self.client.config, Parcel([pack(words)], WAIT_MS))
        replies = await self.client.drive(flow, line.interrupt)
        [reply] = replies or [None]
        if isinstance(reply, Exception):
            raise typed(reply) or reply
        return jobs_of(reply)

    def _fail(self, terms: Terms, line: Line, error: DisqueError) -> None:
        if self._lines.get(terms) is line:
            del self._lines[terms]
        line.interrupt.end()
        while (poll := line.next()) is not None:
            poll.set_exception(error)

    async def give_back(self, ids: list[bytes]) -> None:
        """Put jobs back that nobody has seen. What fails here comes again after its lease."""
        try:
            await self.client.nack(*ids, count=False)
        except DisqueError:
            return
