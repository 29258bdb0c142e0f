"""Warns when a function blocks the event loop: then nothing else runs in this worker, and no lease is renewed.

A thread looks at when the loop was last alive. After a second without a sign it logs where the loop's thread is, once
for each time that it happens, and how long it took when it is over.
"""

import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Final

LOG: Final = logging.getLogger("disque.tasks")

#: How long the loop may be busy with one thing.
BLOCKED_S: Final = 1.0
LOOK_S: Final = 0.25
FRAMES: Final = 12


class Watchdog:
    """Looks at one thread. ``sign`` says that its loop lives."""

    def __init__(self, blocked_s: float = BLOCKED_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._blocked_s = blocked_s
        self._clock = clock
        self._thread_id = threading.get_ident()
        self._sign_s = clock()
        self._since_s: float | None = None
        self._ended = threading.Event()
        self.warnings = 0

    def start(self) -> None:
        """Begin to look."""
        threading.Thread(target=self._run, name="disque-watchdog", daemon=True).start()

    def stop(self) -> None:
        """Look no more."""
        self._ended.set()

    def sign(self) -> None:
        """The loop lives."""
        now_s = self._clock()
        if self._since_s is not None:
            LOG.warning("the event loop was blocked for %.1f s", now_s - self._since_s)
            self._since_s = None
        self._sign_s = now_s

    def look(self) -> None:
        """Warn if there was no sign for too long."""
        if self._since_s is None and self._clock() - self._sign_s >= self._blocked_s:
            self._since_s = self._sign_s
            self.warnings += 1
            LOG.warning(
                "the event loop is blocked for more than %g s: use a plain function, which runs in a thread, or"
                " cpu=True. It is here:\n%s",
                self._blocked_s,
                stack(self._thread_id),
            )

    def _run(self) -> None:
        while not self._ended.wait(LOOK_S):
            self.look()


def stack(thread_id: int) -> str:
    """Where a thread is now, the innermost frame last."""
    frame = sys._current_frames().get(thread_id)  # noqa: SLF001 - there is no other way to it
    return "".join(traceback.format_stack(frame)[-FRAMES:]) if frame is not None else "(the thread has ended)"
