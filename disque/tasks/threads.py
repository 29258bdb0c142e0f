"""Threads for plain functions, which can be told to end.

Python cannot end a thread. It can raise an exception in it, at the next instruction of Python that it runs: so
`Cancelled` reaches a function that computes or loops, and not one that waits inside of the system (a socket,
`time.sleep`) until it is back. Such a function keeps its place, and its job is settled meanwhile.

The race is with the end of the function: an exception that comes late must not hit the next one. A lock is around both;
whatever is still on its way when the function has ended is taken back.

A function that forks and lets the child return would leave a second worker behind that believes to have the same jobs:
such a child is ended at once. A child that does what it was made for, as those of `multiprocessing` do, ends at
SIGTERM, which here is told to the worker.
"""

import asyncio
import contextvars
import ctypes
import os
import queue
import signal
import threading
from collections.abc import Callable
from typing import Any

from disque.tasks.errors import Cancelled

Ended = tuple[Any, BaseException | None]


class ThreadRun:
    """One call in a thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread_id: int | None = None
        self._is_cancelled = False
        self.is_over = False

    def begin(self) -> None:
        """The function begins in this thread. Raises `Cancelled` if it was cancelled before."""
        with self._lock:
            self._thread_id = threading.get_ident()
            if self._is_cancelled:
                raise Cancelled

    def end(self) -> None:
        """It has ended: nothing more can reach it."""
        with self._lock:
            if self._is_cancelled and self._thread_id is not None:
                raise_in(self._thread_id, None)
            self._thread_id = None
            self.is_over = True

    def cancel(self) -> None:
        """Raise `Cancelled` in it, if it runs."""
        with self._lock:
            if not self._is_cancelled:
                self._is_cancelled = True
                if self._thread_id is not None:
                    raise_in(self._thread_id, Cancelled)


def raise_in(thread_id: int, error: type[BaseException] | None) -> None:
    """Raise an exception in a thread, or take back one that has not arrived."""
    kind = None if error is None else ctypes.py_object(error)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread_id), kind)


def call(run: ThreadRun, function: Callable[[], Any]) -> Ended:
    """What comes of a function: its value, or the exception, whatever it is."""
    pid = os.getpid()
    try:
        try:
            run.begin()
            value = function()
        finally:
            if os.getpid() != pid:
                os._exit(1)
            run.end()
    except BaseException as error:  # noqa: BLE001 - SystemExit ends a job, not the worker
        return None, error
    return value, None


def let_children_end(handler: Callable[[int, Any], object]) -> None:
    """Let children that functions fork end at SIGTERM, which ``handler`` takes in this process.

    SIGTERM waits while the process forks: one that reached the child before it ends by that would be lost.
    """
    before = threading.local()

    def hold() -> None:
        before.mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    def go_on() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, before.mask)

    def begin() -> None:
        if signal.getsignal(signal.SIGTERM) is handler:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.set_wakeup_fd(-1)  # else signals of the child would be told to the event loop of this process
        go_on()

    os.register_at_fork(before=hold, after_in_parent=go_on, after_in_child=begin)


class Threads:
    """Up to so many threads, begun when they are needed. One that is stuck does not keep the process."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._count = 0

    async def run(self, run: ThreadRun, function: Callable[[], Any]) -> Any:  # noqa: ANN401 - what it returns
        """Call a function in a thread, with the context of who asks. Raises what it raises."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Ended] = loop.create_future()
        context = contextvars.copy_context()

        def arrive(ended: Ended) -> None:
            if not future.done():
                future.set_result(ended)

        def work() -> None:
            ended = context.run(call, run, function)
            try:
                loop.call_soon_threadsafe(arrive, ended)
            except RuntimeError:  # the loop is closed: nobody waits any more
                return

        self._begin_one()  # before: where no thread can begin, the function must not run later
        self._work.put(work)
        value, error = await future
        if error is not None:
            raise error
        return value

    def _begin_one(self) -> None:
        if not self._idle.acquire(blocking=False) and self._count < self.most:
            own = (self._work, self._idle)  # not this object: the threads end with it
            threading.Thread(target=serve, args=own, name=f"disque-task-{self._count + 1}", daemon=True).start()
            self._count += 1

    def close(self) -> None:
        """Let all threads end that have nothing to do."""
        for _ in range(self._count):
            self._work.put(None)

    def __del__(self) -> None:
        self.close()


def serve(work: "queue.SimpleQueue[Callable[[], None] | None]", idle: threading.Semaphore) -> None:
    """What each thread does, until it is told to end."""
    while (one := work.get()) is not None:
        one()
        del one
        idle.release()
