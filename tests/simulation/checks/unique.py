"""I7: one job for one key."""

from typing import Any

from tests.simulation.cluster import Cluster
from tests.simulation.connection import Request
from tests.simulation.history import Known
from tests.simulation.process import Process
from tests.simulation.world import Violation

#: Clocks drift, and a window ends a moment later for those who hear of it from afar.
SLACK_MS = 50

View = frozenset[bytes] | None


class Unique:
    """Two different IDs are answered for one key of a queue only if their windows do not overlap.

    Unless the nodes that answered did not agree, at some moment in between, who is reachable; or as many nodes lost
    data as there were to keep the key; or a node started with another clock, by which windows end; or one was reset,
    which the others see otherwise than that node itself. A window of 0 lasts
    as long as its job. Who is answered the ID of another's job gets one of the same queue and key, and it is promised
    like any other.
    """

    promise = "I7"

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.history = cluster.watch.history
        self.given: dict[tuple[bytes, bytes], list[tuple[Known, int, int]]] = {}
        #: By machine, who it could reach from when on; None while it was down.
        self.views: dict[int, list[tuple[int, View]]] = {}
        self.losses: list[tuple[int, int]] = []

    def hit(self, process: Process, request: Request, known: Known) -> None:
        """An ADDJOB was answered with the ID of another's job."""
        at = request.args.index(b"UNIQUE")
        if (known.plan.queue, known.plan.key) != (request.args[1], request.args[at + 1]):
            raise Violation("I7", f"{process.name} answered {request.args!r} with {known.id!r}, a job of another key")

    def answered(self, process: Process, request: Request, known: Known) -> None:
        """An ADDJOB was answered with an ID of its own."""
        plan = known.plan
        if not plan.key:
            return
        given = self.given.setdefault((plan.queue, plan.key), [])
        number = process.machine.number
        for other, began_ms, machine in given:
            overlap = began_ms <= request.ran_ms < self.end_ms(other, began_ms) - SLACK_MS
            if other is not known and overlap and not self.is_excused(other, began_ms, {machine, number}):
                raise Violation(
                    "I7",
                    f"key {plan.key!r} of {plan.queue!r}: {process.name} answered {known.id!r} (asked at "
                    f"{request.ran_ms}), but n{machine} had given it to {other.id!r} at {began_ms} "
                    f"(window {other.plan.window} s)",
                )
        given.append((known, request.ran_ms, number))

    def end_ms(self, known: Known, began_ms: int) -> int:
        """When the window of a job ends, or has ended."""
        if known.plan.window:
            return began_ms + known.plan.window * 1000
        over = known.ended or (not known.plan.retry and known.popped)
        return 0 if over else known.expires_ms

    def is_excused(self, known: Known, began_ms: int, machines: set[int]) -> bool:
        """Whether something happened since then that may part the two."""
        history = self.history
        now = self.world.now
        if history.reset_ms >= 0 or history.flushed_ms >= began_ms or history.evicted(began_ms, now):
            return True
        if any(history.jumped(machine, began_ms, now) for machine in range(len(self.cluster.machines))):
            return True  # a window ends by the clock of a node
        lost = {machine for at, machine in self.losses if at >= began_ms}
        if len(lost) >= min(known.plan.repl, len(self.cluster.machines)):
            return True
        return len(machines) > 1 and self.differed(min(machines), max(machines), began_ms)

    # -- who reaches whom ------------------------------------------------------------------------------------------

    def beat(self, process: Process) -> None:
        """Note whom this node reaches."""
        membership: Any = process.node.membership
        view = frozenset([node.id for node in membership.reachable()] + [process.node.node_id])
        self.note(process.machine.number, view)

    def died(self, process: Process, what: str) -> None:
        """Nobody, for a while; and perhaps it has lost something."""
        machine = process.machine
        self.note(machine.number, None)
        policy = machine.disk.policy
        if policy == "off" or what == "wipe" or (what == "power" and policy != "always"):
            self.losses.append((self.world.now, machine.number))

    def note(self, machine: int, view: View) -> None:
        """A view of a machine, which may be the same as before."""
        views = self.views.setdefault(machine, [])
        if not views or views[-1][1] != view:
            views.append((self.world.now, view))

    def differed(self, one: int, other: int, since_ms: int) -> bool:
        """Whether two machines did not agree at some moment since then."""
        changes = {since_ms}
        for machine in (one, other):
            changes |= {at for at, _ in self.views.get(machine, ()) if at > since_ms}
        for at in changes:
            views = [self.view(machine, at) for machine in (one, other)]
            if views[0] is None or views[0] != views[1]:
                return True
        return False

    def view(self, machine: int, at_ms: int) -> View:
        """Whom a machine could reach at some time."""
        found: View = None
        for at, view in self.views.get(machine, ()):
            if at > at_ms:
                break
            found = view
        return found
