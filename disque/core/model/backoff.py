"""BACKOFF: how long a job that has failed is held back before its next try."""

from typing import Final
from zlib import crc32

from disque.core.base.numbers import SECONDS_MAX, parse_ms

#: The kinds, by the letter that stands for them in a spec.
FIXED: Final = b"f"
LINEAR: Final = b"l"
EXPONENTIAL: Final = b"e"
KINDS: Final = {b"fixed": FIXED, b"linear": LINEAR, b"exponential": EXPONENTIAL}
NAMES: Final = {letter: name for name, letter in KINDS.items()}
#: Of the random part, in thousandths.
JITTER: Final = 100
#: No wait is longer, in ms; nor does the exponent grow further.
MOST_MS: Final = SECONDS_MAX * 1000
EXPONENT_MOST: Final = 32


class Backoff:
    """A wait in ms before each try: ``base_ms``, times the tries that have ended, or doubled by each.

    ``most_ms`` bounds it. Up to ``jitter`` thousandths of it are added, so that jobs that failed together do not come
    back together.
    """

    __slots__ = ("base_ms", "jitter", "kind", "most_ms")

    def __init__(self, kind: bytes, base_ms: int, most_ms: int, jitter: int) -> None:
        self.kind = kind
        self.base_ms = base_ms
        self.most_ms = most_ms
        self.jitter = jitter

    def encoded(self) -> bytes:
        """As it stands in a spec."""
        return b"%b:%d:%d:%d" % (self.kind, self.base_ms, self.most_ms, self.jitter)

    def written(self) -> bytes:
        """As a client writes it; what is usual is left out."""
        parts = [NAMES[self.kind], seconds(self.base_ms)]
        if self.most_ms != MOST_MS or self.jitter != JITTER:
            parts.append(seconds(self.most_ms))
        if self.jitter != JITTER:
            parts.append(seconds(self.jitter))
        return b":".join(parts)

    def wait_ms(self, job_id: bytes, tries: int) -> int:
        """How long to wait after so many tries have ended: the same at all nodes."""
        wait_ms = self.base_ms
        if self.kind == LINEAR:
            wait_ms *= tries
        elif self.kind == EXPONENTIAL:
            wait_ms <<= min(tries - 1, EXPONENT_MOST)
        wait_ms = min(wait_ms, self.most_ms)
        random = crc32(b"%b%d" % (job_id, tries))
        return min(wait_ms + wait_ms * self.jitter * random // (1000 << 32), self.most_ms)


def seconds(ms: int) -> bytes:
    """Thousandths as a number with the decimals that it needs."""
    whole, part = divmod(ms, 1000)
    return (b"%d.%03d" % (whole, part)).rstrip(b"0").rstrip(b".")


def parse(word: bytes) -> Backoff | None:
    """``kind:base[:max[:jitter]]``, in seconds, as a client writes it; None if it is none."""
    kind, *numbers = word.split(b":")
    letter = KINDS.get(kind.lower())
    if letter is None or not 1 <= len(numbers) <= 3:
        return None
    base_ms = parse_ms(numbers[0])
    most_ms = parse_ms(numbers[1]) if len(numbers) > 1 else MOST_MS
    jitter = parse_ms(numbers[2]) if len(numbers) > 2 else JITTER
    if base_ms is None or most_ms is None or jitter is None:
        return None
    if not 0 < base_ms <= most_ms <= MOST_MS or not 0 <= jitter <= 1000:
        return None
    return Backoff(letter, base_ms, most_ms, jitter)


#: Those that were read: few different ones exist.
_read: Final[dict[bytes, Backoff]] = {}
READ_MOST: Final = 1024


def read(encoded: bytes) -> Backoff | None:
    """What stands in a spec; None for what no node has put there."""
    known = _read.get(encoded)
    if known is None:
        kind, *numbers = encoded.split(b":")
        if kind not in {FIXED, LINEAR, EXPONENTIAL} or len(numbers) != 3 or not all(map(bytes.isdigit, numbers)):
            return None
        base_ms, most_ms, jitter = map(int, numbers)
        if not 0 < base_ms <= most_ms <= MOST_MS or jitter > 1000:
            return None
        if len(_read) >= READ_MOST:
            _read.clear()
        known = _read[encoded] = Backoff(kind, base_ms, most_ms, jitter)
    return known
