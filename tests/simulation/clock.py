"""The clock of one node process: the wall clock of its machine at the start, then time that neither jumps nor stops.

It may be hours off, and it runs a little too fast or too slow. Between nodes nothing may be concluded from it.
"""

from tests.simulation.world import WALL_MS, World

MILLION = 1_000_000


class Clock:
    """Node time in ms, a function of world time: ``offset_ms`` off the true wall clock, ``ppm`` too fast."""

    def __init__(self, world: World, offset_ms: int, ppm: int) -> None:
        self.world = world
        self.zero = world.now
        self.base = WALL_MS + world.now + offset_ms
        self.rate = MILLION + ppm

    def now_ms(self) -> int:
        """The time of the node."""
        return self.base + (self.world.now - self.zero) * self.rate // MILLION

    def advance(self, time_ms: int) -> None:
        """Go on from ``time_ms`` if it is later than now, as a start does with the last time in its journal."""
        ahead = time_ms - self.now_ms()
        if ahead > 0:
            self.base += ahead

    def world_ms(self, node_ms: int) -> int:
        """The first world time at which the clock shows ``node_ms`` or more."""
        if node_ms <= self.base:
            return self.zero
        return self.zero + -(-(node_ms - self.base) * MILLION // self.rate)
