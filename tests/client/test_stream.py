import asyncio
import gc
import inspect
import threading
import time
from collections.abc import Callable
from itertools import count, islice
from typing import Any

import pytest

from disque.client import BadIdError, Disque, UnavailableError, stream
from disque.client.config import Address
from disque.client.shelf import PILE_MOST
from disque.client.stream import Acknowledger
from tests.client.fake import (
    WAIT,
    A,
    B,
    FakeNodes,
    FakePool,
    Hands,
    MakeHands,
    Words,
    config,
    job_id,
    lost,
    refusal,
    row,
)


class Stock:
    """A node with so many jobs; afterwards consumers wait, or get ``then``."""

    def __init__(self, jobs: int, then: object = WAIT) -> None:
        self.numbers = iter(range(jobs))
        self.then = then
        self.acked: list[bytes] = []
        self.nacked: list[bytes] = []
        #: Those of them that are not to be counted as failures.
        self.uncounted: list[bytes] = []

    def __call__(self, _address: Address, words: Words) -> object:
        if words[0] == b"GETJOB":
            wanted = int(words[words.index(b"COUNT") + 1])
            return [row(number) for number in islice(self.numbers, wanted)] or self.then
        told = {b"ACKJOB": self.acked, b"NACK": self.nacked}[words[0]]
        if words[-1] == b"NOCOUNT":
            words.pop()
            self.uncounted += words[1:]
        told += words[1:]
        return len(words) - 1


def consume(hands: Hands, work: Callable[[Any], Any], **options: Any) -> list[str]:
    """Iterate, do work with each job, end when it returns True; the IDs."""
    seen: list[str] = []
    jobs = hands.client.jobs("q", **options)

    async def asynchronous() -> None:
        async with jobs:
            async for job in jobs:
                seen.append(job.id)
                result = work(job)
                if hasattr(result, "__await__"):
                    result = await result
                if result:
                    break

    if hasattr(jobs, "__aiter__"):
        hands.runner.run(asynchronous())
    else:
        with jobs:
            for job in jobs:
                seen.append(job.id)
                if work(job):
                    break
    return seen


def ids(numbers: Any) -> list[str]:
    return [job_id(number) for number in numbers]


def words(numbers: Any) -> list[bytes]:
    return [job_id(number).encode() for number in numbers]


def after(most: int) -> Callable[[Any], bool]:
    """Work that ends with so many jobs."""
    number = count(1)
    return lambda _job: next(number) == most


def acknowledging(work: Callable[[Any], bool]) -> Callable[[Any], Any]:
    """The same work, and an acknowledgement before it."""

    async def awaited(job: Any) -> bool:
        await job.ack()
        return work(job)

    def called(job: Any) -> Any:
        if inspect.iscoroutinefunction(job.ack):
            return awaited(job)
        job.ack()
        return work(job)

    return called


@pytest.mark.parametrize("prefetch", [0, 1, 2, 64])
def test_jobs_come_in_order_and_are_acknowledged(make: MakeHands, prefetch: int) -> None:
    stock = Stock(100)
    assert consume(make(stock), acknowledging(after(100)), prefetch=prefetch) == ids(range(100))
    assert stock.acked == words(range(100))
    assert stock.nacked == []


def test_what_was_fetched_and_not_handed_out_is_given_back(make: MakeHands) -> None:
    stock = Stock(100)
    assert consume(make(stock), after(3), prefetch=10) == ids(range(3))
    assert stock.nacked == words(range(3, 3 + len(stock.nacked)))
    assert len(stock.nacked) >= 7
    assert stock.uncounted == stock.nacked


def test_without_prefetch_too(make: MakeHands) -> None:
    stock = Stock(100)
    hands = make(stock)
    assert consume(hands, after(2), prefetch=0, count=5) == ids(range(2))
    assert stock.nacked == words(range(2, 5))
    assert len(hands.client._pool.nodes.sent("GETJOB")) == 1


@pytest.mark.parametrize("prefetch", [0, 1, 10])
def test_one_that_is_told_to_stop_ends_after_the_job_at_hand(make: MakeHands, prefetch: int) -> None:
    stock = Stock(100)
    hands = make(stock)
    jobs = hands.client.jobs("q", prefetch=prefetch, count=5)
    step = jobs.__anext__ if hasattr(jobs, "__anext__") else jobs.__next__
    first = hands.wait(step())
    stop(jobs)
    hands.wait(first.ack())
    with pytest.raises((StopIteration, StopAsyncIteration)):
        hands.wait(step())
    assert stock.acked == words([0])
    assert stock.uncounted == stock.nacked == words(range(1, 1 + len(stock.nacked)))
    assert stock.nacked or prefetch == 1


