"""What happened to the jobs of a queue in the last minutes, hours and days: see `disque.core.jobs.history`.

Nothing is written down when a job comes or goes. Once a minute, what the counters of a queue have grown by is added to
a row of each length of time. Times without traffic have no row.
"""

from struct import Struct
from typing import TYPE_CHECKING, Final

from disque.core.model.memory import HISTORY_BYTES
from disque.core.model.part import Part

if TYPE_CHECKING:
    from disque.core.model.figures import Figures

#: What is counted, in this order for ever: in rows, in the journal, in answers.
NAMES: Final = (b"added", b"delivered", b"acked", b"nacked", b"died")
Counts = tuple[int, int, int, int, int]
NO_COUNTS: Final[Counts] = (0, 0, 0, 0, 0)
#: A count in a row is never more.
COUNT_MOST: Final = 10**18 - 1

#: A row: which minute, hour or day since 1970, and what happened in it.
ROW: Final = Struct("<I5Q")
ROW_BYTES: Final = 44
SLOT_MOST: Final = (1 << 32) - 1
Row = tuple[int, int, int, int, int, int]

MINUTE_MS: Final = 60_000
#: Minutes in the unit, and how many of it are kept.
MINUTES: Final = (1, 60)
HOURS: Final = (60, 168)
DAYS: Final = (1440, 90)
#: A queue that had no traffic for so many minutes makes room for another one.
QUIET_MINUTES: Final = 60


class Rows:
    """The rows of one unit, the oldest first, as bytes. ``kept`` is how many units back they go."""

    __slots__ = ("data", "kept")

    def __init__(self, kept: int) -> None:
        self.data = bytearray()
        self.kept = kept

    def last(self) -> Row | None:
        """The newest one."""
        return self.at(len(self.data) - ROW_BYTES) if self.data else None

    def at(self, offset: int) -> Row:
        """The one that begins there."""
        row: Row = ROW.unpack_from(self.data, offset)
        return row

    def all(self) -> list[Row]:
        """All of them."""
        return [self.at(offset) for offset in range(0, len(self.data), ROW_BYTES)]

    def add(self, slot: int, counts: Counts) -> None:
        """Something happened then. Times before the newest row count for that: a clock was put back."""
        last = self.last()
        if last is not None and last[0] >= slot:
            sums = [min(had + more, COUNT_MOST) for had, more in zip(last[1:], counts, strict=True)]
            ROW.pack_into(self.data, len(self.data) - ROW_BYTES, last[0], *sums)
        else:
            self.data += ROW.pack(slot, *[min(count, COUNT_MOST) for count in counts])
            self.prune(slot)

    def put(self, row: Row) -> None:
        """Take a row as it is, instead of those from its time on."""
        last = self.last()
        while last is not None and last[0] >= row[0]:
            del self.data[-ROW_BYTES:]
            last = self.last()
        self.data += ROW.pack(*row)
        self.prune(row[0])

    def prune(self, slot: int) -> None:
        """Forget what is too old now."""
        while self.data and self.at(0)[0] + self.kept <= slot:
            del self.data[:ROW_BYTES]


def rows_in(data: bytes, kept: int) -> list[Row] | None:
    """The rows in these bytes; None if no node makes them."""
    if len(data) % ROW_BYTES or len(data) > kept * ROW_BYTES:
        return None
    rows: list[Row] = [ROW.unpack_from(data, offset) for offset in range(0, len(data), ROW_BYTES)]
    before = -1
    for row in rows:
        if row[0] <= before or max(row[1:]) > COUNT_MOST:
            return None
        before = row[0]
    return rows if not rows or rows[0][0] + kept > rows[-1][0] else None


class History:
    """That of one queue.

    ``figures`` are its counters, as long as there may be jobs of it. ``minute`` is the last one with traffic.
    ``segment`` is that of the last record with all of its rows, ``is_new`` that the newest ones are in no record.
    """

    __slots__ = ("figures", "is_new", "minute", "name", "rows", "segment")

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.figures: Figures | None = None
        self.minute = 0
        self.segment = 0
        self.is_new = False
        #: Of minutes, hours and days.
        self.rows = (Rows(MINUTES[1]), Rows(HOURS[1]), Rows(DAYS[1]))

    def size(self) -> int:
        """Bytes of memory that it counts for."""
        minutes, hours, days = self.rows
        return HISTORY_BYTES + len(self.name) + len(minutes.data) + len(hours.data) + len(days.data)

    def add(self, minute: int, counts: Counts) -> None:
        """So much happened in this minute."""
        minutes, hours, days = self.rows
        minutes.add(minute, counts)
        hours.add(minute // HOURS[0], counts)
        days.add(minute // DAYS[0], counts)
        self.minute = max(self.minute, minute)
        self.is_new = True

    def prune(self, minute: int) -> None:
        """Forget what is too old now."""
        minutes, hours, days = self.rows
        minutes.prune(minute)
        hours.prune(minute // HOURS[0])
        days.prune(minute // DAYS[0])


class Histories(Part):
    """Those of all queues, that with the oldest traffic first.

    ``minute`` is the one whose end the next walk waits for, -1 before the first. ``running``: a walk is under way.
    """

    __slots__ = ("by_queue", "minute", "running")

    def __init__(self) -> None:
        self.by_queue: dict[bytes, History] = {}
        self.minute = -1
        self.running = False

    def clear(self) -> None:
        """Everything is forgotten, and no walk is under way any more."""
        self.by_queue = {}
        self.running = False

    def cost(self) -> int:
        """Bytes of memory that they count for."""
        return sum([history.size() for history in self.by_queue.values()])
