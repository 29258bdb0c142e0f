"""What is known of acknowledgements that others must hear of, and how those of one turn share that.

Jobs that are acknowledged together and have the same holders are a batch. As long as the same nodes have confirmed
them, they are at one *stage*: one object for all of them, of which these facts never change; a confirmation moves them
on to another. A batch has one timer while it has jobs. Whatever concerns one of them alone, that time included, takes
it out of the batch: from then on it has an `Ack` of its own, with a timer. So does all that is not collected in two
seconds.
"""

from typing import TYPE_CHECKING, Final

from mypy_extensions import i32, mypyc_attr

from disque.core.base.timers import IDLE, Timed, Timers

if TYPE_CHECKING:
    from disque.core.model.peers import Peer

#: The first repetition, in ms. A timer two seconds ahead is set and taken back at a third of the cost of a nearer one
#: (see `timers`), and nearly all of these are taken back.
AGAIN_MS: Final = 2000
#: By how much each is later than that, at most, so that not all come at once.
AGAIN_SPREAD_MS: Final = 1000
#: Jobs of one batch.
BATCH_MOST: Final = 256
#: As many are worth one.
BATCH_LEAST: Final = 3


@mypyc_attr(acyclic=True)
class Ack(Timed):
    """An acknowledgement that others must hear of. A dummy has no ``holders``: all nodes are meant."""

    __slots__ = ("confirmed", "expires_ms", "holders", "is_lost", "job_id", "segment", "tries", "unnamed")

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
        #: Holders that some node did not name, which may not know them: the word that all is over leaves them out.
        self.unnamed: tuple[bytes, ...] = ()
        #: A holder does not know the job: others may have got it from that one, and nobody here knows of them.
        self.is_lost = False

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

    def leave(self, timers: Timers) -> None:
        """One job is collected, or taken out. A batch without jobs has no timer, until one comes to it."""
        self.left -= 1
        if not self.left:
            self.ids.clear()
            timers.disarm(self)


@mypyc_attr(acyclic=True)
class AckStage(Ack):
    """What is known of those jobs of a batch that the same nodes have confirmed. It has no timer of its own."""

    __slots__ = ("batch", "later")

    def __init__(self, batch: AckBatch, holders: tuple[bytes, ...], confirmed: tuple[bytes, ...]) -> None:
        super().__init__(b"", holders, confirmed, 0)
        self.batch = batch
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
            stage = self.later[node_id] = AckStage(self.batch, self.holders, (*self.confirmed, node_id))
        return stage


class Telling:
    """A batch of acknowledgements of this turn: others can join it until the turn ends.

    ``lists`` are the IDs in its messages; ``linked`` are the nodes that there were, as the list that it is: when it is
    another object, something has changed.
    """

    __slots__ = ("linked", "lists", "stage")

    def __init__(self, stage: AckStage, lists: list[list[bytes]], linked: "list[Peer]") -> None:
        self.stage = stage
        self.lists = lists
        self.linked = linked

    def takes(self, linked: "list[Peer]") -> bool:
        """Whether another job with these holders can go with it."""
        return self.linked is linked and len(self.stage.batch.ids) < BATCH_MOST
