"""What every scene is given: what there is to be measured, how much of it, where to write it down."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.speed.book import Book, Cell
from tests.speed.scale import Scale
from tests.speed.server import BEANSTALKD, REDIS, Form, Server, new_server

BODY = b"x" * 100


@dataclass
class Setting:
    """A run. `forms` are those of ours that are here, the plain one first; `others` the servers that are installed."""

    folder: Path
    scale: Scale
    forms: Sequence[Form]
    others: Sequence[str]
    rivals: Path
    jobs_most: int
    book: Book = field(default_factory=Book)
    begin_s: float = field(default_factory=time.monotonic)

    @property
    def best(self) -> str:
        """The form that is judged: the compiled one where there is one."""
        return self.forms[-1].name

    @property
    def names(self) -> list[str]:
        """All servers, the best first."""
        return [form.name for form in reversed(self.forms)] + [
            name for name in (REDIS, BEANSTALKD) if name in self.others
        ]

    def say(self, text: str) -> None:
        """Print what is happening, and when."""
        minutes, seconds = divmod(int(time.monotonic() - self.begin_s), 60)
        print(f"[{minutes:2}:{seconds:02}] {text}", flush=True)

    def note(self, scene: str, server: str, what: str, at: int, turn: int, **values: float) -> None:
        """Write down a measurement, and show its most important figures."""
        self.book.add(Cell(scene, server, what, at), turn, **values)
        shown = ", ".join(f"{name} {value:,.6g}" for name, value in list(values.items())[:3])
        self.say(f"{scene}: {server} {what} at {at:,}, round {turn + 1}: {shown}")

    @contextmanager
    def server(self, name: str, *options: str) -> Iterator[Server]:
        """Give a server that runs, and is gone afterwards."""
        server = new_server(name, self.folder, self.forms, *options)
        try:
            server.start()
            yield server
        finally:
            server.discard()
