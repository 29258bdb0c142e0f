"""How often a token may produce and consume: counted by each gateway, in windows that begin with the first request."""

from collections.abc import Callable
from typing import Final

from disque.gateway.lmstfy.tokens import Limit

#: Tokens that are counted at one time; beyond, those whose window is over are dropped first.
COUNTED_MOST: Final = 10_000

Key = tuple[str, str, bool]


class Throttle:
    """Counts. ``clock_s`` gives monotonic seconds."""

    def __init__(self, clock_s: Callable[[], float]) -> None:
        self._clock_s = clock_s
        #: The end of the window, and how many requests there were in it.
        self._windows: dict[Key, tuple[float, int]] = {}

    def admit(self, namespace: str, token: str, limit: Limit, *, reads: bool) -> bool:
        """Count a request; False: it is one too many."""
        most = limit.read if reads else limit.write
        if most <= 0:
            return True
        key = (namespace, token, reads)
        now_s = self._clock_s()
        end_s, count = self._windows.get(key, (0.0, 0))
        if now_s >= end_s:
            self._make_room(now_s)
            end_s, count = now_s + limit.interval, 0
        self._windows[key] = (end_s, count + 1)
        return count < most

    def forgive(self, namespace: str, token: str, *, reads: bool) -> None:
        """Do not count a request after all: it came to nothing."""
        key = (namespace, token, reads)
        end_s, count = self._windows.get(key, (0.0, 0))
        if count and self._clock_s() < end_s:
            self._windows[key] = (end_s, count - 1)

    def _make_room(self, now_s: float) -> None:
        if len(self._windows) >= COUNTED_MOST:
            self._windows = {key: window for key, window in self._windows.items() if window[0] > now_s}
