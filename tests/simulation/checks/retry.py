"""I4: nobody gets a job again before its RETRY, or the lease of that delivery, has passed."""

from tests.simulation.checks.returned import Returned
from tests.simulation.cluster import Cluster
from tests.simulation.history import Claim, Known
from tests.simulation.world import Violation

#: A process that stands still for longer may miss that others ask for its jobs.
STILL_MS = 500
#: What is known of an outage lasts a little longer than the outage.
AFTERMATH_MS = 2000
#: A NACK or ENQUEUE queues the job at once, where it may be queued elsewhere already: until those nodes have talked.
NEWS_MS = 1000


class Retry:
    """Between two deliveries of a job at least RETRY passes, counted from the last delivery or answered WORKING.

    A delivery with a LEASE has that instead; a WORKING says by how many seconds the delivery goes on.

    Excused is what follows an acknowledgement (see `Acknowledged`), a NACK or ENQUEUE; what follows when the node that
    delivered it, or took the WORKING, or handed the job on to that node, crashed, started with another clock, stood
    still for over 500 ms, or got no answer for the node timeout from the node that delivers it again, or from one that
    handed it to that one; and what follows when these nodes threw away what they remembered, were told to delete it, or
    to forget others and did not know them again before the job was there; and what comes from a node that handed the
    job to the one, crashed, and handed it to the other; and where one of both came from a copy that was made by one
    that had been told to forget others, so neither side may know of the other one; and what a node delivers that was
    off for so long, and then reached no other one with the job for so long, that they forgot each
    other, or one that has its copy from there (Rule 52), and what others deliver then. A WORKING that came so late that
    another node had the job in its queue already, or would have it before it heard of this, counts for what came from
    there only from when that one must have heard of it; never, if nobody had got the job before and there was no link.
    Clocks may drift; nothing else counts, not one ms.
    """

    promise = "I4"

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.history = cluster.watch.history
        self.returned = Returned(cluster)
        self.timeout_ms = cluster.world.options.timeout_ms

    def delivered(self, known: Known, claim: Claim) -> None:
        """A reply with the job begins to leave."""
        if not known.plan.retry:
            return
        for earlier in known.claims:
            if earlier is claim or earlier.left_ms < 0 or earlier.at_ms > claim.at_ms:
                continue
            if earlier.working and earlier.at_ms == claim.at_ms and earlier.machine != claim.machine:
                continue  # no news travels within a ms: it was in that queue, or had left it already
            retry_ms = earlier.lease_ms or known.plan.retry * 1000
            passed_ms = claim.at_ms - earlier.at_ms
            if passed_ms < retry_ms - drift_ms(retry_ms) and not self.is_excused(known, earlier, claim):
                what = "WORKING" if earlier.working else "delivery"
                raise Violation(
                    "I4",
                    f"{known.id!r} (RETRY {retry_ms} ms) was delivered by n{claim.machine} at {claim.at_ms}, "
                    f"{passed_ms} ms after a {what} at n{earlier.machine} at {earlier.at_ms}, path {earlier.path}",
                )

    def is_excused(self, known: Known, earlier: Claim, claim: Claim) -> bool:
        """Whether something happened in between that may shorten a RETRY."""
        since_ms, until_ms = earlier.at_ms, claim.at_ms
        if known.deleted or any(since_ms - NEWS_MS <= at <= until_ms for at in known.freed_ms):
            return True
        history = self.history
        if any(since_ms <= ack.at_ms <= until_ms for ack in known.acks):
            return True  # what follows is the business of I5
        late = earlier.late.intersection(claim.path)
        if late and (
            not self.is_heard(earlier.machine, claim.machine, since_ms, until_ms)
            or self.is_in_vain(known, earlier, late)
        ):
            return True
        paths = {*claim.path, *earlier.path}
        if (
            self.forgot_that_it_was_given(earlier, claim)
            or history.evicted(since_ms, until_ms, paths)
            or history.forgot_nodes(paths, known.plan.asked_ms, until_ms)
        ):
            return True
        if any(self.has_untold_copy(known, one) for one in (earlier, claim)) or self.forgot_each_other(
            known, earlier, claim
        ):
            return True
        return any(
            self.has_failed(machine, again, since_ms, until_ms) for machine in earlier.path for again in claim.path
        )

    def forgot_that_it_was_given(self, earlier: Claim, claim: Claim) -> bool:
        """Whether a node handed the job to one of them, crashed, and handed it to the other one."""
        one, other = (dict(zip(path.path[1:], path.handed_ms, strict=True)) for path in (earlier, claim))
        return any(self.history.crashed(giver, *sorted([one[giver], other[giver]])) for giver in one if giver in other)

    def has_untold_copy(self, known: Known, claim: Claim) -> bool:
        """Whether this comes from a copy that was made by a node which had been told to forget others."""
        copied = self.history.copied.get(known.id, {})
        return any(
            self.history.forgot_nodes([giver], since_ms, copied[machine])
            for machine in claim.path
            if machine in copied
            for giver, since_ms in copied.items()
            if since_ms < copied[machine]
        )

    def forgot_each_other(self, known: Known, earlier: Claim, claim: Claim) -> bool:
        """Whether one of these comes from a machine that was back and forgot all others with the job (Rule 52).

        The other one does not, and no machine had to do with both from then on.
        """
        for mine, other in ((earlier, claim), (claim, earlier)):
            ours, theirs = self.line(known, mine), self.line(known, other)
            shared_ms = max((min(ours[machine], theirs[machine]) for machine in ours if machine in theirs), default=-1)
            for machine, since_ms in ours.items():
                back_ms = self.returned.alone_ms(known, machine, mine.at_ms)
                if shared_ms < back_ms <= since_ms:
                    return True
        return False

    def line(self, known: Known, claim: Claim) -> dict[int, int]:
        """The machines by which a job came to a claim, and those from which they got their copies, and so on.

        With until when: the claim, or when the next machine was handed the job or got its copy.
        """
        copied, givers = self.history.copied.get(known.id, {}), self.history.givers.get(known.id, {})
        found = dict(zip(claim.path, (claim.at_ms, *claim.handed_ms), strict=True))
        for machine in claim.path:
            at = machine
            while (giver := givers.get(at, at)) not in found:
                found[giver] = copied[at]
                at = giver
        return found

    def is_heard(self, machine: int, again: int, since_ms: int, until_ms: int) -> bool:
        """Whether the news of a node must have reached another one."""
        network = self.cluster.network
        travel_ms = NEWS_MS + network.slowest(machine, again)
        return any(end - begin >= travel_ms for begin, end in network.log.up(machine, again, since_ms, until_ms))

    def is_in_vain(self, known: Known, working: Claim, late: frozenset[int]) -> bool:
        """Whether a WORKING for a job that nobody had got yet was lost with the link to who had it in its queue.

        That one knows of no delivery, so it has no reason to ask about it when the link is there again.
        """
        if any(not one.working and one.at_ms <= working.at_ms for one in known.claims):
            return False
        network, begin = self.cluster.network, working.at_ms
        for machine in late:
            end = begin + network.slowest(working.machine, machine) + 1
            if (begin, end) not in network.log.up(working.machine, machine, begin, end):
                return True
        return False

    def has_failed(self, machine: int, again: int, since_ms: int, until_ms: int) -> bool:
        """Whether a node that knew of the delivery failed the node that delivers again."""
        history = self.history
        if history.crashed(machine, since_ms, until_ms) or history.jumped(machine, since_ms, until_ms):
            return True
        if history.stood_still(machine, since_ms, until_ms, STILL_MS):
            return True
        if machine == again:
            return False
        if self.has_stopped_apart(machine, again, since_ms, until_ms):
            return True
        from_ms = since_ms - self.timeout_ms - AFTERMATH_MS
        network = self.cluster.network
        gap_ms = network.log.longest_gap(machine, again, max(0, from_ms), until_ms)
        return gap_ms + network.slowest(machine, again) >= self.timeout_ms

    def has_stopped_apart(self, machine: int, again: int, since_ms: int, until_ms: int) -> bool:
        """Whether a node stopped while it could not talk with another one, so that one was not told of the delivery."""
        log = self.cluster.network.log
        stops = [begin for begin, _ in self.history.down.get(machine, ()) if since_ms <= begin <= until_ms]
        return any(not log.up(machine, again, begin - 1, begin) for begin in stops)


def drift_ms(span_ms: int) -> int:
    """By how much two clocks may differ about this span: 200 ppm each, and each may cut off a part of a ms."""
    return span_ms * 400 // 1_000_000 + 2
