"""An index: elements in the order in which they came to be, so that a walk through them survives any change.

Each element gets the next number when it is taken in. A cursor is the number to go on from: elements that are there
throughout a walk are met exactly once, however many others come and go. Those that are dropped leave gaps, which are
closed when they are the majority.
"""

from bisect import bisect_left
from typing import Generic, TypeVar

T = TypeVar("T")


class Index(Generic[T]):
    """Elements by number, from 1."""

    __slots__ = ("_elements", "_gaps", "_hand", "_next", "_numbers")

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._elements: list[T | None] = []
        self._next = 1
        self._gaps = 0
        self._hand = 1

    def add(self, element: T) -> int:
        """Take ``element`` in; returns its number."""
        number = self._next
        self._next += 1
        self._numbers.append(number)
        self._elements.append(element)
        return number

    def drop(self, number: int) -> None:
        """The element with this number is gone."""
        self._elements[bisect_left(self._numbers, number)] = None
        self._gaps += 1
        if self._gaps > 64 and self._gaps * 2 > len(self._elements):
            kept = [
                (number, element)
                for number, element in zip(self._numbers, self._elements, strict=True)
                if element is not None
            ]
            self._numbers = [number for number, _ in kept]
            self._elements = [element for _, element in kept]
            self._gaps = 0

    def look(self, cursor: int, most: int) -> tuple[int, list[T]]:
        """Up to ``most`` places from ``cursor`` on.

        The cursor to go on from, 0 at the end, and the elements found there.
        """
        start = bisect_left(self._numbers, cursor)
        end = min(start + most, len(self._numbers))
        found = [element for element in self._elements[start:end] if element is not None]
        return (self._numbers[end] if end < len(self._numbers) else 0), found

    def some(self, most: int) -> list[T]:
        """The next ``most`` places in turn, starting over at the end."""
        self._hand, found = self.look(self._hand, most)
        return found
