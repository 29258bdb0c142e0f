"""The flush: once in each event loop iteration, all output leaves, in one order.

Waiting consumers are served. Then the journal is written (and fsynced, with always). Then messages leave to other
nodes, and then replies leave. A reply or message that depends on a record waits until the journal says that the record
is safe. Other replies, and messages that only ask, do not wait. So nobody learns of anything that is not yet as durable
as promised. All requests that arrived together share one write, and one frame for each node that is told of them.

The pump also owns the one timer of the node. After each flush it is set to what the core says is due next.
"""

import asyncio
import contextlib
import socket
import traceback
from collections import OrderedDict, deque
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Final

from disque.core import pubsub
from disque.core.base import errors, resp
from disque.core.base.timers import NEVER
from disque.core.jobs import sessions
from disque.core.journal import codec
from disque.core.model.session import Session
from disque.core.step import settle, tick

if TYPE_CHECKING:
    from disque.core.node import Message, Node
    from disque.server.connection import Connection
    from disque.server.facts import NodeClock
    from disque.server.journal import Journal
    from disque.server.log import Log
    from disque.server.mesh import Mesh

#: More than the journal ever counts.
MANY: Final = 1 << 62
#: Looks at the sockets before a flush that ends in an fsync, under always: a tenth more requests share it.
PATIENCE: Final = 2
#: Seconds after which a turn of the loop is long enough: connections that it has not come to wait for the next one.
TURN_S: Final = 0.005
#: Seconds of a turn in which those who listen are sent what they hear.
LISTENERS_S: Final = 0.001
#: Seconds of a turn in which events, and what other nodes say, are held against patterns.
NEWS_S: Final = 0.002
#: The log is told so often at most that listeners miss news.
MISSED_EVERY_MS: Final = 60_000
#: So many subscriptions are many: who has them is told of events not in each turn, but after so many seconds.
LISTENERS_MANY = 50  # not Final: tests want less, compiled too
TELL_EVERY_S: Final = 0.005
#: TLS handshakes beyond `maxclients`, so that one client too many can be told so in its own language.
HANDSHAKES_BESIDE: Final = 8
#: Which word of a command is a body, or as long as one: the result of ACKJOB, the message of PUBLISH.
BODIES: Final[dict[bytes, int]] = {
    b"addjob": 2,
    b"loadjob": 1,
    b"echo": 1,
    b"ping": 1,
    b"ackjob": 3,
    b"publish": 2,
    b"cron": 5,
}


