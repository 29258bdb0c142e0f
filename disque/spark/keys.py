"""UNIQUE keys: the same for the same row each time it is written, and different for all other rows.

A key is a hash of the scope, the number of the partition, the content of the row (all columns that make the job) and
its occurrence. The second of two equal rows in a partition is another job than the first, and so are equal rows of two
partitions. So rows that a task writes again are recognised (a retry, a speculative copy, a task that is taken for dead
and is not). The scope is a run that the user names, or a batch of a streaming query, or else one save().

The price: a run that is written again with its rows in other partitions has other keys. A column `key` avoids that.
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Final

from disque.spark.occurrences import Occurrences

#: Of a key. 128 bits: among a million million keys two are equal with a probability of 1 to 10^14.
KEY_BYTES: Final = 16


def scope_of(run_id: str | None, query_id: str | None, batch_id: str | None, save_id: str) -> str:
    """What rows are told apart within. A batch of a stream is one even where the run has a name."""
    batch = f"batch {batch_id}" if query_id is not None else "save"
    name = f"run {run_id}" if run_id is not None else f"query {query_id}" if query_id is not None else save_id
    return f"{batch} of {name}"


class Keys:
    """Makes the keys of one partition."""

    def __init__(self, scope: str, partition: int, occurrences: Occurrences | None = None) -> None:
        self._start = blake2b(f"{partition} {scope}\n".encode("utf-8", "surrogateescape"), digest_size=KEY_BYTES)
        self._occurrences = occurrences or Occurrences()

    def make(self, heads: Iterable[bytes], bodies: Iterable[bytes]) -> list[bytes]:
        """The key of each row; ``heads`` are what `head` gives for its other columns."""
        contents = [self._digest(head, body) for head, body in zip(heads, bodies, strict=True)]
        numbers = self._occurrences.numbers([int.from_bytes(content[:8]) for content in contents])
        return [
            content if not number else again(content, number) for content, number in zip(contents, numbers, strict=True)
        ]

    def _digest(self, head: bytes, body: bytes) -> bytes:
        digest = self._start.copy()
        digest.update(head)
        digest.update(body)
        return digest.digest()


def again(content: bytes, number: int) -> bytes:
    """The key of a content that was there before."""
    return blake2b(b"%b%d" % (content, number), digest_size=KEY_BYTES).digest()


def head(queue: bytes, numbers: Sequence[int | None]) -> bytes:
    """What comes before the body in a content, so that no two rows can look the same."""
    words = b" ".join(b"-" if number is None else b"%d" % number for number in numbers)
    return b"%d %b %b\n" % (len(queue), queue, words)
