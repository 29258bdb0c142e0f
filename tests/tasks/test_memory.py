"""Jobs in memory: the rules of the server that a test of tasks can see."""

import asyncio
from typing import Any

from disque.client import NewJob
from disque.tasks.memory import Memory, backoff_s
from disque.tasks.outcome import Back, Done


def run(work: Any) -> Any:
    return asyncio.run(work)


def test_backoff() -> None:
    assert [backoff_s("fixed:5", k) for k in (1, 2, 9)] == [5, 5, 5]
    assert [backoff_s("linear:5:12", k) for k in (1, 2, 3)] == [5, 10, 12]
    assert [backoff_s("exponential:1:600", k) for k in (1, 2, 3, 20)] == [1, 2, 4, 600]


def test_the_end_of_a_life() -> None:
    memory = Memory(0.0)
    job_id = run(memory.add(NewJob("q", "body", ttl=10, retain=60)))
    memory.now_s = 10.0
    assert memory.take() is None
    assert run(memory.wait([job_id, "D-x"], None)) == run(memory.wait([job_id, "D-x"], 0))
    [ended, unknown] = run(memory.wait([job_id, "D-x"], None))
    assert (ended.status, unknown.status) == ("expired", "unknown")


def test_at_most_once_and_no_queue_of_dead_letters() -> None:
    memory = Memory(0.0)
    once = run(memory.add(NewJob("q", "body", retry=0, retain=60)))
    nowhere = run(memory.add(NewJob("q", "body", tries=1, deadletter="", retain=60)))
    for _ in range(2):
        held = memory.take()
        assert held is not None
        memory.settle(held, Back("no"))
    assert [one.status for one in run(memory.wait([once, nowhere], None))] == ["dead", "dead"]


def test_what_was_cancelled_meanwhile_stays_so() -> None:
    memory = Memory(0.0)
    job_id = run(memory.add(NewJob("q", "body", retain=60)))
    held = memory.take()
    assert held is not None
    assert run(memory.cancel(job_id)) == 1
    memory.settle(held, Done(b"5"))
    [ended] = run(memory.wait([job_id], None))
    assert ended.status == "cancelled"
