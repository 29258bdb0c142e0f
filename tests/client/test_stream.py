import asyncio
import gc
import inspect
import sys
import threading
import time
from collections.abc import Callable, Container
from itertools import count, islice
from types import FrameType
from typing import Any

import pytest

from disque.client import AsyncDisque, BadIdError, Disque, UnavailableError, bell, stream
from disque.client.config import Address
from disque.client.shelf import PILE_MOST
from disque.client.stream import Acknowledger
from tests.client.fake import (
    WAIT,
    A,
    AsyncFakePool,
    B,
    FakeNodes,
    FakePool,
    Hands,
    MakeHands,
    Words,
    cancel_at_each_await,
    config,
    job_id,
    lost,
    refusal,
    row,
)


class Stock:
    """A node with so many jobs, those of ``once`` at-most-once ones; afterwards consumers wait, or get ``then``."""

    def __init__(self, jobs: int, then: object = WAIT, once: Container[int] = ()) -> None:
        self.numbers = iter(range(jobs))
        self.then = then
        self.once = once
        #: Called when a consumer asks, before it gets anything.
        self.asked: Callable[[], None] = lambda: None
        self.acked: list[bytes] = []
        self.nacked: list[bytes] = []
        #: Those of them that are not to be counted as failures.
        self.uncounted: list[bytes] = []

    def __call__(self, _address: Address, words: Words) -> object:
        if words[0] == b"GETJOB":
            wanted = int(words[words.index(b"COUNT") + 1])
            self.asked()
            return [row(number, once=number in self.once) for number in islice(self.numbers, wanted)] or self.then
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


@pytest.mark.parametrize("prefetch", [0, 10])
def test_after_a_stop_at_most_once_jobs_are_handed_out_and_others_given_back(make: MakeHands, prefetch: int) -> None:
    once = range(2, 100, 2)
    stock = Stock(100, once=once)
    hands = make(stock)
    jobs = hands.client.jobs("q", prefetch=prefetch, count=5)
    step = jobs.__anext__ if hasattr(jobs, "__anext__") else jobs.__next__
    assert hands.wait(step()).id == job_id(0)
    stop(jobs)
    found = [job.id for job in rest(hands, jobs)]
    fetched = range(1, next(stock.numbers))
    assert len(fetched) >= 4
    assert found == [job_id(number, once=True) for number in fetched if number in once]
    assert stock.uncounted == stock.nacked == words(number for number in fetched if number not in once)


@pytest.mark.parametrize("prefetch", [0, 5])
def test_an_at_most_once_job_that_comes_when_it_is_stopped_is_handed_out(make: MakeHands, prefetch: int) -> None:
    stock = Stock(1, once={0})
    hands = make(stock)
    jobs = hands.client.jobs("q", prefetch=prefetch)
    stock.asked = lambda: stop(jobs)
    assert [job.id for job in rest(hands, jobs)] == [job_id(0, once=True)]
    assert stock.nacked == []


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


def rest(hands: Hands, jobs: Any) -> list[Any]:
    """What an iteration of either kind gives until its end."""
    return list(hands.wait(collect(jobs)) if hasattr(jobs, "__anext__") else jobs)


def stop(jobs: Any) -> None:
    """Tell an iteration to stop, and wait until it has heard that."""
    jobs.stop()
    while not jobs._shelf.stopped:
        time.sleep(0.001)


