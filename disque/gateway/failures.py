"""Wrong passwords: who sends many is told to wait, before nodes take the whole gateway for an attacker."""

from collections.abc import Callable
from typing import Final

#: Wrong passwords of one address in so many seconds, and addresses that are remembered.
MOST: Final = 8
WINDOW_S: Final = 60.0
ADDRESSES_MOST: Final = 10_000


class Failures:
    """Counts them. ``clock_s`` gives monotonic seconds."""

    def __init__(self, clock_s: Callable[[], float]) -> None:
        self._clock_s = clock_s
        #: When the window of an address began, and how many there were in it.
        self._known: dict[str, tuple[float, int]] = {}

    def must_wait(self, address: str) -> bool:
        """Whether this address has sent too many."""
        begun_s, count = self._known.get(address, (0.0, 0))
        return count >= MOST and self._clock_s() - begun_s < WINDOW_S

    def note(self, address: str) -> None:
        """One more."""
        now_s = self._clock_s()
        begun_s, count = self._known.get(address, (now_s, 0))
        if now_s - begun_s >= WINDOW_S:
            begun_s, count = now_s, 0
        if len(self._known) >= ADDRESSES_MOST:
            self._known = {one: row for one, row in self._known.items() if now_s - row[0] < WINDOW_S}
        if len(self._known) < ADDRESSES_MOST or address in self._known:
            self._known[address] = (begun_s, count + 1)