class Pump:
    """Connects the node, its connections, its journal and the other nodes.

    ``journal`` is None while there is none, ``mesh`` is None for a node that talks to no others.
    """

    def __init__(self, node: "Node", clock: "NodeClock", log: "Log", loop: asyncio.AbstractEventLoop) -> None:
        self.node = node
        #: Where the bodies of jobs are in requests, by the names that commands have here.
        self.bodies = {name: BODIES[row.name] for name, row in node.lookup.items() if row.name in BODIES}
        self.clock = clock
        self.log = log
        self.loop = loop
        self.journal: Journal | None = None
        self.mesh: Mesh | None = None
        #: After this time it is evident that the process stood still, in ms: see `mesh`.
        self.gap_ms = NEVER
        #: Clients have to wait until other nodes were heard.
        self.catching_up = False
        self.connections: dict[int, Connection] = {}
        #: What commands must take at least, in microseconds, to be shown to SLOWLOG and LATENCY.
        self.slow_us = 0.0
        self.next_id = 1
        self.maxclients = 10000
        #: TLS handshakes under way: none of them is a client yet, and each has a file open.
        self.handshakes = 0
        self.stopping = False
        #: The journal is closed for good: what happens from now on must not be heard of.
        self.ended = False
        #: Connections whose clients do not read.
        self.choked: dict[Connection, None] = {}
        #: Called when a write to the journal has failed or works again.
        self.look_at_health: Callable[[], None] = _nothing
        #: When the first work of this turn of the loop began; 0.0 when none has begun.
        self.turn_s = 0.0
        self.turn_most_s = TURN_S
        #: Connections had to be put off since the turn was long: whoever comes now goes behind them.
        self.crowded = False
        #: It is the turn of those that were put off.
        self.resuming = False
        self._scheduled = False
        self._waited = 0
        #: Clients that listen and have something to hear, in the order of their turns.
        self.listeners: OrderedDict[Connection, None] = OrderedDict()
        self._listeners_soon = False
        #: Many listen, and were told of events just now.
        self._has_told = False
        self._held: dict[Connection, None] = {}
        #: When the first ADDJOB is too late whose reply waits for a journal that cannot be written.
        self._late_ms = NEVER
        #: Messages that the journal holds back, with the sequence number that must be safe, and `Node.resets` then:
        #: what a node said of its jobs before it was reset is not true any more.
        self._held_messages: deque[tuple[int, int, list[tuple[bytes, Message]]]] = deque()
        #: Which events of jobs hang on which records: the number that must be safe, and how many of those that wait.
        self._event_marks: deque[tuple[int, int]] = deque()
        self._events_marked = 0
        #: How much news had been missed when the log was told so last, and when that was.
        self._missed = 0
        self._missed_ms = -MISSED_EVERY_MS
        self._later: dict[Connection, None] = {}
        self._paused: dict[Connection, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = NEVER
        self.configure()

    def configure(self) -> None:
        """Take over settings that count here."""
        slow = self.node.config.number("slowlog-log-slower-than")
        latency_ms = self.node.config.number("latency-monitor-threshold")
        marks = [float(slow)] if slow >= 0 else []
        marks += [latency_ms * 1000.0] if latency_ms > 0 else []
        self.slow_us = min(marks, default=float("inf"))
        self._latency_ms = latency_ms
        self._latency_s = latency_ms / 1000 if latency_ms > 0 else float("inf")
        durable = self.node.config.flag("appendonly") and self.node.config.text("appendfsync") == "always"
        self._patience = PATIENCE if durable else 0

    # -- connections -----------------------------------------------------------------------------------------------

    def admit(self, connection: "Connection") -> bytes:
        """A client has connected: give it a session, or say why not."""
        refusal = self._refusal(connection)
        if refusal:
            self.node.stats.rejected += 1
            return refusal
        self._keep_alive(connection)
        address, local = addresses(connection)
        session = sessions.connect(self.node, self.next_id, address, local, self.clock.now_ms())
        session.local = bool(connection.unix_path) or loopback(connection.transport.get_extra_info("peername"))
        connection.session = session
        self.connections[self.next_id] = connection
        self.next_id += 1
        return b""

    def _refusal(self, connection: "Connection") -> bytes:
        if len(self.connections) + max(0, self.handshakes - HANDSHAKES_BESIDE) >= self.maxclients:
            return b"ERR max number of clients reached"
        peer = connection.transport.get_extra_info("peername")
        config = self.node.config
        if (
            config.flag("protected-mode")
            and self.node.users.default.is_open()
            and not connection.unix_path
            and not loopback(peer)
        ):
            return (
                b"DENIED Disque runs in protected mode: without a password only clients on this machine may connect. "
                b"Set requirepass, or protected-mode no if the network in front of it can be trusted"
            )
        return b""

    def _keep_alive(self, connection: "Connection") -> None:
        """Let the system find out about clients that are gone without a word (`tcp-keepalive`)."""
        idle_s = self.node.config.number("tcp-keepalive")
        sock = connection.transport.get_extra_info("socket")
        if not idle_s or connection.unix_path or sock is None:
            return
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if hasattr(socket, "TCP_KEEPIDLE"):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, idle_s)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, max(1, idle_s // 3))
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)

    def lost(self, connection: "Connection") -> None:
        """A connection is gone."""
        connection.disconnect()
        self.connections.pop(connection.session.id, None)
        self._held.pop(connection, None)
        self._later.pop(connection, None)
        self._paused.pop(connection, None)
        self.choked.pop(connection, None)
        self.listeners.pop(connection, None)
        self.schedule()

    def holds_back(self, connection: "Connection", now_ms: int) -> bool:
        """Whether no requests are looked at now: CLIENT PAUSE, the node stops, or it stood still and catches up."""
        if self.stopping:
            return True
        if now_ms > self.gap_ms:
            self._look_around(now_ms)
        if self.catching_up:
            self.later(connection)
            return True
        if self.node.clients_paused_until_ms <= now_ms:
            return False
        self._paused[connection] = None
        self.schedule()
        return True

    def _look_around(self, now_ms: int) -> None:
        """This process has stood still: before anything else, see what became of the other nodes."""
        self.gap_ms = NEVER
        if self.mesh is not None:
            self.mesh.beat(now_ms)

    def later(self, connection: "Connection") -> None:
        """Let ``connection`` go on in the next turn of the loop."""
        self._later[connection] = None
        self.schedule()

    def puts_off(self, connection: "Connection") -> bool:
        """Whether ``connection`` has to wait for the next turn, since this one is long or others have to, too."""
        self.begin_turn()
        if self.resuming:
            return False
        if not self.crowded and perf_counter() - self.turn_s <= self.turn_most_s:
            return False
        self.crowded = True
        self.later(connection)
        return True

    def is_later(self, connection: "Connection") -> bool:
        """Whether ``connection`` has requests left that it will execute in another turn."""
        return connection in self._later

    # -- the flush -------------------------------------------------------------------------------------------------

    @property
    def safe(self) -> int:
        """What depends on journal appends up to this number may leave."""
        return self.journal.safe if self.journal is not None else MANY

    def touch(self, connection: "Connection") -> None:
        """``connection`` has replies, or is to be closed."""
        session = connection.session
        if not session.touched:
            session.touched = True
            self.node.touched.append(session)
        if not self._scheduled:
            self._scheduled = True
            self.loop.call_soon(self._gather if self._patience else self.flush)

    def schedule(self) -> None:
        """Have `flush` called once, at the end of this turn of the loop; under always a few turns later."""
        if not self._scheduled:
            self._scheduled = True
            self.loop.call_soon(self._gather if self._patience else self.flush)

    def _gather(self) -> None:
        """Let the loop look at the sockets a few times more: what has arrived meanwhile shares the next fsync."""
        self._waited += 1
        if self._waited < self._patience:
            self.loop.call_soon(self._gather)
        else:
            self._waited = 0
            self.loop.call_soon(self.flush)

    def flush(self) -> None:
        """Let everything leave that happened since the last one."""
        self._scheduled = False
        if self.ended:
            return
        if not self.turn_s:
            self.turn_s = perf_counter()
        node = self.node
        now_ms = self.clock.now_ms()
        try:
            settle(node, now_ms)
        except Exception:  # noqa: BLE001 - what was answered to others leaves all the same
            self._drop_lines()
        if node.outbox.records:
            self.write_journal(now_ms)
        if node.messages or node.early or node.membership.messages:
            self._tell()
        if (node.pubsub.pending or node.pubsub.said) and not self._has_told:
            self._tell_news()
        touched = node.touched
        if touched:
            node.touched = []
            self._reply(touched)
        if self._later:
            self._resume(self._later)
        if self.mesh is not None:
            self.mesh.reconcile()
        self.arm(now_ms)
        self.end_turn()

    def begin_turn(self) -> None:
        """Work begins, unless this turn of the loop has had some before."""
        if not self.turn_s:
            self.turn_s = perf_counter()

    def end_turn(self) -> None:
        """Note how long this turn of the loop was, unless it will be longer: a flush belongs to it."""
        if self._scheduled:
            return
        took_s = perf_counter() - self.turn_s
        self.turn_s = 0.0
        stats = self.node.stats
        stats.longest_turn_s = max(stats.longest_turn_s, took_s)
        if took_s >= self._latency_s:
            self._watch(b"event-loop", took_s, self.clock.now_ms())

    def _drop_lines(self) -> None:
        """A line of consumers could not be served: say so, and look at none again before something new arrives."""
        self.log.warning(f"Could not serve waiting consumers\n{traceback.format_exc()}")
        for queue in self.node.ready:
            queue.ready = False
        self.node.ready.clear()

    def write_journal(self, now_ms: int) -> None:
        """Hand the records of this turn to the journal and write them."""
        node = self.node
        records = node.outbox.take()
        writer = self.journal
        if writer is None:
            return
        started = perf_counter()
        for payload in codec.encode_parts(records, now_ms):
            writer.append(payload)
        writer.flush()
        node.segment = writer.segment
        if writer.failing and not node.misconf:
            self.look_at_health()
        self._watch(b"aof-write", perf_counter() - started, now_ms)

    def _watch(self, event: bytes, took_s: float, now_ms: int) -> None:
        """Note for LATENCY what has held up the loop."""
        took_ms = int(took_s * 1000)
        if self._latency_ms and took_ms >= self._latency_ms:
            self.node.latency.add(event, now_ms // 1000, took_ms)

    def _tell(self) -> None:
        """Let messages to other nodes leave: what only asks at once, the rest when its records are safe."""
        node = self.node
        outbox = node.membership.messages
        if outbox:
            node.membership.messages = []
        if node.early:
            outbox = outbox + node.early if outbox else node.early
            node.early = []
        if node.messages:
            messages, node.messages = node.messages, []
            writer = self.journal
            if writer is not None and (writer.safe < writer.sequence or self._held_messages):
                self._held_messages.append((writer.sequence, node.resets, messages))
                self._release_messages()
            else:
                outbox = outbox + messages if outbox else messages
        if outbox:
            self._send(outbox)

    def _release_messages(self) -> None:
        """Let messages leave whose records are safe, in their order."""
        held, safe = self._held_messages, self.safe
        outbox: list[tuple[bytes, Message]] = []
        while held and held[0][0] <= safe:
            _, resets, messages = held.popleft()
            if resets == self.node.resets:
                outbox += messages
        if outbox:
            self._send(outbox)

    def _tell_news(self) -> None:
        """Let those who listen hear what other nodes say, and what has happened to jobs when its records are safe.

        This takes a short time only, as each channel may have to be held against a thousand patterns: the rest waits.
        To touch a thousand listeners takes as long as some ten jobs: where there are many, news are gathered first.
        """
        news, marks, writer = self.node.pubsub, self._event_marks, self.journal
        fresh = len(news.pending) - self._events_marked
        if fresh:
            marks.append((0 if writer is None else writer.sequence, fresh))
            self._events_marked += fresh
        safe = self.safe
        until_s = perf_counter() + NEWS_S
        is_late = has_told = False
        while not is_late:
            if news.said:
                news.say_next()
            elif marks and marks[0][0] <= safe:
                news.tell_next()
                self._events_marked -= 1
                sequence, count = marks.popleft()
                if count > 1:
                    marks.appendleft((sequence, count - 1))
            else:
                break
            has_told = True
            is_late = perf_counter() >= until_s
        pubsub.tell(self.node)
        if is_late or (has_told and news.count > LISTENERS_MANY):
            self._has_told = True
            self.loop.call_later(TELL_EVERY_S, self._tell_more)

    def _tell_more(self) -> None:
        """Some time has passed: more news may be told."""
        self._has_told = False
        news, now_ms = self.node.pubsub, self.clock.now_ms()
        if news.missed > self._missed and now_ms - self._missed_ms >= MISSED_EVERY_MS:
            self.log.warning(
                f"Listeners missed {news.missed - self._missed} messages: more come than can be held against "
                f"{len(news.patterns)} patterns in time"
            )
            self._missed, self._missed_ms = news.missed, now_ms
        if news.pending or news.said:
            self.schedule()

    def _send(self, outbox: "list[tuple[bytes, Message]]") -> None:
        if self.mesh is not None:  # else there is nobody to tell
            self.mesh.send(outbox)

    def _reply(self, touched: list[Session]) -> None:
        writer = self.journal
        connections = self.connections
        for session in touched:
            connection = connections.get(session.id)
            if connection is None:
                continue
            if writer is not None:
                if session.unsettled or session.handed:
                    # A job may leave only when the record that says that it exists is safe, too.
                    session.unsettled = False
                    connection.ticket = writer.sequence
                if connection.ticket > writer.safe:
                    session.touched = False  # a later reply must be looked at too: it hangs on a later record
                    self._held[connection] = None
                    connection.mark()
                    if self.node.misconf:
                        self._late_ms = min(self._late_ms, session.answer_by_ms)
                    continue
            if session.subscriptions is None:
                connection.write_out()
            else:
                session.touched = False
                self.listeners[connection] = None
        if self.listeners and not self._listeners_soon:
            self._serve_listeners()

    def _serve_listeners(self) -> None:
        """Send what those hear who listen, for a short time: a thousand of them must not hold up everybody else.

        Who has to wait goes on in the next turn. What they miss meanwhile is shared by all, and counts for their limit.
        Whoever has got replies in this turn waits for its flush: these may hang on the journal.
        """
        listeners, many = self.listeners, self.node.pubsub.count > LISTENERS_MANY
        until_s = perf_counter() + LISTENERS_S
        while listeners:
            connection, _ = listeners.popitem(last=False)
            if many:
                connection.narrow()
            if not connection.session.touched and connection.write_some():
                listeners[connection] = None
            if perf_counter() >= until_s:
                break
        if listeners:
            self._listeners_soon = True
            self.loop.call_soon(self._go_on_with_listeners)

    def _go_on_with_listeners(self) -> None:
        """A new turn of the loop has begun."""
        self._listeners_soon = False
        if self.ended:
            return
        self.begin_turn()
        self._serve_listeners()
        self.end_turn()

    def release(self) -> None:
        """The journal has become safe further than it was: messages and replies that waited may leave.

        Of a connection whose last reply hangs on a record that is not safe, or not even written, the earlier ones do.
        """
        safe = self.safe
        if self._held_messages:
            self._release_messages()
        if self._event_marks:
            self.schedule()
        for connection in list(self._held):
            if connection.ticket <= safe and not connection.session.touched:
                del self._held[connection]
                connection.write_out()
            else:
                connection.write_safe(safe)

    def journal_fails(self) -> None:
        """From now on what waits for the journal may wait for long: ADDJOBs that it makes too late get an error."""
        self._late_ms = min([connection.session.answer_by_ms for connection in self._held], default=NEVER)

    def _answer_late(self, now_ms: int) -> None:
        """Answer the ADDJOBs whose timeout is over, while the journal cannot be written."""
        self._late_ms = NEVER
        writer = self.journal
        if writer is None or not writer.failing:
            return
        unsure = resp.error(errors.NO_REPL_DISK % writer.failing.encode("utf-8", "replace"))
        for connection in list(self._held):
            due_ms = connection.session.answer_by_ms
            if due_ms > now_ms:
                self._late_ms = min(self._late_ms, due_ms)
            elif connection.answer_unsure(unsure):
                del self._held[connection]
                self.touch(connection)

    def release_all(self) -> None:
        """There is no journal any more: nothing has to wait for it. The next one counts from 0 again."""
        self._release_messages()
        self._event_marks.clear()
        self._events_marked = 0
        self._tell_news()  # what is left is marked again, with what the next journal counts
        for connection in self.connections.values():
            connection.ticket = 0
        held, self._held = self._held, {}
        for connection in held:
            connection.write_out()

    def end(self) -> None:
        """The journal is closed, and this process will be gone soon: nothing leaves any more but what has left here.

        The sockets of peers are read once or twice until their links are closed. What they say is forgotten with this
        process, so it must not be answered: who is told that an acknowledgement is known here does not say it again.
        """
        self.ended = True
        if self._timer is not None:
            self._timer.cancel()

    def _resume(self, which: "dict[Connection, None]") -> None:
        """Let connections go on that had to stop, each once, in a turn of its own."""
        waiting = list(which)
        which.clear()
        self.loop.call_soon(self._go_on, waiting)

    def _go_on(self, connections: "list[Connection]") -> None:
        """Let each go on, until the turn is long enough: then those that are left are the first of the next one."""
        self.begin_turn()
        self.resuming = True
        try:
            for at, connection in enumerate(connections):
                if at and perf_counter() - self.turn_s > self.turn_most_s:
                    self.crowded = True
                    self._later = dict.fromkeys(connections[at:]) | self._later
                    self.schedule()
                    return
                connection.process()
        finally:
            self.resuming = False
        self.crowded = False

    # -- time ------------------------------------------------------------------------------------------------------

    def arm(self, now_ms: int) -> None:
        """Have `on_timer` called when the node wants it."""
        due_ms = NEVER if self.node.loading else self.node.next_due_ms
        if self._paused:
            due_ms = min(due_ms, self.node.clients_paused_until_ms)
        due_ms = min(due_ms, self._late_ms)
        if due_ms >= self._timer_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = due_ms
        self._timer = self.loop.call_later(max(0.0, (due_ms - now_ms) / 1000), self.on_timer)

    def on_timer(self) -> None:
        """Something is due: do some of it, and flush."""
        self._timer = None
        self._timer_ms = NEVER
        self.begin_turn()
        now_ms = self.clock.now_ms()
        if now_ms > self.gap_ms:
            self._look_around(now_ms)
        if not self.node.loading:
            started = perf_counter()
            try:
                tick(self.node, now_ms)
            except Exception:  # noqa: BLE001 - what is due later must find its timer
                self.log.warning(f"Could not do what was due\n{traceback.format_exc()}")
            self._watch(b"jobs-processing", perf_counter() - started, now_ms)
        if self._paused and self.node.clients_paused_until_ms <= now_ms:
            self._resume(self._paused)
        if self._late_ms <= now_ms:
            self._answer_late(now_ms)
        self.flush_now()

    def flush_now(self) -> None:
        """Flush without waiting for the end of the turn, unless a flush is on its way."""
        if not self._scheduled:
            self.flush()


def _nothing() -> None:
    """Do nothing."""


def loopback(peer: object) -> bool:
    """Whether an address of asyncio's is this machine itself."""
    if not isinstance(peer, tuple) or not peer:
        return True
    host = str(peer[0]).removeprefix("::ffff:")
    return host.startswith("127.") or host == "::1"


def shown(address: object, default: bytes) -> bytes:
    """An address as CLIENT LIST shows it: ``127.0.0.1:5000``, ``[::1]:5000``."""
    if not isinstance(address, tuple) or len(address) < 2:
        return default
    host, port = str(address[0]), address[1]
    return (f"[{host}]:{port}" if ":" in host else f"{host}:{port}").encode()


def addresses(connection: "Connection") -> tuple[bytes, bytes]:
    """The remote and the local address of a connection, as they are shown."""
    if connection.unix_path:
        path = f"{connection.unix_path}:0".encode()
        return path, path
    transport = connection.transport
    return (
        shown(transport.get_extra_info("peername"), b"?:0"),
        shown(transport.get_extra_info("sockname"), b"?:0"),
    )
