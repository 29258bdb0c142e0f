"""One client connection: reads bytes, executes requests, writes replies.

The callbacks are short: feed the reader, execute the requests that are complete, ask for a flush. A connection stops
executing when its client waits for something, when the client does not read its replies, or after some commands, so
that other connections have their turn. Bytes that were read stay in the reader until the connection goes on.
"""

import asyncio
import contextlib
import socket
import traceback
from collections import deque
from time import perf_counter
from typing import TYPE_CHECKING, Final, cast

from disque.core.base import errors, resp
from disque.core.jobs import deliver, sessions
from disque.core.model import jobid
from disque.core.model.session import NOT_WAITING, OWED, WAIT_COPIES, WAIT_ENDS, WAIT_JOBS, Session
from disque.core.replication import waits
from disque.core.step import account, command
from disque.server.requests import ProtocolError, QueryTooLong
from disque.server.walker import make_reader

if TYPE_CHECKING:
    from disque.core.model.command import Command
    from disque.server.pump import Pump

#: Commands of one connection in one turn of the loop.
TURN_COMMANDS: Final = 512
#: Bytes of replies in one turn, and bytes of unread requests of a client that waits, before it is not read any more.
TURN_BYTES = 1 << 20  # not Final: tests want less, compiled too
READ_AHEAD: Final = 1 << 20
#: Replies held back for the journal before a connection is not read further.
HELD_MOST: Final = 1024
#: So many small replies to a client that does not read are worth being joined.
JOIN_LEAST: Final = 100
#: Of large replies, bytes of one piece, and bytes that leave in one turn of the loop.
PIECE_BYTES = 1 << 18  # not Final: tests want less, compiled too
PIECES_BYTES = 1 << 22  # not Final: tests want less, compiled too
#: What the system keeps for each of many clients that listen.
SEND_BYTES: Final = 1 << 16
#: What a client that listens is sent before others have their turn.
SOME_BYTES = 1 << 16  # not Final: tests want less, compiled too
MANY: Final = 1 << 62


