"""One segment file that is open for writing, and the fsync of several of them.

Writing a frame of some MB blocks the process. So a large frame is written by several calls, a slice of the payload
each, and its header last. A process that dies in between leaves a torn tail. In between nothing else can be written to
the file, since the next frame begins after this one. Another file can take the frame from its beginning.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from errno import ENOSPC
from itertools import islice
from typing import Final
from zlib import crc32

from disque.core.journal.frames import HEAD_SIZE, HEADER_SIZE, SEED, Head, encode_head, header, header_of
from disque.server.disk import Disk
from disque.server.pending import Payload, size_of

FRAMES_A_WRITE: Final = 256
#: Bytes of payload in one call of `write`, and of the frames that are written in one go.
SLICE_BYTES = 1 << 20  # not Final: tests want less, compiled too


class Unfinished:
    """A large frame on its way into a file: ``done`` bytes of its payload are there, ``crc`` is over these."""

    __slots__ = ("crc", "done", "pieces", "size")

    def __init__(self, payload: Payload, seed: int) -> None:
        self.size = size_of(payload)
        self.done = 0
        self.crc = seed
        pieces = [payload] if isinstance(payload, bytes) else payload.pieces
        self.pieces: deque[memoryview] = deque(memoryview(piece) for piece in pieces)

    def take(self) -> list[memoryview]:
        """Give the next slice, which counts as done."""
        taken: list[memoryview] = []
        left = SLICE_BYTES
        while left > 0 and self.pieces:
            piece = self.pieces.popleft()
            if len(piece) > left:
                self.pieces.appendleft(piece[left:])
                piece = piece[:left]
            taken.append(piece)
            left -= len(piece)
            self.done += len(piece)
            self.crc = crc32(piece, self.crc)
        return taken


class SegmentFile:
    """A segment, made with its head written. Raises OSError, and leaves the file open for nobody, if that fails.

    `synced` of the `end` bytes written are known to be on the disk, and with `named` so is the file's name.
    """

    __slots__ = ("_disk", "_unfinished", "end", "fd", "named", "number", "salt", "synced")

    def __init__(self, disk: Disk, path: str, head: Head) -> None:
        self._disk = disk
        self.number = head.segment
        self.salt = head.salt
        self.end = HEAD_SIZE
        self.synced = 0
        self.named = False
        self._unfinished: Unfinished | None = None
        self.fd = disk.create(path)
        try:
            self._write_head(encode_head(head))
        except OSError:
            self.close()
            raise

    def _write_head(self, head: bytes) -> None:
        if self._disk.write(self.fd, [head], 0) != HEAD_SIZE:
            raise OSError(ENOSPC, os.strerror(ENOSPC))

    def write(self, frames: Iterable[tuple[int, Payload, int]], mark: tuple[int, int]) -> tuple[int, str]:
        """Write the first of `frames` (kind, payload, anything), each vouching for `mark`, in one go.

        Returns how many of them went out whole, and "" or what the disk said. What went out of one more is cut off; if
        that fails too, it does no harm: the next write goes over it. Of a large frame that is the first a slice is
        written: (0, "") until the last one.
        """
        pieces, ends = self._encode(frames, mark)
        if not pieces:
            return self._write_slice(frames, mark)
        done, error = self._write_pieces(pieces, self.end)
        reached = self.end + done
        count = sum(end <= reached for end in ends)
        if count:
            self.end = ends[count - 1]
        if error:
            self._cut()
        return count, error

    def _write_slice(self, frames: Iterable[tuple[int, Payload, int]], mark: tuple[int, int]) -> tuple[int, str]:
        """Go on with the large frame that is the first, or begin it."""
        kind, payload, _ = next(iter(frames))
        if self._unfinished is None:
            self._unfinished = Unfinished(payload, SEED ^ self.number)
        going = self._unfinished
        start = self.end + HEADER_SIZE
        at = start + going.done
        _, error = self._write_pieces(going.take(), at)
        if not error and not going.pieces:
            head = header_of(kind, going.size, going.crc, self.number, self.salt, self.end, *mark)
            _, error = self._write_pieces([head], self.end)
            if not error:
                self._unfinished = None
                self.end = start + going.size
                return 1, ""
        if error:
            self._cut()
        return 0, error

    def leave(self) -> None:
        """Nothing more is written here: what was begun goes into another file."""
        if self._unfinished is not None:
            self._cut()

    def _cut(self) -> None:
        """Remove what is behind the last whole frame."""
        self._unfinished = None
        with suppress(OSError):
            self._disk.truncate(self.fd, self.end)

    def _encode(
        self, frames: Iterable[tuple[int, Payload, int]], mark: tuple[int, int]
    ) -> tuple[list[bytes], list[int]]:
        """Return the bytes of the frames before the first large one, and where each of them will end."""
        pieces: list[bytes] = []
        ends: list[int] = []
        offset = self.end
        for kind, payload, _ in islice(frames, FRAMES_A_WRITE):
            if not isinstance(payload, bytes) or len(payload) > SLICE_BYTES or offset - self.end > SLICE_BYTES:
                break
            pieces += (header(kind, payload, self.number, self.salt, offset, *mark), payload)
            offset += HEADER_SIZE + len(payload)
            ends.append(offset)
        return pieces, ends

    def _write_pieces(self, pieces: Sequence[bytes | memoryview], offset: int) -> tuple[int, str]:
        """Write from ``offset`` on; returns how many bytes went out, and "" or what the disk said."""
        size = sum(map(len, pieces))
        done = 0
        rest: list[bytes | memoryview] = [*pieces]
        try:
            while done < size:
                count = self._disk.write(self.fd, rest, offset + done)
                if not count:
                    return done, "No bytes could be written"
                done += count
                rest = [] if done == size else [memoryview(b"".join(pieces))[done:]]
        except OSError as error:
            return done, error.strerror or str(error)
        return done, ""

    def close(self) -> None:
        """Give the descriptor back; what the disk says to that comes too late to matter."""
        with suppress(OSError):
            self._disk.close(self.fd)


class SyncJob:
    """One fsync of all that was written when it was made: `run` does it, in any thread."""

    __slots__ = ("_clock", "_directory", "_disk", "ends", "files", "through", "took_s")

    def __init__(
        self, disk: Disk, directory: str, files: list[SegmentFile], through: int, clock: Callable[[], float]
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._clock = clock
        self.files = files
        self.ends = [file.end for file in files]
        self.through = through
        self.took_s = 0.0

    def run(self) -> None:
        """Fsync the files, and the directory if one of them is new in it. Raises OSError if anything failed."""
        start = self._clock()
        for file in self.files:
            self._disk.fdatasync(file.fd)
        if not all(file.named for file in self.files):
            self._disk.fsync_dir(self._directory)
        self.took_s = self._clock() - start

    def note(self) -> None:
        """Write into the files how far they are synced, after run() was successful."""
        for file, end in zip(self.files, self.ends, strict=True):
            file.synced = end
            file.named = True

    @property
    def position(self) -> tuple[int, int]:
        """Up to where it all is synced: (segment, offset)."""
        return self.files[-1].number, self.ends[-1]
