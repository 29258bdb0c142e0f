"""The configuration file as CONFIG REWRITE writes it: in one step, so that a crash leaves the old one or the new."""

import contextlib
import os
from collections.abc import Callable
from os import fsync, getpid
from pathlib import Path

from disque.core.config import conffile
from disque.core.config.settings import Config
from disque.core.host import HostRefusedError


class ConfigFile:
    """The file at ``path``, which is empty when the server was started without one."""

    def __init__(self, path: str, config: Config) -> None:
        self.path = path
        self.config = config

    def prepare(self) -> Callable[[], None]:
        """Read the file and say what is to be written, as a function that does it, in any thread.

        Both raise HostRefusedError.
        """
        if self.config.number("processes") > 1:
            raise HostRefusedError("ERR The config file is shared by all processes: edit it, and restart the service")
        if not self.path:
            raise HostRefusedError("ERR The server is running without a config file")
        path = Path(self.path).absolute()  # the working directory may change
        try:
            before = path.read_text(encoding="utf-8-sig", errors="surrogateescape")
        except FileNotFoundError:
            before = ""
        except OSError as error:
            raise HostRefusedError(f"ERR Rewriting config file: {error.strerror}") from error
        text = conffile.rewrite(before, self.config)
        return lambda: _write(path, text)


def _private(path: str, flags: int) -> int:
    """Open a file that nobody else may read: there are passwords in it."""
    return os.open(path, flags, 0o600)


def keep_rights(path: Path, fd: int) -> None:
    """Give an open file the mode and the owner of the one at ``path``, if there is one, as far as the system lets."""
    try:
        wanted = path.stat()
    except FileNotFoundError:
        return
    with contextlib.suppress(PermissionError):
        os.fchown(fd, wanted.st_uid, wanted.st_gid)
    kept = os.fstat(fd)
    same_group = kept.st_gid == wanted.st_gid
    os.fchmod(fd, wanted.st_mode & (0o777 if same_group else 0o707))  # else another group could read it


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(f"{path.name}.{getpid()}.tmp")
    try:
        with open(temporary, "w", encoding="utf-8", errors="surrogateescape", opener=_private) as file:
            keep_rights(path, file.fileno())
            file.write(text)
            file.flush()
            fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise HostRefusedError(f"ERR Rewriting config file: {error.strerror}") from error
