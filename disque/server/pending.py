"""The queue of frames that wait to be written."""

from collections import deque
from collections.abc import Iterator

from disque.core.journal.codec import Parts

#: The payload of a frame: bytes, or pieces of it that are not to be copied.
Payload = bytes | Parts


def size_of(payload: Payload) -> int:
    """The bytes of a payload."""
    return len(payload) if isinstance(payload, bytes) else payload.size


class Pending:
    """A line of (kind, payload, number).

    `size` counts its bytes, `last` is the number of the last frame appended, `written` that of the last one that left.
    """

    __slots__ = ("_frames", "last", "size", "written")

    def __init__(self) -> None:
        self._frames: deque[tuple[int, Payload, int]] = deque()
        self.size = 0
        self.last = 0
        self.written = 0

    def __bool__(self) -> bool:
        return bool(self._frames)

    def __iter__(self) -> Iterator[tuple[int, Payload, int]]:
        return iter(self._frames)

    def append(self, kind: int, payload: Payload) -> int:
        """Put a frame at the end; returns its number."""
        self.last += 1
        self.size += size_of(payload)
        self._frames.append((kind, payload, self.last))
        return self.last

    def put_first(self, kind: int, payload: bytes) -> None:
        """Put a frame of the journal's own at the front; it has no number."""
        self.size += len(payload)
        self._frames.appendleft((kind, payload, self.written))

    def pop(self) -> int:
        """Take the frame at the front away, which has been written; returns its kind."""
        kind, payload, self.written = self._frames.popleft()
        self.size -= size_of(payload)
        return kind

    def clear(self) -> None:
        """Forget all that was not written."""
        self._frames.clear()
        self.size = 0
