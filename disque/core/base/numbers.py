"""Numbers as clients write them: what C's strtoll takes over a whole word, within 64 bits.

An optional sign, then ASCII digits; no spaces, no underscores, nothing behind. The empty word is 0, as it always was
in Disque. Durations may have decimals: digits, a point, digits, and neither sign nor exponent.
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


def parse_ms(word: bytes) -> int | None:
    """Seconds, which may have decimals, as milliseconds; None for what is no number.

    What is finer is cut off, but what is above 0 is at least 1 ms.
    """
    whole = parse_int(word)
    if whole is not None:
        return whole * 1000
    seconds, _, decimals = word.partition(b".")
    if len(word) > 64 or not seconds.isdigit() or not decimals.isdigit():
        return None
    ms = int(seconds) * 1000 + int(decimals[:3].ljust(3, b"0"))
    return ms if ms or not decimals.strip(b"0") else 1


def parse_seconds(word: bytes) -> int | None:
    """Seconds where only whole ones can be kept: decimals are rounded up. None for what is no number.

    0 is meant only where it is written as a whole number: 0.0 may have been rounded down by somebody.
    """
    whole = parse_int(word)
    if whole is not None:
        return whole
    ms = parse_ms(word)
    return -(-ms // 1000) if ms else None


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
