"""The end of a run: everything is mended, what is left is consumed, and then it must become quiet.

Only a whole cluster can be asked for all that it promised: every job that is still owed comes out, and what is over
leaves nothing behind.
"""

from typing import TYPE_CHECKING

from tests.simulation.clients import Ask, Client, Leave, Story
from tests.simulation.faults import Faults
from tests.simulation.options import REPAIR_NEVER_S
from tests.simulation.workload import MOODY, STEADY, Workload
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster
    from tests.simulation.machine import Machine

#: Nodes may take so long to start and to find each other again.
GATHER_MS = 4000
#: No RETRY or DELAY that is waited for is longer.
LONGEST_MS = 22_000
QUIET_MS = 5000
#: So long schedules go on after it.
TICKING_MS = 12_000
#: Lost copies are made again so long after `cluster-repair-after`.
REPAIRED_MS = 60_000
#: Seconds that nodes may take beyond that when some had been told to forget others.
PATIENCE = 20


class Healing:
    """Mends, drains, waits."""

    def __init__(self, cluster: "Cluster", load: Workload, faults: Faults) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.load = load
        self.faults = faults
        self.random = self.world.random("healing")
        self.drains: list[Client] = []

    def run(self) -> None:
        """From the end of the load to the end of the run."""
        self.mend()
        self.world.run(self.world.now + GATHER_MS)
        self.reset()
        self.world.run(self.world.now + 50)
        self.gather()
        if self.world.options.repair_s < REPAIR_NEVER_S:
            self.world.run(self.world.now + 1000 * self.world.options.repair_s + REPAIRED_MS)
            self.cluster.watch.tell("rested")
        self.cluster.watch.history.healed_ms = self.world.now
        self.world.note("healed")
        self.drain()
        timeout_ms = self.world.options.timeout_ms
        if self.world.options.cron:
            self.world.run(self.world.now + TICKING_MS)
            self.unset()
        self.world.run(self.world.now + LONGEST_MS + timeout_ms + QUIET_MS)
        for client in self.drains:
            client.end()
        self.world.note("drained")
        self.world.run(self.world.now + QUIET_MS + 2 * timeout_ms)

    def unset(self) -> None:
        """No more schedules."""
        self.cluster.watch.history.unset_ms = self.world.now
        for machine in self.cluster.machines:
            for name in (*STEADY, MOODY):
                machine.tell([b"CRON", b"DEL", name])

    def gather(self) -> None:
        """All nodes must find and reach each other again, without help."""
        for _ in range(PATIENCE):
            if self.cluster.whole():
                return
            self.world.run(self.world.now + 1000)
        missing = self.cluster.missing()
        raise Violation("membership", f"these do not reach each other {PATIENCE} s after healing: {missing}")

    def mend(self) -> None:
        """No more faults and no more load; all machines run, all ways are open."""
        self.faults.ended = True
        self.load.end()
        self.world.note("healing")
        self.cluster.network.heal()
        for machine in self.cluster.machines:
            machine.disk.full = False
            machine.disk.files.bad_syncs = 0
            machine.disk.fsync_ms = 0
            self.faults.thaw(machine)
            machine.max_bytes = 0
            machine.start()

    def reset(self) -> None:
        """Nothing is paused, nobody is leaving, all know each other and nobody else, there is memory enough."""
        self.cluster.forget_strangers()
        for machine in self.cluster.machines:
            machine.set_memory(0)
            machine.tell([b"CLUSTER", b"LEAVING", b"no"])
            for queue in self.load.last_queues:
                # To all by each: an older word to all that a node has not heard yet would pause it again.
                machine.tell([b"PAUSE", queue, b"none", b"bcast"])
        for one in self.cluster.machines:
            for other in self.cluster.machines:
                process = one.process
                if (
                    one is not other
                    and process is not None
                    and not other.retired
                    and other.node_id not in process.node.membership.nodes
                ):
                    one.meet(other)

    def drain(self) -> None:
        """Consumers for every queue: at every node, or all at one, if each node takes every body."""
        machines = [machine for machine in self.cluster.machines if not machine.retired]
        everywhere = self.random.random() < 0.5 or self.cluster.world.options.body_most > 0
        homes = machines if everywhere else [self.random.choice(machines)]
        for machine in homes:
            for queue in self.load.last_queues:
                client = Client(self.cluster, f"drain {machine.name} {queue.decode()}", home=machine)
                self.drains.append(client)
                client.begin(drain(queue, self.random.choice(([], [b"TIMEOUT", b"1000"]))))
        if self.world.options.ends:
            for machine in machines:
                client = Client(self.cluster, f"wants to know {machine.name}", home=machine)
                self.drains.append(client)
                client.begin(asker(list(self.load.recent)))
            self.send_for(machines)
        if self.world.options.tries and not self.world.options.mixed:
            client = Client(self.cluster, "revives", home=self.random.choice(machines))
            self.drains.append(client)
            client.begin(revive(self.load))

    def send_for(self, machines: "list[Machine]") -> None:
        """Somebody waits at one node for jobs that are added, and known, at another one."""
        ids: list[bytes] = []
        here, there = self.random.choice(machines), self.random.choice(machines)
        adder = Client(self.cluster, "adds what is waited for", home=here)
        waiter = Client(self.cluster, "waits for what is added", home=there)
        self.drains += [adder, waiter]
        adder.begin(add_late(self.load, ids))
        waiter.begin(wait_late(ids))


