"""The configuration file as CONFIG REWRITE writes it: in one step, so that a crash leaves the old one or the new."""

import contextlib
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
            before = path.read_text(encoding="utf-8", errors="surrogateescape")
        except FileNotFoundError:
            before = ""
        except OSError as error:
            raise HostRefusedError(f"ERR Rewriting config file: {error.strerror}") from error
        text = conffile.rewrite(before, self.config)
        return lambda: _write(path, text)


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(f"{path.name}.{getpid()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
            file.flush()
            fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise HostRefusedError(f"ERR Rewriting config file: {error.strerror}") from error