@pytest.mark.parametrize("prefetch", [0, 5])
def test_one_that_waits_for_jobs_can_be_told_to_stop(make: MakeHands, prefetch: int) -> None:
    hands = make(Stock(0))
    jobs = hands.client.jobs("q", prefetch=prefetch)
    if hasattr(jobs, "__anext__"):

        async def wait_and_stop() -> list[Any]:
            waiting = asyncio.create_task(collect(jobs))
            await asyncio.sleep(0)
            jobs.stop()
            return await waiting

        assert hands.runner.run(wait_and_stop()) == []
    else:
        stopping = threading.Timer(0.01, jobs.stop)
        stopping.start()
        assert list(jobs) == []
        stopping.join()


async def collect(jobs: Any) -> list[Any]:
    return [job async for job in jobs]


def stop(jobs: Any) -> None:
    """Tell an iteration to stop, and wait until it has heard that."""
    jobs.stop()
    while not jobs._shelf.stopped:
        time.sleep(0.001)


def test_a_signal_may_stop_it_in_the_middle_of_anything() -> None:
    locks: list[Callable[[Any], Any]] = [
        lambda jobs: jobs._fetcher._changed,
        lambda jobs: jobs._fetcher._interrupt._lock,
        lambda jobs: jobs._client.router._lock,
    ]
    for lock_of in locks:
        jobs = client(Stock(100)).jobs("q", prefetch=4)
        next(jobs).ack()
        with lock_of(jobs):
            jobs.stop()  # as a handler would: the lock is had by the thread that is interrupted
        while not jobs._shelf.stopped:
            time.sleep(0.001)
        assert list(jobs) == []
        wait_for_the_end_of_threads()


def test_so_many_are_fetched_at_a_time(make: MakeHands) -> None:
    hands = make(Stock(20))
    consume(hands, after(20), prefetch=10, count=4)
    counts = {int(request[request.index(b"COUNT") + 1]) for request in hands.client._pool.nodes.sent("GETJOB")}
    assert max(counts) == 4


@pytest.mark.parametrize("prefetch", [0, 10])
def test_it_says_how_jobs_are_taken(make: MakeHands, prefetch: int) -> None:
    hands = make(Stock(5))
    consume(hands, after(5), prefetch=prefetch, lease=1.5, strict=True, meta=True)
    for request in hands.client._pool.nodes.sent("GETJOB"):
        assert request[4:-2] == [b"LEASE", b"1.5", b"STRICT", b"WITHCOUNTERS", b"WITHMETA"]
    with pytest.raises(ValueError, match="lease must be above 0"):
        hands.client.jobs("q", lease=-1)


def test_it_ends_when_none_came_for_a_while(make: MakeHands) -> None:
    assert consume(make(Stock(0)), after(1), timeout=0.01) == []
    assert consume(make(Stock(1, then=None)), after(5), timeout=0, prefetch=0) == ids([0])


def test_when_no_node_is_left_it_ends_with_the_reason(make: MakeHands) -> None:
    stock = Stock(5, then=lost())
    hands = make(stock, config(attempts=1))
    seen: list[str] = []
    with pytest.raises(UnavailableError):
        consume(hands, lambda job: seen.append(job.id))
    assert seen == ids(range(5))


def test_a_broken_iteration_stays_ended(make: MakeHands) -> None:
    hands = make(lambda _address, _words: lost(), config(attempts=1))
    jobs = hands.client.jobs("q", prefetch=0)
    step = jobs.__anext__ if hasattr(jobs, "__anext__") else jobs.__next__
    with pytest.raises(UnavailableError):
        hands.wait(step())
    with pytest.raises((StopIteration, StopAsyncIteration)):
        hands.wait(step())


def test_an_acknowledgement_that_fails_is_told_at_the_latest_when_it_closes(make: MakeHands) -> None:
    def answer(address: Address, words: Words) -> object:
        return refusal("BADID x") if words[0] == b"ACKJOB" else Stock(1)(address, words)

    with pytest.raises(BadIdError):
        consume(make(answer), acknowledging(after(1)))


def test_a_job_can_be_acknowledged_when_the_iteration_is_over(make: MakeHands) -> None:
    stock = Stock(1)
    hands = make(stock)
    kept: list[Any] = []

    def keep(job: Any) -> bool:
        kept.append(job)
        return True

    consume(hands, keep)
    hands.wait(kept[0].ack())
    assert stock.acked == words([0])