class Connection:
    """The shell around one `Session`, an `asyncio.Protocol`; compiled, it cannot say so by its base.

    ``unix_path`` says how the client came: "" for TCP, the path for a unix socket.
    """

    __slots__ = (
        "_closed",
        "_counted",
        "_counted_bytes",
        "_ending",
        "_full",
        "_held_request",
        "_joined",
        "_leaving",
        "_leaving_bytes",
        "_marks",
        "_narrow",
        "_reading",
        "_unsent_then",
        "choked",
        "over_since_ms",
        "pump",
        "reader",
        "session",
        "ticket",
        "transport",
        "unix_path",
    )

    session: Session
    transport: asyncio.Transport

    def __init__(self, pump: "Pump", unix_path: str) -> None:
        self.pump = pump
        self.unix_path = unix_path
        config = pump.node.config
        self.reader = make_reader(config.number("proto-max-bulk-len"), config.number("client-query-buffer-limit"))
        self.reader.allow_bodies(pump.bodies)
        #: The journal's sequence number that must be safe before the replies may leave.
        self.ticket = 0
        #: Replies that the journal holds back: (ticket, how many of them it frees, how many jobs are in these).
        self._marks: list[tuple[int, int, int]] = []
        #: The transport does not take more at the moment.
        self.choked = False
        #: Since when the replies that wait are above the soft limit; 0 when they are not.
        self.over_since_ms = 0
        self._held_request: list[bytes] | None = None
        #: Pieces at the front of the replies that `join_output` has made.
        self._joined = 0
        #: Pieces at the front of the replies whose bytes are counted, and these: see `output_bytes`.
        self._counted = 0
        self._counted_bytes = 0
        #: Large replies that have left this connection and did not come to the transport yet, in pieces. Until they
        #: have, the connection is `choked`, as if the transport had all of them and its client did not read.
        self._leaving: deque[bytes | memoryview] = deque()
        self._leaving_bytes = 0
        #: The transport has enough.
        self._full = False
        #: What `takes_some` saw when it was asked last.
        self._unsent_then = MANY
        self._narrow = False
        self._reading = True
        self._ending = False
        self._closed = False

    # -- asyncio's callbacks ---------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection, or turn it away."""
        self.transport = cast("asyncio.Transport", transport)
        refusal = self.pump.admit(self)
        if refusal:
            self._closed = True
            self.transport.write(resp.error(refusal))
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        """Take what the client sent, and execute what is complete."""
        if self._closed or self.session.closing:
            return
        self.pump.node.stats.net_in += len(data)
        self.reader.feed(data)
        self.process()

    def eof_received(self) -> bool:
        """The client sends nothing more: it is answered what it asked, but gets no jobs that it would have to wait for.

        (A client that is gone for good looks the same, and a job for it would be lost or late.)
        """
        self._ending = True
        if self._closed:
            return False
        if self.session.waiting == WAIT_JOBS:
            deliver.disconnect_waiting(self.pump.node, self.session)
            self.session.closing = True
        elif self.session.waiting == WAIT_ENDS:
            waits.disconnect(self.pump.node, self.session)
            self.session.closing = True
        self.pump.touch(self)
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the client."""
        del exc
        self._leaving.clear()
        if not self._closed:
            self._closed = True
            self.pump.lost(self)

    def pause_writing(self) -> None:
        """The client does not read: keep further replies, execute nothing more."""
        self._full = True
        self.choked = True
        self.pump.choked[self] = None

    def resume_writing(self) -> None:
        """The client reads again."""
        self._full = False
        if self._leaving:
            self.pump.loop.call_soon(self._leave)
        else:
            self._unchoke()

    def _unchoke(self) -> None:
        """All that was written is with the transport, which takes more."""
        self.choked = False
        self.over_since_ms = 0
        self._unsent_then = MANY
        self.pump.choked.pop(self, None)
        self.pump.touch(self)
        self.process()

    # -- requests --------------------------------------------------------------------------------------------------

    def process(self) -> None:
        """Execute complete requests, as far as this turn goes, and have the replies flushed."""
        session = self.session
        pump = self.pump
        now_ms = pump.clock.now_ms()
        session.active_ms = now_ms
        if self._closed or pump.holds_back(self, now_ms):
            return
        if pump.puts_off(self):
            self._regulate()
            return
        node = pump.node
        written = node.outbox.count
        if self.ticket > pump.safe:
            pump.touch(self)  # what is held back leaves no earlier than what is added to it now
        try:
            self._execute(session, now_ms)
        except ProtocolError as wrong:
            session.out.append(resp.error(b"ERR Protocol error: %b" % str(wrong).encode("latin-1", "replace")))
            session.closing = True
        except QueryTooLong:
            pump.log.warning(f"Closing client that reached max query buffer length: id={session.id}")
            self.abort()
            return
        except Exception:  # noqa: BLE001 - whatever is wrong with one request, the others are served
            pump.log.warning(f"Request failed, client disconnected: id={session.id}\n{traceback.format_exc()}")
            session.out.append(resp.error(errors.INTERNAL))
            session.closing = True
        if node.outbox.count != written:
            session.unsettled = True
        if session.out or session.closing or self._ending:
            pump.touch(self)
        else:
            pump.schedule()
        self._regulate()

    def _execute(self, session: Session, now_ms: int) -> None:
        """Execute requests until there is none, the client has to wait, or its turn is over."""
        pump, reader, out, clock = self.pump, self.reader, session.out, perf_counter
        node, slow_s, size_most = pump.node, pump.slow_us / 1e6, TURN_BYTES
        # Replies wait for the journal: more of them only up to a bound, then on when it is safe.
        held = self.ticket > pump.safe
        most = HELD_MOST if held else MANY
        left = TURN_COMMANDS
        size = sum(map(len, out)) if held else 0
        last: Command | None = None
        run_of = 0
        run_started = started = clock()
        enough = pump.turn_s + pump.turn_most_s
        ended = 0.0  # at least one command
        while (
            left
            and ended <= enough
            and size < size_most
            and len(out) < most
            and not session.closing
            and not self.choked
        ):
            reader.trusted = session.passed or session.may()
            idle = session.waiting == NOT_WAITING and self._held_request is None
            args = reader.next() if idle else self._next(session)
            if args is None:
                break
            row = command(node, session, args, now_ms)
            ended = clock()
            if ended - started >= slow_s and row is not None:
                account(node, session, row, args, (ended - started) * 1e6, now_ms)
            if row is not last:
                self._count(last, run_of, started - run_started)
                last, run_of, run_started = row, 0, started
            run_of += 1
            started = ended
            left -= 1
            if out:
                size += len(out[-1]) if not session.large else size_most
            if node.clients_paused_until_ms > now_ms and pump.holds_back(self, now_ms):
                break
        else:
            full = held and (size >= size_most or len(out) >= most)
            if not session.closing and not self.choked and not full:
                pump.later(self)
        self._count(last, run_of, started - run_started)
        node.stats.commands += TURN_COMMANDS - left

    def _count(self, row: "Command | None", calls: int, spent_s: float) -> None:
        """Note that a command ran several times in a row, for INFO commandstats."""
        if row is not None:
            node = self.pump.node
            node.calls[row.index] += calls
            node.calls_us[row.index] += spent_s * 1e6

    def _next(self, session: Session) -> list[bytes] | None:
        """The next request that may be executed now: while ADDJOBs are unanswered, only further ADDJOBs."""
        args = self._held_request
        if session.waiting == NOT_WAITING:
            if args is not None:
                self._held_request = None
                return args
            return self.reader.next()
        if session.waiting != WAIT_COPIES or args is not None or session.full():
            return None
        args = self.reader.next()
        if args is not None and not self._is_add(args):
            self._held_request = args
            return None
        return args

    def _is_add(self, args: list[bytes]) -> bool:
        row: Command | None = self.pump.node.lookup.get(args[0].lower())
        return row is not None and row.name == b"addjob"

    def _regulate(self) -> None:
        """Read on, or not: a client that waits or does not take its replies may send only so much ahead."""
        session = self.session
        pump = self.pump
        stalled = session.waiting != NOT_WAITING or self.choked or pump.is_later(self) or self.ticket > pump.safe
        if self._reading and not stalled:
            return
        reading = not (stalled and self.reader.unparsed_bytes > READ_AHEAD)
        if reading != self._reading and not self.transport.is_closing():
            self._reading = reading
            if reading:
                self.transport.resume_reading()
            else:
                self.transport.pause_reading()

    @property
    def has_requests(self) -> bool:
        """Whether there may be something to execute without reading more."""
        return self._held_request is not None or self.reader.ready

    # -- replies ---------------------------------------------------------------------------------------------------

    def write_out(self) -> None:
        """Send the replies that are there: called at the flush, when the journal lets them go."""
        session = self.session
        session.touched = False
        if self._closed:
            return
        if session.out and not self.choked and not self.transport.is_closing():
            self._write(session.out)
            session.out.clear()
            session.handed.clear()
            self._marks.clear()
            self._joined = self._counted = self._counted_bytes = 0
        if session.walked and not self.choked and not session.out:
            sessions.walk_taken(self.pump.node, session)
            self.pump.schedule()
        if session.closing or (self._ending and self._is_done()):
            self.finish()
        elif self._can_go_on():
            self.pump.later(self)
        if not self._reading:
            self._regulate()

    def write_some(self) -> bool:
        """Send some of what a client that listens is to hear; whether there is more that could leave."""
        session = self.session
        out = session.out
        if len(out) < 2 or session.large or self._marks or self.choked or session.closing or self._ending:
            self.write_out()
            return False
        count = size = 0
        for piece in out:
            count += 1
            size += len(piece)
            if size >= SOME_BYTES:
                break
        if count == len(out):
            self.write_out()
            return False
        leaving = out[:count]
        del out[:count]
        if self._counted >= count:
            self._counted -= count
            self._counted_bytes -= size
        else:
            self._counted = self._counted_bytes = 0
        self._joined = max(0, self._joined - count)
        self._write(leaving)
        return not self.choked

    def narrow(self) -> None:
        """Have the system keep little for this client, once and for all: it listens, and so do many others.

        Who does not read shows that soon then, and takes no time any more from those who do.
        """
        if self._narrow:
            return
        self._narrow = True
        sock = self.transport.get_extra_info("socket")
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BYTES)

    def mark(self) -> None:
        """All replies that are there must wait for the ticket: called at the flush."""
        marks, session = self._marks, self.session
        if marks and marks[-1][0] == self.ticket:
            marks.pop()
        marks.append((self.ticket, len(session.out), len(session.handed)))

    def write_safe(self, safe: int) -> None:
        """Send the replies whose records are safe, and keep those behind them."""
        ready = [mark for mark in self._marks if mark[0] <= safe]
        if not ready or self.choked or self._closed or self.transport.is_closing():
            return
        _, replies, handed = ready[-1]
        self._marks = [(ticket, some - replies, jobs - handed) for ticket, some, jobs in self._marks[len(ready) :]]
        session = self.session
        leaving = session.out[:replies]
        del session.out[:replies], session.handed[:handed]
        self._joined = max(0, self._joined - replies)
        self._counted = self._counted_bytes = 0
        large = session.large
        self._write(leaving)
        session.large = large and bool(session.out)  # the large ones may be among those that stay
        if self._can_go_on():
            self.pump.later(self)
        if not self._reading:
            self._regulate()

    def answer_unsure(self, error: bytes) -> bool:
        """Send ``error`` in place of the IDs of jobs whose records are not safe, and the errors among and behind them.

        Other replies that wait for the journal, and what is behind them, stay. Returns whether none does.
        """
        out, most = self.session.out, self._marks[-1][1] if self._marks else 0
        if not most or self.choked or self._closed or self.transport.is_closing():
            return False
        count = 0
        while count < most and (out[count][:1] == b"-" or is_job_id(out[count])):
            count += 1
        leaving = [error if is_job_id(reply) else reply for reply in out[:count]]
        del out[:count]
        self._marks = [(ticket, some - count, jobs) for ticket, some, jobs in self._marks if some > count]
        self._joined = max(0, self._joined - count)
        self._counted = self._counted_bytes = 0
        if leaving:
            data = b"".join(leaving)
            self.pump.node.stats.net_out += len(data)
            self.transport.write(data)
        if self._marks:
            return False
        self.ticket = 0
        return True

    def _write(self, replies: list[bytes]) -> None:
        """Hand replies to the transport, in one piece unless they are large."""
        if self.session.large:
            self._write_large(replies)
            return
        data = replies[0] if len(replies) == 1 else b"".join(replies)
        self.pump.node.stats.net_out += len(data)
        self.transport.write(data)

    def _write_large(self, replies: list[bytes]) -> None:
        """Let replies leave in pieces, none of which is copied, over some turns of the loop."""
        self.session.large = False
        for reply in replies:
            size = len(reply)
            self.pump.node.stats.net_out += size
            self._leaving_bytes += size
            self._leaving.append(reply)
        self.choked = True
        self.pump.choked[self] = None
        self.pump.loop.call_soon(self._leave)

    def _leave(self) -> None:
        """The next turn of large replies; when the transport has enough, `resume_writing` goes on."""
        if self._closed or not self._leaving or self._full:
            return
        self.pump.begin_turn()
        self._let_go()
        if self._leaving and not self._full:
            self.pump.loop.call_soon(self._leave)
        elif not self._full:
            self._unchoke()
        self.pump.schedule()

    def _let_go(self) -> None:
        """Hand pieces to the transport, until it has enough or this turn has."""
        left = PIECES_BYTES
        while self._leaving and left > 0 and not self._full:
            if self.transport.is_closing():
                self._leaving.clear()
                self._leaving_bytes = 0
                return
            piece = self._leaving.popleft()
            if len(piece) > PIECE_BYTES:
                view = memoryview(piece)
                self._leaving.appendleft(view[PIECE_BYTES:])
                piece = view[:PIECE_BYTES]
            self._leaving_bytes -= len(piece)
            left -= len(piece)
            self.transport.write(piece)

    def hurry(self) -> None:
        """Hand all that is on its way to the transport: for a node that stops."""
        while self._leaving:
            self.transport.write(self._leaving.popleft())
        self._leaving_bytes = 0

    def _can_go_on(self) -> bool:
        """Whether there is something that may be executed now without reading more."""
        if self.choked:
            return False  # nothing is executed until the client reads; `resume_writing` goes on
        if self.session.waiting == NOT_WAITING:
            return self.has_requests
        return self.session.waiting == WAIT_COPIES and self._held_request is None and self.reader.ready

    def _is_done(self) -> bool:
        """Whether a client that sends nothing more has all its answers."""
        return not self.session.out and not self.has_requests and self.session.waiting not in OWED

    def join_output(self) -> None:
        """Make one piece of the small replies that came since the last time and that no mark counts.

        What a stalled MONITOR misses is millions of them: to count them again and again would stop everybody. Those of
        a client that listens are shared with others, and larger: to join them would take a copy for each. So it is with
        large replies.
        """
        out = self.session.out
        if self.session.subscriptions is not None or self.session.large:
            return
        start = max(self._joined, self._marks[-1][1] if self._marks else 0)
        if len(out) - start >= JOIN_LEAST:
            out[start:] = [b"".join(out[start:])]
            self._joined = len(out)
            self._counted = self._counted_bytes = 0

    def output_bytes(self) -> int:
        """Bytes of replies that the client has not taken. Those that were counted before are not counted again."""
        out = self.session.out
        if self._counted > len(out):
            self._counted = self._counted_bytes = 0
        for at in range(self._counted, len(out)):
            self._counted_bytes += len(out[at])
        self._counted = len(out)
        return self.unsent_bytes() + self._counted_bytes

    def unsent_bytes(self) -> int:
        """Bytes of replies that are on their way, and that the system has not taken."""
        return self.transport.get_write_buffer_size() + self._leaving_bytes

    def takes_some(self) -> bool:
        """Whether a client that is choked has taken some bytes since this was asked last. The first time: yes."""
        then, self._unsent_then = self._unsent_then, self.unsent_bytes()
        return self._unsent_then < then

    def finish(self) -> None:
        """Close behind the replies that are on their way."""
        if self._leaving or (self.choked and self.session.out):
            return
        self.transport.close()

    def abort(self) -> None:
        """Close at once."""
        self.session.closing = True
        self.transport.abort()

    def wait_ended(self, reply: bytes) -> None:
        """Something slow that the host did for this client is done."""
        self.session.waiting = NOT_WAITING
        if self.session.wait_silent:
            self.session.wait_silent = False
        else:
            self.session.out.append(reply)
        self.pump.touch(self)

    def disconnect(self) -> None:
        """Let the core forget the session: what was handed out and did not leave goes back."""
        sessions.disconnect(self.pump.node, self.session, self.pump.clock.now_ms())


def is_job_id(reply: bytes) -> bool:
    """Whether this is the reply to an ADDJOB that has made a job."""
    return reply[:1] == b"+" and jobid.valid(reply[1:-2])


def accept(pump: "Pump", unix_path: str) -> asyncio.BaseProtocol:
    """A connection as the loop wants it, which calls its methods and never asks for its class."""
    return cast("asyncio.BaseProtocol", Connection(pump, unix_path))
