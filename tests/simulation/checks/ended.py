"""I17: how a job has ended is said once, and the same to all."""

from typing import Any

from disque.core.model.ends import DONE, NAMES, End
from tests.simulation.cluster import Cluster
from tests.simulation.connection import Request
from tests.simulation.process import Process
from tests.simulation.watch import acked_ids
from tests.simulation.world import Violation

#: So long may it take until everybody who waits has heard of an end.
TALK_MS = 3000
ENDED = frozenset({b"done", b"cancelled", b"dead", b"expired", b"dropped"})
#: Those that some node has taken; that a job has expired each of its holders sees for itself.
TAKEN = ENDED - {b"expired"}

Said = tuple[bytes, Any]
#: The queue, the last error, and how many tries have ended.
Beside = tuple[bytes, Any, int]


class Ended:
    """What RESULT and WAITJOB say of the end of a job is the same everywhere, and one of the ends that it was given.

    The same everywhere: where the job was added with RETAIN, so that its end is kept. In runs with faults that holds
    from the time on when all nodes reach each other again; ends that were forgotten since memory was short are
    excepted. And a WAITJOB hears of an end that was taken while it stood.
    """

    promise = "I17"

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.history = cluster.watch.history
        self.calm = cluster.world.options.calm and not cluster.world.options.jumps
        #: By job, what was said of its end first, by whom and when; and what RESULT said beside that.
        self._said: dict[bytes, tuple[Said, str, int]] = {}
        self._beside: dict[bytes, tuple[Beside, str, int]] = {}
        #: By job, the results that consumers gave; and the jobs that were acknowledged without one.
        self._given: dict[bytes, set[bytes]] = {}
        self._bare: set[bytes] = set()
        #: Jobs of which somebody was told that they ended otherwise.
        self._otherwise: set[bytes] = set()
        #: By job, the machines that took a result and have not lost it, and when they took it.
        self._takers: dict[bytes, dict[int, int]] = {}
        #: Jobs that were acknowledged at a node that did not know them: each holder takes the end as it knows the job.
        self._elsewhere: set[bytes] = set()

    def ran(self, process: Process, request: Request, reply: bytes) -> None:
        """A request was executed."""
        if request.verb == b"FASTACK":
            self._bare.update(request.args[1:])
        if request.verb != b"ACKJOB":
            return
        ids = acked_ids(request)
        if ids != request.args[1:]:
            self._given.setdefault(request.args[1], set()).add(request.args[3])
            takers = self._takers.setdefault(request.args[1], {})
            takers.setdefault(process.machine.number, self.world.now)
        else:
            self._bare.update(ids)
        if reply != b":%d\r\n" % len(ids):
            self._elsewhere.update(ids)

    def died(self, process: Process, what: str) -> None:
        """A machine may have lost results."""
        del what
        number = process.machine.number
        left = self.cluster.watch.results_left[number]
        for job_id, takers in self._takers.items():
            if job_id not in left:
                takers.pop(number, None)

    def left(self, process: Process, request: Request, reply: Any) -> None:
        """A reply begins to leave."""
        if not isinstance(reply, list):
            return
        if request.verb == b"RESULT":
            row = dict(zip(reply[::2], reply[1::2], strict=True))
            text = row.get({b"done": b"result", b"dead": b"error"}.get(row[b"status"], b""))
            self.note(process, request, request.args[1], (row[b"status"], text))
            if row[b"status"] in TAKEN:
                self.note_beside(process, request, request.args[1], (row[b"queue"], row[b"error"], row[b"tries"]))
        elif request.verb == b"WAITJOB":
            ids = [word for word in request.args[2:] if word != b"ANY"]
            for job_id, end in zip(ids, reply, strict=True):
                if end is not None:
                    self.note(process, request, job_id, (end[0], end[1] if end[0] in {b"done", b"dead"} else None))
                elif request.args[-1] != b"ANY":
                    self.waited(process, request, job_id)

    def note(self, process: Process, request: Request, job_id: bytes, said: Said) -> None:
        """Somebody is told how a job is."""
        status, text = said
        self.world.count(f"{status.decode()} {request.verb.decode()}")
        if request.verb == b"WAITJOB" and status not in NAMES:
            raise Violation("I17", f"{process.name} says of {job_id!r}: {said!r}")
        if status not in ENDED:
            return
        if status in TAKEN and status != b"done":
            self._otherwise.add(job_id)
        if status == b"done" and text is not None and text not in self._given.get(job_id, ()):
            raise Violation("I17", f"{process.name} says of {job_id!r}: {said!r}, but nobody gave it that result")
        if not self.is_kept(job_id) or not self.is_quiet(request.ran_ms):
            return
        if said == (b"done", None) and request.verb == b"RESULT" and self.has_result(job_id):
            raise Violation("I17", f"{process.name} says of {job_id!r} that it has no result, but all gave it one")
        before = self._said.setdefault(job_id, (said, process.name, self.world.now))
        if before[0] != said and not self.history.evicted(before[2], self.world.now):
            raise Violation("I17", f"{process.name} says of {job_id!r}: {said!r}, but before: {before!r}")

    def note_beside(self, process: Process, request: Request, job_id: bytes, beside: Beside) -> None:
        """RESULT says this beside how a job has ended: it is what the node knew that took the end."""
        if not self.is_kept(job_id) or not self.is_quiet(request.ran_ms):
            return
        if job_id in self._elsewhere or self.is_repeated(job_id):
            return
        before = self._beside.setdefault(job_id, (beside, process.name, self.world.now))
        if before[0] != beside and not self.history.evicted(before[2], self.world.now):
            raise Violation(
                "I17", f"{process.name} says beside the end of {job_id!r}: {beside!r}, but before: {before!r}"
            )

    def is_kept(self, job_id: bytes) -> bool:
        """Whether the end of this job is kept; if not, each of two consumers may have ended it for some."""
        known = self.history.jobs.get(job_id)
        return known is not None and known.plan.retain > 0

    def has_result(self, job_id: bytes) -> bool:
        """Whether all who acknowledged a job gave a result, and a node must have one of these."""
        known = self.history.jobs[job_id]
        if job_id in self._bare or job_id in self._otherwise or known.deleted:
            return False
        if any(ack.is_cancel for ack in known.acks):
            return False  # a result gives way to that end where the job is unknown, and that end may be forgotten
        flushed_ms = max([self.history.flushed_ms, *[process.reset_ms for process in self.cluster.processes()]])
        since_ms = max(flushed_ms, self.world.now - known.plan.retain * 1000 + TALK_MS)
        machines = self.cluster.machines
        now = self.world.now
        return any(
            at_ms > since_ms
            and not machines[number].retired
            and not self.history.evicted(at_ms, now)
            and not self.history.evicted_end(number, at_ms, now)
            for number, at_ms in self._takers.get(job_id, {}).items()
        )

    def is_repeated(self, job_id: bytes) -> bool:
        """Whether one node took an end of a job twice: it came back, and the ends are the same but for where it was."""
        machines = [ack.machine for ack in self.history.jobs[job_id].acks]
        return len(set(machines)) < len(machines)

    def waited(self, process: Process, request: Request, job_id: bytes) -> None:
        """A WAITJOB has waited in vain for a job."""
        known = self.history.jobs.get(job_id)
        if known is None or not self.is_quiet(request.ran_ms):
            return
        for ack in known.acks:
            if 0 <= ack.left_ms < self.world.now - TALK_MS and ack.left_ms >= request.ran_ms and not ack.forgotten:
                raise Violation(
                    "I17",
                    f"{process.name} has waited for {job_id!r} from {request.ran_ms} to {self.world.now}: "
                    f"it was acknowledged at n{ack.machine} at {ack.at_ms}",
                )

    def is_quiet(self, since_ms: int) -> bool:
        """Whether all nodes have reached each other since that time, and for long enough before."""
        if self.world.options.mixed:
            return False  # who does not know of ends says only that a job is done
        healed_ms = self.history.healed_ms
        return self.calm or 0 <= healed_ms < since_ms - TALK_MS

    def end(self) -> None:
        """The run is over: whoever waits is not waited for."""
        for process in self.cluster.processes():
            ends = process.node.ends
            for job_id, end in ends.by_id.items():
                if not end.lasts:
                    raise Violation("I17", f"{process.name} still has an end of {job_id!r} that nobody wants")
                if end.is_strange:
                    raise Violation("I17", f"{process.name} still has a result for {job_id!r}, which it does not know")
            if ends.unsure:
                raise Violation("I17", f"{process.name} is not sure of {list(ends.unsure)[:3]}")
            nobody = [job_id for job_id, nodes in ends.watched.items() if not self.is_wanted(job_id, nodes)]
            if nobody:
                raise Violation("I17", f"{process.name} is to tell of {nobody[:3]}, which nobody waits for")

        if self.is_quiet(self.world.now):
            self.look_for_results()

    def look_for_results(self) -> None:
        """Of each job the end that wins, of all that are kept, has a result if all gave it one."""
        best: dict[bytes, End] = {}
        for process in self.cluster.processes():
            for job_id, end in process.node.ends.by_id.items():
                known = best.get(job_id)
                if known is None or end.beats(known.status, known.node_id, known.text):
                    best[job_id] = end
        for job_id, end in best.items():
            if end.status == DONE and not end.text and self.is_kept(job_id) and self.has_result(job_id):
                raise Violation("I17", f"no node has the result of {job_id!r}, and all who acknowledged it gave one")

    def is_wanted(self, job_id: bytes, nodes: list[bytes]) -> bool:
        """Whether somebody waits for a job at each of these nodes."""
        processes = {process.node.node_id: process for process in self.cluster.processes()}
        return all(one in processes and job_id in processes[one].node.ends.wanted for one in nodes)
