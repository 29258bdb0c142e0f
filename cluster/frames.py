"""Frames on a link: four bytes of length, most significant first, then the payload.

Bytes come in as the network cuts them. A frame that is longer than allowed is refused by its length alone, and one that
is on its way takes no more memory than what has come of it: a peer that announces a gigabyte has to send it first.
"""

from typing import Final

HEAD: Final = 4


class FrameTooLongError(Exception):
    """A frame announces more bytes than are taken."""


def enclosed(payload: bytes) -> bytes:
    """Give the frame of a payload."""
    return len(payload).to_bytes(HEAD, "big") + payload


class FrameReader:
    """Cuts a stream into payloads. ``most`` is the length in bytes of the longest that is taken; it may be changed."""

    __slots__ = ("_at", "_data", "most")

    def __init__(self, most: int) -> None:
        self.most = most
        self._data: bytes | bytearray = b""
        self._at = 0

    def __len__(self) -> int:
        return len(self._data) - self._at

    def feed(self, data: bytes) -> None:
        """Take what has come."""
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
        """Give the next payload, None until all of it is there. Raises FrameTooLongError."""
        data, at = self._data, self._at
        start = at + HEAD
        if len(data) < start:
            return None
        length = int.from_bytes(data[at:start], "big")
        if length > self.most:
            raise FrameTooLongError(f"a frame of {length} bytes, {self.most} are taken")
        end = start + length
        if len(data) < end:
            return None
        self._at = end
        if end == len(data):
            self._data = b""
            self._at = 0
        return bytes(memoryview(data)[start:end])
