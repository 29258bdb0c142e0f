"""The history file of the shell: plain text, private, and without passwords.

A line with a password (AUTH, HELLO ... AUTH, CONFIG SET requirepass, ACL SETUSER) is stored nowhere, not even for the
arrow keys. Of a paste of several lines only such lines are left out.
"""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from prompt_toolkit.history import History

from disque.core.config.settings import SECRETS

MAX_LINES: Final = 1000
#: Those of this server, and of Redis.
_SECRET_SETTINGS: Final = SECRETS | {"masterauth", "tls-key-file-pass"}


def is_secret(line: str) -> bool:
    """Tell whether a line holds a password, and so must not be kept."""
    words = [word.strip("\"'").lower() for word in line.split()]
    while words and words[0].isdigit():
        del words[0]
    if words[:2] == ["acl", "setuser"]:
        return True
    if words[:1] == ["auth"] or (words[:1] == ["hello"] and "auth" in words):
        return True
    return words[:2] == ["config", "set"] and not _SECRET_SETTINGS.isdisjoint(words[2:])


def without_secrets(text: str) -> str:
    """Leave the secret lines out of a text of one or more lines."""
    return "\n".join(line for line in text.splitlines() if line.strip() and not is_secret(line))


def history_path() -> Path | None:
    """Give the file of the history: DISQUE_HISTFILE or ~/.disque_history; None if switched off with /dev/null."""
    path = Path(os.environ.get("DISQUE_HISTFILE") or "~/.disque_history")
    with contextlib.suppress(RuntimeError):
        path = path.expanduser()
    return None if path == Path(os.devnull) else path


class ShellHistory(History):
    """History in a file, a command a line, of which the last thousand are read; without a file, in memory."""

    def __init__(self, path: Path | None) -> None:
        super().__init__()
        self._path = path

    def append_string(self, string: str) -> None:
        """Remember what was entered, without secrets; nothing that repeats the entry before."""
        kept = without_secrets(string)
        if kept and kept != next(iter(self._loaded_strings), None):
            super().append_string(kept)

    def load_history_strings(self) -> Iterable[str]:
        """Give the entries of the file, newest first; none if it cannot be read."""
        try:
            text = self._path.read_text("utf-8", "replace") if self._path else ""
        except OSError:
            return []
        return [line for line in reversed(text.splitlines()[-MAX_LINES:]) if line]

    def store_string(self, string: str) -> None:
        """Add an entry to the file, which only its owner may read. That it cannot be written is no reason to stop."""
        if self._path is None:
            return
        with contextlib.suppress(OSError):
            opened = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            with os.fdopen(opened, "a", encoding="utf-8", errors="replace") as file:
                file.write(string + "\n")
