"""When which two machines could talk, in both directions: the checkers excuse much by it, and must not excuse more.

Two machines can talk while each has an open link to the other one, nothing blocks the ways, and neither process stands
still. A period in which they can is an interval of world time.
"""

from typing import TYPE_CHECKING

from tests.simulation.world import World

if TYPE_CHECKING:
    from tests.simulation.network import Network

#: Longer than any run.
FOREVER = 1 << 60

Interval = tuple[int, int]


class LinksLog:
    """The intervals of each pair of machines."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.since: dict[tuple[int, int], int] = {}
        self.past: dict[tuple[int, int], list[Interval]] = {}

    def look_at(self, network: "Network", machine: int) -> None:
        """Something has changed about one machine."""
        pairs = {pair for pair in self.since if machine in pair}
        pairs |= {
            ordered(link.src.machine.number, link.target.machine.number)
            for link in network.links
            if machine in {link.src.machine.number, link.target.machine.number}
        }
        for one, other in sorted(pairs):
            self.look(network, one, other)

    def look(self, network: "Network", one: int, other: int) -> None:
        """Something has changed between two machines."""
        pair = ordered(one, other)
        talking = can_talk(network, *pair)
        since = self.since.get(pair)
        if talking and since is None:
            self.since[pair] = self.world.now
        elif not talking and since is not None:
            del self.since[pair]
            self.past.setdefault(pair, []).append((since, self.world.now))

    def up(self, one: int, other: int, since_ms: int, until_ms: int) -> list[Interval]:
        """The intervals in which they could talk, as far as they touch the time asked about, cut to it."""
        pair = ordered(one, other)
        intervals = list(self.past.get(pair, ()))
        if pair in self.since:
            intervals.append((self.since[pair], FOREVER))
        return [
            (max(begin, since_ms), min(end, until_ms))
            for begin, end in intervals
            if end > since_ms and begin < until_ms
        ]

    def longest_gap(self, one: int, other: int, since_ms: int, until_ms: int) -> int:
        """The longest time without a way to talk within the time asked about."""
        gap = 0
        at = since_ms
        for begin, end in self.up(one, other, since_ms, until_ms):
            gap = max(gap, begin - at)
            at = end
        return max(gap, until_ms - at)


def ordered(one: int, other: int) -> tuple[int, int]:
    """The pair in order."""
    return (one, other) if one < other else (other, one)


def can_talk(network: "Network", one: int, other: int) -> bool:
    """Whether two machines can talk right now."""
    if not (network.is_open(one, other) and network.is_open(other, one)):
        return False
    ends = set()
    for link in network.links:
        if link.src.frozen or link.target.frozen or link.src.gone or link.target.gone:
            continue
        ends.add((link.src.machine.number, link.target.machine.number))
    return (one, other) in ends and (other, one) in ends
