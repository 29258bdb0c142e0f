"""The roll of all queues in the order in which they came to be, so that a walk through them survives any change.

Each queue gets the next number when it is made. A cursor is the number to go on from: queues that exist throughout a
walk are met exactly once, however many others come and go. Dropped queues leave gaps, which are closed when they are
the majority.
"""

from bisect import bisect_left
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from disque.core.model.queue import Queue


class QueueIndex:
    """Queues by number, from 1."""

    __slots__ = ("_gaps", "_hand", "_next", "_numbers", "_queues")

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._queues: list[Queue | None] = []
        self._next = 1
        self._gaps = 0
        self._hand = 1

    def add(self, queue: "Queue") -> int:
        """Take ``queue`` in; returns its number."""
        number = self._next
        self._next += 1
        self._numbers.append(number)
        self._queues.append(queue)
        return number

    def drop(self, number: int) -> None:
        """The queue with this number is gone."""
        self._queues[bisect_left(self._numbers, number)] = None
        self._gaps += 1
        if self._gaps > 64 and self._gaps * 2 > len(self._queues):
            kept = [(number, queue) for number, queue in zip(self._numbers, self._queues, strict=True) if queue]
            self._numbers = [number for number, _ in kept]
            self._queues = [queue for _, queue in kept]
            self._gaps = 0

    def look(self, cursor: int, most: int) -> tuple[int, "list[Queue]"]:
        """Up to ``most`` places from ``cursor`` on.

        The cursor to go on from, 0 at the end, and the queues found there.
        """
        start = bisect_left(self._numbers, cursor)
        end = min(start + most, len(self._numbers))
        found = [queue for queue in self._queues[start:end] if queue is not None]
        return (self._numbers[end] if end < len(self._numbers) else 0), found

    def some(self, most: int) -> "list[Queue]":
        """The next ``most`` places in turn, starting over at the end."""
        self._hand, found = self.look(self._hand, most)
        return found
