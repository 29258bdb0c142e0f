"""What can be said of a job that few have: how long failures hold it back, headers, a time by the clock."""

import math
import re
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Final, Literal, NamedTuple, TypeAlias

from disque.client.values import Duration, Name, duration_word, name_word, scaled

Kind: TypeAlias = Literal["fixed", "linear", "exponential"]

#: What a node takes: kind:base[:max[:jitter]].
WRITTEN: Final = re.compile(r"(?:fixed|linear|exponential)(?::[0-9]+(?:\.[0-9]+)?){1,3}", re.IGNORECASE)
#: The longest that a node takes, in seconds, where none is given.
LONGEST_S: Final = 4_294_967_295


class Backoff(NamedTuple):
    """How long a failure holds a job back (BACKOFF), before try k + 1.

    That is ``base`` ("fixed"), ``base`` * k ("linear") or ``base`` * 2 ** (k - 1) ("exponential"), but not more than
    ``longest``. Up to the part ``jitter`` (0 to 1; None: a tenth) is added, so that jobs that failed together do not
    come back together.
    """

    kind: Kind
    base: Duration
    longest: Duration | None = None
    jitter: float | None = None

    def word(self) -> bytes:
        """The word of ADDJOB. Raises TypeError, ValueError."""
        base_ms = scaled(self.base, 1000, "base")
        longest_ms = LONGEST_S * 1000 if self.longest is None else scaled(self.longest, 1000, "longest")
        if base_ms <= 0 or longest_ms < base_ms:
            raise ValueError("backoff: base must be above 0, and longest not below base")
        if self.jitter is not None and not 0 <= self.jitter <= 1:
            raise ValueError(f"backoff: jitter must be from 0 to 1, not {self.jitter}")
        words = [self.kind.encode(), duration_word(self.base, "base")]
        if self.longest is not None or self.jitter is not None:
            words.append(duration_word(LONGEST_S if self.longest is None else self.longest, "longest"))
        if self.jitter is not None:
            words.append(b"%.3f" % self.jitter)
        return backoff_word(b":".join(words).decode())


def backoff_word(backoff: Backoff | str) -> bytes:
    """A backoff as a word. Raises TypeError, and ValueError for a text that is none."""
    if isinstance(backoff, Backoff):
        return backoff.word()
    if not isinstance(backoff, str):
        raise TypeError(f"backoff must be a Backoff or str, not {type(backoff).__name__}")
    return _written(backoff)


@lru_cache(256)
def _written(backoff: str) -> bytes:
    """The same for a text: few are in use."""
    if not WRITTEN.fullmatch(backoff):
        text = "kind:base[:max[:jitter]], with kind fixed, linear or exponential, such as exponential:2:60"
        raise ValueError(f"backoff must be {text}, not {backoff!r}")
    return backoff.encode()


def header_words(headers: Mapping[Name, Name]) -> list[bytes]:
    """Headers as options of ADDJOB. Raises TypeError."""
    if not isinstance(headers, Mapping):
        raise TypeError(f"headers must be a mapping of names to values, not {type(headers).__name__}")
    words: list[bytes] = []
    for name, value in headers.items():
        words += (b"HEADER", name_word(name, "the name of a header"), name_word(value, f"header {name!r}"))
    return words


def moment_word(at: datetime | float) -> bytes:
    """A time as ms since 1970, rounded up. Raises TypeError, and ValueError for a datetime without a time zone."""
    return b"%d" % scaled(moment_s(at, "at"), 1000, "at")


def moment_s(moment: datetime | float, what: str) -> float:
    """A time in seconds since 1970. Raises TypeError, and ValueError for a datetime without a time zone and for NaN."""
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            raise ValueError(f"{what} needs a time zone: datetime.now(UTC), or .astimezone() for local time")
        return round(moment.timestamp(), 3)
    if isinstance(moment, bool) or not isinstance(moment, int | float):
        raise TypeError(f"{what} must be a datetime or seconds since 1970, not {type(moment).__name__}")
    if math.isnan(moment):
        raise ValueError(f"{what} must be a number of seconds, not nan")
    return moment
