"""Plain functions in threads: their values, their exceptions whatever they are, and how they are told to end."""

import asyncio
import contextvars
import threading
import time

import pytest

from disque.tasks.errors import Cancelled
from disque.tasks.threads import ThreadRun, Threads

NAME: contextvars.ContextVar[str] = contextvars.ContextVar("name")


def test_value_context_and_exceptions() -> None:
    def leave() -> None:
        raise SystemExit(3)

    async def scene() -> None:
        threads = Threads(2)
        NAME.set("ada")
        assert await threads.run(ThreadRun(), NAME.get) == "ada"
        with pytest.raises(SystemExit):
            await threads.run(ThreadRun(), leave)
        assert await threads.run(ThreadRun(), threading.get_ident) != threading.get_ident()

    asyncio.run(scene())


def test_no_more_threads_than_wanted() -> None:
    async def scene() -> int:
        threads = Threads(2)
        barrier = threading.Barrier(2)
        await asyncio.gather(*[threads.run(ThreadRun(), barrier.wait) for _ in range(6)])
        return threads._count

    assert asyncio.run(scene()) == 2


def test_they_end_when_they_are_not_needed() -> None:
    async def scene() -> Threads:
        threads = Threads(3)
        await asyncio.gather(*[threads.run(ThreadRun(), threading.get_ident) for _ in range(6)])
        return threads

    before = set(threading.enumerate())
    threads = asyncio.run(scene())
    begun = set(threading.enumerate()) - before
    threads.close()
    for thread in begun:
        thread.join(30)
    assert begun


def test_a_loop_of_python_is_ended() -> None:
    began = threading.Event()

    def forever() -> None:
        began.set()
        while True:
            time.sleep(0.001)

    async def scene() -> str:
        threads, run = Threads(1), ThreadRun()
        task = asyncio.create_task(threads.run(run, forever))
        await asyncio.to_thread(began.wait)
        run.cancel()
        run.cancel()
        with pytest.raises(Cancelled):
            await task
        result: str = await threads.run(ThreadRun(), lambda: "the thread works on")
        return result

    assert asyncio.run(scene()) == "the thread works on"


def test_what_was_cancelled_before_it_began_does_not_run() -> None:
    called: list[int] = []

    async def scene() -> None:
        run = ThreadRun()
        run.cancel()
        with pytest.raises(Cancelled):
            await Threads(1).run(run, lambda: called.append(1))

    asyncio.run(scene())
    assert called == []


def test_what_no_thread_can_begin_does_not_run_later(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[int] = []

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def scene() -> None:
        threads = Threads(1)
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            with pytest.raises(RuntimeError, match="start new thread"):
                await threads.run(ThreadRun(), lambda: called.append(1))
        await threads.run(ThreadRun(), lambda: called.append(2))

    asyncio.run(scene())
    assert called == [2]


def test_a_cancel_that_comes_late_hits_nobody() -> None:
    async def scene() -> None:
        threads = Threads(1)
        for _ in range(200):
            run = ThreadRun()
            waiting = asyncio.create_task(threads.run(run, lambda: sum(range(50))))
            await asyncio.sleep(0)
            run.cancel()
            with pytest.raises(Cancelled) if not await settled(waiting) else nothing():
                await waiting
        assert await threads.run(ThreadRun(), lambda: 5) == 5

    async def settled(task: "asyncio.Task[object]") -> bool:
        await asyncio.wait([task])
        return task.exception() is None

    asyncio.run(scene())


class nothing:  # noqa: N801 - reads like a context manager of the library
    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...
