"""One client connection, as the server's shell sees it: requests in, in order; replies out when the journal lets them.

This follows `disque/server/connection.py`: while a session waits, no further request is executed (but ADDJOBs behind
an unanswered ADDJOB); replies that hang on a record are held; a client that does not read gets nothing and nothing of
it is executed; jobs in replies that never began to leave go back when the connection dies.
"""

from collections import deque
from typing import TYPE_CHECKING, Any

import hiredis

from disque.core import step
from disque.core.jobs import deliver, sessions
from disque.core.model.session import NOT_WAITING, OWED, WAIT_COPIES, WAIT_ENDS, WAIT_JOBS
from disque.core.replication import waits

if TYPE_CHECKING:
    from tests.simulation.process import Process
    from tests.simulation.wires import Wire


class Request:
    """One request of a client. World times: when it was sent, executed, and when its reply was ready and left."""

    __slots__ = ("args", "left_ms", "ran_ms", "ready_ms", "sent_ms", "user", "verb")

    def __init__(self, args: list[bytes], sent_ms: int) -> None:
        self.args = args
        self.verb = args[0]
        self.sent_ms = sent_ms
        self.ran_ms = -1
        self.ready_ms = -1
        self.left_ms = -1
        #: Whose client has sent it.
        self.user = b""


class Connection:
    """The shell around one session. ``owed`` are requests that were executed and whose replies have not left."""

    def __init__(self, process: "Process", wire: "Wire", number: int) -> None:
        self.process = process
        self.world = process.world
        self.wire = wire
        self.number = number
        address = b"127.0.0.1:%d" % (40000 + number)
        self.session = sessions.connect(process.node, number, address, b"127.0.0.1:7711", process.now_ms())
        self.inbox: deque[Request] = deque()
        self.owed: deque[Request] = deque()
        #: When each job in `session.handed` was handed out, and how many of the replies were seen to be ready.
        self.handed_ms: list[int] = []
        self.ready = 0
        self.ticket = 0
        #: Replies that the journal holds back: ticket, replies, handed jobs.
        self.marks: list[tuple[int, int, int]] = []
        self.choked = False
        self.closed = False
        #: The client sends nothing more.
        self.ending = False
        #: Somebody cuts it: with CLIENT KILL, or since its user is gone. Nothing is owed to it any more.
        self.killed = False
        self._reader = hiredis.Reader()

    # -- requests --------------------------------------------------------------------------------------------------

    def arrive(self, request: Request) -> None:
        """A request has come over the network."""
        if not self.closed:
            self.inbox.append(request)
            self.go_on()

    def go_on(self) -> None:
        """Execute what may be executed."""
        session, process = self.session, self.process
        node = process.node
        now = process.now_ms()
        written = node.outbox.count
        if self.ticket > process.safe:
            node.touch(session)
        while self.inbox and not session.closing and not self.choked and self._may(self.inbox[0]):
            request = self.inbox.popleft()
            request.ran_ms = self.world.now
            request.user = session.user.name
            self.owed.append(request)
            before = len(session.out)
            process.watch.before(process, request)
            step.command(node, session, request.args, now)
            self.stamp()
            for other in node.touched:  # a GETJOB lets those come first who wait
                if other is not session and other.id in process.connections:
                    process.connections[other.id].stamp()
            reply = session.out[-1] if len(session.out) > before else b""
            self.world.note("run", process.name, self.number, *request.args, b"->", reply)
            process.watch.ran(process, request, reply)
        if node.outbox.count != written:
            session.unsettled = True
        if session.out or session.closing or self.ending:
            node.touch(session)
        process.schedule()

    def _may(self, request: Request) -> bool:
        waiting = self.session.waiting
        if waiting == NOT_WAITING:
            return True
        return waiting == WAIT_COPIES and request.verb == b"ADDJOB" and not self.session.full()

    def stamp(self) -> None:
        """Note the time at which jobs were handed out and replies became ready."""
        now = self.world.now
        del self.handed_ms[len(self.session.handed) :]
        seen = len(self.handed_ms)
        while len(self.handed_ms) < len(self.session.handed):
            self.handed_ms.append(now)
        self.process.watch.handed_out(self.process, self.session, seen)
        out = self.session.out
        if self.ready < len(out):
            for request in list(self.owed)[self.ready : len(out)]:
                request.ready_ms = now
            self.ready = len(out)

    # -- replies ---------------------------------------------------------------------------------------------------

    def mark(self) -> None:
        """All replies that are there must wait for the ticket."""
        if self.marks and self.marks[-1][0] == self.ticket:
            self.marks.pop()
        self.marks.append((self.ticket, len(self.session.out), len(self.session.handed)))

    def write_out(self) -> None:
        """Send all replies that are there."""
        self.session.touched = False
        if self.closed or self.choked:
            return
        if self.session.out:
            self.marks.clear()
            self._leave(len(self.session.out), len(self.session.handed))
        if self.session.closing or (self.ending and self._is_done()):
            self.process.hang_up(self)
        elif self.inbox and self._may(self.inbox[0]):
            self.world.after(0, self.process.enter, self._later)

    def write_safe(self, safe: int) -> None:
        """Send the replies whose records are safe."""
        ready = [mark for mark in self.marks if mark[0] <= safe]
        if not ready or self.choked or self.closed:
            return
        _, replies, handed = ready[-1]
        self.marks = [(ticket, some - replies, jobs - handed) for ticket, some, jobs in self.marks[len(ready) :]]
        self._leave(replies, handed)
        if self.inbox:
            self.world.after(0, self.process.enter, self._later)

    def unchoke(self) -> None:
        """The client reads again."""
        if not self.closed:
            self.choked = False
            self.process.node.touch(self.session)
            self.go_on()

    def end_of_input(self) -> None:
        """The client sends nothing more: it is answered, but gets no jobs for which it would have to wait."""
        if self.closed:
            return
        self.ending = True
        if self.session.waiting == WAIT_JOBS:
            deliver.disconnect_waiting(self.process.node, self.session)
            self.session.closing = True
        elif self.session.waiting == WAIT_ENDS:
            waits.disconnect(self.process.node, self.session)
            self.session.closing = True
        self.process.node.touch(self.session)
        self.process.schedule()

    def _is_done(self) -> bool:
        return not self.session.out and not self.inbox and self.session.waiting not in OWED

    def _later(self) -> None:
        if not self.closed:
            self.go_on()

    def _leave(self, count: int, handed: int) -> None:
        """The first ``count`` replies begin to leave: from here on the client may have them."""
        session = self.session
        data = b"".join(session.out[:count])
        entries = session.handed[:handed]
        times = {entry[0].id: at for entry, at in zip(entries, self.handed_ms, strict=False)}
        del session.out[:count], session.handed[:handed], self.handed_ms[:handed]
        if session.walked and not session.out:
            sessions.walk_taken(self.process.node, session)
        self.ready -= count
        self._reader.feed(data)
        process = self.process
        self.world.note("reply", process.name, self.number, data)
        answered: list[tuple[Request, Any]] = []
        for _ in range(count):
            reply = self._reader.gets()
            if not self.owed:
                process.watch.too_many(process, reply)
            request = self.owed.popleft()
            request.left_ms = self.world.now
            answered.append((request, reply))
            process.watch.left(process, request, reply, times)
        self.wire.replies(answered)

    def disconnect(self) -> None:
        """The connection is gone; the core forgets the session."""
        if not self.closed:
            self.closed = True
            sessions.disconnect(self.process.node, self.session, self.process.now_ms())
            self.process.connections.pop(self.number, None)
            self.process.schedule()
