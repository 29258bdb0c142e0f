"""I7: one job for one key."""

from typing import Any

from cluster.messages import KEEPKEY
from disque.core.model.job import WAIT_REPL
from disque.core.model.key_ring import reachable
from tests.simulation.cluster import Cluster
from tests.simulation.connection import Request
from tests.simulation.history import Known
from tests.simulation.process import Process
from tests.simulation.world import Violation

#: Clocks drift, and a window ends a moment later for those who hear of it from afar.
SLACK_MS = 50

View = frozenset[bytes] | None


class Given:
    """An ID that was answered for a key, by which machine, and when that was asked for.

    Its window begins after that, since who asks may have to wait for another one's window, and by ``begun_ms``: when
    other nodes were told that it is decided, or it was answered. ``rivals`` are others that were answered for the key
    within its window, for a reason that excuses it.
    """

    __slots__ = ("asked_ms", "begun_ms", "known", "machine", "rivals")

    def __init__(self, known: Known, asked_ms: int, begun_ms: int, machine: int) -> None:
        self.known = known
        self.asked_ms = asked_ms
        self.begun_ms = begun_ms
        self.machine = machine
        self.rivals: list[Given] = []

    def end_ms(self) -> int:
        """When its window ends, or has ended: not earlier than that."""
        known = self.known
        if known.plan.window:
            return self.asked_ms + known.plan.window * 1000
        over = known.ended or known.moved or (not known.plan.retry and known.popped)
        return 0 if over else known.expires_ms

    def lasts(self, at_ms: int) -> bool:
        """Whether its window has not ended by then."""
        return at_ms < self.end_ms() - SLACK_MS

    def last_ms(self) -> int:
        """When its window ends at the latest, while it is not known to be over."""
        window = self.known.plan.window
        return self.begun_ms + window * 1000 + SLACK_MS if window else self.end_ms()

    def may_overlap(self, earlier: "Given") -> bool:
        """Whether their windows overlap for some times at which they can have begun."""
        began_later = self.asked_ms >= earlier.asked_ms
        return earlier.last_ms() > self.asked_ms and (began_later or self.last_ms() > earlier.asked_ms)

    def overlaps(self, earlier: "Given") -> bool:
        """Whether the windows of this one and of one that was answered before overlap, whenever they began."""
        began_later = self.asked_ms >= earlier.begun_ms
        return earlier.lasts(self.begun_ms) and (began_later or self.lasts(earlier.begun_ms))


class Unique:
    """Two different IDs are answered for one key of a queue only if their windows do not overlap.

    Unless the nodes that answered did not agree, at some moment in between, who is reachable; or as many nodes lost
    data as there were to keep the key; or a node started with another clock, by which windows end; or one was reset,
    which the others see otherwise than that node itself. A window of 0 lasts
    as long as its job. Who is answered the ID of another's job gets one of the same queue and key, and it is promised
    like any other; its copies must be there by then, since it may come to nothing until they are.

    Of two IDs that were answered in a time that excuses it, one stays when the nodes agree again, and the other one's
    window is over. Nobody outside knows which. So when the window of one has ended, a third ID breaks nothing, even
    within the window of the other: that is what the disagreement has cost. While both windows last, a third is wrong.
    """

    promise = "I7"

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.history = cluster.watch.history
        self.given: dict[tuple[bytes, bytes], list[Given]] = {}
        #: By job, when a node first told another one that it has the key for certain.
        self.decided: dict[bytes, int] = {}
        #: By machine, who it could reach from when on; None while it was down.
        self.views: dict[int, list[tuple[int, View]]] = {}
        #: By machine, the life of its process and the version of its view when that was noted last.
        self.seen: dict[int, tuple[int, int]] = {}
        self.losses: list[tuple[int, int]] = []

    def hit(self, process: Process, request: Request, known: Known) -> None:
        """An ADDJOB was answered with the ID of another's job."""
        at = request.args.index(b"UNIQUE")
        if (known.plan.queue, known.plan.key) != (request.args[1], request.args[at + 1]):
            raise Violation("I7", f"{process.name} answered {request.args!r} with {known.id!r}, a job of another key")
        for one in self.cluster.processes():
            job = one.node.find(known.id)
            # One that a node which leaves has let go of is decided, and waits here until another node has it (Rule 55).
            if job is not None and job.state == WAIT_REPL and known.id not in one.node.repairs.parting:
                raise Violation("I7", f"{process.name} answered {known.id!r}, which {one.name} has not decided yet")

    def leaving(self, process: Process, outbox: list[tuple[bytes, tuple[Any, ...]]]) -> None:
        """Messages leave."""
        del process
        for _, message in outbox:
            if message[0] == KEEPKEY:
                for job_id in message[4]:
                    self.decided.setdefault(job_id, self.world.now)

    def answered(self, process: Process, request: Request, known: Known) -> None:
        """An ADDJOB was answered with an ID of its own."""
        plan = known.plan
        if not plan.key:
            return
        given = self.given.setdefault((plan.queue, plan.key), [])
        begun_ms = self.decided.get(known.id, self.world.now)
        new = Given(known, request.ran_ms, begun_ms, process.machine.number)
        for other in given:
            if other.known is known or not new.may_overlap(other):
                continue
            if self.is_excused(other, new):
                other.rivals.append(new)
                new.rivals.append(other)
            elif new.overlaps(other) and all(rival.lasts(begun_ms) for rival in other.rivals):
                raise Violation(
                    "I7",
                    f"key {plan.key!r} of {plan.queue!r}: {process.name} answered {known.id!r} (asked at "
                    f"{new.asked_ms}), but n{other.machine} had given it to {other.known.id!r} at {other.asked_ms} "
                    f"(window {other.known.plan.window} s)",
                )
        given.append(new)

    def is_excused(self, one: Given, other: Given) -> bool:
        """Whether something happened since the first of them was asked for that may part them."""
        history = self.history
        now = self.world.now
        began_ms = min(one.asked_ms, other.asked_ms)
        if history.reset_ms >= began_ms or history.flushed_ms >= began_ms or history.evicted(began_ms, now):
            return True
        if any(history.jumped(number, began_ms, now) for number in range(len(self.cluster.machines))):
            return True  # a window ends by the clock of a node
        lost = {number for at, number in self.losses if at >= began_ms}
        if len(lost) >= min(one.known.plan.repl, len(self.cluster.machines)):
            return True
        return self.differed(one.machine, other.machine, began_ms)

    # -- who reaches whom ------------------------------------------------------------------------------------------

    def flushing(self, process: Process) -> None:
        """Note whom this node reaches: at once, since it acts by that at once."""
        membership: Any = process.node.membership
        number = process.machine.number
        if self.seen.get(number) == (process.life, membership.version):
            return
        self.seen[number] = (process.life, membership.version)
        self.note(number, frozenset(reachable(membership)))  # those that leave keep keys as well

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
        """Whether two machines did not agree at some moment since then; or one not with what it saw itself."""
        if one == other:
            seen = {view for at, view in self.views.get(one, ()) if at > since_ms and view is not None}
            return bool(seen - {self.view(one, since_ms)})
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
