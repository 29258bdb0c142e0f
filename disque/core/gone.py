"""Bare IDs of jobs that were acknowledged or deleted everywhere lately: no copy that is still on its way revives them.

Two generations, so that forgetting costs nothing: `age` makes the young ones old and forgets the old ones.
"""


class Gone:
    """A set of IDs. ``aged_ms`` is when the generations last changed."""

    __slots__ = ("_old", "_young", "aged_ms")

    def __init__(self, now_ms: int) -> None:
        self.aged_ms = now_ms
        self._young: set[bytes] = set()
        self._old: set[bytes] = set()

    def __contains__(self, job_id: bytes) -> bool:
        return job_id in self._young or job_id in self._old

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    @property
    def young(self) -> int:
        """How many came since the last change."""
        return len(self._young)

    def add(self, job_id: bytes) -> bool:
        """Remember ``job_id``; False when it is young already. An old one is young again."""
        if job_id in self._young:
            return False
        self._young.add(job_id)
        return True

    def age(self, now_ms: int) -> set[bytes]:
        """Begin a new generation; the oldest is handed out, to be freed by and by."""
        oldest, self._old, self._young = self._old, self._young, set()
        self.aged_ms = now_ms
        return oldest
