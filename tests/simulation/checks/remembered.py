"""I24: how a job has ended is kept for its RETAIN, whichever nodes are lost meanwhile."""

from cluster.capabilities import ENDS
from disque.core.model.ends import End
from disque.core.model.job import ACKED
from tests.simulation.checks.kept import Kept
from tests.simulation.cluster import Cluster
from tests.simulation.history import Known
from tests.simulation.machine import Machine
from tests.simulation.process import Process
from tests.simulation.world import Violation

EVERY_MS = 1000
#: By so much the time up to which an end is kept may differ between nodes, in ms.
SOON_MS = 2500


class Seen:
    """An end that somebody keeps: ``machines`` had it at ``seen_ms``, and it is to be kept up to ``until_ms``.

    ``lost`` are machines that have lost theirs, and when; ``dropped``: one was allowed to, and nobody need miss it.
    """

    __slots__ = ("dropped", "lost", "machines", "seen_ms", "until_ms")

    def __init__(self, until_ms: int, now_ms: int) -> None:
        self.machines: set[int] = set()
        self.seen_ms = now_ms
        self.until_ms = until_ms
        self.lost: dict[int, int] = {}
        self.dropped = False


class Remembered:
    """An end is kept by a node that is up or can be started, until its time is over.

    That is so as long as not all that had it at the last look have lost it since, or are gone for good; a node that
    left, and said that it can be stopped, costs no copy. And after `cluster-repair-after` + 60 s in which nothing
    happens, as many nodes keep it as should. Longer than for its RETAIN it need not be kept: one that was cancelled may
    be, for its RETRY.

    A node may forget ends when it is short of memory, or is told to forget everything. One that was told to drop its
    copy of the job, perhaps before the end, is not missed, nor is one that had not got a copy yet of a job with ASYNC.
    If ADDJOB was not answered, copies may never have been made.
    """

    promise = "I24"

    def __init__(self, cluster: Cluster, kept: Kept) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.history = cluster.watch.history
        self.kept = kept
        self.is_asleep = cluster.world.options.jumps  # a clock that is wrong ends the time of ends
        self.seen: dict[bytes, Seen] = {}
        #: Jobs whose ends were kept for long enough at some node. They may have come back since, and ended once more.
        self.over: set[bytes] = set()
        self._next_ms = EVERY_MS
        #: By process, how many ends it had forgotten for want of memory.
        self._evicted: dict[Process, int] = {}

    def beat(self, process: Process) -> None:
        """Look now and then."""
        del process
        if self.world.now >= self._next_ms:
            self._next_ms = self.world.now + EVERY_MS
            self.look()

    def died(self, process: Process, what: str) -> None:
        """A machine may have lost what it kept."""
        del what
        number = process.machine.number
        left = self.cluster.watch.ends_left[number]
        self.note_dropped(process)
        for job_id, seen in self.seen.items():
            if number in seen.machines and job_id not in left:
                seen.lost[number] = self.world.now
        self.look()

    def started(self, process: Process) -> None:
        """So it may if it finds another journal."""
        del process
        self.look()

    def end(self) -> None:
        """The run is over."""
        self.look()

    def look(self) -> None:
        """Look for an end that is kept nowhere any more."""
        if self.is_asleep:
            return
        keepers: dict[bytes, set[int]] = {}
        for machine in self.cluster.machines:
            for job_id in self.kept_by(machine):
                keepers.setdefault(job_id, set()).add(machine.number)
        for process in self.cluster.processes():
            self.note_dropped(process)
        for job_id, seen in list(self.seen.items()):
            machines = keepers.get(job_id)
            is_over = self.world.now >= seen.until_ms - SOON_MS
            if is_over or (not machines and not self.is_promised(seen)):
                del self.seen[job_id]
                if is_over:
                    self.over.add(job_id)
            elif not machines:
                raise Violation(
                    "I24",
                    f"nobody keeps how {job_id!r} has ended, up to {seen.until_ms}: at {seen.seen_ms}, "
                    f"{sorted(seen.machines)} did, and since then was lost: {seen.lost}",
                )
            else:
                seen.machines, seen.seen_ms = machines, self.world.now

    def kept_by(self, machine: Machine) -> "set[bytes] | dict[bytes, None]":
        """The ends that a machine keeps, or that its disk yields; those that are new are noted."""
        process = machine.process
        if machine.retired:
            return set()
        if process is None or not process.listening:
            return self.cluster.watch.ends_left.get(machine.number, set())
        found: dict[bytes, None] = {}
        for job_id, end in process.node.ends.by_id.items():
            if is_kept(end):
                until_ms = self.world.now + self.retained_ms(end) - process.now_ms()
                seen = self.seen.get(job_id)
                if seen is None and until_ms - self.world.now > SOON_MS and job_id not in self.over:
                    seen = self.seen[job_id] = Seen(until_ms, self.world.now)
                if seen is not None:
                    found[job_id] = None
                    seen.until_ms = min(seen.until_ms, until_ms)  # clocks drift
        return found

    def retained_ms(self, end: End) -> int:
        """Up to when an end must be kept, in the time of its node."""
        known = self.history.jobs.get(end.id)
        retain = known.plan.retain if known is not None else 0
        return min(end.until_ms, end.ended_ms + retain * 1000) if retain else end.until_ms

    def note_dropped(self, process: Process) -> None:
        """A node may have forgotten ends: for want of memory, or since it was told to forget everything."""
        evicted, number = process.node.stats.ends_evicted, process.machine.number
        is_short = evicted != self._evicted.get(process, 0)
        self._evicted[process] = evicted
        flushed_ms = max(self.history.flushed_ms, process.reset_ms)
        for job_id, seen in self.seen.items():
            if job_id not in process.node.ends.by_id and (is_short or flushed_ms >= seen.seen_ms):
                seen.dropped = True
                if number in seen.machines:
                    seen.lost[number] = self.world.now

    def is_promised(self, seen: Seen) -> bool:
        """Whether an end must be kept somewhere."""
        machines = self.cluster.machines
        gone = {machine.number for machine in machines if machine.retired}
        gone -= {one.number for one in machines if one.departed and self.is_missed(one, seen)}
        return any(number not in gone and seen.lost.get(number, -1) < seen.seen_ms for number in seen.machines)

    def is_missed(self, machine: Machine, seen: Seen) -> bool:
        """Whether what a node that left had is kept elsewhere: not if others have lost it in these moments.

        Nor if they may have forgotten it afterwards.
        """
        forgotten = seen.dropped and any(at_ms >= machine.departed_ms for at_ms in seen.lost.values())
        return not forgotten and self.kept.knew(machine, seen.lost)

    def rested(self) -> None:
        """So long nothing has happened."""
        self.look()
        lacking = self.lacking()
        if lacking:
            raise Violation("I24", lacking)

    def has_all(self) -> bool:
        """Whether no copy is missing at this moment."""
        return not self.lacking()

    def lacking(self) -> str:
        """An end that too few nodes keep."""
        processes = self.cluster.processes()
        if self.is_asleep or not all(one.node.membership.myself.capabilities & ENDS for one in processes):
            return ""
        for job_id, seen in self.seen.items():
            if seen.dropped or self.world.now >= seen.until_ms - SOON_MS:
                continue
            if any(lives(process, job_id) for process in processes):
                continue  # it has come back after its end, as `Acknowledged` says, and who has it takes no copy of that
            known = self.history.jobs.get(job_id)
            if known is None or known.answered_ms < 0:
                continue
            found = [process.node.ends.by_id.get(job_id) for process in processes]
            ends = [end for end in found if end is not None and is_kept(end)]
            able = [one for one in processes if job_id in one.node.ends.by_id or not one.node.membership.leaving]
            without = [one for one in processes if self.had_none(one, known) and may_lack(one, job_id, ends)]
            wanted = min(max([end.repl for end in ends], default=1) - len(without), len(able))
            if len(ends) < wanted:
                return f"{len(ends)} nodes keep how {job_id!r} has ended, and {wanted} should: {seen.machines}"
        return ""

    def had_none(self, process: Process, known: Known) -> bool:
        """Whether a node may have had no copy when the job ended: told to drop it, or, with ASYNC, not yet given."""
        number = process.machine.number
        if number in known.deleted:
            return True
        had = {known.coordinator, *self.history.confirmed.get(known.id, ())}
        return known.plan.asynchronous and number not in had


def lives(process: Process, job_id: bytes) -> bool:
    """Whether a node has a job that it does not know to have ended."""
    job = process.node.find(job_id)
    return job is not None and job.state != ACKED


def may_lack(process: Process, job_id: bytes, ends: list[End]) -> bool:
    """Whether the other nodes think that a node keeps an end which is not there."""
    return job_id not in process.node.ends.by_id and any(process.node.node_id in end.holders for end in ends)


def is_kept(end: End) -> bool:
    """Whether an end is one that is to outlive its node."""
    return end.lasts and not end.is_strange and end.repl > 0
