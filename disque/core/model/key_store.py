"""The UNIQUE keys with a window about which nothing is asked: rows of bytes, without an object each.

There may be millions of them, long after their jobs are done. As objects they would cost three times the bytes, and
whatever the jobs around them leave behind could not be given back to the system. So a key is a row of fixed length at
the end of one of many arrays, chosen by its digest; beside each array stands one byte a row, so that a row is found
without reading the others. The last row takes the place of one that goes. An array is moved when it grows, which takes
microseconds since it holds some hundred rows: nothing grows that is large.

Windows end by themselves, so the digests lie once more in an array for each second in which some end. Once that second
is over its rows are taken out, some at a time, without a timer for each. A digest whose key has gone earlier stays
there until its second: it is looked up then and not found, or not over yet.
"""

from heapq import heappop, heappush
from struct import Struct
from typing import TYPE_CHECKING, Final

from disque.core.base.timers import IDLE, NEVER, Timed

if TYPE_CHECKING:
    from collections.abc import Iterator

    #: A key: ID of its job, end of its window in ms, newest segment, keepers, state.
    Row = tuple[bytes, int, int, int, int]

#: Bytes of the digest that stands for a key.
DIGEST_BYTES: Final = 15
#: What a row can hold: the most nodes that keep one key.
REPL_MAX: Final = 65535
#: The rows are spread over this many arrays, by the first bits of the digest.
SHARDS: Final = 4096
#: A row: the digest, the ID from its third byte on, the numbers of a `Row`.
_PARTS: Final = Struct("<38sQIHB")
_NUMBERS: Final = Struct("<QIHB")
_SEGMENT: Final = Struct("<I")
_SIZE: Final = DIGEST_BYTES + _PARTS.size
_AT_SEGMENT: Final = _SIZE - 7
#: Room for so many marks at first, so that they do not lie among small objects: those come and go with jobs.
_MARKS: Final = 600
#: Where an array will be: never changed.
_NO_ROWS: Final = bytearray()


