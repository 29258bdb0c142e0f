"""What is known of acknowledgements that others must hear of, and how those of one turn share that.

Jobs that are acknowledged together and have the same holders are a lot. As long as the same nodes have confirmed them
they are at one *stage*: one object for all of them, of which these facts never change; a confirmation moves them on to
another. A lot has one timer while it has jobs. Whatever concerns a single one of them, that time included, takes it out
of the lot: from then on it has an `Ack` of its own, with a timer. So does all that is not collected in two seconds.
"""

from typing import TYPE_CHECKING, Final

from mypy_extensions import i32, mypyc_attr

from disque.core.base.timers import IDLE, Timed
from disque.core.model.memory import ACK_BYTES

if TYPE_CHECKING:
    from disque.core.model.job import Job
    from disque.core.node import Node

#: The first repetition, in ms. A timer two seconds ahead is set and taken back at a third of the cost of a nearer one
#: (see `timers`), and nearly all of these are taken back.
AGAIN_MS: Final = 2000
#: By how much each is later than that, at most, so that not all come at once.
AGAIN_SPREAD_MS: Final = 1000
#: Jobs of one lot.
LOT_MOST: Final = 256
#: As many are worth one.
LOT_LEAST: Final = 3
#: Jobs that one step takes out of a lot when its time has come: the steps of one tick may be for a thousand lots.
SOME: Final = 2


@mypyc_attr(acyclic=True)
class Ack(Timed):
    """An acknowledgement that others must hear of. A dummy has no ``holders``: all nodes are meant."""

    __slots__ = ("confirmed", "expires_ms", "holders", "job_id", "segment", "tries", "unnamed")

    def __init__(
        self, job_id: bytes, holders: tuple[bytes, ...], confirmed: tuple[bytes, ...], expires_ms: int
    ) -> None:
        self.due_ms = 0
        self.slot = IDLE
        self.job_id = job_id
        self.holders = holders
        self.confirmed = confirmed
        self.expires_ms = expires_ms
        self.tries = 0
        #: The part of the journal with the record of a dummy. The others have that of their job.
        self.segment = 0
        #: Holders that another node did not name, which may not know them: its word that all is over leaves them out.
        self.unnamed: tuple[bytes, ...] = ()

    def heard(self, node_id: bytes) -> None:
        """Another node knows."""
        if node_id not in self.confirmed:
            self.confirmed += (node_id,)


@mypyc_attr(acyclic=True)
class AckBatch(Timed):
    """Jobs that were acknowledged together: ``ids``, of which ``left`` have not been collected or taken out."""

    __slots__ = ("ids", "left")

    def __init__(self) -> None:
        self.due_ms = 0
        self.slot = IDLE
        self.left: i32 = 0
        self.ids: list[bytes] = []


@mypyc_attr(acyclic=True)
class AckStage(Ack):
    """What is known of those jobs of a lot that the same nodes have confirmed. It has no timer of its own."""

    __slots__ = ("later", "lot")

    def __init__(self, lot: AckBatch, holders: tuple[bytes, ...], confirmed: tuple[bytes, ...]) -> None:
        super().__init__(b"", holders, confirmed, 0)
        self.lot = lot
        #: The stages that a confirmation leads to, by node.
        self.later: dict[bytes, AckStage] | None = None

    def after(self, node_id: bytes) -> "AckStage":
        """The stage of those that this node confirms."""
        if node_id in self.confirmed:
            return self
        if self.later is None:
            self.later = {}
        stage = self.later.get(node_id)
        if stage is None:
            stage = self.later[node_id] = AckStage(self.lot, self.holders, (*self.confirmed, node_id))
        return stage


class Telling:
    """A lot of acknowledgements of this turn: others can join it until the turn ends.

    ``lists`` are the IDs in its messages; ``linked`` are the nodes that there were, as the list that it is: when it is
    another object, something has changed.
    """

    __slots__ = ("linked", "lists", "stage")

    def __init__(self, node: "Node", holders: tuple[bytes, ...], lists: list[list[bytes]]) -> None:
        self.stage = AckStage(AckBatch(), holders, node.selves)
        self.lists = lists
        self.linked = node.linked

    def takes(self, node: "Node") -> bool:
        """Whether another job with these holders can go with it."""
        return self.linked is node.linked and len(self.stage.lot.ids) < LOT_MOST


def lives(job: "Job", now_ms: int) -> bool:
    """Whether ``job`` can be in a lot: one that expires sooner than its lot ends needs a timer of its own."""
    return job.expires_ms > now_ms + AGAIN_MS + AGAIN_SPREAD_MS


def join(node: "Node", stage: AckStage, job_id: bytes, now_ms: int) -> None:
    """A job comes to the lot of ``stage``."""
    lot = stage.lot
    if not lot.left:
        node.timers.arm(lot, now_ms + AGAIN_MS)
    lot.ids.append(job_id)
    lot.left += 1
    node.acking[job_id] = stage
    node.used += ACK_BYTES


def leave(node: "Node", lot: AckBatch) -> None:
    """One job of this lot is collected, or taken out. A lot without jobs has no timer, until one comes to it."""
    lot.left -= 1
    if not lot.left:
        lot.ids.clear()
        node.timers.disarm(lot)


def alone(node: "Node", job_id: bytes, now_ms: int) -> Ack | None:
    """The acknowledgement of this job alone, if there is one: what happens to it does not concern others."""
    ack = node.acking.get(job_id)
    return take_out(node, ack, job_id, max(now_ms, ack.lot.due_ms)) if isinstance(ack, AckStage) else ack


def take_out(node: "Node", stage: AckStage, job_id: bytes, due_ms: int) -> Ack:
    """Take a job out of its lot; it comes out of the timers at ``due_ms`` or a little later."""
    job = node.find(job_id)
    assert job is not None
    ack = Ack(job_id, stage.holders, stage.confirmed, job.expires_ms)
    node.acking[job_id] = ack
    leave(node, stage.lot)
    node.timers.arm(ack, min(due_ms + int(node.random.random() * AGAIN_SPREAD_MS), job.expires_ms))
    return ack


def due(node: "Node", lot: AckBatch, now_ms: int) -> None:
    """Those that are left are not as usual: some of them go on alone, the others in the next step."""
    ids = lot.ids
    for _ in range(SOME):
        if not ids:
            break  # with the last one that is taken out all go that were collected
        job_id = ids.pop()
        ack = node.acking.get(job_id)
        if isinstance(ack, AckStage) and ack.lot is lot:
            take_out(node, ack, job_id, now_ms)
    if lot.left:
        node.timers.arm(lot, now_ms)
