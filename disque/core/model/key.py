"""A UNIQUE key, as the node that keeps it knows it: see `dedup.keys`."""

from typing import Final

from mypy_extensions import mypyc_attr

from disque.core.base.timers import IDLE, Timed

#: The states of a key.
TENTATIVE: Final = 0
COMMITTED: Final = 1
SETTLED: Final = 2

#: In the journal, in the place of a job's end, which a key with a window does not have: nobody was told the ID yet.
PENDING: Final = 1


@mypyc_attr(acyclic=True)
class Key(Timed):
    """One key, as this node keeps it.

    ``expires_ms`` is the end of the window in node time, 0 for a key that lives as long as its job, which ends at
    ``life_ms``. ``owner`` is the node that asked for it (``owner_start``: which of its processes), empty when it will
    not come back. ``told`` are the nodes that have answered what this one is asking about the key: None when it asks
    nothing. ``doubts`` are the nodes that may know another ID and must answer before a TENTATIVE one counts as bound;
    None before it was looked whether there are any. ``size`` is what it counts for: one that this node asks for itself
    counts when it is certain. ``copies`` are the nodes that had a copy of the job when it was decided; None but where
    it was made. ``was_stored``: it comes from the store. ``is_pending``: the node that made the job has told nobody of
    it yet, and its journal says so.
    """

    __slots__ = (
        "copies",
        "digest",
        "doubts",
        "expires_ms",
        "is_pending",
        "job_id",
        "life_ms",
        "owner",
        "owner_start",
        "repl",
        "segment",
        "size",
        "state",
        "told",
        "was_stored",
    )

    def __init__(self, digest: bytes, job_id: bytes, expires_ms: int, owner: bytes) -> None:
        self.due_ms = 0
        self.slot = IDLE
        self.digest = digest
        self.job_id = job_id
        self.expires_ms = expires_ms
        self.life_ms = 0
        self.repl = 1
        self.state = TENTATIVE
        self.owner = owner
        self.owner_start = 0
        self.segment = 0
        self.size = 0
        self.told: tuple[bytes, ...] | None = None
        self.doubts: set[bytes] | None = None
        self.copies: tuple[bytes, ...] | None = None
        self.was_stored = False
        self.is_pending = False

    def cost(self) -> int:
        """Bytes of memory that the key counts for."""
        return self.size

    def end_ms(self) -> int:
        """When a key that is not TENTATIVE ends, at the latest."""
        return self.expires_ms or self.life_ms

    def rests(self) -> bool:
        """Whether nothing is asked about it, and it does not go with its job."""
        return self.expires_ms > 0 and self.state != TENTATIVE and self.told is None and not self.is_pending

    def filed_life_ms(self) -> int:
        """What the journal says beside the end of the window."""
        return PENDING if self.is_pending else self.life_ms
