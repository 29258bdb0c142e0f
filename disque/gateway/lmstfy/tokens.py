"""Tokens and their limits: what is known of one, and where they are kept if that is a file, or memory.

A file is read again when it has changed, looked at once a second at most, and written as a whole: a crash leaves the
old or the new one. Writers hold a lock beside it, so two gateways that change it at once lose nothing. Without a file,
tokens are in memory, and go with the process. `user_tokens` keeps them in the cluster.
"""

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, Protocol

#: How long a file that was read counts, in seconds.
FRESH_S: Final = 1.0


class Limit(NamedTuple):
    """How often a token may read and write in so many seconds; 0: as often as it likes."""

    read: int
    write: int
    interval: int

    def shown(self) -> dict[str, int]:
        """As JSON has it."""
        return self._asdict()


class Known(NamedTuple):
    """What is known of a token."""

    description: str
    limit: Limit | None = None


#: By namespace and token.
Table = dict[str, dict[str, Known]]


class BrokenError(Exception):
    """The file cannot be read or written; the message says why."""


class Tokens(Protocol):
    """All tokens, wherever they are kept. Raises BrokenError, DisqueError where that place is out of order."""

    async def find(self, namespace: str, token: str) -> Known | None:
        """What is known of a token; None: there is no such."""

    async def of(self, namespace: str) -> dict[str, Known]:
        """All tokens of a namespace."""

    async def limits(self) -> list[tuple[str, str, Limit]]:
        """All limits: namespace, token, limit."""

    async def add(self, namespace: str, token: str, description: str) -> bool:
        """Add a token; False: there is one already."""

    async def remove(self, namespace: str, token: str) -> None:
        """Remove a token and its limit."""

    async def limit(self, namespace: str, token: str, limit: Limit | None) -> None:
        """Set or remove the limit of a token; nothing where there is no such token."""


class FileTokens:
    """All tokens, in a file or in memory. Where the file cannot be read, BrokenError is raised."""

    def __init__(self, path: Path | None = None, clock_s: Callable[[], float] = time.monotonic) -> None:
        self.path = path
        self._clock_s = clock_s
        self._table: Table = {}
        self._seen: tuple[int, int, int] | None = None
        self._looked_s = -FRESH_S

    async def find(self, namespace: str, token: str) -> Known | None:
        """What is known of a token; None: there is no such."""
        return self._fresh().get(namespace, {}).get(token)

    async def of(self, namespace: str) -> dict[str, Known]:
        """All tokens of a namespace."""
        return dict(self._fresh(now=True).get(namespace, {}))

    async def limits(self) -> list[tuple[str, str, Limit]]:
        """All limits: namespace, token, limit."""
        table = self._fresh(now=True)
        return [
            (namespace, token, known.limit)
            for namespace, tokens in table.items()
            for token, known in tokens.items()
            if known.limit is not None
        ]

    async def add(self, namespace: str, token: str, description: str) -> bool:
        """Add a token; False: there is one already."""
        with self._changing() as table:
            tokens = table.setdefault(namespace, {})
            if token in tokens:
                return False
            tokens[token] = Known(description)
        return True

    async def remove(self, namespace: str, token: str) -> None:
        """Remove a token and its limit."""
        with self._changing() as table:
            tokens = table.get(namespace, {})
            tokens.pop(token, None)
            if not tokens:
                table.pop(namespace, None)

    async def limit(self, namespace: str, token: str, limit: Limit | None) -> None:
        """Set or remove the limit of a token; nothing where there is no such token."""
        with self._changing() as table:
            known = table.get(namespace, {}).get(token)
            if known is not None:
                table[namespace][token] = known._replace(limit=limit)

    def _fresh(self, *, now: bool = False) -> Table:
        """The table, read again if the file is another one."""
        if self.path is not None and (now or self._clock_s() - self._looked_s >= FRESH_S):
            self._look(self.path)
        return self._table

    def _look(self, path: Path) -> None:
        try:
            facts = path.stat()
        except FileNotFoundError:
            self._table, self._seen = {}, None
        except OSError as error:
            raise BrokenError(f"{path} cannot be read: {error}") from error
        else:
            seen = (facts.st_ino, facts.st_size, facts.st_mtime_ns)
            if seen != self._seen:
                self._table, self._seen = read(path), seen
        self._looked_s = self._clock_s()

    @contextmanager
    def _changing(self) -> Iterator[Table]:
        """The newest table, to be changed, and written at the end."""
        if self.path is None:
            yield self._table
            return
        try:
            with self.path.with_name(f"{self.path.name}.lock").open("w", encoding="utf-8") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                table = self._fresh(now=True)
                yield table
                write(self.path, table)
        except OSError as error:
            self._seen = None  # what was changed here is not in the file
            raise BrokenError(f"{self.path} cannot be written: {error}") from error


def read(path: Path) -> Table:
    """The table of a file. Raises BrokenError."""
    try:
        found = json.loads(path.read_bytes())
        return {
            namespace: {
                token: Known(one["description"], Limit(**one["limit"]) if one.get("limit") else None)
                for token, one in tokens.items()
            }
            for namespace, tokens in found.items()
        }
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise BrokenError(f"{path} holds no tokens: {error}") from error


def write(path: Path, table: Table) -> None:
    """Replace a file, which nobody else may read. Raises OSError."""
    found = {
        namespace: {
            token: {"description": known.description, **({"limit": known.limit.shown()} if known.limit else {})}
            for token, known in tokens.items()
        }
        for namespace, tokens in table.items()
    }
    new = path.with_name(f"{path.name}.new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as out:
        json.dump(found, out, indent=1, sort_keys=True)
        out.flush()
        os.fsync(out.fileno())
    new.replace(path)
