"""I23: what is published is heard once, by all to whom a link stands; what happens to jobs is told where it happens."""

from typing import Any

from cluster.capabilities import PUBSUB
from cluster.messages import ROW_ID, YOURJOBS, YOURJOBS_JOBS
from disque.core.model.pubsub import ACKED, ADDED, CANCELLED, DROPPED, EXPIRED, Event
from tests.simulation.cluster import Cluster
from tests.simulation.connection import Request
from tests.simulation.history import FOREVER
from tests.simulation.process import Process
from tests.simulation.watch import knows
from tests.simulation.world import Violation

#: So long a message may take beyond the slowest way, in ms: standing still for a moment, and the next flush.
TALK_MS = 1500
#: What one job comes to once at most, at one node and in one life of it.
ONCE = {ADDED: "added", ACKED: "acked", CANCELLED: "cancelled", DROPPED: "dropped", EXPIRED: "expired"}


class Heard:
    """A message of a client is heard at most once at each node, and only if somebody has said it.

    It is heard at the node where it was published, and at each node of the same capabilities which knows that one, and
    with which that one could talk from then on for long enough.

    That a job was added, and each way in which it ends, is told at most once by a process; that it was added at one
    node only. In runs with faults a job may come back after its end, and end again. So may one that is handed over in
    the moment in which it expires: its way takes some ms of the time that is left, and it expires once more.
    """

    promise = "I23"

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.heard: dict[bytes, set[str]] = {}
        #: Messages: who said them, when, and to whom they must come: the names of processes.
        self.said: list[tuple[bytes, Process, int, list[Process]]] = []
        self.known: set[bytes] = set()
        self.told: set[tuple[str, int, bytes]] = set()
        self.added: dict[bytes, str] = {}

    def ran(self, process: Process, request: Request, reply: bytes) -> None:
        """A request was executed."""
        if request.verb != b"PUBLISH" or not reply.startswith(b":"):
            return
        self.known.add(request.args[2])
        node = process.node
        others = [other for other in self.cluster.processes() if other is not process]
        linked = [one for one in others if one.node.node_id in node.peers and node.peers[one.node.node_id].linked]
        hearing = [one for one in linked if knows(one, process)]  # what a stranger says means nothing
        self.said.append((request.args[2], process, self.world.now, hearing))

    def news(self, process: Process, messages: list[bytes]) -> None:
        """These are heard at a node."""
        for message in messages:
            self.world.count("messages heard")
            if message not in self.known:
                raise Violation(self.promise, f"{process.name} has heard {message!r}, which nobody has said")
            names = self.heard.setdefault(message, set())
            if process.name in names:
                raise Violation(self.promise, f"{process.name} has heard {message!r} twice")
            names.add(process.name)

    def taken(self, process: Process, src: Process, message: tuple[Any, ...]) -> None:
        """A message arrives: jobs that are handed over begin anew here."""
        del src
        if message[0] == YOURJOBS:
            self.told.difference_update([(process.name, EXPIRED, row[ROW_ID]) for row in message[YOURJOBS_JOBS]])

    def happened(self, process: Process, events: list[Event]) -> None:
        """These things have happened to jobs at a node."""
        calm = self.world.options.calm and not self.world.options.jumps
        for event, queue, job_id in events:
            if event not in ONCE or (event != ADDED and not calm):
                continue
            key = (process.name, event, job_id)
            if key in self.told:
                raise Violation(self.promise, f"{process.name} told twice of {job_id!r} in {queue!r}: {ONCE[event]}")
            self.told.add(key)
            if event == ADDED and self.added.setdefault(job_id, process.name) != process.name:
                raise Violation(self.promise, f"{process.name} and {self.added[job_id]} have added {job_id!r}")

    def beat(self, process: Process) -> None:
        """A tenth of a second has passed."""
        del process
        while self.said and self.said[0][2] < self.world.now - 3 * TALK_MS:
            message, speaker, said_ms, hearing = self.said.pop(0)
            names = self.heard.get(message, set())
            for one in hearing:
                if one.name not in names and self.could_talk(speaker, one, said_ms):
                    raise Violation(
                        self.promise, f"{one.name} has not heard {message!r} of {speaker.name} at {said_ms}"
                    )
            if speaker.name not in names and not speaker.gone and not speaker.frozen:
                raise Violation(self.promise, f"{speaker.name} has not heard {message!r}, which was said there")

    def could_talk(self, one: Process, other: Process, since_ms: int) -> bool:
        """Whether two processes could talk from that time on for long enough, and understand each other."""
        if one.gone or other.gone or max(one.reset_ms, other.reset_ms) >= since_ms:
            return False
        numbers = (one.machine.number, other.machine.number)
        if self.cluster.watch.history.forgot_nodes(numbers, since_ms, self.world.now):
            return False  # what a node says that was forgotten means nothing
        needed_ms = TALK_MS + self.cluster.network.slowest(*numbers)
        understands = one.node.peers.get(other.node.node_id)
        if understands is None or not understands.understands(PUBSUB):
            return False
        return any(
            begin <= since_ms and end >= since_ms + needed_ms
            for begin, end in self.cluster.network.log.up(*numbers, since_ms, FOREVER)
        )
