"""Arrow batches into jobs: sliced, checked column by column, and given their keys.

Whatever is wrong with a row is said with its number in the partition, so that it can be found.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from disque.spark.keys import Keys, head
from disque.spark.options import KEY_MAX_BYTES, SECONDS_MAX, Options

#: The words of one ADDJOB.
Words = tuple[bytes, ...]

#: A pipeline is cut when it has so many bytes, so that large bodies take no more memory than many small ones.
PIECE_BYTES: Final = 8_000_000
#: The numbers of a job, the least and the most that they may be.
NUMBERS: Final = {
    "delay": (0, SECONDS_MAX),
    "ttl": (1, SECONDS_MAX),
    "retry": (0, SECONDS_MAX),
    "replicate": (1, 65_535),
    "maxlen": (1, 2**63 - 1),
}


class RowError(ValueError):
    """A row that cannot be written."""


def pieces(batches: Iterable[pa.RecordBatch], rows: int, most_bytes: int = PIECE_BYTES) -> Iterator[pa.RecordBatch]:
    """Cut batches into pieces of at most so many rows, and of so many bytes unless a single row has more."""
    for batch in batches:
        for start in range(0, batch.num_rows, rows):
            yield from light(batch.slice(start, rows), most_bytes)


def light(piece: pa.RecordBatch, most_bytes: int) -> Iterator[pa.RecordBatch]:
    """Halve a piece until it is light enough."""
    if piece.num_rows <= 1 or piece.nbytes <= most_bytes:
        yield piece
        return
    half = piece.num_rows // 2
    yield from light(piece.slice(0, half), most_bytes)
    yield from light(piece.slice(half), most_bytes)


class JobRows:
    """Makes jobs of the rows of one partition.

    ``columns`` are positions by name. Without ``keys`` jobs are not unique. ``body_limit`` is asked, with the size of
    the longest body, for what no body may exceed.
    """

    def __init__(
        self, options: Options, columns: Mapping[str, int], keys: Keys | None, body_limit: Callable[[int], int]
    ) -> None:
        self._options = options
        self._columns = columns
        self._keys = keys
        self._body_limit = body_limit
        self._done = 0
        self._queue = (options.queue or "").encode()
        self._timeout = b"%d" % options.timeout_ms

    def jobs(self, piece: pa.RecordBatch) -> list[Words]:
        """The ADDJOB of each row. Raises RowError."""
        bodies = self._bodies(piece)
        queues = self._queues(piece)
        numbers = {name: self._numbers(piece, name) for name in NUMBERS if name in self._columns}
        keys = self._unique(piece, bodies, queues, numbers)
        self._done += len(bodies)
        tails = self._tails(numbers, len(bodies))
        timeout = self._timeout
        if keys is None:
            return [
                (b"ADDJOB", queue, body, timeout, *tail)
                for queue, body, tail in zip(queues, bodies, tails, strict=True)
            ]
        window = b"%d" % self._options.dedup_window
        return [
            (b"ADDJOB", queue, body, timeout, b"UNIQUE", key, window, *tail)
            for queue, body, key, tail in zip(queues, bodies, keys, tails, strict=True)
        ]

    def _tails(self, numbers: dict[str, list[int | None]], count: int) -> Iterable[Words]:
        """The numbers of each row as words: those of columns before those of options."""
        given = {name: getattr(self._options, name) for name in NUMBERS}
        last = (b"ASYNC",) * self._options.background
        if not numbers:
            return [number_words(given.items()) + last] * count
        filled = {name: [given[name] if one is None else one for one in column] for name, column in numbers.items()}
        columns = [filled.get(name, [default] * count) for name, default in given.items()]
        return [number_words(zip(given, row, strict=True)) + last for row in zip(*columns, strict=True)]

    def _bodies(self, piece: pa.RecordBatch) -> list[bytes]:
        column = piece.column(self._columns["body"])
        if column.null_count:
            self._fail(column.is_null(), "the body is NULL; leave such rows out, for example WHERE body IS NOT NULL")
        bodies: list[bytes] = as_bytes(column)
        longest = max(map(len, bodies), default=0)
        limit = self._body_limit(longest)
        if longest > limit:
            at = next(at for at, body in enumerate(bodies) if len(body) > limit)
            raise RowError(
                f"row {self._done + at}: the body has {len(bodies[at])} bytes, "
                f"the nodes take {limit} at most (proto-max-bulk-len)"
            )
        return bodies

    def _queues(self, piece: pa.RecordBatch) -> list[bytes]:
        """The queue of each row: its column's before the option's."""
        if "queue" not in self._columns:
            return [self._queue] * piece.num_rows
        queues = [queue or self._queue for queue in as_bytes(piece.column(self._columns["queue"]))]
        if not all(queues):
            raise RowError(f"row {self._done + queues.index(b'')}: the queue is NULL or empty, and no option names one")
        return queues

    def _numbers(self, piece: pa.RecordBatch, name: str) -> list[int | None]:
        column = piece.column(self._columns[name])
        least, most = NUMBERS[name]
        wide = pc.cast(column, pa.int64())
        wrong = pc.or_(pc.less(wide, least), pc.greater(wide, most))
        if pc.any(wrong).as_py():
            self._fail(wrong, f"the {name} must be a whole number from {least} to {most}", column)
        values: list[int | None] = column.to_pylist()
        return values

    def _unique(
        self, piece: pa.RecordBatch, bodies: list[bytes], queues: list[bytes], numbers: dict[str, list[int | None]]
    ) -> list[bytes] | None:
        """The key of each row: that of its column, or one that is made of the row. None: jobs are not unique."""
        if self._keys is None:
            return None
        made = self._keys.make(self._heads(queues, numbers), bodies)
        if "key" not in self._columns:
            return made
        given = as_bytes(piece.column(self._columns["key"]))
        for at, key in enumerate(given):
            if key is not None and not 0 < len(key) <= KEY_MAX_BYTES:
                raise RowError(f"row {self._done + at}: the key has {len(key)} bytes, 1 to {KEY_MAX_BYTES} are allowed")
        return [own if key is None else key for key, own in zip(given, made, strict=True)]

    def _heads(self, queues: list[bytes], numbers: dict[str, list[int | None]]) -> list[bytes]:
        """What distinguishes each row beside its body."""
        if not numbers and "queue" not in self._columns:
            return [head(self._queue, ())] * len(queues)
        rows = zip(*numbers.values(), strict=True) if numbers else [()] * len(queues)
        return [head(queue, row) for queue, row in zip(queues, rows, strict=True)]

    def _fail(self, wrong: Any, reason: str, column: Any = None) -> None:  # noqa: ANN401 - Arrow has no types
        at = pc.index(wrong, value=True).as_py()
        shown = "" if column is None else f", not {column[at].as_py()}"
        raise RowError(f"row {self._done + at}: {reason}{shown}")


def number_words(numbers: Iterable[tuple[str, int | None]]) -> Words:
    """Numbers as options of ADDJOB."""
    pairs = ((name.upper().encode(), b"%d" % number) for name, number in numbers if number is not None)
    return tuple(word for pair in pairs for word in pair)


def as_bytes(column: Any) -> list[Any]:  # noqa: ANN401 - Arrow has no types
    """The values of a column of strings or bytes, as bytes; None for NULL."""
    values: list[Any] = column.cast(pa.binary() if column.nbytes < 2**30 else pa.large_binary()).to_pylist()
    return values
