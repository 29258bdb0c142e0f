"""I8: every ADDJOB is answered, in order, in time."""

from tests.simulation.cluster import Cluster
from tests.simulation.connection import Connection, Request
from tests.simulation.history import FOREVER, touches
from tests.simulation.process import Process
from tests.simulation.world import Violation

SLACK_MS = 10


class Answers:
    """Each ADDJOB gets one reply, in order, within its timeout and that of those before it + 10 ms.

    Unless the connection ends, or the process stands still. That replies are in order shows when they leave: each ID
    belongs to the body that was asked for. Only the core's part counts here: that a reply waits for the disk is not
    its doing.
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
            if request.verb != b"ADDJOB":
                continue
            bound_ms = max(bound_ms, self.bound_ms(request))
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
