"""The file nodes.conf: the ID of this node and the nodes that it knows. It survives restarts, and one process locks it.

Two nodes with one ID would confuse a whole cluster, so the file is locked as long as the process lives. It is also
written in one step (a new file, fsync, rename, fsync of the directory). After a crash at any moment it holds the old
table or the new one. Both work together, because the new file is locked before it takes the name, and the old one is
unlocked after that: see `open_locked`. No second file is needed for the lock. Servers that lock nodes.conf itself and
rewrite it in place respect the lock too.
"""

import asyncio
import contextlib
import os
import threading
from pathlib import Path
from random import Random
from typing import Final

from cluster.membership import Member, Membership
from cluster.nodesfile import NodesFileError, parse, render
from disque.server.daemon import LockedError, lock, open_locked
from disque.server.log import Log

NEW_FILE_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW


class NodesConfError(Exception):
    """The node cannot start with this file: the message is for the log, then the process ends with exit code 1."""


class NodesConf:
    """The file, open and locked. Make it with `open_nodes_conf`. `write` may be called from another thread."""

    __slots__ = ("_drawn", "_fd", "_made", "_saving", "_turn", "_written", "path")

    def __init__(self, path: Path, fd: int, *, made: bool = False) -> None:
        self.path = path
        self._fd = fd
        self._made = made
        self._turn = threading.Lock()
        self._drawn = 0
        self._written = 0
        self._saving = False

    def read(self) -> bytes:
        """Give the content. Raises OSError."""
        return os.pread(self._fd, os.fstat(self._fd).st_size, 0)

    def save(self, membership: Membership, now_ms: int) -> None:
        """Write the node table and clear its `dirty`. Raises OSError; file and `dirty` are then as before."""
        self.write(*self.draw(membership, now_ms))
        membership.dirty = False

    def draw(self, membership: Membership, now_ms: int) -> tuple[int, bytes]:
        """Give the number and the text of the table as it is now, for `write`."""
        self._drawn += 1
        return self._drawn, render(membership, now_ms)

    def write(self, number: int, text: bytes) -> None:
        """Write what `draw` gave, unless something later has been written. Raises OSError; the file is then as before.

        It takes as long as the disk does.
        """
        with self._turn:
            if number > self._written:
                self._replace(text)
                self._written = number

    def save_soon(self, loop: asyncio.AbstractEventLoop, membership: Membership, now_ms: int) -> None:
        """Write the node table without waiting for the disk. If that fails, `dirty` is set again."""
        if self._saving:
            return
        self._saving = True
        membership.dirty = False
        writing = loop.run_in_executor(None, self.write, *self.draw(membership, now_ms))
        writing.add_done_callback(lambda done: self._saved(done, membership))

    def _saved(self, done: "asyncio.Future[None]", membership: Membership) -> None:
        self._saving = False
        if done.cancelled() or done.exception() is not None:
            membership.dirty = True

    def _replace(self, text: bytes) -> None:
        temporary = self.path.with_name(f"{self.path.name}.new")
        fd = os.open(temporary, NEW_FILE_FLAGS, 0o644)
        try:
            lock(fd)
            _write_all(fd, text)
            os.fsync(fd)
            temporary.replace(self.path)
        except BaseException:
            os.close(fd)
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        os.close(self._fd)
        self._fd = fd
        _sync_directory(self.path.parent)

    def is_gone(self) -> bool:
        """Whether the file was removed or moved, and there is none in its place; it is to be written again then."""
        if self._saving:
            return False
        try:
            os.fstat(self._fd)  # raises where it is closed
            return not self.path.exists()
        except OSError:
            return False

    def discard(self) -> None:
        """Remove the file if it was made for this process, which nobody has heard of yet. Call `close` behind it."""
        if self._made:
            with contextlib.suppress(OSError):
                self.path.unlink()

    def close(self) -> None:
        """Let go of the lock, once nothing is being written."""
        with self._turn:
            self._written = self._drawn + 1  # what was drawn and is not written yet never will be
            os.close(self._fd)


def open_nodes_conf(
    path: str, *, ip: bytes, port: int, bus_port: int, now_ms: int, random: Random, log: Log
) -> tuple[NodesConf, Membership]:
    """Lock and read the file at `path`, or make it with a new ID drawn from `random` if it is missing or empty.

    The address of this node is what is told here, not what the file says; `ip` b"" keeps the one of the file. Raises
    NodesConfError if another process holds the file, if it is damaged, or if it cannot be read or written.
    """
    file = _open(Path(path).resolve())
    try:
        membership = _load(file, now_ms, random, log)
        membership.announce(ip, port, bus_port)
        if membership.dirty:
            file.save(membership, now_ms)
    except NodesFileError as error:
        file.close()
        raise NodesConfError(f"Unrecoverable error: corrupted cluster config file {file.path}, {error}.") from error
    except OSError as error:
        file.close()
        raise NodesConfError(f"Can't use the cluster configuration file {file.path}: {error.strerror}") from error
    return file, membership


def _open(path: Path) -> NodesConf:
    try:
        missing = not path.exists()
        fd = open_locked(path)
        return NodesConf(path, fd, made=missing and not os.fstat(fd).st_size)
    except LockedError:
        raise NodesConfError(
            f"Sorry, the cluster configuration file {path} is already used by a different Disque node. "
            "Please make sure that different nodes use different cluster configuration files."
        ) from None
    except OSError as error:
        raise NodesConfError(f"Can't open the cluster configuration file {path}: {error.strerror}") from error


def _load(file: NodesConf, now_ms: int, random: Random, log: Log) -> Membership:
    content = file.read()
    if content.strip():
        membership = parse(content, now_ms)
        log.notice(f"Node configuration loaded, I'm {membership.myself.id.decode()}")
        return membership
    node_id = b"%040x" % random.getrandbits(160)
    log.notice(f"No cluster configuration found, I'm {node_id.decode()}")
    membership = Membership(Member(node_id, b"", 0))
    membership.dirty = True
    return membership


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _sync_directory(path: Path) -> None:
    """Make the rename last. Some file systems refuse to fsync a directory: there is nothing more to do on these."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):
            os.fsync(fd)
    finally:
        os.close(fd)
