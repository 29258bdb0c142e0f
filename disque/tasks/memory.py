"""Jobs without a server, for tests: the same life of a job, in one process, with time that is moved by hand.

What is kept of the rules: delays, priorities, tries, back-off (without its random part), dead letters, UNIQUE keys,
ends and results with RETAIN, TTL. There are no leases: whoever takes a job settles it.
"""

import itertools
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from disque.client import Backoff, Ended, NewJob, Result
from disque.client.replies import Meta
from disque.client.terms import backoff_word
from disque.client.values import Duration, text_of
from disque.tasks.held import Held
from disque.tasks.outcome import Back, Done, Outcome

#: How a job ends, of which nothing more becomes.
ENDS = frozenset({"done", "dead", "cancelled", "expired"})
DAY_S = 86_400.0


@dataclass(slots=True)
class Entry:
    """A job. Times are seconds of the clock that the test moves."""

    id: str
    job: NewJob
    queue: str
    added_s: float
    due_s: float
    number: int
    status: str = "queued"
    tries: int = 0
    error: str | None = None
    origin: str | None = None
    result: bytes | None = None
    ended_s: float | None = None
    progress: str | None = None
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def priority(self) -> int:
        """The priority, from 0 to 255."""
        return self.job.priority or 0

    def expires_s(self) -> float:
        """When its life is over."""
        return self.added_s + plain_s(self.job.ttl, DAY_S)