def asker(ids: list[bytes]) -> Story:
    """Wants to know how jobs end: waits for each, then asks again."""
    yield GATHER_MS
    for job_id in ids:
        yield Ask([b"RESULT", job_id])
    for _ in range(2):
        yield Ask([b"WAITJOB", b"8000", *ids])
    for job_id in ids:
        yield Ask([b"RESULT", job_id])


def add_late(load: Workload, ids: list[bytes]) -> Story:
    """Adds jobs that nobody can get for a while."""
    replies = yield Ask(*[load.addjob_late(load.queues[0], delay=2) for _ in range(3)])
    ids += [reply for reply in replies or [] if isinstance(reply, bytes)]


def wait_late(ids: list[bytes]) -> Story:
    """Waits for them from before anybody gets them."""
    yield 500
    if ids:
        yield Ask([b"WAITJOB", b"15000", *ids], patience_ms=20_000)


def revive(load: Workload) -> Story:
    """Lets jobs die in a queue of their own, and brings them back: as many as REVIVE counts."""
    queue, dead = b"late", b"late:dead"
    added = yield Ask(*[load.addjob_late(queue) for _ in range(5)])
    ids = [reply for reply in added or [] if isinstance(reply, bytes)]
    found = yield Ask([b"GETJOB", b"COUNT", b"5", b"FROM", queue])
    if found and str(found[0]).startswith("MISCONF"):
        return  # its disk is still full
    taken = [entry[1] for entry in found[0]] if found else []
    yield Ask([b"NACK", *taken, b"DEAD"])
    yield Leave()  # and to the same node again: others are asked by it
    answers = yield Ask([b"REVIVE", dead])
    again = yield Ask([b"GETJOB", b"TIMEOUT", b"3000", b"COUNT", b"9", b"FROM", queue])
    back = [entry[1] for entry in (again[0] or [])] if again else []
    if answers is None or answers[0][1] != len(taken) or sorted(back) != sorted(ids):
        raise Violation("I16", f"of {ids}, {taken} died, REVIVE said {answers}, and {back} came back")
    yield Ask([b"ACKJOB", *back])


def drain(queue: bytes, limit: list[bytes]) -> Story:
    """Get everything and acknowledge it at once."""
    while True:
        replies = yield Ask([b"GETJOB", *limit, b"COUNT", b"50", b"FROM", queue], patience_ms=120_000)
        jobs = replies[0] if replies and isinstance(replies[0], list) else []
        if jobs:
            yield Ask([b"ACKJOB", *[entry[1] for entry in jobs]])
