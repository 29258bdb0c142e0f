"""Compaction: what is alive in old segments is written again, a few hundred records a turn."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from disque.core.node import Node

#: Writes again what is of one kind, and says of each record how much it counts: 1 for a short one.
Copy = Callable[["Node", "Copying"], Iterator[int]]


class Copying:
    """Writes everything again whose newest record is in segment ``upto`` or before. Call `step` until it says True.

    ``now_ms`` is the time of the step that runs.
    """

    __slots__ = ("_walk", "now_ms", "upto")

    def __init__(self, node: "Node", upto: int, copies: list[Copy]) -> None:
        self.upto = upto
        self.now_ms = 0
        self._walk = self._all(node, copies)

    def step(self, most: int, now_ms: int) -> bool:
        """Write up to about ``most`` records; True when there is nothing left."""
        self.now_ms = now_ms
        while most > 0:
            count = next(self._walk, 0)
            if not count:
                return True
            most -= count
        return False

    def _all(self, node: "Node", copies: list[Copy]) -> Iterator[int]:
        for copy in copies:
            yield from copy(node, self)
