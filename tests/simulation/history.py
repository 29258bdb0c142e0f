"""What was promised and what was seen in a run: the only thing that the checkers know.

Times are world time in ms. A job is known from the moment at which somebody outside has seen its ID. Nothing in here
trusts the state of a node, but where a promise is about that state.
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final

from tests.simulation.world import BEAT_MS, World

FOREVER: Final = 1 << 60

Interval = tuple[int, int]


class Plan:
    """What an ADDJOB asks for; its body tells it from all others. Times in s but for ``timeout_ms``.

    ``asked_ms`` is when a node executed it, -1 before.
    """

    __slots__ = (
        "asked_ms",
        "asynchronous",
        "backoff",
        "body",
        "dead",
        "delay",
        "key",
        "priority",
        "queue",
        "repl",
        "retain",
        "retry",
        "timeout_ms",
        "tries",
        "ttl",
        "window",
    )

    def __init__(self, body: bytes, queue: bytes) -> None:
        self.body = body
        self.queue = queue
        self.asked_ms = -1
        self.timeout_ms = 0
        self.repl = 1
        self.retry = 300
        self.delay = 0
        self.ttl = 86400
        self.asynchronous = False
        self.key = b""
        self.window = 0
        self.priority = 0
        self.retain = 0
        #: TRIES, BACKOFF in s, and the queue of dead letters: empty for none.
        self.tries = 0
        self.backoff = 0
        self.dead = queue + b":dead"


class Claim:
    """A delivery, or a WORKING that was answered: from ``at_ms`` on the job is somebody's for RETRY seconds, or for
    ``lease_ms`` where that is not 0.

    ``left_ms`` is when the reply began to leave, -1 before. ``path`` are the machines by which the job came to the
    ``machine`` where this happened, itself included; ``handed_ms`` when each but the first handed it on. ``late`` are
    the machines in whose queues it was by then, or before they could hear of this.
    ``queue`` is where a delivery came from.
    """

    __slots__ = ("at_ms", "handed_ms", "late", "lease_ms", "left_ms", "life", "machine", "path", "queue", "working")

    def __init__(self, at_ms: int, machine: int, life: int, path: tuple[int, ...], *, working: bool) -> None:
        self.at_ms = at_ms
        self.machine = machine
        self.life = life
        self.path = path
        self.handed_ms = (at_ms,) * (len(path) - 1)
        self.working = working
        self.late: frozenset[int] = frozenset()
        self.lease_ms = 0
        self.left_ms = -1
        self.queue = b""


class Ack:
    """An ACKJOB that knew the job, or a CANCEL: executed at ``at_ms`` on ``machine``.

    ``left_ms`` is when the answer left, or -1.

    ``forgotten``: that machine has lost it, or another one was told and has lost it but not the job, or the machine was
    told to forget a node.
    """

    __slots__ = ("at_ms", "forgotten", "is_cancel", "left_ms", "machine")

    def __init__(self, at_ms: int, machine: int, *, is_cancel: bool = False) -> None:
        self.is_cancel = is_cancel
        self.at_ms = at_ms
        self.machine = machine
        self.left_ms = -1
        self.forgotten = False


class Known:
    """What is known of one job."""

    __slots__ = (
        "acks",
        "answered_ms",
        "claims",
        "coordinator",
        "deleted",
        "dequeued",
        "ended",
        "expires_ms",
        "flying",
        "freed_ms",
        "giver",
        "handed_ms",
        "handed_on_ms",
        "handing",
        "holders",
        "id",
        "lost",
        "moved",
        "nack_delay",
        "nacked_elsewhere",
        "plan",
        "popped",
        "put_back_ms",
        "returned_ms",
        "sources",
        "uncounted",
    )

    def __init__(self, job_id: bytes, plan: Plan, expires_ms: int) -> None:
        self.id = job_id
        self.plan = plan
        self.answered_ms = -1
        self.coordinator = -1
        self.holders: set[int] = set()
        #: Why nothing is promised any more: acked, deleted, flushed.
        self.ended = ""
        #: The machines that were told to delete it or everything, acknowledged or not, and when they were last.
        self.deleted: dict[int, int] = {}
        self.expires_ms = expires_ms
        self.claims: list[Claim] = []
        self.acks: list[Ack] = []
        #: When NACK or ENQUEUE was executed.
        self.freed_ms: list[int] = []
        self.nack_delay = 0
        self.dequeued = False
        #: Somebody put it into another queue, or said that it is not to be tried again.
        self.moved = False
        #: When a node has put it into the queue `disque:returned`, and when somebody has put it elsewhere from there.
        self.returned_ms: list[int] = []
        self.put_back_ms: list[int] = []
        #: NACKs at machines that had not delivered it last, or had handed it on since; deliveries ended without a try.
        self.nacked_elsewhere = 0
        self.uncounted = 0
        #: It was handed out by some node, whether or not that left it.
        self.popped = False
        #: Hand-overs on their way, and whether one was lost.
        self.flying = 0
        self.lost = False
        #: A machine that leaves has given it away, the last one if several did, and has not heard whether it was taken.
        self.handing = False
        self.giver = -1
        #: By machine, from where it was handed to it last, and when that was.
        self.sources: dict[int, int] = {}
        self.handed_ms: dict[int, int] = {}
        #: By machine, when it handed the job on last.
        self.handed_on_ms: dict[int, int] = {}

    def is_here(self, machine: int) -> bool:
        """Whether ``machine`` is the one that delivered it last, and has not handed it on since."""
        last = self.claims[-1] if self.claims else None
        return last is not None and last.machine == machine and self.handed_on_ms.get(machine, -1) < last.at_ms

    def is_handed(self, machine: int, source: int, now_ms: int) -> None:
        """It comes to ``machine`` from the queue of ``source``."""
        self.sources[machine] = source
        self.handed_ms[machine] = now_ms

    def path_to(self, machine: int) -> tuple[int, ...]:
        """The machines by which the job came to ``machine``, itself first."""
        path = [machine]
        while (source := self.sources.get(path[-1])) is not None and source not in path:
            path.append(source)
        return tuple(path)

    def deliveries(self) -> list[Claim]:
        """The deliveries that began to leave."""
        return [claim for claim in self.claims if not claim.working and claim.left_ms >= 0]


class History:
    """Everything seen so far."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.plans: dict[bytes, Plan] = {}
        self.jobs: dict[bytes, Known] = {}
        #: Jobs that were dropped since their queue was too long.
        self.dropped: set[bytes] = set()
        #: By job, the machines that have confirmed a copy to the coordinator, and those that lost theirs.
        self.confirmed: dict[bytes, set[int]] = {}
        self.forgot: dict[bytes, set[int]] = {}
        #: By job, the IDs of the nodes that have confirmed a copy: a machine may be several nodes, one after the other.
        self.voters: dict[bytes, set[bytes]] = {}
        #: By job, in order: which machine has confirmed a copy to the coordinator, or (False) is known to the
        #: coordinator to be another process by now, which has none.
        self.votes: dict[bytes, list[tuple[int, bool]]] = {}
        #: By machine: intervals in which its process was not there (and when that began), or stood still.
        self.down: dict[int, list[Interval]] = {}
        self.still: dict[int, list[Interval]] = {}
        self.crashes: dict[int, list[int]] = {}
        self.jumps: dict[int, list[int]] = {}
        #: By machine, since when it was told to forget some node, and when it and all others knew each other again.
        self.forgets: dict[int, list[Interval]] = {}
        #: By machine, when it threw away what it may throw away.
        self.evictions: dict[int, list[int]] = {}
        #: The same of kept ends.
        self.end_evictions: dict[int, list[int]] = {}
        #: By machine, the last time that it was told to drop everything.
        self.flushes: dict[int, int] = {}
        #: The last time that some node dropped what it had, and whom it knew (CLUSTER RESET), and all that ever did.
        self.reset_ms = -1
        self.resets: set[int] = set()
        #: By job, which machines were given a copy, and when first.
        self.copied: dict[bytes, dict[int, int]] = {}
        #: By job and machine, from which one it got that copy.
        self.givers: dict[bytes, dict[int, int]] = {}
        #: By machine, what its processes understood, from when on.
        self.versions: dict[int, list[tuple[int, int]]] = {}
        self.disk_trouble: dict[int, list[Interval]] = {}
        #: By machine, the beats at which its journal let nothing out.
        self.silences: dict[int, list[int]] = {}
        #: When all schedules were deleted at the end; -1 before.
        self.unset_ms = -1
        #: When a machine has lost its copy of a job, the last time.
        self.forgot_ms: dict[bytes, dict[int, int]] = {}
        #: When the last fault was repaired and all nodes were up; -1 before.
        self.healed_ms = -1

    @property
    def flushed_ms(self) -> int:
        """The last time that some node was told to drop everything; -1: none ever was."""
        return max(self.flushes.values(), default=-1)

    def job(self, job_id: bytes, body: bytes) -> Known | None:
        """What is known of a job, which may be seen for the first time; None for one that nobody asked for."""
        known = self.jobs.get(job_id)
        if known is None:
            plan = self.plans.get(body)
            if plan is None:
                return None
            known = self.jobs[job_id] = Known(job_id, plan, self.world.now + plan.ttl * 1000)
            known.ended = "dropped" if job_id in self.dropped else ""
        return known

    def vote(self, job_id: bytes, machine: int, *, counts: bool) -> None:
        """A machine has confirmed a copy to the coordinator, or the coordinator must not count that any more."""
        self.votes.setdefault(job_id, []).append((machine, counts))

    def most_votes(self, job_id: bytes) -> int:
        """How many machines' confirmations counted at the same time, when it was most."""
        counting: set[int] = set()
        most = 0
        for machine, counts in self.votes.get(job_id, ()):
            if counts:
                counting.add(machine)
            else:
                counting.discard(machine)
            most = max(most, len(counting))
        return most

    def forget(self, job_id: bytes, machine: int) -> None:
        """A machine has lost its copy."""
        self.forgot.setdefault(job_id, set()).add(machine)
        self.note_lost(job_id, machine)

    def note_lost(self, job_id: bytes, machine: int) -> None:
        """A machine has lost a copy, which may be one that no answer rested on."""
        self.forgot_ms.setdefault(job_id, {})[machine] = self.world.now

    def has_copy(self, job_id: bytes, machine: int, giver: int = -1) -> None:
        """A machine has a copy, or was asked to take one, by ``giver``."""
        copied = self.copied.setdefault(job_id, {})
        if machine not in copied:
            copied[machine] = self.world.now
            if giver >= 0:
                self.givers.setdefault(job_id, {})[machine] = giver

    def forgot_nodes(self, machines: Iterable[int], since_ms: int, until_ms: int) -> bool:
        """Whether one of these machines had been told to forget others in this time, and did not know them again."""
        return any(touches(self.forgets.get(machine, []), since_ms, until_ms) for machine in machines)

    def understood(self, machine: int, capability: int, since_ms: int, until_ms: int) -> bool:
        """Whether all processes of a machine in this time understood something."""
        versions = self.versions.get(machine, [])
        ends = [at_ms for at_ms, _ in versions[1:]] + [FOREVER]
        return all(
            mask & capability
            for (at_ms, mask), end_ms in zip(versions, ends, strict=True)
            if at_ms <= until_ms and end_ms > since_ms
        )

    def absences(self, machine: int, since_ms: int, until_ms: int) -> list[Interval]:
        """When a machine was off for so long in this time that it was forgotten."""
        least_ms = self.world.options.forget_s * 1000
        down = self.down.get(machine, ())
        return [one for one in down if min(one[1], until_ms) - max(one[0], since_ms) >= least_ms]

    def open_interval(self, intervals: dict[int, list[Interval]], machine: int) -> None:
        """Something begins."""
        intervals.setdefault(machine, []).append((self.world.now, FOREVER))

    def close_interval(self, intervals: dict[int, list[Interval]], machine: int) -> None:
        """It ends."""
        known = intervals.get(machine)
        if known and known[-1][1] == FOREVER:
            known[-1] = (known[-1][0], self.world.now)

    def crashed(self, machine: int, since_ms: int, until_ms: int) -> bool:
        """Whether the process of a machine crashed in this time."""
        return has_one(self.crashes.get(machine, []), since_ms, until_ms)

    def jumped(self, machine: int, since_ms: int, until_ms: int) -> bool:
        """Whether a machine started with a clock that had been set, in this time."""
        return any(since_ms <= at <= until_ms for at in self.jumps.get(machine, ()))

    def stood_still(self, machine: int, since_ms: int, until_ms: int, least_ms: int) -> bool:
        """Whether a process stood still for longer than ``least_ms``, some of it in this time."""
        return any(
            end - begin > least_ms and begin <= until_ms and end >= since_ms
            for begin, end in self.still.get(machine, ())
        )

    def silent_ms(self, machine: int, since_ms: int, until_ms: int) -> int:
        """How much of this time a node could not say what hangs on its journal."""
        beats = self.silences.get(machine, [])
        return BEAT_MS * (bisect_right(beats, until_ms) - bisect_right(beats, since_ms - 1))

    def evicted(self, since_ms: int, until_ms: int, machines: Iterable[int] | None = None) -> bool:
        """Whether one of these nodes, or any, threw away what it may throw away, in this time."""
        chosen = self.evictions if machines is None else machines
        return any(has_one(self.evictions.get(machine, []), since_ms, until_ms) for machine in chosen)

    def evicted_end(self, machine: int, since_ms: int, until_ms: int) -> bool:
        """Whether a node threw away kept ends in this time: also such as only it had, if it reached no other holder."""
        return has_one(self.end_evictions.get(machine, []), since_ms, until_ms)


def has_one(times: list[int], since_ms: int, until_ms: int) -> bool:
    """Whether one of the times, which are in order, is in this time."""
    at = bisect_right(times, since_ms - 1)
    return at < len(times) and times[at] <= until_ms


def touches(intervals: list[Interval], since_ms: int, until_ms: int) -> bool:
    """Whether one of the intervals has a moment in this time."""
    return any(begin <= until_ms and end >= since_ms for begin, end in intervals)
