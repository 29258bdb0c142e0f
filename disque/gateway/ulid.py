"""IDs of requests: ULIDs, 26 characters whose first ten tell the time."""

import os
import time
from collections.abc import Callable
from typing import Final

ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
#: Two characters for each number of ten bits.
PAIRS: Final = [first + second for first in ALPHABET for second in ALPHABET]
#: Random bytes that are drawn with one call.
BLOCK: Final = 10 * 256


class UlidMaker:
    """Makes ULIDs out of milliseconds and random bytes."""

    def __init__(self, wall_s: Callable[[], float] = time.time, draw: Callable[[int], bytes] = os.urandom) -> None:
        self._wall_s = wall_s
        self._draw = draw
        self._block = b""
        self._at = 0
        self._ms = -1
        self._head = ""

    def __call__(self) -> str:
        """One ULID."""
        ms = int(self._wall_s() * 1000)
        if ms != self._ms:
            self._ms, self._head = ms, "".join([PAIRS[ms >> shift & 1023] for shift in (40, 30, 20, 10, 0)])
        at = self._at
        if at == len(self._block):
            self._block, at = self._draw(BLOCK), 0
        self._at = at + 10
        number = int.from_bytes(self._block[at : at + 10], "big")
        return self._head + "".join([PAIRS[number >> shift & 1023] for shift in (70, 60, 50, 40, 30, 20, 10, 0)])
