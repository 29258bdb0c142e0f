"""Nodes that were off until the others had forgotten them (Rule 52), and what they cannot know when they are back."""

from tests.simulation.cluster import Cluster
from tests.simulation.history import Known

#: Two nodes must have been able to talk for so long, and for the time of a message each way, before they must agree.
TALK_MS = 1500
#: A node that is back asks about its jobs so often.
ASK_MS = 5000


class Returned:
    """What the checkers ask about such nodes."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.history = cluster.watch.history
        self.forget_ms = cluster.world.options.forget_s * 1000

    def others(self, known: Known, machine: int, gone_ms: int) -> list[int]:
        """The other machines of which this one knew, when it went, that they had the job."""
        copied = self.history.copied.get(known.id, {})
        return [
            other
            for other, at_ms in copied.items()
            if other != machine and at_ms <= gone_ms and self.is_known_as_holder(other, machine, at_ms, gone_ms)
        ]

    def is_known_as_holder(self, other: int, machine: int, since_ms: int, until_ms: int) -> bool:
        """Whether a machine must know of another one's copy: that was never forgotten, or could talk to it since."""
        absent = self.history.absences(other, since_ms, until_ms)
        if not absent:
            return True
        intervals = self.cluster.network.log.up(other, machine, absent[-1][1], until_ms)
        return any(end - begin >= TALK_MS for begin, end in intervals)

    def is_forgotten(self, machine: int, at: int, since_ms: int, until_ms: int) -> bool:
        """Whether one machine was out of the reach of another one, ``at``, for so long that it was forgotten there."""
        return self.cluster.network.log.longest_gap(machine, at, since_ms, until_ms) >= self.forget_ms

    def alone_ms(self, known: Known, machine: int, until_ms: int) -> int:
        """When a machine came back that was forgotten, and forgot in their turn all others before it could ask them.

        All others are those of which it knew that they had the job. Both sides go on as if the other one had never had
        it. -1 if that did not happen.
        """
        since_ms = self.history.copied.get(known.id, {}).get(machine, until_ms)
        for gone_ms, back_ms in self.history.absences(machine, since_ms, until_ms):
            others = self.others(known, machine, gone_ms)
            if others and all(self.forgot_in_turn(machine, other, gone_ms, back_ms, until_ms) for other in others):
                return back_ms
        return -1

    def forgot_in_turn(self, machine: int, other: int, gone_ms: int, back_ms: int, until_ms: int) -> bool:
        """Whether a machine that was off, and another one, forgot each other before they could talk again."""
        network = self.cluster.network
        least_ms = ASK_MS + TALK_MS + network.slowest(machine, other)
        talks = [begin for begin, end in network.log.up(machine, other, back_ms, until_ms) if end - begin >= least_ms]
        met_ms = min(talks, default=until_ms)
        down = self.history.down.get(other, ())
        off_ms = sum(max(0, min(end, met_ms) - max(begin, gone_ms)) for begin, end in down)
        return met_ms - gone_ms - off_ms >= self.forget_ms and self.is_forgotten(other, machine, back_ms, met_ms)
