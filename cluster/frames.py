"""Frames on a link: four bytes of length, most significant first, then the payload.

Bytes arrive in any pieces. A frame that is too long is refused by its length alone. A frame that is still arriving
takes no more memory than what has arrived: a peer that announces a gigabyte has to send it first. Large frames are
taken apart as they arrive, see `large`.

A length that was damaged on the way must not make the reader wait for bytes that never come, or take all that follows
for one frame. So a frame whose array is over before its length says so is refused: a large one at once, and others when
somebody finds that they take long (`FrameReader.check`).
"""

from io import BytesIO
from typing import Final

from msgpack import OutOfData, Unpacker

from cluster.large import LARGE_BODY, BadFrameError

HEAD: Final = 4
#: Frames beyond this length are looked through for large bodies.
LARGE_FRAME = 8 << 20  # not Final: tests want less


#: Heads in a large frame, some times more than nodes make: each takes time.
HEADS_MOST: Final = 200_000

_BIN8: Final = 0xC4
_BIN32: Final = 0xC6
_NIL: Final = b"\xc0"
#: Lengths of arrays with a head of three bytes, and of five.
_ARRAYS: Final = frozenset({0xDC, 0xDD})
DAMAGED: Final = "the length of a frame does not match what is in it"
#: Length of the heads of what a frame may hold beside what is a head of one byte, by their first byte.
_HEADS: Final = {
    **dict.fromkeys((_BIN8, 0xCC, 0xD0), 2),
    **dict.fromkeys((0xC5, 0xCD, 0xD1, 0xDC), 3),
    **dict.fromkeys((_BIN32, 0xCE, 0xD2, 0xDD), 5),
    **dict.fromkeys((0xCF, 0xD3), 9),
}


class FrameTooLongError(Exception):
    """A frame announces more bytes than are taken."""


def enclosed(payload: bytes) -> bytes:
    """Give the frame of a payload."""
    return len(payload).to_bytes(HEAD, "big") + payload


class Skimmer:
    """Takes a frame of ``left`` bytes as it comes: ``payload`` without large bodies, and these ``bodies``.

    To tell bodies from the rest it reads heads only: a head says how many bytes follow it, arrays are heads alone.
    """

    __slots__ = ("_body", "_head", "_heads", "_skip", "_values", "_want", "bodies", "left", "payload", "size")

    def __init__(self, length: int) -> None:
        self.left = length
        self.size = 0
        self.payload = bytearray()
        self.bodies: list[bytes] = []
        self._head = bytearray()
        self._heads = 0
        #: Values that are still to come, as far as arrays have begun.
        self._values = 1
        #: Bytes that are still to come of a large body, and of anything else that is no head.
        self._want = 0
        self._skip = 0
        self._body = BytesIO()

    def feed(self, data: bytes) -> bytes:
        """Take what has come; gives what lies behind the frame. Raises BadFrameError for what no node sends."""
        size = min(self.left, len(data))
        self.left -= size
        self.size += size
        view = memoryview(data)
        at = 0
        while at < size:
            if self._want:
                count = min(self._want, size - at)
                self._body.write(view[at : at + count])
                self._want -= count
                if not self._want:
                    self.bodies.append(self._body.getvalue())
                    self._body = BytesIO()
            elif not self._values and not self._skip:
                raise BadFrameError(DAMAGED)
            elif self._skip:
                count = min(self._skip, size - at)
                self.payload += view[at : at + count]
                self._skip -= count
            else:
                self._head.append(data[at])
                count = 1
                if len(self._head) == self._head_length():
                    self._headed()
            at += count
        return data[size:]

    def _head_length(self) -> int:
        first = self._head[0]
        if first < 0x80 or first >= 0xE0 or 0x90 <= first < 0xA0:
            return 1
        length = _HEADS.get(first)
        if length is None:
            raise BadFrameError("a large frame has values of a kind that no node sends")
        return length

    def _headed(self) -> None:
        """A head is there."""
        self._heads += 1
        if self._heads > HEADS_MOST:
            raise BadFrameError("a large frame has too many values")
        head = self._head
        first = head[0]
        length = int.from_bytes(head[1:], "big") if _BIN8 <= first <= _BIN32 else 0
        items = first & 0x0F if 0x90 <= first < 0xA0 else int.from_bytes(head[1:], "big") if first in _ARRAYS else 0
        self._values += items - 1
        if length >= LARGE_BODY:
            self._want = length
            self.payload += _NIL
        else:
            self._skip = length
            self.payload += head
        head.clear()


class FrameReader:
    """Cuts a stream into payloads. ``most`` is the length in bytes of the longest that is taken; it may be changed.

    ``bodies`` are those that belong to the payload that `next` gave last, the last one first. ``count`` is how many
    payloads it has given.
    """

    __slots__ = ("_at", "_data", "_large", "bodies", "count", "most")

    def __init__(self, most: int) -> None:
        self.most = most
        self.bodies: list[bytes] = []
        self.count = 0
        self._data: bytes | bytearray = b""
        self._at = 0
        #: The frame that is under way, if it is a large one. What is behind it comes into `_data`.
        self._large: Skimmer | None = None

    def __len__(self) -> int:
        return len(self._data) - self._at + (HEAD + self._large.size if self._large is not None else 0)

    def feed(self, data: bytes) -> None:
        """Take what has come. Raises BadFrameError."""
        if self._large is not None and self._large.left:
            data = self._large.feed(data)
        if self._at >= len(self._data):
            self._data = data
            self._at = 0
            return
        if isinstance(self._data, bytes):
            self._data = bytearray(memoryview(self._data)[self._at :])
        else:
            del self._data[: self._at]
        self._at = 0
        self._data += data

    def next(self) -> bytes | None:
        """Give the next payload, None until all of it is there. Raises FrameTooLongError, BadFrameError."""
        if self._large is not None:
            return self._next_large(self._large)
        data, at = self._data, self._at
        start = at + HEAD
        if len(data) < start:
            return None
        length = int.from_bytes(data[at:start], "big")
        if length > self.most:
            raise FrameTooLongError(f"a frame of {length} bytes, at most {self.most} are accepted")
        if length > LARGE_FRAME:
            self._large = Skimmer(length)
            self._data = self._large.feed(bytes(memoryview(data)[start:]))
            self._at = 0
            return self._next_large(self._large)
        end = start + length
        if len(data) < end:
            return None
        self._at = end
        self.count += 1
        self.bodies = []
        if end == len(data):
            self._data = b""
            self._at = 0
        return bytes(memoryview(data)[start:end])

    def check(self) -> None:
        """See whether the frame that is under way can be one. Raises BadFrameError if its array is over already."""
        start = self._at + HEAD
        if self._large is not None or len(self._data) <= start:
            return
        unpacker = Unpacker(max_buffer_size=0)
        unpacker.feed(bytes(memoryview(self._data)[start:]))
        try:
            unpacker.skip()
        except OutOfData:
            return
        except ValueError:  # what begins so is no msgpack
            pass
        raise BadFrameError(DAMAGED)

    def _next_large(self, large: Skimmer) -> bytes | None:
        if large.left:
            return None
        self._large = None
        self.count += 1
        self.bodies = large.bodies
        self.bodies.reverse()
        return bytes(large.payload)
