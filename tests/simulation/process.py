"""One node process: a real core with everything around it that `disque/server` has, in simulated form.

The order of a flush is that of `disque/server/pump.py`: serve the lines, write the journal, let out at once what
promises nothing, then what hangs on the journal as soon as it is as durable as the fsync policy says.

A process that stands still (SIGSTOP) does nothing; what arrives meanwhile waits in the system. When it goes on it looks
at its clock first, then reads the bus, then its clients.
"""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cluster import nodesfile
from cluster.member import BODY_USUAL
from disque.core import entries, handover, sizes, step
from disque.core.base.timers import NEVER
from disque.core.commands import ROWS
from disque.core.config.settings import Config
from disque.core.jobs import eviction, queues
from disque.core.model.session import Session
from disque.core.node import Node
from disque.server.segments import JournalError
from tests.simulation.bus import Bus
from tests.simulation.clock import Clock
from tests.simulation.connection import Connection
from tests.simulation.ears import Ears
from tests.simulation.host import SimulatedHost
from tests.simulation.world import BEAT_MS, Violation
from tests.simulation.writer import Writer

if TYPE_CHECKING:
    from tests.simulation.machine import Machine
    from tests.simulation.wires import Wire

#: How often in a beat a node sets an entry of the registry, and of which kind.
SETTING_RATE = 0.05
UNKNOWN_KIND = 99
#: How often in a beat a node of a mixed cluster says something that not all understand.
NEWS_RATE = 0.05
#: A beat that comes so late is made up for before anything else is done.
LATE_MS = 250
#: The other nodes have so long to say that they have heard of a clean stop.
PARTING_MS = 1000
#: Who watches the process starts it again after so long, when it could not begin.
AGAIN_MS = 700

Messages = list[tuple[bytes, Any]]


