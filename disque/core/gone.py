"""Bare IDs of jobs that were acknowledged or deleted everywhere lately: no copy that is still on its way revives them.

They are forgotten in the order in which they came, all of one beat together, so that each is remembered for as long as
it must be, and hardly longer.
"""

from collections import deque


class Gone:
    """A set of IDs that forgets."""

    __slots__ = ("_batch", "_batches", "_ids", "_number")

    def __init__(self) -> None:
        #: With each ID the number of the batch that it came with last.
        self._ids: dict[bytes, int] = {}
        self._number = 0
        self._batch: list[bytes] = []
        self._batches: deque[tuple[int, int, list[bytes]]] = deque()

    def __contains__(self, job_id: bytes) -> bool:
        return job_id in self._ids

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, job_id: bytes) -> bool:
        """Remember ``job_id``, from now on if it is known already; whether it is new."""
        known = self._ids.get(job_id)
        if known == self._number:
            return False
        self._ids[job_id] = self._number
        self._batch.append(job_id)
        return known is None

    def forget(self, now_ms: int, keep_ms: int, most: int) -> int:
        """Forget what came more than ``keep_ms`` before, and the oldest beyond ``most``; how many IDs. Once a beat."""
        if self._batch:
            self._batches.append((now_ms, self._number, self._batch))
            self._batch = []
            self._number += 1
        before = len(self._ids)
        while self._batches and (self._batches[0][0] <= now_ms - keep_ms or len(self._ids) > most):
            _, number, batch = self._batches.popleft()
            for job_id in batch:
                if self._ids.get(job_id) == number:
                    del self._ids[job_id]
        return before - len(self._ids)
