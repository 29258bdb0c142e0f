"""Who has copies of jobs that are not known here yet: HAVE may overtake the copy itself, which comes from another node.

Each link keeps its order, but two links do not. A node that forgot what came too early would not know whom to ask
before it queues the job.
"""

from itertools import islice
from typing import Final

#: IDs that are remembered at most; beyond, some of the oldest are dropped.
EARLY_MOST = 10_000  # not Final: tests want less, compiled too
NOBODY: Final[tuple[bytes, ...]] = ()


class EarlyHolders:
    """By job ID the nodes that said so, in the order in which they were heard first."""

    __slots__ = ("_heard",)

    def __init__(self) -> None:
        self._heard: dict[bytes, tuple[int, tuple[bytes, ...]]] = {}

    def __len__(self) -> int:
        return len(self._heard)

    def note(self, job_id: bytes, peer: bytes, now_ms: int) -> None:
        """``peer`` has a copy of a job that is not known here."""
        first_ms, holders = self._heard.get(job_id, (now_ms, NOBODY))
        if not holders and len(self._heard) >= EARLY_MOST:
            self._drop(list(islice(self._heard, EARLY_MOST // 16 + 1)))
        self._heard[job_id] = (first_ms, holders if peer in holders else (*holders, peer))

    def take(self, job_id: bytes) -> tuple[bytes, ...]:
        """The nodes that were heard of; the job is known from now on."""
        found = self._heard.pop(job_id, None)
        return NOBODY if found is None else found[1]

    def forget(self, before_ms: int) -> None:
        """Forget what was heard before this time."""
        old: list[bytes] = []
        for job_id, (first_ms, _) in self._heard.items():
            if first_ms >= before_ms:
                break
            old.append(job_id)
        self._drop(old)

    def _drop(self, ids: list[bytes]) -> None:
        # Some at once: each look at the first entry of a dict goes over all that were deleted before it.
        for job_id in ids:
            del self._heard[job_id]
