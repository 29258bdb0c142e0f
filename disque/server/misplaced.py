"""Journal files that are not where they belong: under a wrong number, there twice, or of another node's journal.

The head of each segment has its number, and a part of the salt of the segment before. Its first record has the ID of
the node that wrote it. So a file that somebody has moved, copied or brought from elsewhere is recognised, and not taken
for a torn one. The start stops and names the file. `disque check-aof` finds it with the same function, and with --fix
puts it right.

If a file does not follow the one before, the files are of two journals, or of two times of one. As many files as
possible of those that this node wrote are kept, then of the others.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from disque.core.journal.frames import UNLINKED, Head


class Misplaced(NamedTuple):
    """A file that is called `number`: `belongs` is its right number, 0 where there is no place for it."""

    number: int
    belongs: int
    why: str


class Found:
    """What the files of a row say of themselves, each by the number that it is called by.

    `claims`: the number in its head, 0 if it cannot be read. `heads`: those that can, or None. `writers`: the ID of the
    node that wrote it, where it says that.
    """

    __slots__ = ("claims", "heads", "writers")

    def __init__(self) -> None:
        self.claims: dict[int, int] = {}
        self.heads: dict[int, Head | None] = {}
        self.writers: dict[int, bytes] = {}


def find_misplaced(found: Found, own: bytes, path: Callable[[int], str]) -> list[Misplaced]:
    """Name the files that are not where they belong. `own` is the ID of the node that lives there, b"" if unknown."""
    misplaced: list[Misplaced] = []
    taken = {number for number, claim in found.claims.items() if claim == number}
    for number, claim in sorted(found.claims.items()):
        if claim in {0, number}:
            continue
        if claim in taken:
            misplaced.append(Misplaced(number, 0, f"{path(number)} is segment {claim}, and so is {path(claim)}"))
        else:
            taken.add(claim)
            why = f"{path(number)} is segment {claim}: it belongs to {path(claim)}"
            misplaced.append(Misplaced(number, claim, why))
    return misplaced or _strangers(found, own, path)


def _strangers(found: Found, own: bytes, path: Callable[[int], str]) -> list[Misplaced]:
    """Name the files that are of another journal than the others."""
    parts = _parts(found.heads)
    home = _most(parts, [sum(_weight(found, number, own) for number in part) for part in parts])
    misplaced = []
    for number in sorted(found.heads.keys() - home):
        writer = found.writers.get(number, b"").decode("ascii", "replace")
        is_known = writer and found.writers[number] not in {own, *[found.writers.get(one) for one in home]}
        whose = f"it is from a journal of node {writer}" if is_known else "it is from another time or another journal"
        misplaced.append(Misplaced(number, 0, f"{path(number)} does not belong to the other files: {whose}"))
    return misplaced


def _weight(found: Found, number: int, own: bytes) -> int:
    """What it is worth to keep a file: one that this node wrote more than all that it did not."""
    return len(found.heads) + 1 if own and found.writers.get(number) == own else 1


def _most(parts: list[list[int]], weights: list[int]) -> set[int]:
    """Choose parts of which no two are neighbours, so that together they weigh the most; the earlier ones in doubt."""
    kept: list[tuple[int, set[int]]] = [
        (0, set()),
        (0, set()),
    ]  # the best choice up to the part before, and before that
    for part, weight in zip(parts, weights, strict=True):
        with_it = (kept[-2][0] + weight, kept[-2][1] | set(part))
        kept.append(max(kept[-1], with_it, key=lambda choice: choice[0]))
    return kept[-1][1]


def _parts(heads: Mapping[int, Head | None]) -> list[list[int]]:
    """Part the row where a file says that it follows another one than that which is there."""
    parts: list[list[int]] = []
    for number, head in sorted(heads.items()):
        before = heads.get(number - 1)
        broken = before is not None and head is not None and head.follows not in {UNLINKED, before.link}
        if broken or not parts:
            parts.append([])
        parts[-1].append(number)
    return parts
