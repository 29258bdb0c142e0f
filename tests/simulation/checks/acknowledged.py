"""I5: what was acknowledged is not delivered again."""

from cluster.capabilities import REPAIR
from tests.simulation.checks.returned import TALK_MS, Returned
from tests.simulation.cluster import Cluster
from tests.simulation.history import FOREVER, Ack, Claim, Known
from tests.simulation.machine import JUMP_MOST_MS
from tests.simulation.world import Violation

#: Nodes look at their clocks so often.
NEARLY_MS = 50


class Acknowledged:
    """After an ACKJOB of a job was answered 1 or more by a node that knew it, the job is not delivered any more.

    Excused is what a node delivers to which the news had no way: no row of nodes with copies, from the one that took
    the acknowledgement to it, each able to talk to the next for long enough and one after the other (a node whose
    journal can not be written says nothing that hangs on it, and who was told to delete the job remembers nothing of
    it); and what follows when the node that took it has forgotten it, or was told to forget others, or started with a
    clock by which the TTL may have ended, or when what nodes remembered was thrown away, or when a node came back that
    nobody could tell, or when somebody put back what such a node had put away.
    """

    promise = "I5"

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.history = cluster.watch.history
        self.returned = Returned(cluster)
        self.calm = cluster.world.options.calm

    def delivered(self, known: Known, claim: Claim) -> None:
        """A reply with the job begins to leave."""
        if claim.at_ms >= known.expires_ms:
            return  # its TTL ended, and with it what was known of it; clocks that were set may bring it back
        for ack in known.acks:
            if ack.left_ms < 0 or ack.left_ms > claim.at_ms or ack.forgotten:
                continue
            if self.history.evicted(ack.at_ms, claim.at_ms, self.concerned(known, ack, claim)):
                continue
            if (
                self.is_forgetful(known, ack, claim)
                or self.came_back(known, ack, claim)
                or was_put_back(known, ack, claim)
            ):
                continue
            if known.plan.ttl * 1000 <= JUMP_MOST_MS and self.history.jumped(ack.machine, ack.at_ms, claim.at_ms):
                continue  # by its new clock the TTL had ended
            if self.is_known_to(known, ack, claim):
                raise Violation(
                    "I5",
                    f"{known.id!r} was delivered by n{claim.machine} at {claim.at_ms}, "
                    f"acknowledged at n{ack.machine} at {ack.at_ms}",
                )

    def concerned(self, known: Known, ack: Ack, claim: Claim) -> set[int]:
        """The machines that took the acknowledgement, deliver, or ever had a copy."""
        copied = self.history.copied.get(known.id, ())
        return {ack.machine, claim.machine, *known.holders, *known.sources, *known.sources.values(), *copied}

    def is_forgetful(self, known: Known, ack: Ack, claim: Claim) -> bool:
        """Whether one of those who should have passed the news on was told that another one never returns.

        It did not know that one again before the job was there: later jobs are not concerned.
        """
        passed_it_on = {ack.machine, *known.holders, *known.sources, *known.sources.values()}
        return self.history.forgot_nodes(passed_it_on, known.plan.asked_ms, claim.at_ms)

    def came_back(self, known: Known, ack: Ack, claim: Claim) -> bool:
        """Whether a node with a copy was off until the others had forgotten it, and nobody could tell it (Rule 52).

        It went before the news reached it. From its return on it lacks the capability, or each other node that had a
        copy when it went lacks it, or was off for as long in its turn. It has not heard of copies that were made
        later, nor of those at nodes that were forgotten when it got its own.
        """
        for machine, since_ms in self.history.copied.get(known.id, {}).items():
            for gone_ms, back_ms in self.history.absences(machine, since_ms, claim.at_ms):
                others = self.returned.others(known, machine, gone_ms)
                if back_ms > claim.at_ms or self.news_ms(known, ack, machine, gone_ms) <= gone_ms:
                    continue
                if not self.asks(machine, back_ms, claim.at_ms):
                    return True
                if others and all(
                    not self.asks(other, back_ms, claim.at_ms)
                    or self.returned.is_forgotten(other, machine, back_ms, claim.at_ms)
                    for other in others
                ):
                    return True
        return False

    def asks(self, machine: int, since_ms: int, until_ms: int) -> bool:
        """Whether the node there understood questions about copies all this time."""
        return self.history.understood(machine, REPAIR, since_ms, until_ms)

    def is_known_to(self, known: Known, ack: Ack, claim: Claim) -> bool:
        """Whether the node that delivers must know of the acknowledgement."""
        if ack.machine == claim.machine:
            return True
        if was_deleted(known, ack, claim.machine, claim.at_ms):
            return False
        if self.calm and self.was_out(known, ack, claim) and not self.was_freed(known, ack, claim):
            return True
        return self.news_ms(known, ack, claim.machine, claim.at_ms) <= claim.at_ms

    def was_out(self, known: Known, ack: Ack, claim: Claim) -> bool:
        """Whether the job was a consumer's when it was acknowledged, by an earlier delivery than this one.

        Else another node may have it in its queue, and hand it out while the news is on its way; so may one that is
        about to queue it, since the delivery ends at this moment.
        """
        travel_ms = self.cluster.network.slowest(ack.machine, claim.machine) + NEARLY_MS
        return any(
            taken.at_ms <= ack.at_ms < taken.at_ms + (taken.lease_ms or known.plan.retry * 1000) - travel_ms
            for taken in known.claims
            if taken is not claim
        )

    def was_freed(self, known: Known, ack: Ack, claim: Claim) -> bool:
        """Whether somebody put the job into a queue at about that time."""
        return any(ack.at_ms - TALK_MS <= at <= claim.at_ms for at in known.freed_ms)

    def news_ms(self, known: Known, ack: Ack, target: int, until_ms: int) -> int:
        """When the news had reached a node with a copy at the latest, on the best way."""
        if target == ack.machine:
            return ack.at_ms
        left = {*known.holders, *known.sources, *known.sources.values(), known.coordinator} - {-1, target}
        left = {
            machine
            for machine in left
            if not self.history.crashed(machine, ack.at_ms, until_ms) and not was_deleted(known, ack, machine, until_ms)
        }
        left.add(target)  # others may have lost the news, but this one is told again
        left.discard(ack.machine)
        reached = {ack.machine: ack.at_ms}
        source = known.sources.get(target, -1)
        copied = self.history.copied.get(known.id, {})
        is_guest = target not in known.holders and source not in {-1, ack.machine}
        while left:
            ways = dict.fromkeys(left, reached)
            if is_guest and target in ways:
                # Nobody had a reason to tell it before the job came, and that came from where the news must have been.
                ways[target] = {source: reached[source]} if source in reached else {}
            # Nor had anybody a reason to tell the others through which it went on, before it was there.
            came_ms = {machine: 0 if machine in known.holders else copied.get(machine, 0) for machine in ways}
            best_ms, best = min(
                (self._step(way, machine, came_ms[machine], until_ms), machine) for machine, way in ways.items()
            )
            if best_ms >= FOREVER or best == target:
                return best_ms
            reached[best] = best_ms
            left.discard(best)
        return FOREVER

    def _step(self, reached: dict[int, int], machine: int, came_ms: int, until_ms: int) -> int:
        """When the news had reached ``machine``, which got the job at ``came_ms``, from one of those that had it."""
        network = self.cluster.network
        best = FOREVER
        for other, since_ms in reached.items():
            for begin, end in network.log.up(other, machine, max(since_ms, came_ms), until_ms):
                travel_ms = TALK_MS + network.slowest(other, machine) + self.history.silent_ms(other, begin, end)
                if end - begin >= travel_ms:
                    best = min(best, begin + travel_ms)
        return best


def was_deleted(known: Known, ack: Ack, machine: int, until_ms: int) -> bool:
    """Whether a machine was told to drop the job, and so what it knew of the acknowledgement."""
    return ack.at_ms <= known.deleted.get(machine, -1) <= until_ms


def was_put_back(known: Known, ack: Ack, claim: Claim) -> bool:
    """Whether a node put it into `disque:returned` after the acknowledgement, and somebody put it elsewhere from there.

    Where nobody knows of the acknowledgement any more, he decides (Rule 52).
    """
    return any(
        ack.at_ms < returned_ms <= back_ms <= claim.at_ms
        for returned_ms in known.returned_ms
        for back_ms in known.put_back_ms
    )
