"""One machine: what outlives a node process. Its disk, clock, address and nodes.conf, and whether it has power."""

from typing import TYPE_CHECKING

from cluster import nodesfile
from cluster.capabilities import MINE
from cluster.member import BODY_USUAL
from cluster.membership import Member, Membership
from tests.simulation.clock import Clock
from tests.simulation.connection import Request
from tests.simulation.disk import Disk
from tests.simulation.process import Process
from tests.simulation.wires import Wire
from tests.simulation.world import World

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

PORT = 7711
BUS_PORT = 17711
HOUR_MS = 3_600_000
#: A capability of a version to come.
LATER = 1 << 50
#: A clock is set by so much at most.
JUMP_MOST_MS = 2 * HOUR_MS


class Machine:
    """``process`` is the node process that runs now. ``dark`` without power. ``retired`` when it never comes back.

    ``departed``: it left before that, at ``departed_ms``, and had said that it can be stopped.
    """

    def __init__(self, cluster: "Cluster", number: int) -> None:
        self.cluster = cluster
        self.world: World = cluster.world
        self.number = number
        self.name = f"n{number}"
        self.random = self.world.random(self.name)
        self.ip = b"10.0.0.%d" % (number + 1)
        self.port = PORT
        self.bus_port = BUS_PORT
        options = self.world.options
        self.disk = Disk(self.random, options.policy)
        self.offset_ms = self.random.randint(-3, 3) * HOUR_MS + self.random.randint(-5000, 5000)
        self.ppm = self.random.randint(-200, 200)
        self.boots = 0
        self.lives = 0
        self.max_bytes = 0
        self.segment_size = self.random.choice(("64kb", "64kb", "64mb"))
        self.process: Process | None = None
        self.dark = False
        self.retired = False
        self.departed = False
        self.departed_ms = -1
        self._wanted = False
        self.jumped = False
        self.node_id = b"%040x" % self.random.getrandbits(160)
        #: The IDs that its node had before, until CLUSTER RESET gave it another.
        self.former_ids: list[bytes] = []
        self.nodes_conf = b""
        self.zone = self.draw_zone()
        self.body_most = self.draw_body_most()

    def draw_zone(self) -> bytes:
        """The zone of this machine for as long as it lives: some are in none."""
        random, zones = self.world.random(f"{self.name} zone"), self.world.options.zones
        return b"zone-%d" % random.randint(1, zones) if zones and random.random() < 0.9 else b""

    def draw_body_most(self) -> int:
        """The longest body that this machine takes from others for as long as it lives."""
        most = self.world.options.body_most
        return most if most and self.world.random(f"{self.name} bodies").random() < 0.5 else BODY_USUAL

    def draw_capabilities(self) -> int:
        """What the process that starts now understands: a version has all that the versions before it had."""
        if not self.world.options.mixed:
            return MINE
        random = self.world.random(f"{self.name} {self.lives} version")
        version = random.randint(0, MINE.bit_length() + 1)
        return MINE & ((1 << version) - 1) | (LATER if version > MINE.bit_length() else 0)

    @property
    def boot_id(self) -> str:
        """The boot ID of the kernel."""
        return f"{self.name} boot {self.boots}"

    @property
    def up(self) -> bool:
        """Whether its node runs and has read its journal."""
        return self.process is not None and self.process.listening

    def clock(self) -> Clock:
        """A clock for a process that starts now. It may have been set since the last one."""
        self.jumped = False
        if self.world.options.jumps and self.lives > 1 and self.random.random() < 0.3:
            self.offset_ms += self.random.choice([-1, 1]) * self.random.randint(1000, JUMP_MOST_MS)
            self.jumped = True
        return Clock(self.world, self.offset_ms, self.ppm)

    def membership(self, now_ms: int) -> Membership:
        """The node table that a process starts with: from nodes.conf, or nobody but itself."""
        if self.nodes_conf:
            membership = nodesfile.parse(self.nodes_conf, now_ms)
        else:
            membership = Membership(Member(self.node_id, self.ip, self.port))
        membership.set_zone(membership.myself.id, self.zone)
        membership.set_body_most(membership.myself.id, self.body_most)
        membership.set_capabilities(membership.myself.id, self.draw_capabilities())
        seeded = self.world.random(f"{self.name} {self.lives} membership")
        membership.random = seeded
        membership.timeout_ms = self.world.options.timeout_ms
        membership.forget_after_ms = self.world.options.forget_s * 1000
        return membership

    def start(self) -> None:
        """Start the node; it is there when it has read its journal. One that stops now is started behind that."""
        if self.process is not None or self.retired:
            self._wanted = self.process is not None and self.process.stopping
            return
        self.lives += 1
        self.dark = False
        self.process = Process(self, self.lives)
        self.world.note("start", self.process.name)
        load_ms = self.random.choice((1, 20, 100, 300, 1500)) if not self.disk.is_empty else 1
        self.world.after(load_ms, self.process.load)

    def _start_wanted(self) -> None:
        """Its process is gone; somebody may have asked for another one before."""
        if self._wanted:
            self._wanted = False
            self.world.after(1, self.start)

    def crash(self) -> None:
        """The process dies."""
        self._die("crash")

    def power_off(self) -> None:
        """The machine dies."""
        self._die("power")

    def wipe(self) -> None:
        """The machine dies and its journal is gone; its nodes.conf is not."""
        self._die("wipe")

    def _die(self, what: str) -> None:
        process = self.process
        if process is None:
            return
        self.world.note(what, process.name)
        self.cluster.watch.dying(process, what)
        power = what != "crash"
        process.end(power=power)
        self.process = None
        if power:
            self.boots += 1
            self.dark = True
            self.disk.power_failed()
        else:
            self.disk.process_died(forgiving=process.journal.traceless)
        if what == "wipe":
            self.disk.wipe()
        torn = self.disk.torn
        self.cluster.watch.died(process, what)
        if power and self.disk.torn > torn:
            self.world.count("fault torn")
        self._start_wanted()

    def stop(self) -> None:
        """Stop the node cleanly. One that is still reading its journal, or stands still, goes on."""
        process = self.process
        if process is None or not process.listening or process.frozen or process.stopping:
            return
        self.world.note("stop", process.name)
        self.cluster.watch.dying(process, "stop")
        process.begin_stop(lambda: self._stopped(process))

    def _stopped(self, process: Process) -> None:
        """It has parted from the others."""
        if process.gone:
            return
        self.world.note("stopped", process.name)
        others = {other.node.node_id for other in self.cluster.processes()}
        unheard = any(not peer.linked and peer.id in others for peer in process.node.peers.values())
        if process.finish_stop() or unheard:
            # The disk did not take the list of what was out, or somebody did not hear it.
            self.cluster.watch.crashed(process)
        process.end(power=False, clean=True)
        self.process = None
        self.disk.process_died(forgiving=process.journal.traceless)
        self.cluster.watch.died(process, "stop")
        self._start_wanted()

    # -- administration --------------------------------------------------------------------------------------------

    def tell(self, args: list[bytes]) -> None:
        """An administrator sends one request over a connection of his own, if the node is there."""
        if self.process is not None and self.process.listening and not self.process.stopping:
            self.process.enter(self._tell, self.process, args)

    @staticmethod
    def _tell(process: Process, args: list[bytes]) -> None:
        if process.stopping:
            return
        wire = Wire(process.world, process.machine.random, ignore, nothing)
        connection = process.admit(wire)
        wire.connection = connection
        connection.arrive(Request(args, process.world.now))
        process.world.after(5, wire.close)

    def meet(self, other: "Machine") -> None:
        """CLUSTER MEET."""
        self.tell([b"CLUSTER", b"MEET", other.ip, b"%d" % other.port])

    def set_memory(self, max_bytes: int) -> None:
        """CONFIG SET maxmemory; kept over restarts."""
        self.max_bytes = max_bytes
        self.tell([b"CONFIG", b"SET", b"maxmemory", b"%d" % max_bytes])


def ignore(answered: object) -> None:
    """Nobody reads the replies."""
    del answered


def nothing() -> None:
    """Nobody minds the end of the connection."""
