"""I11: two copies of one zone are counted as two only when no other zone could have one."""

from typing import TYPE_CHECKING, Any

from cluster.member import UNREACHABLE
from cluster.messages import GOTJOB, REFUSED
from disque.core.model.repair import Replacement
from tests.simulation.cluster import Cluster
from tests.simulation.connection import Request
from tests.simulation.history import Known
from tests.simulation.process import Process
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from disque.core.model.session import Spread

Job = tuple[Process, bytes]


class Open:
    """An ADDJOB that waits for copies, as it was at the last look: who had confirmed, and who else could."""

    def __init__(self, spread: "Spread", confirmed: set[bytes], others: set[bytes]) -> None:
        self.repl = spread.job.repl
        self.outside = spread.outside
        self.confirmed = confirmed
        self.others = others


class Zoned:
    """When an ADDJOB with REPLICATE R is answered, R zones have a copy, or no other zone could have one more.

    One that could: with a node that the coordinator is linked to, which neither fails nor leaves in its eyes, and has
    not refused this job. Zones are those of the machines: that the nodes have learnt them is looked at, too.
    """

    promise = "I11"

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.open: dict[Process, dict[bytes, Open]] = {}
        self.refusals: dict[Job, set[bytes]] = {}
        self.verdicts: dict[bytes, str] = {}
        #: Where nodes were when they confirmed a copy.
        self.zones: dict[bytes, bytes] = {}

    def taken(self, process: Process, src: Process, message: tuple[Any, ...]) -> None:
        """A message arrives."""
        if not self.world.options.zones:
            return
        if message[0] == GOTJOB:
            self.zones[src.node.node_id] = self.zone(src.node.node_id)
            known = self.open.get(process, {})
            for job_id in message[1]:
                if job_id in known:
                    known[job_id].confirmed.add(src.node.node_id)
        elif message[0] == REFUSED:
            for job_id in message[2]:
                self.refusals.setdefault((process, job_id), set()).add(src.node.node_id)

    def flushing(self, process: Process) -> None:
        """Before anything leaves: what was decided, and what is still open?"""
        if not self.world.options.zones:
            return
        node = process.node
        usable = {peer.id for peer in node.linked if self.is_well(process, peer.id)}
        before = self.open.get(process, {})
        for job_id in [job_id for job_id in before if job_id not in node.copies.wanted]:
            self.judge(process, job_id, before[job_id], usable)
        self.open[process] = {
            job_id: Open(spread, set(spread.confirmed), usable)
            for job_id, spread in node.copies.wanted.items()
            if not isinstance(spread, Replacement)
        }

    @staticmethod
    def is_well(process: Process, node_id: bytes) -> bool:
        """Whether a node can be reached, in the eyes of another one."""
        known = process.node.membership.nodes.get(node_id)
        return known is not None and not known.flags & UNREACHABLE

    def zone(self, node_id: bytes) -> bytes:
        """The zone of a node; one that has none is alone in its own. One that was reset is where it was before."""
        machine = self.cluster.machine_of(node_id)
        if machine is None:
            return self.zones.get(node_id, node_id)
        return machine.zone or node_id

    def judge(self, process: Process, job_id: bytes, job: Open, usable: set[bytes]) -> None:
        """It is decided. Whether the answer is an ID shows when that leaves."""
        refused = self.refusals.pop((process, job_id), set())
        node = process.node
        holders = job.confirmed if job.outside else job.confirmed | {node.node_id}
        # Nobody knows the zone of a node that was forgotten since it confirmed: it counts as one of its own.
        zones = {self.zone(holder) if holder in node.membership.nodes else holder for holder in holders}
        others = {one for one in usable & job.others - refused if self.zone(one) not in zones}
        if len(zones) < job.repl and others:
            self.verdicts[job_id] = (
                f"{job_id!r} has its {job.repl} copies in {len(zones)} zones by {process.name}, which reaches "
                f"{len(others)} nodes of others: {sorted(others)}"
            )

    def answered(self, process: Process, request: Request, known: Known) -> None:
        """An ADDJOB was answered with an ID."""
        del process
        verdict = self.verdicts.pop(known.id, "")
        if verdict and not known.ended and not known.plan.asynchronous:
            raise Violation("I11", f"{verdict}; asked: {request.args!r}")

    def died(self, process: Process, what: str) -> None:
        """What was open is nobody's any more."""
        del what
        self.open.pop(process, None)
