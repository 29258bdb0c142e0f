"""How the process of a worker runs on and ends, whatever functions have left behind in it.

A task of asyncio or a callback that a function has started may raise SystemExit or KeyboardInterrupt, which leave the
event loop. `run_through` goes on with it, so they end no worker and no other job.

What functions have started may also never end: tasks that do not let themselves be cancelled, threads of
`asyncio.to_thread`, processes. Python would wait for all of them. `Ending` gives them a few seconds.
"""

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final

LOG: Final = logging.getLogger("disque.tasks")


def run_through(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, None]) -> None:
    """Run ``work`` to its end, whatever else raises in the loop. Raises what ``work`` raises."""
    task = loop.create_task(work)
    while not task.done():
        try:
            loop.run_until_complete(task)
        except (SystemExit, KeyboardInterrupt) as error:
            if not task.done():
                text = "something that a function has started has raised %r: the worker goes on"
                LOG.error(text, error)  # noqa: TRY400 - its line of code would say nothing
        except RuntimeError:
            if not task.done():
                text = "a function has stopped the event loop: the worker goes on"
                LOG.error(text)  # noqa: TRY400 - nor would that
    task.result()


class Ending:
    """The end of this process, which comes at the latest when it was said."""

    def __init__(self, end: Callable[[int], object] = os._exit) -> None:
        self._end = end
        self._is_over = threading.Event()

    def within(self, seconds: float) -> None:
        """End the process with exit code 0 if it is still there then."""
        threading.Thread(target=self._run, args=(seconds,), name="disque-ending", daemon=True).start()

    def _run(self, seconds: float) -> None:
        if self._is_over.wait(seconds):
            return
        LOG.warning("something that functions have started does not end: the process ends without it")
        self.now()

    def now(self) -> None:
        """End it with exit code 0, without a look at what still runs."""
        self._is_over.set()
        logging.shutdown()
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        self._end(0)

    def call_off(self) -> None:
        """Let it be: the process ends by itself, or goes on with something else."""
        self._is_over.set()


def is_something_left() -> bool:
    """Whether there are threads or processes that Python would wait for at its end."""
    threads = [one for one in threading.enumerate() if not one.daemon and one is not threading.main_thread()]
    processes = sys.modules.get("multiprocessing")
    return bool(threads) or (processes is not None and bool(processes.active_children()))