def test_nonsense_is_refused(make: MakeHands) -> None:
    hands = make(Stock(0))
    for options in ({"prefetch": -1}, {"count": 0}):
        with pytest.raises(ValueError, match="must"):
            hands.client.jobs("q", **options)
    with pytest.raises(ValueError, match="at least one queue"):
        hands.client.jobs([])
    assert "q, r" in repr(hands.client.jobs(["q", "r"]))


def client(stock: Stock) -> Disque:
    made = Disque(config())
    made._pool = FakePool(FakeNodes(stock))  # type: ignore[assignment]  # a fake
    return made


def threads() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name.startswith("disque")]


def wait_for_the_end_of_threads() -> None:
    """Those of a client that is closed are at their ends: how soon they are there is up to the machine."""
    while threads():
        time.sleep(0.001)


def test_leaving_a_loop_that_alone_knows_the_iteration_closes_it() -> None:
    stock = Stock(100)
    for job in client(stock).jobs("q", prefetch=4):
        job.ack()
        break
    assert stock.acked == words([0])
    assert stock.nacked == words(range(1, 1 + len(stock.nacked)))
    assert stock.nacked
    wait_for_the_end_of_threads()


def test_the_collector_may_close_it_in_the_middle_of_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "LET_GO_S", 0.05)
    locks: list[Callable[[Any], Any]] = [
        lambda jobs: jobs._client.router._lock,
        lambda jobs: jobs._acknowledger._changed,
        lambda jobs: jobs._fetcher._changed,
        lambda jobs: jobs._fetcher._interrupt._lock,
    ]
    for lock_of in locks:
        stock = Stock(100)
        jobs: Any = client(stock).jobs("q", prefetch=4)
        next(jobs).ack()
        jobs.itself, lock = jobs, lock_of(jobs)
        del jobs
        collecting = threading.Thread(target=collect_with, args=(lock,), daemon=True)
        collecting.start()
        collecting.join(30)
        assert not collecting.is_alive(), "it waits for what it has itself"
        deadline_s = time.monotonic() + 30
        while threads() and time.monotonic() < deadline_s:
            time.sleep(0.001)
        wait_for_the_end_of_threads()
        assert stock.acked == words([0])
        assert stock.nacked


def collect_with(lock: Any) -> None:
    with lock:
        gc.collect()


def test_what_is_given_back_goes_to_the_node_that_gave_it(make: MakeHands) -> None:
    nacked: list[tuple[Address, list[bytes]]] = []
    numbers = count(1)
    hands: Hands

    def answer(address: Address, words: Words) -> object:
        if words[0] == b"NACK":
            nacked.append((address, words[1:]))
            return len(words) - 1
        if (number := next(numbers)) > 3:
            return WAIT
        hands.client.router.current = B if address == A else A
        return [row(number)]

    hands = make(answer, config(A, B))
    jobs = hands.client.jobs("q", prefetch=0, count=1)
    step = jobs.__anext__ if hasattr(jobs, "__anext__") else jobs.__next__
    found = [hands.wait(step()) for _ in range(3)]
    jobs._shelf.ready.extend(found)
    hands.wait(jobs.aclose() if hasattr(jobs, "aclose") else jobs.close())
    uncounted = b"NOCOUNT"
    assert sorted(nacked) == [(A, [*words([1, 3]), uncounted]), (B, [*words([2]), uncounted])]


def test_an_exception_in_the_loop_closes_it_and_goes_on() -> None:
    stock = Stock(10)
    with pytest.raises(ZeroDivisionError), client(stock).jobs("q", prefetch=4) as jobs:
        [1 // 0 for _ in jobs]
    wait_for_the_end_of_threads()
    assert len(stock.nacked) >= 3


def test_acknowledgements_gather_while_others_are_under_way() -> None:
    begun, go_on = threading.Event(), threading.Event()
    sent: list[int] = []

    class Slow:
        def ack_many(self, found: list[str]) -> int:
            sent.append(len(found))
            begun.set()
            go_on.wait()
            return len(found)

    slow: Any = Slow()
    acknowledger = Acknowledger(slow)
    assert acknowledger.put("first")
    assert begun.wait(30)
    for number in range(PILE_MOST):
        acknowledger.put(str(number))
    blocked = threading.Thread(target=acknowledger.put, args=("one too many",))
    blocked.start()
    assert blocked.is_alive()
    go_on.set()
    blocked.join()
    acknowledger.close()
    assert sum(sent) == PILE_MOST + 2
    assert sent[:2] == [1, PILE_MOST]
    assert not acknowledger.put("late")


def test_the_node_of_a_job_is_known() -> None:
    with client(Stock(1)).jobs("q") as jobs:
        assert next(jobs).node == A
