"""What was measured: samples by scene, server, operation and size, and what can be said of several rounds.

A machine drifts, so contenders take turns within a round and are compared within it: a ratio is that of one round, and
what is reported of the rounds is their median with the lowest and the highest.
"""

import json
from statistics import median
from typing import Any, Final, NamedTuple, Self

KEYS: Final = ("scene", "server", "what", "at", "turn", "values")


class Cell(NamedTuple):
    """What was measured, however often. `at` is the size that the scene varies: a depth, a number of jobs or nodes."""

    scene: str
    server: str
    what: str
    at: int


class Sample(NamedTuple):
    """One measurement of a cell, in round number `turn`: figures by name, with the unit last in the name."""

    cell: Cell
    turn: int
    values: dict[str, float]


class Spread(NamedTuple):
    """The median of some rounds, and their extremes."""

    middle: float
    low: float
    high: float

    def text(self, form: str = ",.0f") -> str:
        """Give the median, and the extremes in brackets where there are any."""
        middle, low, high = (format(value, form) for value in self)
        return middle if low == high else f"{middle} ({low} to {high})"

    def times(self, factor: float) -> "Spread":
        return Spread(self.middle * factor, self.low * factor, self.high * factor)


def spread(values: list[float]) -> Spread | None:
    """Sum up some rounds; None without any."""
    return Spread(median(values), min(values), max(values)) if values else None


class Book:
    """All samples of a run, and what there is to say of it: `facts` of the machine, `notes` on what is missing."""

    def __init__(self) -> None:
        self.samples: list[Sample] = []
        self.facts: dict[str, str] = {}
        self.notes: list[str] = []

    def add(self, cell: Cell, turn: int, **values: float) -> None:
        self.samples.append(Sample(cell, turn, values))

    def by_turn(self, cell: Cell, key: str) -> dict[int, float]:
        """Give a figure of a cell by round; a round that has it several times counts once, by its last."""
        return {
            sample.turn: sample.values[key] for sample in self.samples if sample.cell == cell and key in sample.values
        }

    def spread(self, cell: Cell, key: str) -> Spread | None:
        return spread(list(self.by_turn(cell, key).values()))

    def ratio(self, cell: Cell, other: Cell, key: str) -> Spread | None:
        """Divide a figure of a cell by that of another one, round by round."""
        ours, theirs = self.by_turn(cell, key), self.by_turn(other, key)
        return spread([ours[turn] / theirs[turn] for turn in ours if theirs.get(turn)])

    def sizes(self, scene: str, server: str = "", what: str = "") -> list[int]:
        """Give the sizes that a scene was measured at, smallest first."""
        cells = {sample.cell for sample in self.samples}
        return sorted(
            {
                cell.at
                for cell in cells
                if cell.scene == scene and server in {"", cell.server} and what in {"", cell.what}
            }
        )

    def servers(self, scene: str, what: str = "") -> list[str]:
        """Give the contenders of a scene in the order in which they were measured."""
        cells = (sample.cell for sample in self.samples)
        return list(dict.fromkeys(cell.server for cell in cells if cell.scene == scene and what in {"", cell.what}))

    def whats(self, scene: str, server: str = "") -> list[str]:
        """Give what was done in a scene, in the order in which it was measured."""
        cells = (sample.cell for sample in self.samples)
        return list(dict.fromkeys(cell.what for cell in cells if cell.scene == scene and server in {"", cell.server}))

    def renewed(self, later: Self, scenes: list[str], notes: list[str]) -> "Book":
        """Another book, in which these scenes are those of ``later``, with ``notes`` on them and one that says so."""
        book = Book()
        book.facts = self.facts
        book.samples = [one for one in self.samples if one.cell.scene not in scenes] + later.samples
        begin = f"Measured later: {', '.join(scenes)},"
        said = (
            f"{begin} by `{later.facts['command']}` on {later.facts['date']}, in the {later.facts['judged form']} form;"
        )
        book.notes = [note for note in self.notes if not note.startswith(begin) and note not in notes]
        book.notes += [f"{said} {later.facts['meanwhile']}.", *notes]
        return book

    def dumps(self) -> str:
        """Give everything as JSON, a line for each sample."""
        rows = [json.dumps(dict(zip(KEYS, [*one.cell, one.turn, one.values], strict=True))) for one in self.samples]
        head = {"facts": self.facts, "notes": self.notes}
        return json.dumps(head, indent=1)[:-2] + ',\n "samples": [\n  ' + ",\n  ".join(rows) + "\n ]\n}\n"

    @classmethod
    def loads(cls, text: str) -> Self:
        """Read what `dumps` gave."""
        found: dict[str, Any] = json.loads(text)
        book = cls()
        book.facts, book.notes = found["facts"], found["notes"]
        for row in found["samples"]:
            scene, server, what, at, turn, values = (row[key] for key in KEYS)
            book.samples.append(Sample(Cell(scene, server, what, at), turn, values))
        return book
