"""Arrow batches become jobs: sliced, checked column by column, and given their keys.

An error about a row has its number in the partition, so that it can be found.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from disque.spark.doors import PlainError
from disque.spark.keys import Keys, head
from disque.spark.options import FAIL, KEY_MAX_BYTES, RETAIN_MAX_S, SECONDS_MAX, TO_QUEUE, Options
from disque.spark.terms import Terms, Words, distinct, moments

#: A pipeline is cut when it has so many bytes, so that large bodies take no more memory than many small ones.
PIECE_BYTES: Final = 8_000_000
#: So much of a body is shown in the note of a bad row.
SHOWN_BYTES: Final = 1000
NULL_BODY: Final = "the body is NULL"
#: The numbers of a job, the least and the most that they may be.
NUMBERS: Final = {
    "delay": (0, SECONDS_MAX),
    "ttl": (1, SECONDS_MAX),
    "retry": (0, SECONDS_MAX),
    "replicate": (1, 65_535),
    "maxlen": (1, 2**63 - 1),
    "tries": (0, 65_535),
    "priority": (0, 255),
    "retain": (0, RETAIN_MAX_S),
}
#: What comes from a timestamp, in place of a delay.
AT: Final = "at"


class RowError(PlainError, ValueError):
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
        self._done = 0  # rows of earlier pieces
        self._kept: list[int] | None = None  # which rows of this piece are left, if not all
        #: Rows that were left out.
        self.bad = 0
        self._queue = (options.queue or "").encode()
        self._timeout = b"%d" % options.timeout_ms
        self._terms = Terms(options, columns)

    def jobs(self, piece: pa.RecordBatch) -> list[Words]:
        """The ADDJOB of each row, behind them those of notes of bad rows. Raises RowError."""
        self._kept = None
        if self._options.bad_rows == FAIL:
            jobs = self._jobs(piece)
        else:
            piece_left, notes = self._sift(piece)
            jobs = self._jobs(piece_left) + self._notes(notes)
        self._done += piece.num_rows
        return jobs

    def _jobs(self, piece: pa.RecordBatch) -> list[Words]:
        """The same where bad rows are errors, or are left out already."""
        bodies = self._bodies(piece)
        queues = self._queues(piece)
        numbers = {name: self._numbers(piece, name) for name in NUMBERS if name in self._columns}
        if AT in self._columns:
            numbers[AT] = moments(piece.column(self._columns[AT]), self._fail_at)
        self._check_lives(numbers, len(bodies))
        terms = self._terms.words(piece, self._fail_at)
        keys = self._unique(piece, bodies, queues, numbers)
        return self._words(queues, bodies, keys, numbers, terms)

    def _words(
        self,
        queues: list[bytes],
        bodies: list[bytes],
        keys: list[bytes] | None,
        numbers: dict[str, list[int | None]],
        terms: list[Words] | None = None,
    ) -> list[Words]:
        """ADDJOBs out of columns; ``terms`` as `Terms.words` gives them."""
        tails = self._tails(numbers, terms, len(bodies))
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

    def _sift(self, piece: pa.RecordBatch) -> tuple[pa.RecordBatch, list[bytes]]:
        """Leave out the rows without a body and those that are too large; the rest, and a note of each."""
        column = piece.column(self._columns["body"])
        sizes = pc.binary_length(column)
        limit = self._body_limit(pc.max(sizes).as_py() or 0)
        good = pc.fill_null(pc.less_equal(sizes, limit), fill_value=False)
        wrong = [at for at, fine in enumerate(good.to_pylist()) if not fine]
        if not wrong:
            return piece, []
        self.bad += len(wrong)
        left = set(wrong)
        self._kept = [at for at in range(piece.num_rows) if at not in left]
        notes = [self._note(piece, at, limit) for at in wrong] if self._options.bad_rows == TO_QUEUE else []
        return piece.filter(good), notes

    def _note(self, piece: pa.RecordBatch, at: int, limit: int) -> bytes:
        """What is queued instead of a bad row: without its number, so that another attempt makes the same."""
        row = {name: piece.column(column)[at].as_py() for name, column in self._columns.items()}
        [body] = as_bytes(piece.column(self._columns["body"]).slice(at, 1))
        words: dict[str, object] = {"error": NULL_BODY if body is None else too_large(body, limit)}
        words |= {"queue": self._options.queue, **row}
        words["body"] = None if body is None else body[:SHOWN_BYTES].decode(errors="replace")
        return json.dumps(words, default=plain).encode()

    def _notes(self, notes: list[bytes]) -> list[Words]:
        """The ADDJOBs of notes."""
        queues = [(self._options.bad_rows_queue or "").encode()] * len(notes)
        keys = None if self._keys is None else self._keys.make([head(queue, ()) for queue in queues], notes)
        return self._words(queues, notes, keys, {})

    def _row(self, at: int) -> int:
        """The number in the partition of a row of this piece."""
        return self._done + (at if self._kept is None else self._kept[at])

    def _tails(self, numbers: dict[str, list[int | None]], terms: list[Words] | None, count: int) -> Iterable[Words]:
        """What each row says as words: that of columns before that of options."""
        given = {name: getattr(self._options, name) for name in NUMBERS}
        last = (b"ASYNC",) * self._options.background
        usual = self._terms.usual() + last
        if not numbers:
            same = number_words(given.items())
            return [same + usual] * count if terms is None else [same + own + last for own in terms]
        filled = {name: [given.get(name) if one is None else one for one in column] for name, column in numbers.items()}
        if AT in filled:  # in place of the option, where it is not NULL
            given[AT] = None
            filled["delay"] = [given["delay"] if one is None else None for one in filled[AT]]
        columns = [filled.get(name, [default] * count) for name, default in given.items()]
        ends = [usual] * count if terms is None else [own + last for own in terms]
        rows = zip(*columns, strict=True)
        return [number_words(zip(given, row, strict=True)) + end for row, end in zip(rows, ends, strict=True)]

    def _bodies(self, piece: pa.RecordBatch) -> list[bytes]:
        column = piece.column(self._columns["body"])
        if column.null_count:
            self._fail(column.is_null(), f"{NULL_BODY}; leave such rows out: WHERE body IS NOT NULL, or badRows=skip")
        bodies: list[bytes] = as_bytes(column)
        longest = max(map(len, bodies), default=0)
        limit = self._body_limit(longest)
        if longest > limit:
            at = next(at for at, body in enumerate(bodies) if len(body) > limit)
            raise RowError(f"row {self._row(at)}: {too_large(bodies[at], limit)}")
        return bodies

    def _queues(self, piece: pa.RecordBatch) -> list[bytes]:
        """The queue of each row: its column's before the option's."""
        if "queue" not in self._columns:
            return [self._queue] * piece.num_rows
        queues = [queue or self._queue for queue in as_bytes(piece.column(self._columns["queue"]))]
        if not all(queues):
            raise RowError(f"row {self._row(queues.index(b''))}: the queue is NULL or empty, and no option names one")
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

    def _check_lives(self, numbers: dict[str, list[int | None]], count: int) -> None:
        """Raise RowError for a RETRY that is not below the TTL, if that is given: else the queue may have one."""
        if "retry" not in numbers and "ttl" not in numbers:
            return
        retries = numbers.get("retry") or [None] * count
        ttls = numbers.get("ttl") or [None] * count
        usual_retry, usual_ttl = self._options.retry or 0, self._options.ttl
        for at, (given_retry, given_ttl) in enumerate(zip(retries, ttls, strict=True)):
            retry = usual_retry if given_retry is None else given_retry
            ttl = usual_ttl if given_ttl is None else given_ttl
            if ttl is not None and retry >= ttl:
                raise RowError(f"row {self._row(at)}: the retry ({retry}) must be below the ttl ({ttl})")

    def _unique(
        self,
        piece: pa.RecordBatch,
        bodies: list[bytes],
        queues: list[bytes],
        numbers: dict[str, list[int | None]],
    ) -> list[bytes] | None:
        """The key of each row: that of its column, or one that is made of the row. None: jobs are not unique."""
        if self._keys is None:
            return None
        heads = self._heads(queues, numbers)
        terms = self._terms.words(piece, self._fail_at, alone=True)
        if terms is not None:
            heads = [distinct(head, words) for head, words in zip(heads, terms, strict=True)]
        made = self._keys.make(heads, bodies)
        if "key" not in self._columns:
            return made
        given = as_bytes(piece.column(self._columns["key"]))
        for at, key in enumerate(given):
            if key is not None and not 0 < len(key) <= KEY_MAX_BYTES:
                raise RowError(f"row {self._row(at)}: the key has {len(key)} bytes, 1 to {KEY_MAX_BYTES} are allowed")
        return [own if key is None else key for key, own in zip(given, made, strict=True)]

    def _heads(self, queues: list[bytes], numbers: dict[str, list[int | None]]) -> list[bytes]:
        """What distinguishes each row beside its body."""
        if not numbers and "queue" not in self._columns:
            return [head(self._queue, ())] * len(queues)
        rows = zip(*numbers.values(), strict=True) if numbers else [()] * len(queues)
        return [head(queue, row) for queue, row in zip(queues, rows, strict=True)]

    def _fail_at(self, at: int, reason: str) -> None:
        raise RowError(f"row {self._row(at)}: {reason}")

    def _fail(self, wrong: Any, reason: str, column: Any = None) -> None:  # noqa: ANN401 - Arrow has no types
        at = pc.index(wrong, value=True).as_py()
        shown = "" if column is None else f", not {column[at].as_py()}"
        raise RowError(f"row {self._row(at)}: {reason}{shown}")


def too_large(body: bytes, limit: int) -> str:
    """What is wrong with a body that no node takes."""
    return f"the body has {len(body)} bytes, the nodes take {limit} at most (proto-max-bulk-len)"


def plain(value: object) -> str:
    """What JSON cannot say, in a note: bytes as text, a time as it is written."""
    return bytes(value).decode(errors="replace") if isinstance(value, bytes | bytearray) else str(value)


def number_words(numbers: Iterable[tuple[str, int | None]]) -> Words:
    """Numbers as options of ADDJOB."""
    pairs = ((name.upper().encode(), b"%d" % number) for name, number in numbers if number is not None)
    return tuple(word for pair in pairs for word in pair)


def as_bytes(column: Any) -> list[Any]:  # noqa: ANN401 - Arrow has no types
    """The values of a column of strings or bytes, as bytes; None for NULL."""
    values: list[Any] = column.cast(pa.binary() if column.nbytes < 2**30 else pa.large_binary()).to_pylist()
    return values
