"""What queues say where ADDJOB says nothing: options set for one queue, or for all whose names begin alike."""

from typing import Final

from disque.core.model.index import Index
from disque.core.model.spec import Rows

#: Queues whose options are remembered once they were looked up.
RESOLVED_MOST: Final = 10_000

#: The option that says what becomes of a queue that is too long, and the word for: its oldest jobs are dropped.
OVERFLOW: Final = b"overflow"
DROP_OLDEST: Final = b"drop-oldest"

#: Words of options by their names.
Words = dict[bytes, bytes]


class QueueDefaults:
    """The options of one queue as values; -1 is a number that nobody has set.

    ``words`` are the options as they were written, and ``sources`` the names, or beginnings with a star, for which.
    """

    __slots__ = ("dead_ttl", "drops", "maxlen", "replicate", "retry", "rows", "sources", "ttl", "words")

    def __init__(self) -> None:
        self.ttl = -1
        self.retry = -1
        self.replicate = -1
        self.maxlen = -1
        self.dead_ttl = -1
        #: A queue that is longer than ``maxlen`` loses its oldest jobs. Else it takes no more.
        self.drops = False
        #: Options of the job's spec beside TTL, RETRY and REPLICATE.
        self.rows: Rows = {}
        self.words: Words = {}
        self.sources: Words = {}


class Defaults:
    """The options of all queues, by name; a name that ends in a star stands for all that begin so.

    ``index`` are the names by number, for QCONFIG LIST. ``lengths`` are those of the beginnings, the longest first.
    ``resolved`` are queues that were looked up. ``dropping`` is for how many names it is said that jobs are dropped.
    """

    __slots__ = ("_counts", "_numbers", "by_name", "dropping", "index", "lengths", "resolved")

    def __init__(self) -> None:
        self.by_name: dict[bytes, Words] = {}
        self.index: Index[bytes] = Index()
        self.lengths: list[int] = []
        self.dropping = 0
        self.resolved: dict[bytes, QueueDefaults | None] = {}
        self._numbers: dict[bytes, int] = {}
        #: How many names end in a star, by the length of what stands before it.
        self._counts: dict[int, int] = {}

    def set(self, name: bytes, option: bytes, word: bytes) -> None:
        """An option counts for this name."""
        words = self.by_name.get(name)
        if words is None:
            words = self.by_name[name] = {}
            self._numbers[name] = self.index.add(name)
            self._count(name, 1)
        self.dropping += drops(option, word) - drops(option, words.get(option, b""))
        words[option] = word
        self.resolved.clear()

    def unset(self, name: bytes, option: bytes) -> None:
        """It does not, or not any more."""
        words = self.by_name.get(name)
        if words is None or option not in words:
            return
        self.dropping -= drops(option, words.pop(option))
        if not words:
            del self.by_name[name]
            self.index.drop(self._numbers.pop(name))
            self._count(name, -1)
        self.resolved.clear()

    def _count(self, name: bytes, more: int) -> None:
        if not name.endswith(b"*"):
            return
        length = len(name) - 1
        count = self._counts[length] = self._counts.get(length, 0) + more
        if not count:
            del self._counts[length]
        if len(self._counts) != len(self.lengths):
            self.lengths = sorted(self._counts, reverse=True)

    def layers(self, name: bytes) -> list[tuple[bytes, Words]]:
        """What was set for this queue, with the names for which it was: of each option the first one counts."""
        names = [name, *[name[:length] + b"*" for length in self.lengths if length <= len(name)]]
        return [(one, self.by_name[one]) for one in names if one in self.by_name]

    def remember(self, name: bytes, found: QueueDefaults | None) -> None:
        """Keep what was looked up."""
        if len(self.resolved) >= RESOLVED_MOST:
            self.resolved.clear()
        self.resolved[name] = found


def drops(option: bytes, word: bytes) -> int:
    """1 where jobs are dropped, else 0."""
    return int(option == OVERFLOW and word.lower() == DROP_OLDEST)
