"""Acknowledgements that other nodes must still hear of."""

from collections import OrderedDict, deque
from typing import TYPE_CHECKING

from disque.core.model.ack_batch import Ack, AckStage, Telling
from disque.core.model.job import ACKED
from disque.core.model.memory import ACK_BYTES
from disque.core.model.part import Part

if TYPE_CHECKING:
    from disque.core.base.timers import Timers
    from disque.core.model.job import Job


class Acks(Part):
    """Those of a node, by the ID of the job. See `acks` of replication.

    ``dummies`` are those of unknown jobs, oldest first; ``oldest`` see `eviction`; ``telling`` are those of this turn,
    see `ack_batches`. ``live`` counts records by segment. Jobs with a ctime up to ``doubted`` may have gone to other
    nodes as well, in records that were lost with the end of the journal.
    """

    __slots__ = ("by_id", "doubted", "dummies", "live", "oldest", "telling", "timers")

    def __init__(self, timers: "Timers", live: dict[int, int]) -> None:
        self.timers = timers
        self.live = live
        self.by_id: dict[bytes, Ack] = {}
        self.doubted = 0
        self.oldest: deque[bytes] = deque()
        self.dummies: OrderedDict[bytes, None] = OrderedDict()
        self.telling: dict[tuple[bytes, ...], Telling | None] = {}

    def drop_job(self, job: "Job") -> int:
        """A job that was acknowledged is gone: nobody must hear of it any more."""
        return self.drop(job.id) if job.state == ACKED else 0

    def drop(self, job_id: bytes) -> int:
        """Nobody must hear of this acknowledgement any more. Returns the bytes that this frees."""
        ack = self.by_id.pop(job_id, None)
        if ack is None:
            return 0
        if isinstance(ack, AckStage):
            ack.batch.leave(self.timers)  # it is no dummy
            return ACK_BYTES
        self.dummies.pop(job_id, None)
        self.timers.disarm(ack)
        if ack.segment:
            self.live[ack.segment] -= 1
        return ACK_BYTES

    def clear(self) -> None:
        """Nothing is told any more."""
        self.by_id.clear()
        self.dummies.clear()
        self.oldest.clear()
        self.telling.clear()

    def cost(self) -> int:
        """Bytes of memory that they count for."""
        return ACK_BYTES * len(self.by_id)
