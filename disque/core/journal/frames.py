"""How journal records become bytes that can be believed, or not, when they are read again.

A segment file is a head and a row of frames. The head names the format, the segment's number, a random salt, how long
the segment before it was and a part of its salt, and which segment was the oldest when it was made. A frame is a header
and a payload:

    magic       4 bytes, so that a search finds the next frame behind damage
    header CRC  over the rest of the header: a length is believed, and memory spent on it, only after this
    length      of the payload; 0 is invalid, so a tail of zeros is no frame
    payload CRC
    salt        the segment's, so that a job body that looks like a frame is not taken for one
    kind        RECORDS, MARK or RETIRED
    offset      where the frame belongs in its segment: bytes that were inserted, removed or repeated are noticed
    synced      (segment, offset): all before it was known to be fsynced when this frame was written

Both CRCs start from a seed that is never zero and differs by segment, so a frame counts in its own segment only.

The synced position is what tells a torn tail from damage: damage at a position that a frame behind it
calls synced was promised once and must not be cut away in silence. Positions are global, (segment, offset), because a
segment is followed by the next one without waiting for its fsync.
"""

from struct import Struct
from typing import Final
from zlib import crc32

RECORDS: Final = 1
MARK: Final = 2
RETIRED: Final = 3

MAGIC: Final = b"\xf5jFr"
FILE_MAGIC: Final = b"\x89DQjnl\n"
VERSION: Final = 2  # the one before was never released, and is not read any more
#: What to do with what an older version wrote.
WAY_OUT: Final = "start that one, let consumers empty its queues, and give this one an empty directory"

MAX_PAYLOAD: Final = 1 << 30
MARK_PAYLOAD: Final = b"\xc0"
UNKNOWN_SALT: Final = -1
UNLINKED: Final = -1

SEED: Final = 0x9D15C0DE  # above any segment number that a file name of eight digits can hold
_SEARCH_KEEP: Final = len(MAGIC) - 1

_START: Final = Struct("<4sI")
_REST: Final = Struct("<IIIBQIQ")
HEADER_SIZE: Final = _START.size + _REST.size

_HEAD: Final = Struct("<7sBIIBQI")
_CRC: Final = Struct("<I")
HEAD_SIZE: Final = _HEAD.size + _CRC.size
_REBASE_FLAG: Final = 1
_LINKED_FLAG: Final = 2
_LINK_BITS: Final = 16
_END_BITS: Final = 48


class Head:
    """The first bytes of a segment file.

    `previous_end` is the length of the segment before this one when this one was made: what lies behind it there is
    left over from a failed write. `rebase` says that this segment opens a full copy of the live state: once the segment
    before it is gone, nothing older counts. `oldest` is the oldest segment that existed then. `follows` is the `link`
    of the segment before, UNLINKED if there was none: so a file of another journal is not taken for one of this.
    """

    __slots__ = ("follows", "oldest", "previous_end", "rebase", "salt", "segment")

    def __init__(
        self, segment: int, salt: int, previous_end: int, oldest: int, rebase: bool, follows: int = UNLINKED
    ) -> None:
        self.segment = segment
        self.salt = salt
        self.previous_end = previous_end
        self.oldest = oldest
        self.rebase = rebase
        self.follows = follows

    @property
    def link(self) -> int:
        """What the next segment says of this one."""
        return self.salt & ((1 << _LINK_BITS) - 1)


class HeadError(Exception):
    """The head of a segment cannot be used; the text says why. `is_whole`: another version of the format wrote it."""

    def __init__(self, reason: str, is_whole: bool = False) -> None:
        super().__init__(reason)
        self.is_whole = is_whole


def encode_head(head: Head) -> bytes:
    """Return the HEAD_SIZE bytes that a segment file begins with."""
    flags = _REBASE_FLAG if head.rebase else 0
    before = head.previous_end
    if head.follows != UNLINKED:
        flags |= _LINKED_FLAG
        before |= head.follows << _END_BITS
    packed = _HEAD.pack(FILE_MAGIC, VERSION, head.segment, head.salt, flags, before, head.oldest)
    return packed + _CRC.pack(crc32(packed, SEED))


