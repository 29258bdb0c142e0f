"""The patterns of a user: which queues and channels they allow, found without comparing each name with each of them."""

from typing import Final

from disque.core.base.glob import Glob
from disque.core.model.claims import READ, WRITE

BOTH: Final = READ | WRITE
#: Names of queues and channels that are compared with patterns: longer ones fit only a pattern that fits all.
NAME_COMPARED: Final = 1024
#: Patterns of a user that are neither a name nor a beginning with a star: each name is compared with all of them.
GLOBS_MOST: Final = 100
#: What means something in a pattern.
SPECIAL: Final = frozenset(b"*?[\\")


class Pattern:
    """Queues that a user may read, write, or both."""

    __slots__ = ("access", "glob", "text")

    def __init__(self, text: bytes, access: int) -> None:
        self.text = text
        self.access = access
        self.glob = Glob(text)

    def word(self) -> bytes:
        """As a rule."""
        if self.access == BOTH:
            return b"~" + self.text
        return (b"%R~" if self.access == READ else b"%W~") + self.text

    def covers(self, beginning: bytes) -> bool:
        """Whether it fits all names that begin so. A pattern that is more than a beginning and a star: no."""
        return is_beginning(self.text) and beginning.startswith(self.text[:-1])


def is_name(text: bytes) -> bool:
    """Whether a pattern fits one name only, as it is."""
    return SPECIAL.isdisjoint(text)


def is_beginning(text: bytes) -> bool:
    """Whether a pattern is a beginning and a star."""
    return text.endswith(b"*") and is_name(text[:-1])


def is_glob(text: bytes) -> bool:
    """Whether a pattern must be compared with each name."""
    return not is_name(text) and not is_beginning(text)


class Index:
    """Patterns made ready for many names: only globs must be compared one by one."""

    __slots__ = ("beginnings", "globs", "names")

    def __init__(self, patterns: list[Pattern]) -> None:
        self.names: dict[bytes, int] = {}
        #: By their length.
        self.beginnings: dict[int, dict[bytes, int]] = {}
        self.globs: list[Pattern] = []
        for one in patterns:
            text = one.text
            if is_name(text):
                self.names[text] = self.names.get(text, 0) | one.access
            elif is_beginning(text):
                starts = self.beginnings.setdefault(len(text) - 1, {})
                starts[text[:-1]] = starts.get(text[:-1], 0) | one.access
            else:
                self.globs.append(one)

    def allows(self, name: bytes, wanted: int) -> bool:
        """Whether one of the patterns fits this name and gives one of these rights."""
        if len(name) > NAME_COMPARED:
            return 0 in self.beginnings and self.beginnings[0][b""] & wanted > 0
        if self.names.get(name, 0) & wanted:
            return True
        for length, starts in self.beginnings.items():
            if starts.get(name[:length], 0) & wanted:
                return True
        return any(one.access & wanted and one.glob.matches(name) for one in self.globs)
