"""Bare IDs of jobs that were acknowledged or deleted everywhere lately: no copy that is still on its way revives them.

They are forgotten in the order in which they came, those of one beat together, so that each is remembered for as long
as it must be, and hardly longer. Of very many each beat forgets a part, which is more than come in one for long. There
are millions of them when jobs come and go quickly, and each new copy is looked up among them: so they lie in as many
dicts as the jobs (see `jobid`), of which those for the IDs of one moment are in the processor's cache, and none is so
large that its growth is noticed.
"""

from collections import deque
from typing import Final

from disque.core.model.jobid import SHARDS, shard_of

#: What one beat forgets: so many IDs, or this part of them all.
FORGET_LEAST: Final = 2000
FORGET_PART: Final = 64


class Tombstones:
    """A set of IDs that forgets."""

    __slots__ = ("_batch", "_batches", "_count", "_shards")

    def __init__(self) -> None:
        #: With each ID the batch that it came with last.
        self._shards: list[dict[bytes, list[bytes]]] = [{} for _ in range(SHARDS)]
        self._count = 0
        self._batch: list[bytes] = []
        self._batches: deque[tuple[int, list[bytes]]] = deque()

    def __contains__(self, job_id: bytes) -> bool:
        return job_id in self._shards[shard_of(job_id)]

    def __len__(self) -> int:
        return self._count

    def add(self, job_id: bytes) -> bool:
        """Remember ``job_id``, from now on if it is known already; whether it is new."""
        shard = self._shards[shard_of(job_id)]
        batch = self._batch
        before = len(shard)
        if shard.setdefault(job_id, batch) is not batch:
            shard[job_id] = batch
        elif len(shard) == before:
            return False  # it came with this batch already
        batch.append(job_id)
        new = len(shard) > before
        self._count += new
        return new

    def forget(self, now_ms: int, keep_ms: int, most: int) -> int:
        """Forget what came more than ``keep_ms`` before, and the oldest beyond ``most``; how many IDs. Once a beat.

        Some may be left for the next beat.
        """
        if self._batch:
            self._batches.append((now_ms, self._batch))
            self._batch = []
        before = self._count
        batches = self._batches
        left = max(FORGET_LEAST, before // FORGET_PART)
        while left > 0 and batches and (batches[0][0] <= now_ms - keep_ms or self._count > most):
            batch = batches[0][1]
            some = min(left, len(batch))
            for _ in range(some):
                self._drop(batch.pop(), batch)
            left -= some
            if not batch:
                batches.popleft()
        return before - self._count

    def _drop(self, job_id: bytes, batch: list[bytes]) -> None:
        """Forget an ID, unless it has come again since."""
        at = shard_of(job_id)
        shard = self._shards[at]
        if shard.get(job_id) is batch:
            del shard[job_id]
            self._count -= 1
            if not shard:
                self._shards[at] = {}  # one that has grown does not shrink
