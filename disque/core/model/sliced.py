"""What a client has asked for that is done in slices, some of it in each tick."""

from collections import deque

from disque.core.model.session import Session


class Sliced:
    """One such command. Its client is answered at the end, and is handed no further command until then.

    ``size`` are the bytes of its reply so far.
    """

    __slots__ = ("session", "size")

    def __init__(self, session: Session) -> None:
        self.session = session
        self.size = 0


class Bulks:
    """Commands with many IDs, in the order of their turns. ``orphans``: IDs that were left when their clients went."""

    __slots__ = ("line", "orphans")

    def __init__(self) -> None:
        self.line: deque[Sliced] = deque()
        self.orphans = 0
