"""I10: nothing leaves a node before it is as durable as promised, and a replay has no effects."""

from typing import Any

from cluster import messages as wire
from cluster.messages import Message
from disque.core.journal.schema import ACK, DELETE, ENDED, JOBS, SPEND
from tests.simulation.cluster import Cluster
from tests.simulation.connection import Request
from tests.simulation.history import Claim, Known
from tests.simulation.process import Process
from tests.simulation.world import Violation

#: Messages that need not wait for the journal.
FREE = frozenset(
    {
        *range(4),
        *(
            wire.REPLJOB,
            wire.NEEDJOBS,
            wire.WILLQUEUE,
            wire.ANSWER,
            wire.REFUSED,
            wire.OFFER,
            wire.NEEDNOW,
            wire.PUBLISHED,
            wire.UPSINCE,
            wire.ASKEND,
            wire.ASKCOPY,
        ),
    }
)

Outbox = list[tuple[bytes, tuple[Any, ...]]]


class Durable:
    """Whatever hangs on a record leaves the node only when that record is as durable as `appendfsync` says.

    An answer with an ID hangs on the job's record where the node keeps a copy; so does GOTJOB. A job without RETRY
    leaves behind the record that it is spent, or, for another node (TAKEJOB), that it is deleted. An answered
    acknowledgement, and SETACK and GOTACK, hang on its record.
    What a process does while it reads its journal leaves no message, no reply and no record.
    """

    promise = "I10"

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        #: Jobs that came to a process by hand-over.
        self._imported: set[tuple[str, bytes]] = set()

    # -- replies ---------------------------------------------------------------------------------------------------

    def answered(self, process: Process, request: Request, known: Known) -> None:
        """An ADDJOB was answered with an ID."""
        del request
        node = process.node
        if not node.journaling or known.coordinator != process.machine.number:
            return
        if known.id in node.copies.wanted or node.find(known.id) is None:
            return
        if (process.name, known.id) in self._imported:
            return  # made for others, by a node that was leaving; it came back while its answer waited behind another
        self.need(process, (JOBS,), known.id, "an answer")

    def delivered(self, known: Known, claim: Claim) -> None:
        """A reply with a job begins to leave."""
        process = self.cluster.machines[claim.machine].process
        if process is not None and process.node.journaling:
            if known.answered_ms >= process.started_ms:  # else an earlier process has written it
                self.need(process, (JOBS,), known.id, "a delivery", always=False)
            if not known.plan.retry:
                self.need(process, (SPEND, DELETE), known.id, "a delivery at most once")

    def left(self, process: Process, request: Request, reply: Any) -> None:
        """A reply begins to leave."""
        if request.verb == b"ACKJOB" and reply == 1 and len(request.args) == 2 and process.node.journaling:
            self.need(process, (ACK, DELETE), request.args[1], "an acknowledgement")

    def taken(self, process: Process, src: Process, message: Message) -> None:
        """A message is about to be taken."""
        del src
        if message[0] == wire.YOURJOBS:
            rows = message[wire.YOURJOBS_JOBS]
            assert isinstance(rows, tuple)
            self._imported |= {(process.name, row[wire.ROW_ID]) for row in rows}

    # -- messages --------------------------------------------------------------------------------------------------

    def free(self, process: Process, outbox: Outbox) -> None:
        """Messages leave without waiting."""
        for _, message in outbox:
            if message[0] not in FREE:
                raise Violation("I10", f"{process.name} sends {message!r} without waiting for its journal")

    def leaving(self, process: Process, outbox: Outbox) -> None:
        """Messages leave."""
        if not process.node.journaling:
            return
        for _, message in outbox:
            if message[0] == wire.GOTJOB:
                for job_id in message[1]:
                    self.need(process, (JOBS, ACK, DELETE), job_id, "GOTJOB", always=False)
                    self.has_record(process, job_id)
            elif message[0] == wire.COPYIS and message[1] == wire.END_KEPT:
                for job_id in message[3]:
                    self.need(process, (ENDED,), job_id, "COPYIS", always=False)
                    end = process.node.ends.by_id.get(job_id)
                    if end is not None and not end.segment:
                        raise Violation("I10", f"{process.name} confirms the end of {job_id!r} without a record of it")
            elif message[0] == wire.TAKEJOB:
                for job_id in message[wire.REPLJOB_IDS]:
                    self.need(process, (DELETE,), job_id, "TAKEJOB")

    def has_record(self, process: Process, job_id: bytes) -> None:
        """A copy that is confirmed has a record, of this process or of an earlier one."""
        place = process.journal.place(JOBS, job_id)
        job = process.node.find(job_id)
        if place is None and job is not None and not job.segment:
            raise Violation("I10", f"{process.name} confirms {job_id!r} without a record of it")

    @staticmethod
    def need(process: Process, kinds: tuple[int, ...], job_id: bytes, what: str, *, always: bool = True) -> None:
        """One of these records about the job must be safe; unless ``always`` it may be one of an earlier process."""
        places = [place for kind in kinds if (place := process.journal.place(kind, job_id)) is not None]
        if not places and not always:
            return
        if not places or min(places) > process.journal.safe:
            raise Violation(
                "I10",
                f"{process.name}: {what} for {job_id!r} leaves before its record: in payload {places}, "
                f"safe up to {process.journal.safe}",
            )

    # -- replay ----------------------------------------------------------------------------------------------------

    def replayed(self, process: Process) -> None:
        """A process has read its journal and done nothing else."""
        node: Any = process.node
        for name in ("messages", "early", "outbox", "touched", "batches"):
            left: Any = getattr(node, name) if name != "outbox" else node.outbox.records
            if name == "touched":  # who asked meanwhile was told that it loads
                left = [session for session in left if any(b"LOADING" not in reply for reply in session.out)]
            if left:
                raise Violation("I10", f"{process.name}: the replay left {left!r} in {name}")
