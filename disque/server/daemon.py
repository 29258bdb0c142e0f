"""The process and its system: background, pid file, name, file descriptors, locks.

All of it happens before the event loop exists or after it has ended. A fork copies only the thread that calls it. So
`daemonize()` must come before everything else.
"""

import contextlib
import errno
import fcntl
import os
import resource
import sys
import tempfile
import threading
from pathlib import Path
from typing import Final, Protocol

#: Open files for what is no client: listeners, log, journal, nodes.conf, links of some nodes, strangers at the bus.
#: And for more of the last two, where the system has that many.
SPARE_FDS: Final = 96
BUS_FDS: Final = 512
STRANGERS_LEAST: Final = 32
COMM: Final = Path("/proc/self/comm")


def daemonize() -> None:
    """Go to the background: the caller's process ends with exit code 0, a grandchild of it returns from this call.

    The grandchild leads no session, so that it can never get a terminal again; standard input and output lead nowhere.
    The working directory stays. Call it while there is one thread and no event loop.
    """
    assert threading.active_count() == 1
    sys.stdout.flush()
    sys.stderr.flush()
    _continue_in_child()
    os.setsid()
    _continue_in_child()
    null = os.open(os.devnull, os.O_RDWR)
    for fd in range(3):
        os.dup2(null, fd)
    if null > 2:
        os.close(null)


def _continue_in_child() -> None:
    if os.fork():
        os._exit(0)


def set_process_name(name: str) -> bool:
    """Set the name that `ps -o comm` and `top` show (15 characters of it). Only Linux can; tell whether it was done."""
    try:
        COMM.write_text(name[:15])
    except OSError:
        return False
    return True


class PidFile:
    """A file with the number of this process and a line end, for those who want to send it signals.

    It is wanted with `daemonize yes`, and whenever `pidfile` is set; "" is none.
    """

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = Path(path).absolute()

    def write(self) -> None:
        """Write the file, in one piece: a reader sees the old content or the new. Raises OSError."""
        fd, name = tempfile.mkstemp(prefix=f"{self.path.name}.", dir=self.path.parent)
        temporary = Path(name)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(self._content())
                os.fchmod(fd, 0o644)
            temporary.replace(self.path)
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise

    def remove(self) -> None:
        """Remove the file at a clean exit, if it still names this process. Never raises."""
        with contextlib.suppress(OSError):
            if self.path.read_bytes() == self._content():
                self.path.unlink()

    @staticmethod
    def _content() -> bytes:
        return b"%d\n" % os.getpid()


class FdLimit(Protocol):
    """The limit of open files of this process, as (now, highest allowed); negative is none."""

    def get(self) -> tuple[int, int]:
        """Give the limit."""

    def set(self, soft: int, hard: int) -> None:
        """Set the limit. Raises OSError or ValueError if the system refuses."""


class SystemFdLimit:
    """The real limit of open files."""

    __slots__ = ()

    def get(self) -> tuple[int, int]:
        """Give the limit."""
        return resource.getrlimit(resource.RLIMIT_NOFILE)

    def set(self, soft: int, hard: int) -> None:
        """Set the limit. Raises OSError or ValueError if the system refuses."""
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def fit_fd_limit(maxclients: int, limit: FdLimit | None = None) -> int:
    """Raise the limit of open files to maxclients + 96 + 512, or as near as the system lets, and never lower it.

    Give how many clients the limit now has room for, at most `maxclients`. Fewer: at start, lower maxclients and log
    `fd_limit_warning`; at CONFIG SET, refuse. 0: there is no room for a single one.
    """
    limit = limit or SystemFdLimit()
    wanted = maxclients + SPARE_FDS + BUS_FDS
    soft, hard = limit.get()
    if 0 <= soft < wanted:
        soft = _raise_fd_limit(limit, soft, hard, wanted)
    return maxclients if soft < 0 else max(0, min(maxclients, soft - SPARE_FDS))


def fds_for_strangers(maxclients: int, limit: FdLimit | None = None) -> int:
    """How many strangers may be connected to the bus, where `fit_fd_limit` has found room for so many clients."""
    soft, _ = (limit or SystemFdLimit()).get()
    return BUS_FDS // 2 if soft < 0 else max(STRANGERS_LEAST, min(BUS_FDS // 2, (soft - maxclients - SPARE_FDS) // 2))


def _raise_fd_limit(limit: FdLimit, soft: int, hard: int, wanted: int) -> int:
    """Try the limit that is wanted, then the highest that is allowed, then less and less; give what it is at last."""
    capped = min(wanted, hard) if hard >= 0 else wanted
    targets: list[int] = [wanted, *range(capped, soft, -16)]
    for target in targets:
        if _set_fd_limit(limit, target, hard if hard < 0 else max(hard, target)):
            return target
    return soft


def _set_fd_limit(limit: FdLimit, soft: int, hard: int) -> bool:
    try:
        limit.set(soft, hard)
    except (OSError, ValueError):
        return False
    return True


def fd_limit_warning(maxclients: int, room: int) -> str:
    """Give the log line for a `maxclients` that had to be lowered to `room`."""
    return (
        f"maxclients {maxclients} needs {maxclients + SPARE_FDS} open files, but the system allows this process only "
        f"{room + SPARE_FDS}: maxclients is now {room}. Raise the limit ('ulimit -n') for more."
    )


class LockedError(Exception):
    """Another process holds the lock."""


def open_locked(path: Path) -> int:
    """Open the file at `path` for reading and writing, made if missing, with an exclusive lock; give its descriptor.

    The lock lasts as long as the descriptor is open, over `daemonize()` too. It belongs to the file and not to its
    name, so a holder that replaces the file must lock the new one before it takes the name, and keep the old one locked
    until then. Whoever gets the lock of a file that has meanwhile lost its name starts again here: so at each moment
    the file that bears the name is locked by one process at most.

    Raises LockedError if another descriptor holds the lock, OSError if the file cannot be opened or locked.
    """
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            lock(fd)
            if _bears_name(fd, path):
                return fd
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)


def lock(fd: int) -> None:
    """Lock an open file, without waiting. Raises LockedError if another descriptor holds the lock, OSError."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in {errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES}:
            raise LockedError from error
        raise


def _bears_name(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False
