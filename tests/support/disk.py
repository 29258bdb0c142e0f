"""A disk in memory for the journal: it can be full, fail, lose power, and tear what it was not told to keep."""

import errno
import os
from collections.abc import Callable, Sequence
from random import Random
from typing import Self

from disque.server.disk import Disk

FOLDER = "/journal"
#: A loss of power keeps or loses so many bytes at a time.
BLOCK = 16


class Inode:
    """What one file holds, and what of it would survive a loss of power."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.synced = b""
        self.bad = False  # an fsync failed: the kernel forgets what was dirty and says yes from then on


class FakeDisk(Disk):
    """A disk in memory that can be full, fail, and lose power."""

    def __init__(self) -> None:
        self.names: dict[str, Inode] = {}
        self.durable_names: dict[str, Inode] = {}
        self.open_files: dict[int, Inode] = {}
        self.next_fd = 100
        self.room: int | None = None
        self.broken: set[str] = set()
        self.log: list[str] = []
        self.sync_cost: Callable[[], None] = lambda: None

    def _do(self, what: str, about: str = "") -> None:
        self.log.append(f"{what} {about}".strip())
        if what in self.broken:
            raise OSError(errno.EIO, os.strerror(errno.EIO), about)

    def _descriptor(self, inode: Inode) -> int:
        self.next_fd += 1
        self.open_files[self.next_fd] = inode
        return self.next_fd

    def listdir(self, directory: str) -> list[str]:
        return [name.removeprefix(f"{directory}/") for name in self.names]

    def create(self, path: str) -> int:
        self._do("create", path[-1])
        if path in self.names:
            raise FileExistsError(errno.EEXIST, "File exists", path)
        if self.room == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        self.names[path] = Inode()
        return self._descriptor(self.names[path])

    def open(self, path: str, write: bool = False) -> int:
        self.log.append(f"open {path[-1]} {'to write' if write else 'to read'}")
        if path not in self.names:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        return self._descriptor(self.names[path])

    def size(self, fd: int) -> int:
        return len(self.open_files[fd].data)

    def links(self, fd: int) -> int:
        return sum(inode is self.open_files[fd] for inode in self.names.values())

    def read(self, fd: int, size: int, offset: int) -> bytes:
        return bytes(self.open_files[fd].data[offset : offset + size])

    def write(self, fd: int, pieces: Sequence[bytes | memoryview], offset: int) -> int:
        self._do("write")
        data = self.open_files[fd].data
        what = b"".join(pieces)
        if self.room is not None:
            what = what[: max(0, self.room - max(0, offset - len(data)))]
            if not what:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self.room -= max(0, offset + len(what) - len(data))
        data.extend(bytes(max(0, offset - len(data))))
        data[offset : offset + len(what)] = what
        return len(what)

    def fdatasync(self, fd: int) -> None:
        inode = self.open_files[fd]
        self.sync_cost()
        try:
            self._do("fdatasync")
        except OSError:
            inode.bad = True
            raise
        if not inode.bad:
            inode.synced = bytes(inode.data)

    def truncate(self, fd: int, size: int) -> None:
        self._do("truncate")
        data = self.open_files[fd].data
        if self.room is not None:
            self.room += max(0, len(data) - size)
        del data[size:]

    def close(self, fd: int) -> None:
        del self.open_files[fd]

    def unlink(self, path: str) -> None:
        self._do("unlink", path[-1])
        if path not in self.names:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        del self.names[path]

    def rename(self, path: str, new_path: str) -> None:
        self._do("rename", path[-1])
        if new_path in self.names:
            raise FileExistsError(errno.EEXIST, "File exists", new_path)
        self.names[new_path] = self.names.pop(path)

    def fsync_dir(self, directory: str) -> None:
        assert directory == FOLDER
        self._do("fsync_dir")
        self.durable_names = dict(self.names)

    def after_process_crash(self, forgiving: bool = False) -> Self:
        """The kernel keeps everything. `forgiving`: it has also brought to the disk what an fsync once could not."""
        disk = type(self)()
        for path, inode in self.names.items():
            disk.names[path] = copy = Inode()
            copy.data[:] = inode.data
            copy.synced = inode.synced
            copy.bad = inode.bad
            if forgiving and inode.bad:
                copy.synced, copy.bad = bytes(inode.data), False
        disk.durable_names = {path: disk.names[path] for path in self.durable_names if path in disk.names}
        return disk

    def after_power_loss(self, random: Random) -> Self:
        """Names and bytes that were fsynced are there, and of the rest whatever chance wants."""
        disk = type(self)()
        for path in sorted({*self.names, *self.durable_names}):
            choices = [names.get(path) for names in (self.names, self.durable_names)]
            inode = random.choice(choices)
            if inode is not None:
                disk.names[path] = copy = Inode()
                copy.data[:] = copy.synced = survived(inode, random)
        disk.durable_names = dict(disk.names)
        return disk


def survived(inode: Inode, random: Random) -> bytes:
    """What was fsynced, and of the rest some blocks, up to some length."""
    low, high = sorted((len(inode.synced), len(inode.data)))
    length = random.choice([low, high, random.randint(low, high)])
    result = bytearray(inode.synced[:length].ljust(length, b"\0"))
    certain = 0 if inode.bad else min(length, len(inode.synced)) // BLOCK * BLOCK
    for start in range(certain, length, BLOCK):
        if random.random() < 0.6:
            block = inode.data[start : min(start + BLOCK, length)]
            result[start : start + len(block)] = block
    return bytes(result)


class Later:
    """Work beside the loop that is done when the test says so."""

    def __init__(self) -> None:
        self.work: Callable[[], None] | None = None
        self.done: Callable[[OSError | None], None] | None = None
        self.error: OSError | None = None

    def submit(self, work: Callable[[], None], done: Callable[[OSError | None], None]) -> None:
        assert self.done is None, "one at a time"
        self.work, self.done = work, done

    def run(self) -> None:
        work, self.work = self.work, None
        if work is not None:
            self.error = None
            try:
                work()
            except OSError as error:
                self.error = error

    def finish(self) -> None:
        self.run()
        done, self.done = self.done, None
        if done is not None:
            done(self.error)

    def wait(self) -> None:
        while self.done is not None:
            self.finish()

    def close(self) -> None:
        self.wait()
