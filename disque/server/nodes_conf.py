"""The file nodes.conf: who this node is and whom it knows, kept over restarts, and held by one process at a time.

Two nodes with one ID would confuse a whole cluster, so the file is locked for life. It is also written in one piece (a
new file, fsync, rename, fsync of the directory): after a crash at any moment it holds the old table or the new one.
Both together work because the new file is locked before it takes the name and the old one is let go after, see
`open_locked`. No second file is needed for the lock, and servers that lock nodes.conf itself and rewrite it in place
respect it too.
"""

import contextlib
import os
from pathlib import Path
from random import Random
from typing import Final

from cluster.membership import Membership, Node
from cluster.nodesfile import NodesFileError, parse, render
from disque.server.daemon import LockedError, lock, open_locked
from disque.server.log import Log

NEW_FILE_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW


class NodesConfError(Exception):
    """The node cannot start with this file: the message is for the log, then the process ends with exit code 1."""


class NodesConf:
    """The file, open and locked. Make it with `open_nodes_conf`."""

    __slots__ = ("_fd", "path")

    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self._fd = fd

    def read(self) -> bytes:
        """Give the content. Raises OSError."""
        return os.pread(self._fd, os.fstat(self._fd).st_size, 0)

    def save(self, membership: Membership, now_ms: int) -> None:
        """Write the node table and clear its `dirty`. Raises OSError; file and `dirty` are then as before."""
        temporary = self.path.with_name(f"{self.path.name}.new")
        fd = os.open(temporary, NEW_FILE_FLAGS, 0o644)
        try:
            lock(fd)
            _write_all(fd, render(membership, now_ms))
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
        membership.dirty = False

    def close(self) -> None:
        """Let go of the lock."""
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
        membership.set_address(membership.myself, ip or membership.myself.ip, port, bus_port)
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
        return NodesConf(path, open_locked(path))
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
    membership = Membership(Node(node_id, b"", 0))
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
