"""Jobs that fail, die, come back and end, at one node, against a model that is small and plainly right.

Any commands in any order at any times: what they answer, what lies in each queue, and what RESULT tells of each job.
Now and then the node is killed and started again from its journal: what consumers had is in its queue then, and all
else is as it was.
"""

from typing import Any, Final

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from disque.core.journal import codec
from disque.core.journal.replay import Replay
from tests.conftest import examples
from tests.core.support import Bench, Client

RETRY_S: Final = 5
HELD_MS: Final = 2000
QUEUES: Final = ("q", "q:dead", "r", "r:dead", "grave")
BOOT: Final = "boot"

QUEUED, OUT, HELD = "queued", "in-flight", "delayed"


class ModelJob:
    """What is known of a job: where it is, and how it ended."""

    def __init__(self, job_id: bytes, number: int, limit: int, letter: str | None, retain_s: int, held: bool) -> None:
        self.id = job_id
        self.number = number
        self.limit = limit
        self.letter = letter
        self.retain_s = retain_s
        self.backs_off = held
        self.queue = self.origin = "q"
        self.state = QUEUED
        self.due_ms = 0
        self.delivered = False
        self.tries = 0
        self.error: bytes | None = None
        self.is_dead = False
        self.status = b""
        self.result: bytes | None = None
        self.kept_until_ms = 0

    @property
    def grave(self) -> str:
        """The queue in which it will be when it has died."""
        return f"{self.queue}:dead" if self.letter is None else self.letter


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench(journaling=True)
        self.client: Client = self.bench.client()
        self.jobs: list[ModelJob] = []
        self.payloads: list[bytes] = []
        self.starts = 1

    # -- the model -----------------------------------------------------------------------------------------------------

    @property
    def now_ms(self) -> int:
        return self.bench.now_ms

    def line(self, queue: str) -> list[ModelJob]:
        return [job for job in self.jobs if not job.status and job.queue == queue and job.state == QUEUED]

    def put(self, job: ModelJob, state: str = QUEUED, due_ms: int = 0) -> None:
        job.state, job.due_ms = state, due_ms
        job.delivered &= state == OUT

    def fail(self, job: ModelJob, *, dead: bool = False, delay_ms: int = 0) -> None:
        """A try has ended."""
        job.tries += 1
        if job.is_dead:
            self.put(job, *((HELD, self.now_ms + delay_ms) if delay_ms else ()))
        elif dead or (job.limit and job.tries >= job.limit):
            self.die(job)
        else:
            self.put(job, *((HELD, self.now_ms + delay_ms) if delay_ms else ()))

    def die(self, job: ModelJob) -> None:
        if not job.grave:
            self.end(job, b"dead", None)
            return
        job.origin, job.queue, job.is_dead, job.tries = job.queue, job.grave, True, 0
        self.put(job)

    def end(self, job: ModelJob, status: bytes, result: bytes | None) -> None:
        keep_s = job.retain_s
        if status == b"cancelled" and job.state == OUT:
            keep_s = max(keep_s, RETRY_S)
        job.status, job.result, job.kept_until_ms = status, result, self.now_ms + keep_s * 1000

    def pick(self, number: int) -> ModelJob | None:
        return self.jobs[-1 - number % len(self.jobs)] if self.jobs else None

    # -- commands ------------------------------------------------------------------------------------------------------

    picks = st.integers(0, 4)

    @rule(
        limit=st.sampled_from([0, 1, 2, 3]),
        letter=st.sampled_from([None, None, "", "grave"]),
        retain_s=st.sampled_from([0, 1, 60]),
        held=st.booleans(),
    )
    def add(self, limit: int, letter: str | None, retain_s: int, held: bool) -> None:
        words: list[str | int] = ["RETRY", RETRY_S, "TRIES", limit, "RETAIN", retain_s, "HEADER", "a", "b"]
        words += [] if letter is None else ["DEADLETTER", letter]
        words += ["BACKOFF", f"fixed:{HELD_MS // 1000}:{HELD_MS // 1000}:0"] if held else []
        job_id = self.client.add("q", "body", *words)
        self.jobs.append(ModelJob(job_id, len(self.jobs), limit, letter, retain_s, held))

    @rule(queue=st.sampled_from(["q", "q", "q", *QUEUES]), count=st.integers(1, 3))
    def get(self, queue: str, count: int) -> None:
        expected = self.line(queue)[:count]
        assert self.client.get(queue, count=count) == [job.id for job in expected]
        for job in expected:
            self.put(job, OUT, self.now_ms + RETRY_S * 1000)
            job.delivered = True

    @rule(number=picks, error=st.sampled_from([None, b"one", b"two"]), dead=st.sampled_from([False, False, True]))
    def nack(self, number: int, error: bytes | None, dead: bool) -> None:
        job = self.pick(number)
        if job is None:
            return
        words: list[str | bytes] = ["ERROR", error] if error is not None else []
        words += ["DEAD"] if dead else []
        answer = self.client("NACK", job.id, *words)
        if job.status or job.state == QUEUED:
            assert answer == 0
            return
        assert answer == 1
        if job.state == HELD:
            return
        job.error = error if error is not None else job.error
        self.fail(job, dead=dead, delay_ms=HELD_MS if job.backs_off and not job.is_dead else 0)

    @rule(number=picks)
    def give_back(self, number: int) -> None:
        job = self.pick(number)
        if job is not None:
            answer = self.client("NACK", job.id, "NOCOUNT")
            assert answer == int(not job.status and job.state != QUEUED)
            if answer:
                self.put(job)

    @rule(number=picks, result=st.sampled_from([None, b"", b"value", b"other"]))
    def acknowledge(self, number: int, result: bytes | None) -> None:
        job = self.pick(number)
        if job is not None:
            words: list[str | bytes] = [] if result is None else ["RESULT", result]
            assert self.client("ACKJOB", job.id, *words) == int(not job.status)
            if not job.status:
                self.end(job, b"done", result)

    @rule(number=picks, waiting=st.booleans())
    def cancel(self, number: int, waiting: bool) -> None:
        job = self.pick(number)
        if job is not None:
            can_be = not job.status and not (waiting and job.delivered)
            assert self.client("CANCEL", job.id, *["WAITING"] * waiting) == int(can_be)
            if can_be:
                self.end(job, b"cancelled", None)

    @rule(number=picks)
    def working(self, number: int) -> None:
        job = self.pick(number)
        if job is None:
            return
        reply = self.client.raw("WORKING", job.id)
        if not job.status:
            assert reply == b":%d\r\n" % RETRY_S
            self.put(job, OUT if job.state == QUEUED else job.state, self.now_ms + RETRY_S * 1000)
        elif job.status == b"cancelled" and self.now_ms < job.kept_until_ms:
            assert reply.startswith(b"-CANCELLED")
        else:
            assert reply.startswith(b"-NOJOB")

    @rule(number=picks)
    def revive(self, number: int) -> None:
        job = self.pick(number)
        if job is not None:
            can_be = not job.status and job.is_dead
            assert self.client("REVIVEJOB", job.id) == int(can_be)
            if can_be:
                job.queue, job.is_dead, job.tries = job.origin, False, 0
                self.put(job)

    @rule(number=picks)
    def move(self, number: int) -> None:
        job = self.pick(number)
        if job is not None and not job.is_dead:
            assert self.client("MOVE", "r", job.id) == int(not job.status)
            if not job.status:
                job.queue, job.tries = "r", 0
                self.put(job)

    @rule(ms=st.sampled_from([1, 500, 1999, 2000, 5000, 61_000]))
    def pass_time(self, ms: int) -> None:
        until_ms = self.now_ms + ms
        while (next_ms := min([job.due_ms for job in self.jobs if self.is_due(job)], default=until_ms + 1)) <= until_ms:
            self.bench.advance(next_ms - self.now_ms)
            for job in self.jobs:
                if self.is_due(job) and job.due_ms <= self.now_ms:
                    if job.delivered:
                        self.fail(job)
                    else:
                        self.put(job)
        self.bench.advance(until_ms - self.now_ms)

    @staticmethod
    def is_due(job: ModelJob) -> bool:
        return not job.status and job.state != QUEUED

    # -- what must be so -----------------------------------------------------------------------------------------------

    @invariant()
    def queues_are_as_long_as_they_should_be(self) -> None:
        for queue in QUEUES:
            assert self.client("QLEN", queue) == len(self.line(queue)), queue

    @invariant()
    def results_are_told(self) -> None:
        for job in self.jobs[-5:]:
            reply = self.client("RESULT", job.id)
            if job.status and self.now_ms >= job.kept_until_ms:
                assert reply is None
                continue
            found: dict[bytes, Any] = dict(zip(reply[::2], reply[1::2], strict=True))
            status = job.status or (b"dead-letter" if job.is_dead else job.state.encode())
            assert (found[b"status"], found[b"queue"]) == (status, job.queue.encode())
            assert found[b"result"] == (job.result or None)
            assert found[b"error"] == job.error

    @rule()
    def crash(self) -> None:
        """Kill the node, and start it from its journal."""
        self.payloads += codec.encode(self.bench.node.outbox.take(), self.now_ms)
        self.starts += 1
        other = Bench(journaling=True, seed=self.starts)
        other.now_ms = self.now_ms
        replay = Replay(other.node, BOOT)
        replay.apply(codec.head(self.bench.node, BOOT, "always", self.now_ms), 1)
        for payload in self.payloads:
            replay.apply(payload, 1)
        for _ in replay.finish(self.now_ms):
            pass
        other.node.journaling = True
        self.bench, self.client = other, other.client()
        for job in self.jobs:
            if not job.status and job.state == OUT:
                self.put(job)


TestJobsThatFailAndEnd = Machine.TestCase
TestJobsThatFailAndEnd.settings = settings(
    max_examples=examples(200), stateful_step_count=40, suppress_health_check=[HealthCheck.too_slow]
)
