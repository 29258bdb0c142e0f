"""Waking a thread that waits, such that Ctrl-C leaves nothing locked.

`threading.Condition` and `threading.Event` are written in Python: what a signal handler raises in their middle leaves
their lock to nobody, and whoever needs it next waits for ever. Locks themselves and `queue.SimpleQueue` are not, so
that they are had or not had.
"""

import queue


class Bell:
    """One thread waits until another one rings. A ring that nobody waits for is kept, the second one is the same.

    So whoever waits looks first whether what it waits for is there, and after each ring again.
    """

    def __init__(self) -> None:
        self._rings: queue.SimpleQueue[None] = queue.SimpleQueue()

    def ring(self) -> None:
        """Wake the thread that waits, or the next one."""
        if self._rings.empty():
            self._rings.put(None)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for a ring, at most so long; None: for ever. Whether one came."""
        try:
            self._rings.get(timeout=timeout_s)
        except queue.Empty:
            return False
        return True
