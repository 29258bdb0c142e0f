"""What clients of a cluster were promised and what they got, and the judgement over it.

Times are monotonic seconds. A delivery happened at the node somewhen between `asked_s` and `got_s`; an acknowledgement
between `tried_s` and `answered_s`. All judgements are such that this cannot make them wrong.
"""

import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from tests.end_to_end.cluster import NODE_TIMEOUT_MS, Fault

#: How long after its end a fault may still explain something: all is well again after the node timeout and so much.
GRACE_S: Final = NODE_TIMEOUT_MS / 1000 + 5

#: Nodes count in whole milliseconds.
TICK_S: Final = 0.001


class Wish(NamedTuple):
    """What a producer asks for. The body names the wish; wishes with the same key are for one job."""

    body: bytes
    replicate: int
    retry_s: int
    delay_s: int = 0
    asynchronous: bool = False
    key: bytes = b""

    def words(self, queue: str, timeout_ms: int) -> list[str | bytes | int]:
        words: list[str | bytes | int] = ["ADDJOB", queue, self.body, timeout_ms, "RETRY", self.retry_s]
        words += ["REPLICATE", self.replicate, "DELAY", self.delay_s]
        words += ["ASYNC"] if self.asynchronous else []
        return [*words, "UNIQUE", self.key, 60] if self.key else words


class Delivery(NamedTuple):
    body: bytes
    port: int
    asked_s: float
    got_s: float


class Said(NamedTuple):
    """An ACKJOB or a NACK: `known` is what was answered, None when nothing was."""

    port: int
    tried_s: float
    answered_s: float
    known: int | None


def at_least_once(job_id: bytes) -> bool:
    """Whether the job is delivered until it is acknowledged: its ID says so."""
    return int(job_id[-4:], 16) & 1 == 1


