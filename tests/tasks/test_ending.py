"""The process of a worker goes on, and ends, whatever functions have left behind."""

import asyncio
import queue
import sys
import threading

import pytest

from disque.tasks.ending import Ending, is_something_left, run_through


async def raising(error: BaseException) -> None:
    raise error


def test_what_leaves_the_loop_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    came: list[str] = []

    async def work() -> None:
        loop = asyncio.get_running_loop()
        for error in (SystemExit(0), KeyboardInterrupt()):
            task = loop.create_task(raising(error))
            with pytest.raises(type(error)):
                await task
            came.append(type(error).__name__)
        loop.call_soon(sys.exit, 3)
        await asyncio.sleep(0)
        loop.stop()
        await asyncio.sleep(0.01)
        came.append("end")

    with asyncio.Runner() as runner:
        run_through(runner.get_loop(), work())
    assert came == ["SystemExit", "KeyboardInterrupt", "end"]
    assert caplog.text.count("the worker goes on") == 4


@pytest.mark.parametrize("error", [SystemExit(3), ValueError("x"), RuntimeError("y")])
def test_what_the_work_itself_raises_is_raised(error: BaseException) -> None:
    with asyncio.Runner() as runner, pytest.raises(type(error)):
        run_through(runner.get_loop(), raising(error))


def test_the_end_comes_when_it_was_said(caplog: pytest.LogCaptureFixture) -> None:
    ended: queue.Queue[int] = queue.Queue()
    ending = Ending(ended.put)
    ending.within(1000)
    ending.within(0)
    assert ended.get(timeout=60) == 0
    assert "does not end" in caplog.text


def test_an_end_that_is_called_off_does_not_come() -> None:
    ended: queue.Queue[int] = queue.Queue()
    ending = Ending(ended.put)
    ending.call_off()
    ending.within(0)
    assert ended.empty()


def test_what_python_would_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    there = [threading.main_thread(), threading.Thread(daemon=True)]
    processes: list[object] = []
    monkeypatch.setattr(threading, "enumerate", lambda: there)
    monkeypatch.setattr("multiprocessing.active_children", lambda: processes)
    assert not is_something_left()
    processes.append(object())
    assert is_something_left()
    processes.clear()
    there.append(threading.Thread(daemon=False))
    assert is_something_left()
