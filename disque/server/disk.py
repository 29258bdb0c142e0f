"""The system calls that the journal makes, in one place, so that a test can put a disk of its own there."""

import errno
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from disque.server.daemon import LockedError, lock


class Disk:
    """The system calls that the journal makes; all raise OSError. Paths are strings, file descriptors are ints."""

    def listdir(self, directory: str) -> list[str]:
        """Return the names in `directory`."""
        return [path.name for path in Path(directory).iterdir()]

    def create(self, path: str) -> int:
        """Make a new file for writing, locked as long as it is open; FileExistsError if there is one."""
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with suppress(LockedError, OSError):  # nobody else knows the file; where locks are not to be had, so be it
            lock(fd)
        return fd

    def open(self, path: str, write: bool = False) -> int:
        """Open a file that exists; a directory in its place is an error."""
        fd = os.open(path, (os.O_RDWR if write else os.O_RDONLY) | os.O_CLOEXEC | os.O_NONBLOCK)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise OSError(errno.EINVAL, "Not a regular file", path)
        return fd

    def size(self, fd: int) -> int:
        """Return the length of an open file."""
        return os.fstat(fd).st_size

    def links(self, fd: int) -> int:
        """Return how many names an open file has: 0 when it was removed."""
        return os.fstat(fd).st_nlink

    def read(self, fd: int, size: int, offset: int) -> bytes:
        """Return up to `size` bytes from `offset` on; b"" at the end."""
        return os.pread(fd, size, offset)

    def write(self, fd: int, pieces: Sequence[bytes | memoryview], offset: int) -> int:
        """Write at `offset`; returns how many bytes went out, which may be fewer than were given."""
        return os.pwritev(fd, pieces, offset)

    def fdatasync(self, fd: int) -> None:
        """Return when the file's bytes, and its length, are on the disk."""
        os.fdatasync(fd)

    def truncate(self, fd: int, size: int) -> None:
        """Set the length of an open file."""
        os.ftruncate(fd, size)

    def close(self, fd: int) -> None:
        """Give the descriptor back."""
        os.close(fd)

    def unlink(self, path: str) -> None:
        """Remove a file."""
        Path(path).unlink()

    def rename(self, path: str, new_path: str) -> None:
        """Give a file another name, which no file has."""
        if Path(new_path).exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new_path)
        Path(path).rename(new_path)

    def fsync_dir(self, directory: str) -> None:
        """Return when the names in `directory` are on the disk."""
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