def decode_head(data: bytes, segment: int) -> Head:
    """Read the head of the file that is called `segment`; HeadError if it is not the head of that one."""
    if data[:7] == FILE_MAGIC and len(data) > 7 and data[7] != VERSION and _head_crc_is_right(data):
        who, way_out = ("a newer", "") if data[7] > VERSION else ("an older", f": {WAY_OUT}")
        raise HeadError(
            f"written by {who} version (journal format {data[7]}, this one reads {VERSION}){way_out}", is_whole=True
        )
    if len(data) < HEAD_SIZE:
        raise HeadError("shorter than the head of a segment")
    if data[:7] != FILE_MAGIC:
        raise HeadError("does not begin as a journal segment does")
    if not _head_crc_is_right(data):
        raise HeadError("the head of the segment is damaged")
    _, _, number, salt, flags, before, oldest = _HEAD.unpack_from(data)
    if number != segment:
        raise HeadError(f"the head says that this is segment {number}")
    follows = before >> _END_BITS if flags & _LINKED_FLAG else UNLINKED
    previous_end = before & ((1 << _END_BITS) - 1)
    return Head(number, salt, previous_end, oldest, bool(flags & _REBASE_FLAG), follows)


def head_number(data: bytes) -> int:
    """Give the number of the segment that begins with `data`, whatever its file is called; 0 if that is no head."""
    if data[:7] != FILE_MAGIC or not _head_crc_is_right(data) or data[7] != VERSION:
        return 0
    number: int = _HEAD.unpack_from(data)[2]
    return number


def _head_crc_is_right(data: bytes) -> bool:
    if len(data) < HEAD_SIZE:
        return False
    found: int = _CRC.unpack_from(data, _HEAD.size)[0]
    return found == crc32(data[: _HEAD.size], SEED)


def header(
    kind: int, payload: bytes, segment: int, salt: int, offset: int, synced_segment: int, synced_offset: int
) -> bytes:
    """Return the HEADER_SIZE bytes that go before `payload` at `offset` of `segment`."""
    crc = crc32(payload, SEED ^ segment)
    return header_of(kind, len(payload), crc, segment, salt, offset, synced_segment, synced_offset)


def header_of(
    kind: int, length: int, crc: int, segment: int, salt: int, offset: int, synced_segment: int, synced_offset: int
) -> bytes:
    """Return the header of a payload of which only the length and the CRC, begun with SEED ^ segment, are at hand."""
    assert 0 < length <= MAX_PAYLOAD
    rest = _REST.pack(length, crc, salt, kind, offset, synced_segment, synced_offset)
    return _START.pack(MAGIC, crc32(rest, SEED ^ segment)) + rest


def encode(
    kind: int, payload: bytes, segment: int, salt: int, offset: int, synced_segment: int, synced_offset: int
) -> bytes:
    """Return a whole frame: header and payload."""
    return header(kind, payload, segment, salt, offset, synced_segment, synced_offset) + payload


class Frame:
    """A frame whose checksums are right.

    `offset` is where it was found, `claimed` where it says that it belongs: they differ when bytes were inserted,
    removed or repeated before it.
    """

    __slots__ = ("claimed", "end", "kind", "offset", "payload", "synced_offset", "synced_segment")

    def __init__(
        self, kind: int, payload: bytes, offset: int, claimed: int, synced_segment: int, synced_offset: int
    ) -> None:
        self.kind = kind
        self.payload = payload
        self.offset = offset
        self.claimed = claimed
        self.end = offset + HEADER_SIZE + len(payload)
        self.synced_segment = synced_segment
        self.synced_offset = synced_offset

    @property
    def displaced(self) -> bool:
        """Whether the frame is not where it was written."""
        return self.claimed != self.offset


class Damage:
    """At `offset` there is no frame. If its header could be read, the synced position in it is still a fact."""

    __slots__ = ("offset", "reason", "synced_offset", "synced_segment")

    def __init__(self, offset: int, reason: str, synced_segment: int = 0, synced_offset: int = 0) -> None:
        self.offset = offset
        self.reason = reason
        self.synced_segment = synced_segment
        self.synced_offset = synced_offset


