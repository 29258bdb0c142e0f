"""What queues say where ADDJOB says nothing: options set for one queue, or for all whose names begin alike."""

from typing import Final

from disque.core.model.spec import Rows

#: Queues whose options are remembered once they were looked up.
RESOLVED_MOST: Final = 10_000

#: Words of options by their names.
Words = dict[bytes, bytes]


class QueueDefaults:
    """The options of one queue as values; -1 is a number that nobody has set.

    ``words`` are the options as they were written, and ``sources`` the names, or beginnings with a star, for which.
    """

    __slots__ = ("dead_ttl", "maxlen", "replicate", "retry", "rows", "sources", "ttl", "words")

    def __init__(self) -> None:
        self.ttl = -1
        self.retry = -1
        self.replicate = -1
        self.maxlen = -1
        self.dead_ttl = -1
        #: Options of the job's spec beside TTL, RETRY and REPLICATE.
        self.rows: Rows = {}
        self.words: Words = {}
        self.sources: Words = {}


class Defaults:
    """The options of all queues. ``by_name`` is what was set for one queue, ``by_prefix`` for names that begin so.

    ``lengths`` are those of the beginnings, the longest first. ``resolved`` are queues that were looked up.
    """

    __slots__ = ("by_name", "by_prefix", "is_empty", "lengths", "resolved")

    def __init__(self, by_name: dict[bytes, Words], by_prefix: dict[bytes, Words]) -> None:
        self.by_name = by_name
        self.by_prefix = by_prefix
        self.is_empty = not by_name and not by_prefix
        self.lengths = sorted({len(prefix) for prefix in by_prefix}, reverse=True)
        self.resolved: dict[bytes, QueueDefaults | None] = {}

    def layers(self, name: bytes) -> list[tuple[bytes, Words]]:
        """What was set for this queue, with the names for which it was: of each option the first one counts."""
        found: list[tuple[bytes, Words]] = []
        if name in self.by_name:
            found.append((name, self.by_name[name]))
        for length in self.lengths:
            prefix = name[:length]
            if len(prefix) == length and prefix in self.by_prefix:
                found.append((prefix + b"*", self.by_prefix[prefix]))
        return found

    def remember(self, name: bytes, found: QueueDefaults | None) -> None:
        """Keep what was looked up."""
        if len(self.resolved) >= RESOLVED_MOST:
            self.resolved.clear()
        self.resolved[name] = found
