"""What users tried and might not: the entries of ACL LOG, the newest first."""

from typing import Final

#: An attempt like one before is counted there, for so long, in ms.
SAME_MS: Final = 60_000
#: Bytes of a name that are kept.
SHOWN_MOST: Final = 256


class LogEntry:
    """One kind of attempt: why it was refused, what was asked for, by whom, how often, and by which client last."""

    __slots__ = ("client", "count", "first_ms", "object", "reason", "user")

    def __init__(self, reason: bytes, what: bytes, user: bytes, client: bytes, now_ms: int) -> None:
        self.reason = reason
        self.object = what
        self.user = user
        self.client = client
        self.count = 1
        self.first_ms = now_ms


class AclLog:
    """The newest attempts, at most ``most``."""

    __slots__ = ("entries", "most")

    def __init__(self) -> None:
        self.entries: list[LogEntry] = []
        self.most = 0

    def add(self, reason: bytes, what: bytes, user: bytes, client: bytes, now_ms: int) -> None:
        """Note one attempt. One that is like a recent one is counted with it."""
        what, user = what[:SHOWN_MOST], user[:SHOWN_MOST]
        for at, entry in enumerate(self.entries):
            same = entry.reason == reason and entry.object == what and entry.user == user
            if same and now_ms - entry.first_ms <= SAME_MS:
                entry.count += 1
                entry.first_ms = now_ms
                entry.client = client
                self.entries.insert(0, self.entries.pop(at))
                return
        self.entries.insert(0, LogEntry(reason, what, user, client, now_ms))
        self.trim()

    def trim(self) -> None:
        """Forget the oldest beyond the bound."""
        del self.entries[self.most :]