class Memory:
    """A door to jobs in memory. ``now_s`` is the time of day: it begins with the real one, and is moved by the test."""

    def __init__(self, now_s: float | None = None) -> None:
        self.now_s = time.time() if now_s is None else now_s
        self.entries: dict[str, Entry] = {}
        self._keys: dict[tuple[str, str], tuple[str, float | None]] = {}
        self._numbers = itertools.count(1)

    # -- what tasks ask: see `disque.tasks.door.Door` ----------------------------------------------------------------

    async def add(self, job: NewJob) -> str:
        """See `Door`."""
        job.options()  # refuses what the client would refuse
        queue = text_of(job.queue)
        if job.unique is not None:
            found = self._keeper(queue, text_of(job.unique))
            if found is not None:
                return found
        number = next(self._numbers)
        job_id = f"D-memory00-{number:024}-05a1"
        due_s = self.now_s + plain_s(job.delay, 0.0)
        if job.at is not None:
            due_s = max(self.now_s, job.at.timestamp() if isinstance(job.at, datetime) else float(job.at))
        body = job.body.encode() if isinstance(job.body, str) else bytes(job.body)
        entry = Entry(job_id, job._replace(body=body), queue, self.now_s, due_s, number)
        entry.headers = {text_of(name): text_of(value) for name, value in (job.headers or {}).items()}
        self.entries[job_id] = entry
        if job.unique is not None:
            window_s = plain_s(job.window, 0.0)
            self._keys[queue, text_of(job.unique)] = (job_id, self.now_s + window_s if window_s else None)
        return job_id

    async def add_many(self, jobs: Sequence[NewJob]) -> list[str]:
        """See `Door`."""
        return [await self.add(job) for job in jobs]

    async def wait(
        self,
        ids: Sequence[str],
        timeout: Duration | None,  # noqa: ASYNC109 - see `Door`
    ) -> list[Ended | None]:
        """How they have ended by now: nothing happens while somebody waits, so nobody does."""
        del timeout
        return [self._ended(job_id) for job_id in ids]

    async def result(self, job_id: str) -> Result | None:
        """See `Door`."""
        entry = self.entries.get(job_id)
        if entry is None or (entry.status in ENDS and not self._is_kept(entry)):
            return None
        ago_ms = None if entry.ended_s is None else int((self.now_s - entry.ended_s) * 1000)
        return Result(
            job_id, self._status(entry), entry.result, entry.error, entry.queue, entry.tries, ago_ms, entry.progress
        )

    async def cancel(self, *ids: str) -> int:
        """See `Door`."""
        entries = [self.entries[job_id] for job_id in ids if job_id in self.entries]
        alive = [entry for entry in entries if entry.status not in ENDS]
        for entry in alive:
            self._end(entry, "cancelled")
        return len(alive)

    async def find(self, queue: str, key: str) -> str | None:
        """See `Door`."""
        return self._keeper(queue, key)

    async def longest(self) -> int | None:
        """See `Door`."""
        return None

    # -- what a worker does -----------------------------------------------------------------------------------------

    def take(self) -> Held | None:
        """The job that is next, or None."""
        for entry in [one for one in self.entries.values() if one.status == "queued" and one.expires_s() <= self.now_s]:
            self._end(entry, "expired")
        due = [one for one in self.entries.values() if one.status == "queued" and one.due_s <= self.now_s]
        due = [one for one in due if one.origin is None]  # dead letters are looked at, not run
        if not due:
            return None
        entry = min(due, key=lambda one: (-one.priority, one.number))
        entry.status = "in-flight"
        assert isinstance(entry.job.body, bytes)
        return Held(entry.id, entry.queue, entry.job.body, self._meta(entry), None, math.inf)

    def settle(self, held: Held, outcome: Outcome) -> None:
        """What has become of a job that was taken."""
        entry = self.entries[held.id]
        entry.progress = held.progress or entry.progress
        if entry.status != "in-flight":
            return
        if isinstance(outcome, Done):
            entry.result = outcome.result
            self._end(entry, "done")
        elif isinstance(outcome, Back):
            self._back(entry, outcome)

    def _back(self, entry: Entry, back: Back) -> None:
        entry.status = "queued"
        entry.due_s = self.now_s + (back.delay_s or 0.0)
        if not back.counts:
            return
        entry.tries += 1
        entry.error = back.error
        if back.dead or entry.job.retry == 0 or (entry.job.tries and entry.tries >= entry.job.tries):
            self._die(entry)
        elif back.delay_s is None and entry.job.backoff is not None:
            entry.due_s = self.now_s + backoff_s(entry.job.backoff, entry.tries)

    def _die(self, entry: Entry) -> None:
        name = entry.job.deadletter
        if entry.job.retry == 0 or name == "":
            self._end(entry, "dead")
            return
        entry.origin, entry.queue = entry.queue, f"{entry.queue}:dead" if name is None else text_of(name)
        entry.due_s = self.now_s
        self._free_key(entry)

    # -- rules ------------------------------------------------------------------------------------------------------

    def next_s(self) -> float | None:
        """When the next job is due that is held back."""
        held_back = (one for one in self.entries.values() if one.status == "queued" and one.origin is None)
        return min((one.due_s for one in held_back), default=None)

    def revive(self, job_id: str) -> None:
        """Put a dead letter back, with tries as at first."""
        entry = self.entries[job_id]
        if entry.origin is not None:
            entry.queue, entry.origin, entry.tries, entry.due_s = entry.origin, None, 0, self.now_s

    def _end(self, entry: Entry, status: str) -> None:
        entry.status, entry.ended_s = status, self.now_s
        self._free_key(entry)

    def _free_key(self, entry: Entry) -> None:
        """A key without a window is free when its job ends."""
        for name, (job_id, until_s) in list(self._keys.items()):
            if job_id == entry.id and until_s is None:
                del self._keys[name]

    def _keeper(self, queue: str, key: str) -> str | None:
        found = self._keys.get((queue, key))
        if found is None or (found[1] is not None and found[1] <= self.now_s):
            return None
        return found[0]

    def _is_kept(self, entry: Entry) -> bool:
        return entry.ended_s is not None and self.now_s < entry.ended_s + plain_s(entry.job.retain, 0.0)

    def _status(self, entry: Entry) -> str:
        if entry.origin is not None and entry.status not in ENDS:
            return "dead-letter"
        return "delayed" if entry.status == "queued" and entry.due_s > self.now_s else entry.status

    def _ended(self, job_id: str) -> Ended | None:
        entry = self.entries.get(job_id)
        if entry is None:
            return Ended(job_id, "unknown", None, None)
        if entry.origin is not None and entry.status not in ENDS:
            return Ended(job_id, "dead-letter", None, entry.error)
        if entry.status not in ENDS:
            return None
        if not self._is_kept(entry):
            return Ended(job_id, "gone", None, None)
        return Ended(job_id, entry.status, entry.result, entry.error)

    def _meta(self, entry: Entry) -> Meta:
        left = entry.job.tries - entry.tries if entry.job.tries else None
        age_ms = int((self.now_s - entry.added_s) * 1000)
        due_ms = int((self.now_s - entry.due_s) * 1000)
        return Meta(
            entry.tries, left, 0, 0, entry.priority, age_ms, due_ms, 0, 0, entry.error, entry.origin, entry.headers
        )


def plain_s(duration: Duration | None, otherwise: float) -> float:
    """A duration in seconds."""
    if duration is None:
        return otherwise
    return duration.total_seconds() if isinstance(duration, timedelta) else float(duration)


def backoff_s(backoff: Backoff | str, failures: int) -> float:
    """How long this failure holds a job back, without the random part."""
    kind, *numbers = backoff_word(backoff).decode().split(":")
    base_s = float(numbers[0])
    longest_s = float(numbers[1]) if len(numbers) > 1 else math.inf
    factor = {"fixed": 1.0, "linear": float(failures), "exponential": 2.0 ** min(failures - 1, 32)}[kind.lower()]
    return min(base_s * factor, longest_s)
