"""Python values into words of a request, and back.

Names are text: str is sent as UTF-8. Bytes that are not UTF-8 survive the way there and back (surrogateescape). Bodies
are bytes. A str becomes UTF-8. Durations are `timedelta` or seconds, rounded up to what the protocol can say. Numbers
that are out of range are refused by the server, since it knows its bounds.
"""

import json
import math
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Final

Name = str | bytes
Body = str | bytes | bytearray | memoryview
Duration = timedelta | float
Value = str | bytes | bytearray | memoryview | int | float

#: Longer than any node takes: a duration beyond it is sent as this, and refused there.
LONGEST: Final = 2**62
#: No job lives longer, in seconds.
TTL_MOST_S: Final = 2**32 - 1
#: How the IDs of at-most-once jobs end: in an even hexadecimal digit.
EVEN: Final = tuple("02468ace")


def name_word(name: Name, what: str = "queue") -> bytes:
    """A name as a word. Raises TypeError for anything but str and bytes."""
    if isinstance(name, str):
        return name.encode("utf-8", "surrogateescape")
    if isinstance(name, bytes):
        return name
    raise TypeError(f"{what} must be str or bytes, not {type(name).__name__}")


def body_word(body: Body, what: str = "body") -> bytes:
    """A body as a word. Raises TypeError for anything but str and bytes-like."""
    if isinstance(body, bytes):
        return body
    if isinstance(body, str):
        return body.encode()
    if isinstance(body, bytearray | memoryview):
        return bytes(body)
    raise TypeError(f"{what} must be str or bytes, not {type(body).__name__}; json_body() makes bytes of other values")


def text_of(word: bytes | str) -> str:
    """A word of a reply as text."""
    return word.decode("utf-8", "surrogateescape") if isinstance(word, bytes) else word


def text_word(text: str, most: int) -> bytes:
    """A text as a word of at most so many bytes; what is too long is cut, but not in the middle of a character."""
    word = text.encode("utf-8", "backslashreplace")
    return word if len(word) <= most else word[:most].decode("utf-8", "ignore").encode()


def number_word(value: int, what: str) -> bytes:
    """A whole number as a word. Raises TypeError for anything else, True among it."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what} must be an int, not {type(value).__name__}")
    return b"%d" % value


def seconds_word(duration: Duration, what: str) -> bytes:
    """A duration as whole seconds, rounded up."""
    return b"%d" % scaled(duration, 1, what)


def duration_word(duration: Duration, what: str) -> bytes:
    """A duration as seconds with up to three decimals, rounded up to ms; whole ones without a point."""
    ms = milliseconds(duration, what)
    if ms % 1000 == 0:
        return b"%d" % (ms // 1000)
    seconds, part = divmod(abs(ms), 1000)
    return b"%b%d.%b" % (b"-" if ms < 0 else b"", seconds, (b"%03d" % part).rstrip(b"0"))


def ttl_beyond(ttl: Duration, delay_s: float) -> float:
    """The TTL of a job that is put off first, in seconds, so that it can be held for half of ``ttl`` after the delay.

    Nobody may hold a job past half of its TTL, so the delay counts twice.
    """
    return min(milliseconds(ttl, "ttl") / 1000 + 2 * max(0.0, delay_s), TTL_MOST_S)


def milliseconds(duration: Duration, what: str) -> int:
    """A duration as whole milliseconds, rounded up."""
    return scaled(duration, 1000, what)


def scaled(duration: Duration, parts: int, what: str) -> int:
    """A duration in so many parts of a second. Raises TypeError, and ValueError for anything that is not a number."""
    if isinstance(duration, timedelta):
        exact = duration / timedelta(seconds=1) * parts
    elif isinstance(duration, bool) or not isinstance(duration, int | float):
        raise TypeError(f"{what} must be a timedelta or a number of seconds, not {type(duration).__name__}")
    elif isinstance(duration, int):
        return duration * parts
    elif math.isnan(duration):
        raise ValueError(f"{what} must be a number of seconds, not nan")
    else:
        exact = duration * parts
    if abs(exact) > LONGEST:
        return LONGEST if exact > 0 else -LONGEST
    return math.ceil(exact)


def id_word(job_id: Name) -> bytes:
    """The ID of a job as a word; whether it is one is the server's to say."""
    return name_word(job_id, "job ID")


def comes_again(job_id: str) -> bool:
    """Whether a job with this ID is delivered at least once: an even last digit says at most once (RETRY 0)."""
    return not job_id.endswith(EVEN)


def id_words(ids: Iterable[Name]) -> list[bytes]:
    """IDs as words. Raises TypeError where one text stands for several."""
    if isinstance(ids, str | bytes):
        raise TypeError("several job IDs are expected, not one str or bytes")
    return [id_word(job_id) for job_id in ids]


def queue_words(queues: Name | Iterable[Name]) -> list[bytes]:
    """One queue or several as words. Raises ValueError where there is none."""
    several: Sequence[Name] = [queues] if isinstance(queues, str | bytes) else list(queues)
    if not several:
        raise ValueError("at least one queue is needed")
    return [name_word(name) for name in several]


def json_body(value: object) -> bytes:
    """Any value that JSON can say as the body of a job: UTF-8, without spaces. Raises TypeError as `json.dumps`."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
