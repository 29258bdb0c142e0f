"""I1: what was answered with an ID is not lost."""

from disque.core.model.job import ACKED, WAIT_REPL
from tests.simulation.cluster import Cluster
from tests.simulation.connection import Request
from tests.simulation.history import Known
from tests.simulation.machine import Machine
from tests.simulation.process import Process
from tests.simulation.world import Violation

EVERY_MS = 1000
#: How long a job that is delivered at most once may be on its way to another node.
FLIGHT_MS = 10_000


class Kept:
    """A job whose ADDJOB was answered with its ID is held, unacknowledged, by a node that is up or can be started.

    That is so until somebody acknowledges or deletes it or its life ends, while fewer than R of those whose copies
    were counted for the answer have lost theirs; R is what REPLICATE asked for. With ASYNC the copies that are
    confirmed count, however many there are. A job without RETRY moves with each hand-over, and may be lost when a link
    ends in the middle of one; once it was handed to a consumer, nothing more is promised.

    Copies that were lost are made again, so the promise goes on: also while not all that had a copy at the last look
    have lost theirs since, or are gone for good. A node that leaves can be stopped when it says so, but of what another
    one lost within two node timeouts before that, it may not have heard: then both have lost theirs.

    An answer rests on R different nodes: that is looked at when it leaves. A node that was started again counts no
    more once the coordinator has met its new process, if that one does not have the job.
    """

    promise = "I1"

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.history = cluster.watch.history
        self.live: dict[bytes, Known] = {}
        self._next_ms = EVERY_MS
        #: The machines that had a copy at the last look, and when that was.
        self.copies: dict[bytes, tuple[set[int], int]] = {}
        #: Since when nobody holds a job.
        self._missing: dict[bytes, int] = {}

    def answered(self, process: Process, request: Request, known: Known) -> None:
        """An ADDJOB was answered with an ID."""
        self.live[known.id] = known
        plan = known.plan
        enough = 1 if plan.asynchronous else plan.repl
        if not plan.retry:
            return  # it may be on its way to another node already, and wait for an fsync: `look` is patient
        if known.ended or self.world.now >= known.expires_ms - 1000:
            return  # while its answer waited for those of earlier requests, or for the journal
        if self.history.reset_ms >= request.ran_ms:
            return  # one machine may have confirmed twice, under two IDs
        if len(known.holders) < enough and not known.flying:
            names = sorted(known.holders)
            raise Violation("I1", f"{known.id!r} was answered by {process.name} for {enough} copies, but only {names}")
        votes = self.history.most_votes(known.id) + (process.machine.number in known.holders)
        if votes < enough:
            raise Violation(
                "I1",
                f"{known.id!r} was answered by {process.name} for {enough} copies, but of {sorted(known.holders)} only "
                f"{votes} count: the others are other processes now, which have none",
            )

    def hit(self, process: Process, request: Request, known: Known) -> None:
        """So was one with the key of another's job."""
        del process, request
        if known.answered_ms == self.world.now:
            self.live[known.id] = known

    def died(self, process: Process, what: str) -> None:
        """Somebody may have forgotten something."""
        del what
        number = process.machine.number
        survived = self.cluster.watch.survived[number]
        for job_id, (copies, _) in self.copies.items():
            if number in copies and job_id not in survived:
                self.history.note_lost(job_id, number)
        self.look()

    def started(self, process: Process) -> None:
        """The same."""
        del process
        self.look()

    def beat(self, process: Process) -> None:
        """Look now and then, so that a loss is found near its cause."""
        del process
        if self.world.now >= self._next_ms:
            self._next_ms = self.world.now + EVERY_MS
            self.look()

    def end(self) -> None:
        """The run is over."""
        self.look()

    def look(self) -> None:
        """Look for a job that is promised and that nobody holds."""
        self.live = {job_id: known for job_id, known in self.live.items() if self.is_promised(known)}
        for job_id, known in self.live.items():
            copies = self.holders(job_id)
            if copies and known.plan.retry:
                self.copies[job_id] = (copies, self.world.now)
            if copies or known.flying or self.is_held(job_id):
                self._missing.pop(job_id, None)
            elif known.handing:
                known.lost = True  # the link over which the answer would come has ended
            elif self.world.now - self._missing.setdefault(job_id, self.world.now) >= self.patience_ms(known):
                lost = sorted(self.history.forgot.get(job_id, ()))
                raise Violation(
                    "I1",
                    f"{job_id!r} (REPLICATE {known.plan.repl} RETRY {known.plan.retry}) is lost: answered at "
                    f"{known.answered_ms}, held by {sorted(known.holders)}, forgotten by {lost}",
                )

    def patience_ms(self, known: Known) -> int:
        """How long nobody may hold it: on its way it waits for an fsync before it leaves, however full the disk is."""
        if known.plan.retry:
            return 0
        if known.plan.asynchronous:
            return 1 << 62  # a node that keeps nothing itself answers first: the link may end on the way
        since_ms, now = self._missing[known.id], self.world.now
        return FLIGHT_MS + max([self.history.silent_ms(machine, since_ms, now) for machine in known.holders], default=0)

    def is_promised(self, known: Known) -> bool:
        """Whether this job must be held somewhere."""
        if known.ended or self.world.now >= known.expires_ms - 1000 or known.answered_ms < 0:
            return False
        plan = known.plan
        if not plan.retry and (known.popped or known.lost):
            return False
        if not plan.dead and (known.moved or (plan.tries and (known.popped or known.freed_ms))):
            return False  # it may have died, and there is no queue for it
        wanted = plan.repl
        # A machine that was reset may have confirmed twice.
        if plan.asynchronous or self.history.reset_ms >= plan.asked_ms:
            wanted = min(wanted, len(known.holders))
        gone = {machine.number for machine in self.cluster.machines if machine.retired}
        if len((self.history.forgot.get(known.id, set()) | gone) & known.holders) < wanted:
            return True
        forgot = self.history.forgot_ms.get(known.id, {})
        # One that left, and said that it can be stopped, costs no copy: if it could know who else had lost theirs.
        left = {machine.number for machine in self.cluster.machines if machine.departed and self.knew(machine, forgot)}
        gone -= left
        copies, seen_ms = self.copies.get(known.id, (set(), 0))
        copies = (copies - left) or copies  # from then on the others are those that have it
        return any(machine not in gone and forgot.get(machine, -1) < seen_ms for machine in copies)

    def knew(self, machine: Machine, forgot: dict[int, int]) -> bool:
        """Whether no other machine lost its copy in the moments before this one left for good."""
        unheard_ms = machine.departed_ms - 2 * self.world.options.timeout_ms
        return not any(
            unheard_ms <= at_ms <= machine.departed_ms for other, at_ms in forgot.items() if other != machine.number
        )

    def holders(self, job_id: bytes) -> set[int]:
        """The machines that have a copy which lasts, or whose disk yields it."""
        survived = self.cluster.watch.survived
        found = set()
        for machine in self.cluster.machines:
            process = machine.process
            if machine.retired:
                continue
            if process is not None and process.listening:
                job = process.node.find(job_id)
                if job is not None and job.state not in {ACKED, WAIT_REPL}:
                    found.add(machine.number)
            elif job_id in survived.get(machine.number, ()):
                found.add(machine.number)
        return found

    def is_held(self, job_id: bytes) -> bool:
        """Whether some node has it."""
        survived = self.cluster.watch.survived
        for machine in self.cluster.machines:
            process = machine.process
            if machine.retired:
                continue
            if process is not None and process.listening:
                job = process.node.find(job_id)
                if job is not None and job.state != ACKED:
                    return True
            elif job_id in survived.get(machine.number, ()):
                return True
        return False