def test_a_signal_may_stop_it_in_the_middle_of_anything() -> None:
    locks: list[Callable[[Any], Any]] = [
        lambda jobs: jobs._fetcher._lock,
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
        lambda jobs: jobs._acknowledger._lock,
        lambda jobs: jobs._fetcher._lock,
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


class TestCancelled:
    """A task that iterates with asyncio, cancelled again and again while it closes the iteration."""

    def client(self, answer: Any) -> AsyncDisque:
        made = AsyncDisque(config())
        made._pool = AsyncFakePool(FakeNodes(answer))  # type: ignore[assignment]  # a fake
        return made

    async def begin(self, jobs: Any, begun: asyncio.Event) -> None:
        """Acknowledge a job, and never be ready with the next one."""
        async with jobs:
            await (await anext(jobs)).ack()
            async with await anext(jobs):
                begun.set()
                await asyncio.Event().wait()

    async def cancelled(self, jobs: Any) -> None:
        begun = asyncio.Event()
        task = asyncio.create_task(self.begin(jobs, begun))
        await begun.wait()
        await cancel_at_each_await(task)
        assert task.cancelled()

    def all_is_told(self, stock: Stock) -> None:
        assert stock.acked == words([0])
        assert sorted(stock.uncounted) == sorted(stock.nacked) == words(range(1, 1 + len(stock.nacked)))
        assert next(stock.numbers) == 1 + len(stock.nacked), "all that was fetched"

    def test_the_end_of_the_client_waits_until_all_is_given_back(self) -> None:
        stock = Stock(100)

        async def main() -> None:
            client = self.client(stock)
            await self.cancelled(client.jobs("q", prefetch=10))
            await client.aclose()
            self.all_is_told(stock)
            assert asyncio.all_tasks() == {asyncio.current_task()}

        asyncio.run(main())

    def test_and_so_does_who_closes_it_again(self) -> None:
        stock = Stock(100)

        async def main() -> None:
            client = self.client(stock)
            jobs = client.jobs("q", prefetch=10)
            await self.cancelled(jobs)
            await asyncio.gather(jobs.aclose(), jobs.aclose())
            assert len(stock.nacked) >= 9
            await client.aclose()
            self.all_is_told(stock)
            assert [job async for job in jobs] == []

        asyncio.run(main())

    def test_nobody_needs_to_wait(self) -> None:
        stock = Stock(100)

        async def main() -> None:
            await self.cancelled(self.client(stock).jobs("q", prefetch=10))
            while asyncio.all_tasks() != {asyncio.current_task()}:
                await asyncio.sleep(0)
                gc.collect()
            self.all_is_told(stock)

        asyncio.run(main())

    def test_also_when_all_tasks_of_the_loop_are_cancelled(self) -> None:
        """As some frameworks do to end: those that fetch and acknowledge are among them."""
        stock = Stock(100)

        async def main() -> None:
            client = self.client(stock)
            begun = asyncio.Event()
            task = asyncio.create_task(self.begin(client.jobs("q", prefetch=10), begun))
            await begun.wait()
            for one in asyncio.all_tasks() - {asyncio.current_task()}:
                one.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await client.aclose()
            self.all_is_told(stock)

        asyncio.run(main())

    def test_who_goes_on_after_it_is_acknowledged_by_another_task(self) -> None:
        stock = Stock(3)

        async def main() -> None:
            async with self.client(stock) as client, client.jobs("q", prefetch=10) as jobs:
                await (await anext(jobs)).ack()
                for one in asyncio.all_tasks() - {asyncio.current_task()}:
                    one.cancel()
                await (await anext(jobs)).ack()
                await (await anext(jobs)).ack()
                assert [job async for job in jobs] == [], "nobody fetches any more"
            assert stock.acked == words([0, 1, 2])

        asyncio.run(main())

    def test_what_went_wrong_is_told_once_to_who_waits_for_the_end(self) -> None:
        def answer(address: Address, words: Words) -> object:
            return refusal("BADID x") if words[0] == b"ACKJOB" else Stock(1)(address, words)

        async def main() -> None:
            jobs = self.client(answer).jobs("q", prefetch=1)
            await (await anext(jobs)).ack()
            await cancel_at_each_await(asyncio.create_task(jobs.aclose()))
            with pytest.raises(BadIdError):
                await jobs.aclose()
            await jobs.aclose()

        asyncio.run(main())


def interrupted_at(number: int, function: Callable[[], object]) -> bool:
    """Call this; Ctrl-C comes when the Python parts of locks return for this time. Whether they have so often."""
    returns, before = 0, sys.gettrace()

    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal returns
        if frame.f_code.co_filename not in {threading.__file__, bell.__file__}:
            return None
        if event == "return":
            returns += 1
            if returns == number:
                raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        function()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


class TestInterrupted:
    """Ctrl-C in the middle of what waits: nothing stays locked, and it can be closed."""

    @pytest.mark.parametrize("then", [WAIT, None], ids=["nothing comes", "it is at the end"])
    def test_while_it_closes(self, then: object) -> None:
        for number in count(1):
            stock = Stock(100, then)
            jobs = client(stock).jobs("q", prefetch=4)
            next(jobs).ack()
            interrupted = interrupted_at(number, jobs.close)
            self.close(jobs)
            assert stock.acked == words([0])
            if not interrupted:
                break
        assert number > 3

    def test_while_it_waits_for_a_job(self) -> None:
        for number in count(1):
            jobs = client(Stock(2)).jobs("q", prefetch=4, timeout=0.05)
            for _ in range(2):
                next(jobs).ack()
            interrupted = interrupted_at(number, lambda: list(jobs))  # noqa: B023 - called at once
            self.close(jobs)
            if not interrupted:
                break
        assert number > 3

    def test_while_an_acknowledgement_waits(self) -> None:
        for number in count(1):
            jobs = client(Stock(2)).jobs("q", prefetch=4)
            first, second = (next(jobs) for _ in range(2))
            first.ack()
            interrupted = interrupted_at(number, second.ack)
            self.close(jobs)
            if not interrupted:
                break
        assert number > 1

    def close(self, jobs: Any) -> None:
        closing = threading.Thread(target=jobs.close, daemon=True)
        closing.start()
        closing.join(30)
        assert not closing.is_alive(), "it waits for a lock that nobody has"
        wait_for_the_end_of_threads()


class TestInterruptedStart:
    """Ctrl-C, or another exception, while a thread starts: it never begins, or begins nevertheless."""

    @pytest.fixture(params=["never", "at once", "late"])
    def interrupted(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
        """The first start of a thread with this name is interrupted. Gives what starts one that is late."""
        start, late = threading.Thread.start, list[threading.Thread]()

        def begin_late() -> None:
            for thread in late:
                start(thread)

        def interrupt(name: str) -> Callable[[], None]:
            def begin(thread: threading.Thread) -> None:
                if thread.name != name:
                    start(thread)
                    return
                monkeypatch.undo()
                if request.param == "at once":
                    start(thread)
                elif request.param == "late":
                    late.append(thread)
                raise KeyboardInterrupt

            monkeypatch.setattr(threading.Thread, "start", begin)
            return begin_late

        return interrupt

    def test_of_the_one_that_fetches(self, interrupted: Any) -> None:
        stock = Stock(100)
        begin = interrupted("disque-prefetch")
        with pytest.raises(KeyboardInterrupt), client(stock).jobs("q", prefetch=4) as jobs:
            next(jobs)
        begin()
        wait_for_the_end_of_threads()
        assert stock.nacked == stock.uncounted == words(range(len(stock.nacked)))
        assert next(stock.numbers) == len(stock.nacked)

    def test_of_the_one_that_acknowledges(self, interrupted: Any) -> None:
        stock = Stock(100)
        begin = interrupted("disque-acknowledge")
        with pytest.raises(KeyboardInterrupt), client(stock).jobs("q", prefetch=4) as jobs:
            next(jobs).ack()
        assert stock.acked == words([0])
        begin()
        wait_for_the_end_of_threads()
        assert stock.acked == words([0])

    def test_who_goes_on_acknowledges_all(self, interrupted: Any) -> None:
        stock = Stock(0)
        acknowledger = Acknowledger(client(stock))
        begin = interrupted("disque-acknowledge")
        with pytest.raises(KeyboardInterrupt):
            acknowledger.put(job_id(0))
        acknowledger.put(job_id(1))
        thread: Any = acknowledger._thread
        assert thread.is_alive()
        acknowledger.close()
        begin()
        wait_for_the_end_of_threads()
        assert sorted(stock.acked) == words(range(2))


def test_an_interrupt_while_it_is_closed_leaves_the_rest_to_the_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_thread: object) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    stock = Stock(100)
    jobs = client(stock).jobs("q", prefetch=4)
    next(jobs)
    monkeypatch.setattr(stream, "finish", interrupt)
    with pytest.raises(KeyboardInterrupt):
        jobs.close()
    del jobs
    wait_for_the_end_of_threads()
    assert stock.nacked == stock.uncounted == words(range(1, 1 + len(stock.nacked)))
    assert next(stock.numbers) == 1 + len(stock.nacked)