class Scanner:
    """Takes the bytes of one segment behind its head, in pieces of any size, and gives frames and damage.

    `next()` returns a Frame, a Damage, or None when it wants more bytes (or `done`). After a Damage it searches on byte
    by byte, and is silent until it finds a header that is right. `size` is where the segment ends: with it no length
    makes the scanner wait for, or keep, bytes that do not exist. UNKNOWN_SALT is learnt from a frame that stands where
    one is expected; until then a search takes any.
    """

    __slots__ = ("_at", "_base", "_data", "_rest", "_salt", "_searching", "_seed", "_segment", "_size")

    def __init__(self, segment: int, salt: int, size: int, offset: int = HEAD_SIZE) -> None:
        self._segment = segment
        self._seed = SEED ^ segment
        self._salt = salt
        self._size = size
        self._data = bytearray()
        self._rest: tuple[int, ...] = ()  # the fields of the header at hand
        self._base = offset
        self._at = 0
        self._searching = False

    @property
    def done(self) -> bool:
        """Whether the end of the segment is reached."""
        return self._base + self._at >= self._size

    @property
    def offset(self) -> int:
        """Where the next frame is expected."""
        return self._base + self._at

    @property
    def wanted(self) -> int:
        """The offset of the first byte that was not fed yet."""
        return self._base + len(self._data)

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the file, from `wanted` on."""
        if self._at:
            del self._data[: self._at]
            self._base += self._at
            self._at = 0
        self._data += data

    def search(self) -> None:
        """Look for the next frame from here on, wherever it begins."""
        self._searching = True

    def next(self) -> Frame | Damage | None:
        """Return what comes next; None when more bytes are needed or the end is reached."""
        while self._base + self._at < self._size:
            if self._searching and not self._find():
                return None
            if self._size - self._base - self._at < HEADER_SIZE:
                return self._too_short()
            if len(self._data) - self._at < HEADER_SIZE:
                return None
            reason = self._header_problem()
            if not reason:
                return self._take()
            if not self._searching:
                return self._damaged(reason)
            self._at += 1
        return None

    def _too_short(self) -> Damage | None:
        if not self._searching:
            return self._damaged("torn header")
        self._skip_all()
        return None

    def _header_problem(self) -> str:
        """Say why the bytes at hand are no header; "" when they are one."""
        data = self._data
        start = self._at
        magic, crc = _START.unpack_from(data, start)
        if magic != MAGIC:
            return "no frame begins here"
        if crc != crc32(data[start + _START.size : start + HEADER_SIZE], self._seed):
            return "the checksum of the header is wrong"
        self._rest = _REST.unpack_from(data, start + _START.size)
        length, _, salt, kind, offset, synced_segment, synced_offset = self._rest
        if self._salt == UNKNOWN_SALT and not self._searching:
            self._salt = salt
        if self._salt not in (UNKNOWN_SALT, salt):
            return "a frame of another file"
        if not 0 < length <= MAX_PAYLOAD or not RECORDS <= kind <= RETIRED:
            return "the header is not valid"
        if synced_segment > self._segment or (synced_segment == self._segment and synced_offset > offset):
            return "the frame says that later bytes are on the disk"
        return ""

    def _take(self) -> Frame | Damage | None:
        """Return the frame whose header is at hand, None while its payload is not all there."""
        length, crc, _, kind, claimed, synced_segment, synced_offset = self._rest
        offset = self._base + self._at
        if self._size - offset - HEADER_SIZE < length:
            return self._damaged("torn frame", synced_segment, synced_offset)
        start = self._at + HEADER_SIZE
        if len(self._data) - start < length:
            return None
        with memoryview(self._data) as view:
            payload = bytes(view[start : start + length])
        if crc32(payload, self._seed) != crc:
            return self._damaged("the checksum of the payload is wrong", synced_segment, synced_offset)
        frame = Frame(kind, payload, offset, claimed, synced_segment, synced_offset)
        self._at = start + length
        self._searching = False
        return frame

    def _skip_all(self) -> None:
        self._base = self._size
        self._at = 0
        self._data = bytearray()

    def _find(self) -> bool:
        """Move to the next magic; False when none is in the bytes at hand."""
        at = self._data.find(MAGIC, self._at)
        if at >= 0:
            self._at = at
            return True
        if self.wanted >= self._size:
            self._skip_all()
        else:
            self._at = max(self._at, len(self._data) - _SEARCH_KEEP)
        return False

    def _damaged(self, reason: str, synced_segment: int = 0, synced_offset: int = 0) -> Damage:
        damage = Damage(self.offset, reason, synced_segment, synced_offset)
        self._at += 1
        self._searching = True
        return damage
