"""Long polls that share connections: ten thousand of them on one queue cost the cluster one waiting client.

Polls for the same queues with the same terms stand in one line. For each line one GETJOB waits at a node; what it
brings is handed out in the order in which polls came. When the last poll of a line has left, the wait is ended in a way
that loses no job; jobs for which nobody is left go back to their queue, and count as no failure.

An at-most-once job that goes back ends, so none is asked for without somebody who takes it. Who waits asks for one job,
and fetches the others, as many as there are polls, when that has come. A poll whose time is over leaves at once if
those that stay can take what was asked for. Otherwise it is held until the node has answered, and takes what comes.
"""

import asyncio
import math
from collections import OrderedDict
from collections.abc import Coroutine
from typing import Any, Final

from disque.client import AsyncDisque, DisqueError, UnavailableError
from disque.client.async_pool import AsyncInterrupt
from disque.client.config import Address
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
#: So long a poll is held beyond its time, in seconds, until a wait that was ended is over at the node.
HELD_S: Final = 1.0

#: Names of queues, and words of GETJOB such as LEASE.
Terms = tuple[tuple[bytes, ...], tuple[bytes, ...]]
#: What a poll waits for: a job, and the node that gave it.
Poll = asyncio.Future[tuple[Taken, Address | None] | None]


class CrowdedError(UnavailableError):
    """As many different long polls are waiting as one gateway has connections for."""


class Line:
    """Polls that wait for the same, in order. ``until_s`` is when the time of all is over, by the clock of the loop."""

    def __init__(self) -> None:
        self.polls: OrderedDict[Poll, None] = OrderedDict()
        self.interrupt = AsyncInterrupt()
        self.until_s = 0.0
        #: Jobs that the GETJOB under way may bring.
        self.asked = 0
        #: Polls whose time is over, and that still take what it brings.
        self.held: list[Poll] = []
        self.task: asyncio.Task[None] | None = None

    def next(self) -> Poll | None:
        """Take out the poll that is first, or None; one that is cancelled at this moment is passed over."""
        while self.polls:
            poll, _ = self.polls.popitem(last=False)
            if not poll.done():
                return poll
        return None

    def end(self, poll: Poll) -> None:
        """Let a poll go without a job, if it has none."""
        self.polls.pop(poll, None)
        if not poll.done():
            poll.set_result(None)

    def release(self) -> None:
        """Let those go that were held."""
        for poll in self.held:
            self.end(poll)
        self.held.clear()


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
            line.task = self._begin(self._serve(terms, line))
        loop = asyncio.get_running_loop()
        poll: Poll = loop.create_future()
        timer = loop.call_later(timeout_s, self._over, terms, line, poll)
        line.polls[poll] = None
        line.until_s = max(line.until_s, loop.time() + timeout_s)
        self.waiting += 1
        try:
            served = await poll
        except asyncio.CancelledError:
            if poll.done() and not poll.cancelled() and not poll.exception() and (served := poll.result()):
                self._hand_out(terms, line, [served[0]], served[1])
            raise
        finally:
            timer.cancel()
            self.waiting -= 1
            line.polls.pop(poll, None)
            self._end_if_empty(terms, line)
        return None if served is None else served[0]

    async def close(self) -> None:
        """Let all polls end without a job, and wait until their connections are closed."""
        self._closed = True
        for terms, line in list(self._lines.items()):
            for poll in list(line.polls):
                self._over(terms, line, poll)
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _over(self, terms: Terms, line: Line, poll: Poll) -> None:
        """The time of a poll is over. It goes, or is held if it may be wanted for what is under way."""
        if poll.done() or poll in line.held:
            return
        if len(line.polls) > line.asked:
            line.end(poll)
            self._end_if_empty(terms, line)
            return
        line.held.append(poll)
        if len(line.polls) == 1:
            self._end(terms, line)

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _serve(self, terms: Terms, line: Line) -> None:
        """Bring jobs to a line until it is empty."""
        waits = True
        try:
            while not line.interrupt.ended:
                line.asked = 1 if waits else min(len(line.polls), JOBS)
                jobs, node = await self._fetch(terms, line, waits=waits)
                waits = len(jobs) < line.asked
                line.asked = 0
                self._hand_out(terms, line, jobs, node)
                line.release()
                self._end_if_empty(terms, line)
        except DisqueError as error:
            line.release()
            self._end(terms, line)
            while (poll := line.next()) is not None:
                poll.set_exception(error)
        finally:
            line.asked = 0
            line.release()

    async def _fetch(self, terms: Terms, line: Line, *, waits: bool) -> tuple[list[Taken], Address | None]:
        """Ask a node for jobs, and wait for the first if wanted: no longer than the polls do. Who gave them, too."""
        queues, how = terms
        left_ms = math.ceil((line.until_s - asyncio.get_running_loop().time()) * 1000)
        wait_ms = max(1, min(left_ms, WAIT_MS)) if waits else 0
        when = [b"TIMEOUT", b"%d" % wait_ms] if waits else [b"NOHANG"]
        words = [b"GETJOB", *when, b"COUNT", b"%d" % line.asked, *how, WITHMETA, b"FROM", *queues]
        parcel = Parcel([pack(words)], wait_ms)
        flow = deliver(self.client.router, self.client.config, parcel)
        replies = await self.client.drive(flow, line.interrupt)
        [reply] = replies or [None]
        if isinstance(reply, Exception):
            raise typed(reply) or reply
        return jobs_of(reply), parcel.answered_by

    def _hand_out(self, terms: Terms, line: Line, jobs: list[Taken], node: Address | None) -> None:
        """Give jobs to the polls of a line, or of the one that came after it; back go those for which nobody waits."""
        spare: list[bytes] = []
        for job in jobs:
            poll = line.next()
            if poll is None and (later := self._lines.get(terms)) is not None:
                poll = later.next()
                self._end_if_empty(terms, later)
            if poll is None:
                spare.append(job.job_id)
            else:
                poll.set_result((job, node))
        if spare:
            self._begin(self.give_back(spare, node))

    def _end_if_empty(self, terms: Terms, line: Line) -> None:
        if not line.polls:
            self._end(terms, line)

    def _end(self, terms: Terms, line: Line) -> None:
        """Nobody comes to this line any more, and its wait at the node ends."""
        if self._lines.get(terms) is line:
            del self._lines[terms]
        if line.interrupt.ended:
            return
        line.interrupt.end()
        if line.asked:
            asyncio.get_running_loop().call_later(HELD_S if line.polls else 0, self._let_go, line)

    def _let_go(self, line: Line) -> None:
        """Hold nobody any longer; a wait over TLS, which cannot be half closed, must not take jobs for nobody."""
        line.release()
        if self.client.config.tls and line.task is not None:
            line.task.cancel()

    async def give_back(self, ids: list[bytes], node: Address | None) -> None:
        """Put jobs back that nobody has seen, at the node that gave them. Others may have no copy."""
        await self.client.give_back_quietly(ids, node, count=False)
