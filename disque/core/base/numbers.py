"""Numbers as clients write them: what C's strtoll takes over a whole word, within 64 bits.

An optional sign, then ASCII digits; no spaces, no underscores, nothing behind. The empty word is 0, as it always was
in Disque.
"""

from typing import Final

INT64_MAX: Final = 2**63 - 1
INT64_MIN: Final = -(2**63)
#: Bound of TTL, RETRY and DELAY in seconds: 136 years, what Disque kept in 32 bits.
SECONDS_MAX: Final = 2**32 - 1


def parse_int(word: bytes) -> int | None:
    """The number in ``word``, or None when it is none or does not fit 64 bits."""
    if word == b"0":
        return 0  # what most ADDJOBs say
    if word.isdigit():
        if len(word) > 64:
            return None
        value = int(word)
        return value if value <= INT64_MAX else None
    if not word:
        return 0
    if len(word) > 64 or word[0] not in b"+-" or not word[1:].isdigit():
        return None
    value = int(word)
    return value if INT64_MIN <= value <= INT64_MAX else None


def parse_uint64(word: bytes) -> int | None:
    """A scan cursor: as ``strtoull`` reads it, so ``-1`` is the largest one; None when it is no number."""
    sign = word[:1] in (b"+", b"-")
    digits = word[1:] if sign else word
    if not word:
        return 0
    if not digits.isdigit() or len(digits) > 64:
        return None
    value = int(digits)
    if value >= 2**64:
        return None
    return (2**64 - value) % 2**64 if word[:1] == b"-" else value
