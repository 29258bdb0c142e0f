"""The commands that took longest: the log behind SLOWLOG.

The log remembers the last `max_len` commands that took at least `slowlog-log-slower-than` microseconds; whoever runs
the commands compares, so that a fast command costs one comparison and nothing here. The words come in as
`shown.visible` gives them: a log that keeps the arguments of a client must not keep its megabytes or its passwords.
"""

from collections import deque
from collections.abc import Sequence
from itertools import islice


class SlowEntry:
    """One slow command: its number, when it ran (seconds since 1970), how long (microseconds), and its words, cut."""

    __slots__ = ("args", "duration_us", "id", "time_s")

    def __init__(self, entry_id: int, time_s: int, duration_us: int, args: list[bytes]) -> None:
        self.id = entry_id
        self.time_s = time_s
        self.duration_us = duration_us
        self.args = args


class SlowLog:
    """The last slow commands. Numbers go on over `reset()`, so that a reader sees that something was dropped."""

    __slots__ = ("_entries", "_max_len", "_next_id")

    def __init__(self, max_len: int = 128) -> None:
        self._entries: deque[SlowEntry] = deque()  # newest first
        self._max_len = max_len
        self._next_id = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def max_len(self) -> int:
        """How many commands are kept (slowlog-max-len). A smaller number drops the oldest at once."""
        return self._max_len

    @max_len.setter
    def max_len(self, max_len: int) -> None:
        self._max_len = max_len
        self._trim()

    def add(self, time_s: int, duration_us: int, args: Sequence[bytes]) -> None:
        """Remember a command that ran at `time_s` (seconds since 1970) for `duration_us` microseconds."""
        self._entries.appendleft(SlowEntry(self._next_id, time_s, duration_us, list(args)))
        self._next_id += 1
        self._trim()

    def get(self, count: int) -> list[SlowEntry]:
        """Give the newest `count` entries, newest first; all of them if `count` is negative."""
        return list(self._entries if count < 0 else islice(self._entries, count))

    def reset(self) -> None:
        """Forget all entries."""
        self._entries.clear()

    def _trim(self) -> None:
        while len(self._entries) > self._max_len:
            self._entries.pop()
