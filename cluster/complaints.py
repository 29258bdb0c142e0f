"""What strangers do wrong is worth a line in the log, but not more than one a minute for each of them.

Whoever can connect can cause such lines, so their number must be bounded, and the memory of who has caused one too:
while a thousand addresses misbehave within a minute, further ones are counted and not named.
"""

from typing import Final

QUIET_S: Final = 60.0
MOST: Final = 1024


class Complaints:
    """``count`` is how often somebody was at fault."""

    __slots__ = ("_heard", "count")

    def __init__(self) -> None:
        self.count = 0
        self._heard: dict[str, float] = {}

    def add(self, who: str, now_s: float) -> bool:
        """Count a fault of ``who``; whether it deserves a line. ``now_s`` never goes back."""
        self.count += 1
        heard = self._heard
        last_s = heard.get(who)
        if last_s is not None and now_s - last_s < QUIET_S:
            return False
        heard.pop(who, None)
        while heard:  # in the order of time: those who have become free to speak again are at the front
            oldest = next(iter(heard))
            if now_s - heard[oldest] < QUIET_S:
                break
            del heard[oldest]
        if len(heard) >= MOST:
            return False
        heard[who] = now_s
        return True