class Process:
    """A node from its start to its end: ``gone`` when it has ended, ``listening`` while others may link to it."""

    def __init__(self, machine: "Machine", life_number: int) -> None:
        self.machine = machine
        self.world = machine.world
        self.cluster = machine.cluster
        self.network = machine.cluster.network
        self.watch = machine.cluster.watch
        self.life = life_number
        self.name = f"{machine.name}.{life_number}"
        self.random = self.world.random(self.name)
        self._news = self.world.random(f"{self.name} news")
        self._settings = self.world.random(f"{self.name} entries")
        self.clock: Clock = machine.clock()
        self.node: Node = self._make_node()
        self.ears = Ears(self.node, self.now_ms())
        self.journal = Writer(self)
        self.bus = Bus(self)
        self.connections: dict[int, Connection] = {}
        self.started_ms = self.world.now
        self.gone = False
        self.stopping = False
        self._stopped: Callable[[], None] = lambda: None
        self.frozen = False
        self.listening = False
        self.late_ms = self.random.choice((0, 0, 0, 1, 2))
        self.beat_ms = self.world.now
        self.evicted = 0
        self.ends_evicted = 0
        self.reset_ms = -1
        self._numbers = 0
        self._scheduled = False
        self._timer_ms = NEVER
        self._held: dict[Connection, None] = {}
        self._held_messages: deque[tuple[int, int, Messages]] = deque()
        self._asleep: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self._asleep_bus: list[tuple[Callable[..., None], tuple[Any, ...]]] = []

    def _make_node(self) -> Node:
        machine = self.machine
        config = Config()
        config.set_text("maxmemory", str(machine.max_bytes))
        config.set_text("cluster-node-timeout", str(self.world.options.timeout_ms))
        config.set_text("restart-grace", str(self.world.options.grace_s))
        config.set_text("cluster-forget-after", str(self.world.options.forget_s))
        config.set_text("cluster-repair-after", str(self.world.options.repair_s))
        config.put("appendonly", ("yes" if machine.disk.policy != "off" else "no",))
        if machine.disk.policy != "off":
            config.put("appendfsync", (machine.disk.policy,))
        config.set_text("aof-segment-size", machine.segment_size)
        config.set_text("auto-aof-rewrite-min-size", machine.segment_size)
        membership = machine.membership(self.clock.now_ms())
        random = self.world.random(f"{self.name} core")
        node = Node(membership, config, random, SimulatedHost(self), ROWS, self.now_ms())
        node.loading = True
        return node

    def bare_node(self) -> Node:
        """A fresh node like this one, that knows nothing: to read the journal into."""
        return self._make_node()

    def now_ms(self) -> int:
        """Node time."""
        return self.clock.now_ms()

    # -- start -----------------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Read the journal, in no time; the process was loading until now."""
        if self.gone:
            return
        if self.frozen:
            self._asleep.append((self.load, ()))
            return
        if self.machine.disk.policy != "off" and not self._read_journal():
            return
        self.node.loading = False
        self.listening = True
        self.world.note("up", self.name, self.now_ms())
        self.watch.started(self)
        self.beat_ms = self.world.now - BEAT_MS
        self._beat()

    def _read_journal(self) -> bool:
        """Read the journal and begin to write; False when the disk does not take that: the process ends."""
        machine = self.machine
        troubled = machine.disk.full or machine.disk.files.bad_syncs > 0
        try:
            self.journal.load()
        except JournalError as error:
            if not troubled:
                raise Violation("I1", f"{self.name} cannot use its journal: {error}") from error
            machine.crash()
            self.world.after(AGAIN_MS, machine.start)
            return False
        self.watch.replayed(self)
        return True

    # -- what happens to it ----------------------------------------------------------------------------------------

    def enter(self, call: Callable[..., None], *args: Any) -> None:
        """Something of a client, or of the process itself, happens now, or when it stands still no more."""
        if self.gone:
            return
        if self.frozen:
            self._asleep.append((call, args))
            return
        if self.world.now - self.beat_ms > LATE_MS and self.listening and not self.stopping:
            self.make_up()
        call(*args)

    def enter_bus(self, call: Callable[..., None], *args: Any) -> None:
        """Something of the bus happens now, or when the process stands still no more."""
        if self.gone:
            return
        if self.frozen:
            self._asleep_bus.append((call, args))
            return
        call(*args)

    def freeze(self) -> None:
        """Stand still."""
        self.frozen = True
        self.network.log.look_at(self.network, self.machine.number)

    def thaw(self) -> None:
        """Go on: the clock first, then the bus, then everything else."""
        if self.gone or not self.frozen:
            return
        self.frozen = False
        self.network.log.look_at(self.network, self.machine.number)
        if self.listening and not self.stopping:
            self.make_up()
        asleep, self._asleep = self._asleep, []
        asleep_bus, self._asleep_bus = self._asleep_bus, []
        for call, args in asleep_bus:
            self.enter_bus(call, *args)
        for call, args in asleep:
            self.enter(call, *args)
        self._timer_ms = NEVER
        self.schedule()

    # -- clients ---------------------------------------------------------------------------------------------------

    def admit(self, wire: "Wire") -> Connection:
        """A client has connected."""
        self._numbers += 1
        connection = Connection(self, wire, self._numbers)
        self.connections[self._numbers] = connection
        return connection

    def hang_up(self, connection: Connection) -> None:
        """Close a connection from this side."""
        self.watch.hangs_up(self, connection)
        connection.disconnect()
        connection.wire.lost()

    def kill(self, session: Session) -> None:
        """CLIENT KILL, or its user is gone."""
        session.closing = True
        self.connections[session.id].killed = True
        self.node.touch(session)

    # -- the flush -------------------------------------------------------------------------------------------------

    @property
    def safe(self) -> int:
        """What hangs on payloads up to this number may leave."""
        return self.journal.safe

    def schedule(self) -> None:
        """Have `flush` called at the end of this ms."""
        if not self._scheduled:
            self._scheduled = True
            self.world.after(0, self._flush_event)

    def _flush_event(self) -> None:
        self._scheduled = False
        if self.gone:
            return
        if self.frozen:
            self._asleep.append((self.flush, ()))
            return
        self.flush()

    def flush(self) -> None:
        """Let everything leave that happened since the last one."""
        node = self.node
        if not node.loading:
            step.settle(node, self.now_ms())
        self.watch.heard(self, self.ears.news(), self.ears.events())
        for session in node.touched:
            connection = self.connections.get(session.id)
            if connection is not None:
                connection.stamp()
        self.watch.flushing(self)
        if node.outbox.records:
            self.journal.write_journal(self.now_ms())
        self._let_out()
        touched = node.touched
        if touched:
            node.touched = []
            self._reply(touched)
        self._arm()
        self.watch.flushed(self)

    def _let_out(self) -> None:
        """Messages: those that promise nothing at once, the others with their records."""
        node = self.node
        if node.membership.messages or node.early:
            outbox = node.membership.messages + node.early
            node.membership.messages, node.early = [], []
            self.bus.send(self.watch.free(self, outbox))
        if node.messages:
            messages, node.messages = node.messages, []
            self._held_messages.append((self.journal.sequence, node.resets, messages))
        self._let_held_out()

    def _let_held_out(self) -> None:
        held = self._held_messages
        while held and held[0][0] <= self.safe:
            _, resets, messages = held.popleft()
            if resets == self.node.resets:
                self.bus.send(self.watch.leaving(self, messages))

    def _reply(self, touched: list[Session]) -> None:
        writer = self.journal
        for session in touched:
            connection = self.connections.get(session.id)
            if connection is None:
                continue
            if self.node.journaling:
                if session.unsettled or session.handed:
                    session.unsettled = False
                    connection.ticket = writer.sequence
                if connection.ticket > writer.safe:
                    session.touched = False
                    self._held[connection] = None
                    connection.mark()
                    continue
            connection.write_out()

    def release(self) -> None:
        """The journal is safe further than it was."""
        safe = self.safe
        self._let_held_out()
        for connection in list(self._held):
            if connection.ticket <= safe and not connection.session.touched:
                del self._held[connection]
                connection.write_out()
            else:
                connection.write_safe(safe)
        self.schedule()

    # -- time ------------------------------------------------------------------------------------------------------

    def _arm(self) -> None:
        due_ms = NEVER if self.node.loading else self.node.next_due_ms
        if due_ms >= NEVER:
            return
        at_ms = max(self.clock.world_ms(due_ms), self.world.now) + self.late_ms
        if due_ms <= self.now_ms():
            at_ms = self.world.now
        if at_ms < self._timer_ms or self._timer_ms < self.world.now:
            self._timer_ms = at_ms
            self.world.at(at_ms, self._on_timer, at_ms)

    def _on_timer(self, at_ms: int) -> None:
        if self.gone or self.frozen or at_ms != self._timer_ms:
            return
        self._timer_ms = NEVER
        self.watch.ticking(self)
        step.tick(self.node, self.now_ms())
        self.schedule()

    def _beat(self) -> None:
        """Ten times a second, for as long as the process lives."""
        if self.gone:
            return
        if self.frozen:
            self._asleep.append((self._beat, ()))
            return
        if self.stopping:
            return
        self.world.after(BEAT_MS, self._beat)
        if self.world.now - self.beat_ms >= BEAT_MS:
            self.make_up()

    def make_up(self) -> None:
        """The regular work."""
        node = self.node
        self.beat_ms = self.world.now
        step.beat(node, self.now_ms())
        self.bus.tend()
        self.journal.beat()
        if node.used > node.limits.warn:
            queues.drop_idle(node, self.now_ms(), 1000)
            eviction.make_room(node)
        if node.membership.dirty:
            self.save_nodes()
        if self.world.options.mixed:
            self._say_something_new()
        if self.world.options.pause and self.world.now < self.world.options.active_ms:
            self._set_something()
        self.watch.beat(self)
        self.schedule()

    def _set_something(self) -> None:
        """Now and then, set or delete an entry of the registry of which this version does not know what it means."""
        random = self._settings
        if random.random() < SETTING_RATE:
            key = (UNKNOWN_KIND, b"name %d" % random.randrange(5), b"")
            value = b"" if random.random() < 0.3 else b"%d of %b" % (self.world.now, self.name.encode())
            entries.set_value(self.node, key, value, self.now_ms(), deleted=not value)

    def _say_something_new(self) -> None:
        """Now and then, change the longest body that is taken, which is said in a message that not all understand.

        Nobody makes bodies of that length.
        """
        if self.machine.body_most >= BODY_USUAL and self._news.random() < NEWS_RATE:
            sizes.announce(self.node, BODY_USUAL + self._news.randint(0, 1))

    def reset(self) -> None:
        """CLUSTER RESET was executed: this node is as another process, to which nobody is linked."""
        self.reset_ms = self.world.now
        if self.machine.node_id != self.node.node_id:
            self.machine.former_ids.append(self.machine.node_id)
            self.machine.node_id = self.node.node_id
        self.bus.restart()

    def save_nodes(self) -> None:
        """Write nodes.conf."""
        self.machine.nodes_conf = nodesfile.render(self.node.membership, self.now_ms())
        self.node.membership.dirty = False

    # -- the end ---------------------------------------------------------------------------------------------------

    def begin_stop(self, stopped: Callable[[], None]) -> None:
        """Stop cleanly, as the server does: secure what was answered, dismiss the clients, part from the others.

        ``stopped`` is called when nothing is on its way here any more, or after a while.
        """
        self.stopping = True
        self._stopped = stopped
        self.flush()
        self.journal.secure()
        self.release()
        for connection in list(self.connections.values()):
            self._dismiss(connection)
        handover.begin(self.node)
        self.flush()
        self.world.after(PARTING_MS, self.enter, stopped)
        self.look_for_parting()

    def look_for_parting(self) -> None:
        """Something has come from another node, or a link has ended: it may have been the last thing to wait for."""
        if self.stopping and handover.is_settled(self.node):
            self.world.after(0, self.enter, self._stopped)

    def finish_stop(self) -> str:
        """Say good-bye, leave the list of what is not simply queued; "" or why not everything is on the disk."""
        node, unsafe = self.node, ""
        farewell = handover.Farewell(node)
        while not farewell.done:
            farewell.step(self.now_ms())
            self.flush()
        if self.journal.journal is not None:
            unsafe = self.journal.close()
            if not unsafe:
                self._let_held_out()
        self.save_nodes()
        return unsafe

    def _dismiss(self, connection: Connection) -> None:
        session = connection.session
        if session.out and not connection.choked and connection.ticket <= self.safe:
            connection.write_out()
        connection.disconnect()
        connection.wire.lost()

    def end(self, *, power: bool, clean: bool = False) -> None:
        """The process is no more."""
        self.gone = True
        self.listening = False
        for call, args in self._asleep_bus:
            self.network.not_taken(call, args)
        for connection in list(self.connections.values()):
            if not connection.closed:
                connection.closed = True
            if not power:
                connection.wire.lost()
            else:
                self.world.after(self.random.randint(200, 3000), connection.wire.lost)
        self.network.process_gone(self, power=power, clean=clean)
