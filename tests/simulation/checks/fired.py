"""I19: each tick of a schedule is one job."""

from typing import Final

from cluster.capabilities import SCHEDULES
from disque.core.model.job import Job
from disque.core.model.registry import SCHEDULE
from tests.simulation.cluster import Cluster
from tests.simulation.connection import Request
from tests.simulation.history import touches
from tests.simulation.options import HARMLESS
from tests.simulation.process import Process
from tests.simulation.workload import MOODY, STEADY
from tests.simulation.world import WALL_MS, Violation

#: Until all nodes know of a change, in ms, and until a tick has been fired, copied and taken at the end.
TALK_MS: Final = 1000
#: Of two changes at two nodes either may win, by the clocks of these, when neither had heard of the other.
TRAVEL_MS: Final = 100
TAKEN_MS: Final = 3000
#: After healing, everything that was due before has been fired by then.
SETTLED_MS: Final = 4000
#: Faults under which nodes may lose jobs, schedules or what they know of others. The jobs of ticks have one copy.
LOSING: Final = frozenset(
    {"power", "wipe", "massacre", "retire", "decline", "clear", "forget", "eio", "disk", "memory"}
)


class Fired:
    """What comes of the schedules that nobody changes, by the jobs that consumers get, and by those that are changed.

    A job that lies in `disque:returned` is there, too.

    In calm runs, and some time after healing, each tick is one job. In runs in which nothing is lost it is one job at
    least if a node was up from before the tick until healing that knew the schedule. In calm runs a schedule that was
    deleted or paused fires no more.
    """

    promise = "I19"

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.history = cluster.watch.history
        options = cluster.world.options
        self.calm = set(options.faults) <= HARMLESS and not options.mixed
        self.loses = bool(LOSING & set(options.faults)) or options.mixed or options.jumps or options.policy == "off"
        #: The jobs of each tick.
        self.seen: dict[tuple[bytes, int], set[bytes]] = {}
        #: When a schedule was set for the first time, and since when a process knows it.
        self.set_ms: dict[bytes, int] = {}
        self.knows: dict[bytes, dict[Process, int]] = {}
        #: By node and schedule, the counter of the entry that it took last.
        self.stamps: dict[tuple[bytes, bytes], int] = {}
        #: When the schedule that is changed was changed last, and whether it fires since then.
        self.moody_ms = 0
        self.moody_by = b""
        self.moody_fires = False
        #: What was known when all was healed.
        self.healed: set[bytes] = set()

    def popped(self, process: Process, jobs: list[Job]) -> None:
        """These jobs are given to somebody."""
        for job in jobs:
            name, tick_ms = self.tick_of(process, job)
            if name:
                self.world.count("ticks")
                if name == MOODY:
                    self.look_at_moody(tick_ms)

    def put_away(self, process: Process, job: Job) -> None:
        """A node that was forgotten has put this job where somebody decides what becomes of it (Rule 52)."""
        self.tick_of(process, job)

    def tick_of(self, process: Process, job: Job) -> tuple[bytes, int]:
        """Note that this tick has this job: the name of its schedule, or nothing, and the time."""
        extra = process.node.extra_of(job)
        headers = extra.headers if extra is not None else ()
        if b"cron-name" not in headers:
            return b"", 0
        name = headers[headers.index(b"cron-name") + 1]
        tick_ms = int(headers[headers.index(b"cron-tick") + 1]) * 1000 - WALL_MS
        self.seen.setdefault((name, tick_ms), set()).add(job.id)
        return name, tick_ms

    def look_at_moody(self, tick_ms: int) -> None:
        """A tick of the schedule that is changed all the time."""
        if self.calm and not self.moody_fires and tick_ms > self.moody_ms + TALK_MS:
            raise Violation("I19", f"a tick at {tick_ms} of what was deleted or paused at {self.moody_ms}")

    def ran(self, process: Process, request: Request, reply: bytes) -> None:
        """A request was executed."""
        words = request.args
        if request.verb != b"CRON" or len(words) < 3 or reply not in {b"+OK\r\n", b":1\r\n"}:
            return
        verb, name = words[1], words[2]
        is_taken = self.is_taken(process, name)
        if verb == b"SET":
            self.set_ms.setdefault(name, self.world.now)
            if is_taken:
                self.look_at_versions(process)
        if name == MOODY:
            fires = verb in {b"SET", b"RESUME"}
            is_contested = process.node.node_id != self.moody_by and self.world.now - self.moody_ms < TRAVEL_MS
            self.moody_fires = fires or (is_contested and self.moody_fires)
            self.moody_ms = self.world.now
            self.moody_by = process.node.node_id

    def is_taken(self, process: Process, name: bytes) -> bool:
        """Whether this changed something: a CRON SET of what is there already is OK, and nobody else hears of it."""
        entry = process.node.registry.get((SCHEDULE, name, b""))
        if entry is None or entry.origin != process.node.node_id:
            return False
        before = self.stamps.get((entry.origin, name))
        self.stamps[entry.origin, name] = entry.counter
        return before != entry.counter

    def look_at_versions(self, process: Process) -> None:
        """A schedule was set at this node. It may be linked to a process that is no more: then it cannot know."""
        self.world.count("schedules set")
        linked = [link.target for link in self.cluster.network.links if link.src is process]
        members = process.node.membership.nodes
        for other in self.cluster.processes():
            member = members.get(other.node.node_id)
            lacks = not other.node.membership.myself.capabilities & SCHEDULES
            if member is not None and member.linked and lacks and other in linked:
                raise Violation("I19", f"{process.name} takes a schedule, and {other.name} knows nothing of them")

    def beat(self, process: Process) -> None:
        """A tenth of a second has passed."""
        for name in STEADY:
            if name in process.node.schedules.by_name:
                self.knows.setdefault(name, {}).setdefault(process, self.world.now)
                if self.history.healed_ms >= 0:
                    self.healed.add(name)

    def end(self) -> None:
        """The run is over."""
        if any(not one.node.membership.myself.capabilities & SCHEDULES for one in self.cluster.processes()):
            return
        for name, every in STEADY.items():
            if name in self.set_ms:
                for tick_ms in range(
                    -(-self.set_ms[name] // (1000 * every)) * 1000 * every, self.last_ms(), 1000 * every
                ):
                    self.look(name, tick_ms)

    def last_ms(self) -> int:
        """The last tick that must have been taken."""
        return self.history.unset_ms - TAKEN_MS

    def look(self, name: bytes, tick_ms: int) -> None:
        """Look at one tick of a schedule that nobody has changed."""
        jobs = self.seen.get((name, tick_ms), set())
        text = f"the tick of {name!r} at {tick_ms} has the jobs {sorted(jobs)}"
        healed = name in self.healed and tick_ms > self.history.healed_ms + SETTLED_MS
        if self.history.flushed_ms > tick_ms - TAKEN_MS:
            return
        if (self.calm and tick_ms > self.set_ms[name]) or healed:
            self.world.count("ticks looked at")
            if len(jobs) != 1:
                raise Violation("I19", f"{text}, not one")
        elif not jobs and not self.loses and (witness := self.witness(name, tick_ms)):
            raise Violation("I19", f"{text}, and {witness} was up")

    def witness(self, name: bytes, tick_ms: int) -> str:
        """A node that knew the schedule before the tick, and that has been up ever since."""
        for process, since_ms in self.knows.get(name, {}).items():
            number = process.machine.number
            stood = touches(self.history.still.get(number, []), tick_ms - TALK_MS, self.history.healed_ms)
            if since_ms < tick_ms - TALK_MS and process is process.machine.process and not stood:
                return process.name
        return ""
