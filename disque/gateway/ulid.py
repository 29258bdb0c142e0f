"""IDs of requests: ULIDs, 26 characters whose first ten tell the time."""

import os
import time
from collections.abc import Callable
from typing import Final

ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
#: Two characters for each number of ten bits.
PAIRS: Final = [first + second for first in ALPHABET for second in ALPHABET]
#: The letter that each random byte becomes: five bits of it count.
LETTERS: Final = bytes([ord(ALPHABET[byte % 32]) for byte in range(256)])
#: Random letters of one ID, and bytes that are drawn with one call.
RANDOM: Final = 16
BLOCK: Final = RANDOM * 256


class UlidMaker:
    """Makes ULIDs out of milliseconds and random bytes."""

    def __init__(self, wall_s: Callable[[], float] = time.time, draw: Callable[[int], bytes] = os.urandom) -> None:
        self._wall_s = wall_s
        self._draw = draw
        self._block = ""
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
            self._block, at = self._draw(BLOCK).translate(LETTERS).decode(), 0
        self._at = end = at + RANDOM
        return self._head + self._block[at:end]
