"""What a streaming query stores in its checkpoint: the jobs of its last batch.

An offset is the number of a batch with the IDs of its jobs. 0 is the beginning. Spark writes it down before the batch
is processed, so after a restart the same batch can be made again, from the IDs. IDs that differ only in their 24 random
characters are stored together: {"D-b74f6fa1-": {"-05a1": "2OszQKFx7ZBCnO8eLUAZ4dWdDzE..."}}.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from disque.spark.doors import PlainError

SOURCE: Final = "disque"
VERSION: Final = 1
#: Where the random characters of an ID are.
RANDOM: Final = slice(11, 35)
RANDOM_LENGTH: Final = RANDOM.stop - RANDOM.start

Packed = dict[str, dict[str, str]]


class OffsetError(PlainError, ValueError):
    """An offset that is not of this source, or not of this queue."""


class Offset(NamedTuple):
    """The end of a batch."""

    queue: str
    number: int
    ids: list[str]

    def next(self, ids: list[str]) -> "Offset":
        """The end of the batch that follows and has these jobs, in the order in which a checkpoint gives them back."""
        return Offset(self.queue, self.number + 1, unpack(pack(ids)))

    def as_json(self) -> dict[str, Any]:
        """The offset as Spark keeps it."""
        words = {"source": SOURCE, "version": VERSION, "queue": self.queue, "batch": self.number}
        return {**words, "jobs": pack(self.ids)}


def first(queue: str) -> Offset:
    """Where a new query begins."""
    return Offset(queue, 0, [])


def read(json: Mapping[str, Any], queue: str) -> Offset:
    """The offset that a checkpoint has. Raises OffsetError that says whose it is."""
    if json.get("source") != SOURCE:
        raise OffsetError(
            "the checkpoint belongs to a query with another source: give this one a checkpointLocation of its own"
        )
    if json.get("version") != VERSION:
        raise OffsetError(f"the checkpoint is of version {json.get('version')}, this source reads version {VERSION}")
    if json.get("queue") != queue:
        raise OffsetError(
            f"the checkpoint belongs to a query of the queue {json.get('queue')!r}, not of {queue!r}: "
            "give this one a checkpointLocation of its own"
        )
    try:
        return Offset(queue, int(json["batch"]), unpack(json["jobs"]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise OffsetError(f"the checkpoint is damaged: {type(error).__name__}: {error}") from None


def pack(ids: Iterable[str]) -> Packed:
    """IDs in short."""
    packed: dict[str, dict[str, list[str]]] = {}
    for one in ids:
        packed.setdefault(one[: RANDOM.start], {}).setdefault(one[RANDOM.stop :], []).append(one[RANDOM])
    return {head: {tail: "".join(middles) for tail, middles in tails.items()} for head, tails in packed.items()}


def unpack(packed: Packed) -> list[str]:
    """The IDs again, those of one kind together."""
    return [
        f"{head}{middles[at : at + RANDOM_LENGTH]}{tail}"
        for head, tails in packed.items()
        for tail, middles in tails.items()
        for at in range(0, len(middles), RANDOM_LENGTH)
    ]
