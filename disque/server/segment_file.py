"""One segment file that is open for writing, and the fsync of some of them."""

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from errno import ENOSPC
from itertools import islice
from typing import Final

from disque.core.frames import HEAD_SIZE, HEADER_SIZE, Head, encode_head, header
from disque.server.disk import Disk

FRAMES_A_WRITE: Final = 256


class SegmentFile:
    """A segment, made with its head written. Raises OSError, and leaves the file open for nobody, if that fails.

    `synced` of the `end` bytes written are known to be on the disk, and with `named` so is the file's name.
    """

    __slots__ = ("_disk", "end", "fd", "named", "number", "salt", "synced")

    def __init__(self, disk: Disk, path: str, head: Head) -> None:
        self._disk = disk
        self.number = head.segment
        self.salt = head.salt
        self.end = HEAD_SIZE
        self.synced = 0
        self.named = False
        self.fd = disk.create(path)
        try:
            self._write_head(encode_head(head))
        except OSError:
            self.close()
            raise

    def _write_head(self, head: bytes) -> None:
        if self._disk.write(self.fd, [head], 0) != HEAD_SIZE:
            raise OSError(ENOSPC, os.strerror(ENOSPC))

    def write(self, frames: Iterable[tuple[int, bytes, int]], mark: tuple[int, int]) -> tuple[int, str]:
        """Write the first of `frames` (kind, payload, anything), each vouching for `mark`, in one go.

        Returns how many of them went out whole, and "" or what the disk said. What went out of one more is cut off; if
        that fails too, it does no harm: the next write goes over it.
        """
        pieces, ends = self._encode(frames, mark)
        done, error = self._write_pieces(pieces)
        reached = self.end + done
        count = sum(end <= reached for end in ends)
        if count:
            self.end = ends[count - 1]
        if error:
            with suppress(OSError):
                self._disk.truncate(self.fd, self.end)
        return count, error

    def _encode(self, frames: Iterable[tuple[int, bytes, int]], mark: tuple[int, int]) -> tuple[list[bytes], list[int]]:
        """Return the bytes of the frames, and where each of them will end."""
        pieces: list[bytes] = []
        ends: list[int] = []
        offset = self.end
        for kind, payload, _ in islice(frames, FRAMES_A_WRITE):
            pieces += (header(kind, payload, self.number, self.salt, offset, *mark), payload)
            offset += HEADER_SIZE + len(payload)
            ends.append(offset)
        return pieces, ends

    def _write_pieces(self, pieces: list[bytes]) -> tuple[int, str]:
        """Write behind the last good frame; returns how many bytes went out, and "" or what the disk said."""
        size = sum(map(len, pieces))
        done = 0
        rest: list[bytes | memoryview] = [*pieces]
        try:
            while done < size:
                count = self._disk.write(self.fd, rest, self.end + done)
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
