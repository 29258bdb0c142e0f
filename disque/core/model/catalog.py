"""What rules of users can name: commands, subcommands and categories, all from the rows of the table of commands.

A unit is what can be allowed or not: a command (``getjob``), or a subcommand (``config|get``). A command with
subcommands is a unit, too: it stands for those that no row lists.
"""

from collections.abc import Iterable
from typing import Final

from disque.core.model.command import (
    ADMIN,
    BLOCKING,
    CHANGES,
    CONSUME,
    DANGEROUS,
    FAST,
    HELP,
    PRODUCE,
    READONLY,
    WRITE,
    Command,
)

#: All categories, in the order in which ACL CAT shows them.
CATEGORIES: Final = (
    b"read",
    b"write",
    b"produce",
    b"consume",
    b"inspect",
    b"pubsub",
    b"admin",
    b"fast",
    b"slow",
    b"blocking",
    b"dangerous",
    b"connection",
)
#: The groups of commands that have to do with jobs.
OF_JOBS: Final = frozenset({"jobs", "queues"})


def categories(row: Command, subcommand: str = "") -> frozenset[bytes]:
    """The categories of a command, or of one of its subcommands."""
    flags = row.flags
    if subcommand in row.tame:
        flags = flags & ~(ADMIN | DANGEROUS | CHANGES | WRITE) | READONLY
    found = {b"fast" if flags & FAST else b"slow"}
    if flags & (WRITE | CHANGES):
        found.add(b"write")
    elif flags & READONLY and row.group in OF_JOBS:
        found |= {b"read", b"inspect"}
    if flags & PRODUCE:
        found.add(b"produce")
    if flags & CONSUME:
        found.add(b"consume")
    if flags & BLOCKING:
        found.add(b"blocking")
    if flags & ADMIN:
        found.add(b"admin")
    if flags & (ADMIN | DANGEROUS):
        found.add(b"dangerous")
    if row.group in {"connection", "pubsub"}:
        found.add(row.group.encode())
    return frozenset(found)


class Catalog:
    """The units by command, and by category."""

    __slots__ = ("by_category", "by_command", "categories", "units")

    def __init__(self, rows: Iterable[Command]) -> None:
        self.by_command: dict[bytes, tuple[bytes, ...]] = {}
        self.categories: dict[bytes, frozenset[bytes]] = {}
        for row in rows:
            units = [row.name]
            self.categories[row.name] = categories(row)
            if HELP in row.subcommands:
                for name, _, _ in row.subcommands:
                    unit = b"%b|%b" % (row.name, name.lower().encode())
                    self.categories[unit] = categories(row, name)
                    units.append(unit)
            self.by_command[row.name] = tuple(units)
        self.units = frozenset(self.categories)
        self.by_category: dict[bytes, tuple[bytes, ...]] = {
            name: tuple([unit for unit, found in self.categories.items() if name in found]) for name in CATEGORIES
        }

    def is_shown(self, unit: bytes) -> bool:
        """Whether ACL CAT names it: a command with subcommands is told by these."""
        return len(self.by_command.get(unit, (unit,))) == 1

    def expand(self, what: bytes) -> tuple[bytes, ...] | None:
        """The units that a rule names behind its sign; None if there is nothing of that name."""
        if what.startswith(b"@"):
            return self.by_category.get(what[1:])
        if b"|" in what:
            return (what,) if what in self.categories else None
        return self.by_command.get(what)

    def unit_of(self, row: Command, args: list[bytes]) -> bytes:
        """What must be allowed for this request."""
        if len(self.by_command[row.name]) > 1 and len(args) > 1:
            unit = b"%b|%b" % (row.name, args[1][:64].lower())
            if unit in self.categories:
                return unit
        return row.name

    def resolve(self, rules: list[bytes], *, base: bool) -> frozenset[bytes] | None:
        """The units that are allowed; None: all. Rules about what this version does not know count for nothing."""
        if base and not rules:
            return None
        allowed = set(self.units) if base else set()
        for rule in rules:
            units = self.expand(rule[1:]) or ()
            if rule.startswith(b"+"):
                allowed.update(units)
            else:
                allowed.difference_update(units)
        return frozenset(allowed)
