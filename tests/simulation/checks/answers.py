"""I8: every ADDJOB is answered, in order, in time; and so is what asks all nodes."""

from disque.core.base import errors
from disque.core.model.survey import WAIT_MS
from tests.simulation.cluster import Cluster
from tests.simulation.connection import Connection, Request
from tests.simulation.history import FOREVER, touches
from tests.simulation.process import Process
from tests.simulation.world import Violation

SLACK_MS = 10
#: Nodes may take so long, beyond the node timeout, to see that one of them is gone, or that it is back.
SEEN_MS = 6000
#: So long, beyond the node timeout, it may take to see that a node is gone.
GONE_MS = 2500
#: What asks all nodes. Nobody waits longer for them, but for what a node has to look at itself.
OF_ALL = frozenset(
    {b"QLEN", b"QSTAT", b"FIND", b"MOVE", b"REVIVEJOB", b"QMOVE", b"REVIVE", b"QFLUSH", b"CANCEL", b"RESULT"}
)
#: Of what asks twice: a node that is silent the first time is not asked again.
ROUNDS = {b"QMOVE": 2, b"REVIVE": 2, b"QFLUSH": 2}
LOOK_MS = 300
#: Faults under which it is certain who was there for whom.
CERTAIN = frozenset({"crash", "stop", "compact", "half", "disk", "fsync"})


class Answers:
    """Each ADDJOB gets one reply, in order, within its timeout and that of those before it + 10 ms.

    Unless the connection ends, or the process stands still. That replies are in order shows when they leave: each ID
    belongs to the body that was asked for. Only the core's part counts here: that a reply waits for the disk is not
    its doing.

    What asks all nodes is answered when these were waited for, a WAITJOB within its timeout.

    One without a timeout is answered, too, when there were too few nodes for its copies for longer than restart-grace.
    And none is told that there are too few when those that it needs were there a moment ago.
    """

    promise = "I8"

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.history = cluster.watch.history

    def beat(self, process: Process) -> None:
        """Is an answer overdue?"""
        for connection in process.connections.values():
            if connection.owed:
                self.look(process, connection)

    def look(self, process: Process, connection: Connection) -> None:
        """Look at the ADDJOBs of one connection, from the oldest on."""
        bound_ms = 0
        now = self.world.now
        for request in list(connection.owed):
            if request.verb in OF_ALL:
                rounds = ROUNDS.get(request.verb, 1) + self.world.options.users  # whether the user may is asked before
                bound_ms = max(bound_ms, request.ran_ms + WAIT_MS * rounds + LOOK_MS)
            elif request.verb == b"WAITJOB" and int(request.args[1]):
                timeout_ms = int(request.args[1])
                bound_ms = max(bound_ms, request.ran_ms + timeout_ms + timeout_ms // 5000 + SLACK_MS)
            elif request.verb == b"ADDJOB":
                asked_ms = self.bound_ms(request)
                bound_ms = max(bound_ms, asked_ms if asked_ms < FOREVER else self.hopeless_ms(process, request))
            else:
                continue
            ready_ms = request.ready_ms if request.ready_ms >= 0 else now
            still = self.history.still.get(process.machine.number, [])
            if ready_ms > bound_ms and not touches(still, request.ran_ms, now):
                raise Violation(
                    "I8",
                    f"{process.name} owes an answer to {request.args!r} of {request.ran_ms} since {bound_ms}",
                )

    @staticmethod
    def bound_ms(request: Request) -> int:
        """When the answer must be there; the clock of the node may run a little slow."""
        timeout_ms = int(request.args[3])
        return request.ran_ms + timeout_ms + timeout_ms // 5000 + SLACK_MS if timeout_ms else FOREVER

    def hopeless_ms(self, process: Process, request: Request) -> int:
        """When an ADDJOB that waits for copies must be answered since too many of the other machines are down."""
        spreads = process.node.copies.wanted.values()
        spread = next((one for one in spreads if one.add is not None and one.job.body == request.args[2]), None)
        if spread is None or spread.add is None or spread.add.key is not None:
            return FOREVER
        gone_ms = []
        for machine in self.cluster.machines:
            if machine.number != process.machine.number and machine.node_id not in spread.confirmed:
                intervals = self.history.down.get(machine.number)
                gone_ms.append(intervals[-1][0] if intervals and intervals[-1][1] >= self.world.now else FOREVER)
        missing = spread.missing()
        if missing <= 0:
            return FOREVER
        gone_ms.sort()
        since_ms = gone_ms[len(gone_ms) - missing] if missing <= len(gone_ms) else 0
        options = self.world.options
        return max(since_ms, request.ran_ms) + options.grace_s * 1000 + options.timeout_ms + GONE_MS

    def refused(self, process: Process, request: Request, text: str) -> None:
        """There are said to be too few nodes: were there, a moment ago?"""
        options = self.world.options
        plan = self.history.plans.get(request.args[2])
        if text != errors.NO_REPL.decode() or plan is None or not set(options.faults) <= CERTAIN or options.jumps:
            return
        now = request.ready_ms
        since_ms = now - options.grace_s * 1000 + 2 * options.timeout_ms + SEEN_MS
        there = [self.was_there(machine.number, since_ms, now) for machine in self.cluster.machines]
        lasts = self.was_there(process.machine.number, now, now)
        if lasts and sum(there) >= plan.repl:
            raise Violation("I8", f"{process.name} refuses {request.args!r}, but these were there: {there}")

    def was_there(self, number: int, since_ms: int, now: int) -> bool:
        """Whether a machine was up for long enough to be seen, and still up in this time."""
        begin_ms = 0
        for down_ms, up_ms in [*self.history.down.get(number, ()), (now, FOREVER)]:
            if min(down_ms, now) >= since_ms and down_ms - begin_ms > SEEN_MS:
                return True
            begin_ms = up_ms
        return False