class Account:
    """Filled by threads, each of which only adds; judged when they are gone."""

    def __init__(self, faults: list[Fault], stops: list[Fault]) -> None:
        self.faults = faults
        self.stops = stops
        self.sent: dict[bytes, Wish] = {}
        self.answers: dict[bytes, bytes] = {}  # body to ID
        self.deliveries: dict[bytes, list[Delivery]] = {}
        self.acks: dict[bytes, list[Said]] = {}
        self.nacks: dict[bytes, list[Said]] = {}
        self.errors: list[tuple[float, str]] = []  # when they came
        self.refused: list[Wish] = []  # what was answered with one of them
        self.reconnects: list[str] = []
        self.gets_lost = 0  # GETJOB without an answer
        self.jobs_per_get = 0

    # -- while it goes on ------------------------------------------------------------------------------------------

    def delivered(self, job_id: bytes, body: bytes, port: int, asked_s: float) -> int:
        """Note a delivery; give how often this job came by now."""
        times = self.deliveries.setdefault(job_id, [])
        times.append(Delivery(body, port, asked_s, time.monotonic()))
        return len(times)

    def error(self, text: str) -> None:
        self.errors.append((time.monotonic(), text))

    def acked(self) -> int:
        """How many jobs were acknowledged, and that was answered."""
        return len(self.acks)

    # -- at the end ------------------------------------------------------------------------------------------------

    def lost(self) -> set[bytes]:
        """Jobs that were promised and never came, if they are to come at least once."""
        return {job_id for job_id in self.answers.values() if at_least_once(job_id)} - set(self.deliveries)

    def missed(self) -> set[bytes]:
        """The same, of those that come at most once: a connection or a link that breaks can take them along."""
        return {job_id for job_id in self.answers.values() if not at_least_once(job_id)} - set(self.deliveries)

    def twice_at_most_once(self) -> set[bytes]:
        return {job_id for job_id, times in self.deliveries.items() if len(times) > 1 and not at_least_once(job_id)}

    def strangers(self) -> set[bytes]:
        """Bodies that came and that nobody sent."""
        return {delivery.body for times in self.deliveries.values() for delivery in times} - set(self.sent)

    def doubled(self) -> list[bytes]:
        """Bodies that are in more jobs than they may be, though each was sent once.

        Each fault excuses one more with a key: of two jobs that were decided where nodes did not hear each other, one
        is taken back, which may have been delivered, and its ADDJOB, which is not answered yet, tries again.
        """
        bodies = Counter(times[0].body for times in self.deliveries.values())
        excused = len(self.faults) + len(self.stops)
        return [body for body, jobs in bodies.items() if jobs > 1 + (excused if self.sent[body].key else 0)]

    def broken_keys(self) -> dict[bytes, set[bytes]]:
        """Keys for which different IDs were answered."""
        keys: dict[bytes, set[bytes]] = {}
        for body, job_id in self.answers.items():
            keys.setdefault(self.sent[body].key, set()).add(job_id)
        return {key: ids for key, ids in keys.items() if key and len(ids) > 1}

    def again(self) -> Counter[str]:
        """Why jobs that come at least once came once more: reason to count. Two of the reasons are no excuse."""
        return Counter(reason for _, reason in self.reasons())

    def reasons(self) -> Iterator[tuple[bytes, str]]:
        for job_id, times in self.deliveries.items():
            if at_least_once(job_id):
                for first, second in pairwise(sorted(times, key=lambda delivery: delivery.got_s)):
                    yield job_id, self._reason(job_id, first, second)

    def _reason(self, job_id: bytes, first: Delivery, second: Delivery) -> str:
        retry_s = self.sent[first.body].retry_s
        begin_s = min(first.asked_s, second.asked_s)
        acks = [ack for ack in self.acks.get(job_id, ()) if ack.known and ack.answered_s < second.asked_s]
        if any(nack.tried_s < second.got_s for nack in self.nacks.get(job_id, ())):
            return "nack"
        if not acks and second.got_s - begin_s >= retry_s - TICK_S:
            return "retry"
        if any(fault.touches(begin_s, second.got_s, retry_s + GRACE_S) for fault in self.faults):
            return "fault"
        return "after its acknowledgement" if acks else "early"

    def check(self, errors_allowed: tuple[str, ...] = ()) -> None:
        """All promises were kept. Errors that begin with one of these words were to be expected while something failed.

        A node that only stops and starts again excuses nothing but two jobs for one key: while it is away, others
        cannot ask it.
        """
        shown = str(self)
        assert not self.lost(), shown
        assert not self.twice_at_most_once(), shown
        assert not self.strangers(), shown
        doubled = self.doubled()
        assert not doubled, f"{shown}\n{[(self.sent[body], self.tales(body)) for body in doubled]}"
        wrong = [(job_id, why, self.history(job_id)) for job_id, why in self.reasons() if why in NO_EXCUSE]
        assert not wrong, f"{shown}\n{wrong}"
        assert self.faults or self.stops or not self.broken_keys(), f"{shown}\n{self.broken_keys()}"
        bound = (self.gets_lost + len(self.faults)) * self.jobs_per_get
        assert len(self.missed()) <= bound, f"more at-most-once jobs than {bound} are gone: {shown}"
        unexpected = [error for at_s, error in self.errors if not self._to_be_expected(at_s, error, errors_allowed)]
        assert not unexpected, f"{shown}\n{unexpected[:10]}\n{self.refused[-10:]}"

    def _to_be_expected(self, at_s: float, error: str, allowed: tuple[str, ...]) -> bool:
        return error.startswith(allowed) and any(fault.touches(at_s, at_s, GRACE_S) for fault in self.faults)

    def tales(self, body: bytes) -> list[tuple[bytes, list[tuple[float, str]]]]:
        """The histories of all jobs with this body."""
        jobs = [job_id for job_id, times in self.deliveries.items() if times[0].body == body]
        return [(job_id, self.history(job_id)) for job_id in jobs]

    def history(self, job_id: bytes) -> list[tuple[float, str]]:
        """What clients saw of a job, and the faults, in the order of time."""
        told = [(each.got_s, f"{each.port} gave it, asked at {each.asked_s:.4f}") for each in self.deliveries[job_id]]
        for verb, book in (("ack", self.acks), ("nack", self.nacks)):
            told += [(each.answered_s, f"{each.port} answered {each.known} to {verb}") for each in book.get(job_id, ())]
        for fault in [*self.faults, *self.stops]:
            told += [(fault.begin_s, fault.name), (fault.end_s or 0.0, f"end of {fault.name}")]
        return sorted(told)

    def __str__(self) -> str:
        faults = dict(Counter(fault.name for fault in self.faults))
        return (
            f"{len(self.answers)} jobs answered of {len(self.sent)}, {len(self.deliveries)} delivered, "
            f"{len(self.acks)} acknowledged; faults {faults}; lost {len(self.lost())}, at-most-once twice "
            f"{len(self.twice_at_most_once())}, missed {len(self.missed())} with {self.gets_lost} replies lost; "
            f"again {dict(self.again())}; keys broken {len(self.broken_keys())}; reconnects {len(self.reconnects)}; "
            f"errors {dict(Counter(error for _, error in self.errors))}"
        )


#: What may happen to no job, whatever fails.
NO_EXCUSE: Final = frozenset({"early", "after its acknowledgement"})
