"""Blocking work in a thread beside the event loop, one piece at a time."""

from asyncio import AbstractEventLoop
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from typing import Protocol


class Background(Protocol):
    """Something that runs one blocking piece of work beside the loop."""

    def submit(self, work: Callable[[], None], done: Callable[[OSError | None], None]) -> None:
        """Run `work` elsewhere, then `done` in the loop with what it raised. Not called again before `done` ran."""

    def wait(self) -> None:
        """Block until nothing runs: what was submitted, and what its `done` submitted, is finished and told."""

    def close(self) -> None:
        """Wait, and take no more work."""


class Worker:
    """A Background with one thread."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._executor = ThreadPoolExecutor(1, "journal")
        self._running: Future[None] | None = None
        self._done: Callable[[OSError | None], None] = _ignore

    def submit(self, work: Callable[[], None], done: Callable[[OSError | None], None]) -> None:
        """Run `work` in the thread, then `done` in the loop."""
        assert self._running is None
        self._done = done
        self._running = self._executor.submit(work)
        self._running.add_done_callback(self._finished)

    def wait(self) -> None:
        """Block until nothing runs; `done` has been called."""
        while self._running is not None:
            wait_for([self._running])
            self._deliver(self._running)

    def close(self) -> None:
        """Wait, and end the thread."""
        self.wait()
        self._executor.shutdown()

    def _finished(self, future: "Future[None]") -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._deliver, future)

    def _deliver(self, future: "Future[None]") -> None:
        if future is not self._running:
            return  # wait() was faster
        self._running = None
        error = future.exception()
        if error is not None and not isinstance(error, OSError):
            error = OSError(f"unexpected: {error!r}")  # whatever it was, the work is not known to be done
        self._done(error)


def _ignore(_error: OSError | None) -> None:
    pass
