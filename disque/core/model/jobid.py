"""Job IDs.

``D-`` + 8 characters of the creating node + ``-`` + 24 random ones + ``-`` + 4 that tell the TTL in
minutes.

The last bit of the TTL says whether the job is delivered at least once (odd) or at most once (even), so a node that
never saw the job knows how to treat its ID. Forty bytes, the layout of Disque 1.0.

The first two of the random characters are the same for some IDs that are made one after the other, and by them the jobs
of a node are spread over many dicts. So jobs that are added together lie together, and what is added, delivered and
acknowledged in about the same order finds the dict in the caches of the processor. 132 bits are drawn anew for each ID.
They come from the system's random source, through the process around the core, in blocks: nobody can tell an ID from
those that he has seen, as he could with a generator of our own.
"""

from binascii import b2a_base64
from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

#: IDs whose random parts are drawn at once, 63 KB: one call for many costs 50 ns for each. A multiple of `RUN`.
BATCH: Final = 3584
#: IDs whose random parts begin alike: most of the gain, and a walk through the dicts still goes on in small steps.
RUN: Final = 16
#: So many dicts hold the jobs of a node: one dict would stall everybody when it grows. A power of two.
SHARDS: Final = 1024


def valid(job_id: bytes) -> bool:
    """Whether ``job_id`` has the form of an ID; nothing is said of the job's existence."""
    return len(job_id) == 40 and job_id[0] == 68 and job_id[1] == 45 and job_id[10] == 45 and job_id[35] == 45


def comes_again(job_id: bytes) -> bool:
    """Whether a valid ID says that its job has a RETRY: its last hexadecimal digit is odd."""
    last: i64 = job_id[39]
    return (last & 1 == 1) != (last > 57)  # the letters begin with an even digit, and with an odd character


def shard_of(job_id: bytes) -> i64:
    """Which of the `SHARDS` dicts is that of a job with this ID, or with anything in place of one."""
    if len(job_id) < 13:
        return 0
    first: i64 = job_id[11]
    second: i64 = job_id[12]
    return (first * 61 + second * 9) & (SHARDS - 1)  # so the 64 * 64 pairs are spread well


def ttl_suffix(ttl_s: int, retry_s: int) -> bytes:
    """The dash and the four hexadecimal digits behind it: minutes to live, at most 65535, odd with a retry."""
    minutes = min(ttl_s // 60, 65535)
    minutes = minutes | 1 if retry_s > 0 else minutes & ~1
    return b"-%04x" % minutes


class IdMaker:
    """Makes the IDs of one node from its name and ``draw``, which gives so many random bytes."""

    __slots__ = ("_at", "_draw", "_drawn", "_head", "_next_run", "prefix")

    def __init__(self, node_id: bytes, draw: Callable[[int], bytes]) -> None:
        self.prefix = b"D-" + node_id[:8] + b"-"
        self._draw = draw
        self._head = b""
        self._drawn = b""
        self._at = 0
        self._next_run = -1

    def make(self, suffix: bytes) -> bytes:
        """A new ID that ends in ``suffix`` (see `ttl_suffix`)."""
        at = self._at - 24
        if at < 0:
            at = self._refill()
        self._at = at
        if at == self._next_run:
            self._head = self.prefix + self._drawn[at : at + 2]
            self._next_run = at - 24 * RUN
        return b"%b%b%b" % (self._head, self._drawn[at + 2 : at + 24], suffix)

    def _refill(self) -> int:
        """Draw anew; returns where the last part begins. They are given out from the end."""
        self._drawn = b2a_base64(self._draw(18 * BATCH), newline=False)
        self._next_run = 24 * BATCH - 24
        return self._next_run