class KeyStore(Timed):
    """The keys by digest. ``count`` says how many there are; as a timer it is due when `expire` has something to do."""

    __slots__ = ("_ends", "_last_ends", "_last_numbers", "_last_row", "_last_second", "_marks", "_rows", "_seconds",
                 "count")  # fmt: skip

    def __init__(self) -> None:
        self.due_ms = 0
        self.slot = IDLE
        self.count = 0
        self._marks = [_NO_ROWS] * SHARDS
        self._rows = [_NO_ROWS] * SHARDS
        self._ends: dict[int, bytearray] = {}
        self._seconds: list[int] = []
        #: Keys come in turns: what ends in the same second as the last one, and the numbers of the last one as bytes.
        self._last_second = -1
        self._last_ends = _NO_ROWS
        self._last_row = (-1, 0, 0, 0)
        self._last_numbers = b""

    def get(self, digest: bytes) -> "Row | None":
        """The key with this digest."""
        shard = digest[0] << 4 | digest[1] >> 4
        at = self._find(shard, digest)
        if at < 0:
            return None
        job_id, expires_ms, segment, repl, state = _PARTS.unpack_from(self._rows[shard], at + DIGEST_BYTES)
        return b"D-" + job_id, expires_ms, segment, repl, state

    def put(self, digest: bytes, row: "Row", *, is_listed: bool) -> bool:
        """Take in a key that is not there. ``is_listed``: it was here before, with the same window.

        Whether it is the first whose window ends in its second: `next_ms` may be another then.
        """
        job_id, expires_ms, segment, repl, state = row
        shard = digest[0] << 4 | digest[1] >> 4
        rows = self._rows[shard]
        if rows is _NO_ROWS:
            rows = self._rows[shard] = bytearray()
            self._marks[shard] = bytearray(_MARKS)
        marks = self._marks[shard]
        number = len(rows) // _SIZE
        if number == len(marks):
            marks += bytes(number // 2)
        marks[number] = digest[14]
        last = self._last_row
        if last[0] != expires_ms or last[1] != segment or last[2] != repl or last[3] != state:
            self._last_row = (expires_ms, segment, repl, state)
            self._last_numbers = _NUMBERS.pack(expires_ms, segment, repl, state)
        rows += digest + job_id[2:] + self._last_numbers
        self.count += 1
        second = expires_ms // 1000
        ends = self._last_ends
        is_first = False
        if second != self._last_second:
            found = self._ends.get(second)
            if found is None:
                found = self._ends[second] = bytearray()
                heappush(self._seconds, second)
                is_first = True
            ends = self._last_ends = found
            self._last_second = second
        if is_first or not is_listed:
            ends += digest
        return is_first

    def drop(self, digest: bytes) -> None:
        """Take out a key, if it is there."""
        shard = digest[0] << 4 | digest[1] >> 4
        at = self._find(shard, digest)
        if at >= 0:
            self._take(shard, at)

    def lies_in(self, digest: bytes, segment: int) -> None:
        """The newest record of a key is in this segment now."""
        shard = digest[0] << 4 | digest[1] >> 4
        at = self._find(shard, digest)
        if at >= 0:
            _SEGMENT.pack_into(self._rows[shard], at + _AT_SEGMENT, segment)

    def forget_segments(self) -> None:
        """There is no journal any more."""
        for rows in self._rows:
            for at in range(_AT_SEGMENT, len(rows), _SIZE):
                _SEGMENT.pack_into(rows, at, 0)

    def next_ms(self) -> int:
        """When a second is over in which windows end; NEVER when there is none."""
        return self._seconds[0] * 1000 + 1000 if self._seconds else NEVER

    def expire(self, now_ms: int, most: int) -> list[int]:
        """Take out keys whose second is over, after a look at ``most`` of them: the segments of their records."""
        out: list[int] = []
        while most > 0 and self.next_ms() <= now_ms:
            ends = self._ends[self._seconds[0]]
            some = ends[-most * DIGEST_BYTES :]
            del ends[-most * DIGEST_BYTES :]
            if not ends:
                del self._ends[heappop(self._seconds)]
                self._last_second = -1
            most -= len(some) // DIGEST_BYTES
            for start in range(0, len(some), DIGEST_BYTES):
                digest = bytes(some[start : start + DIGEST_BYTES])
                row = self.get(digest)
                if row is not None and row[1] <= now_ms:
                    self.drop(digest)
                    out.append(row[2])
        return out

    def digests(self, shard: int, upto: int = NEVER) -> list[bytes]:
        """The keys of one array whose newest record is in segment ``upto`` or before."""
        rows = bytes(self._rows[shard])
        found = []
        for at in range(0, len(rows), _SIZE):
            (segment,) = _SEGMENT.unpack_from(rows, at + _AT_SEGMENT)
            if segment <= upto:
                found.append(rows[at : at + DIGEST_BYTES])
        return found

    def __iter__(self) -> "Iterator[bytes]":
        """All digests. For tests and what is rare: to look at a million at once stops everybody."""
        for shard, rows in enumerate(self._rows if self.count else ()):
            if rows:
                yield from self.digests(shard)

    def _find(self, shard: int, digest: bytes) -> int:
        """Where the row is, or -1."""
        rows = self._rows[shard]
        if not rows:
            return -1
        marks = self._marks[shard]
        mark = digest[14]
        count = len(rows) // _SIZE
        number = marks.find(mark, 0, count)
        while number >= 0:
            at = number * _SIZE
            if rows.startswith(digest, at):
                return at
            number = marks.find(mark, number + 1, count)
        return -1

    def _take(self, shard: int, at: int) -> None:
        """Take out the row at ``at``: the last one takes its place."""
        rows, marks = self._rows[shard], self._marks[shard]
        rows[at : at + _SIZE] = rows[-_SIZE:]
        del rows[-_SIZE:]
        marks[at // _SIZE] = marks[len(rows) // _SIZE]
        self.count -= 1
        if not rows:
            self._rows[shard] = self._marks[shard] = _NO_ROWS
