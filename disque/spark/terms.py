"""What rows say of jobs in texts, beside queue, body and key: BACKOFF, DEADLETTER, HEADER; and when: AT."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from disque.spark.options import BACKOFF, Options

#: Options of one ADDJOB as words.
Words = tuple[bytes, ...]

#: Columns of texts, each of which is an option, too.
TEXTS: Final = ("backoff", "deadletter")
BAD_BACKOFF: Final = "the backoff must be kind:base[:max[:jitter]], such as exponential:2:60"
#: What raises an error about a row: its number in the piece, and what is wrong.
Fail = Callable[[int, str], None]


class Terms:
    """Makes the words of texts and headers, for columns by name and position."""

    def __init__(self, options: Options, columns: Mapping[str, int]) -> None:
        self._columns = {name: at for name, at in columns.items() if name in {*TEXTS, "headers"}}
        usual = {name: getattr(options, name) for name in TEXTS}
        self._usual = {name: None if word is None else word.encode() for name, word in usual.items()}

    def usual(self) -> Words:
        """The words of options alone, for jobs that are made of no row."""
        return tuple(word for name in TEXTS for word in words_of(name, self._usual[name]))

    def words(self, piece: pa.RecordBatch, fail: Fail, *, alone: bool = False) -> list[Words] | None:
        """The words of each row, those of columns before those of options; None if no column says any.

        ``alone``: only those of columns.
        """
        if not self._columns:
            return None
        parts = [self._texts(piece, name, fail, None if alone else self._usual[name]) for name in TEXTS]
        if "headers" in self._columns:
            headers = piece.column(self._columns["headers"]).to_pylist()
            parts.append([header_words(row, at, fail) for at, row in enumerate(headers)])
        return [tuple(word for part in row for word in part) for row in zip(*parts, strict=True)]

    def _texts(self, piece: pa.RecordBatch, name: str, fail: Fail, usual: bytes | None) -> Sequence[Words]:
        if name not in self._columns:
            return [words_of(name, usual)] * piece.num_rows
        values = [encoded(value) for value in piece.column(self._columns[name]).to_pylist()]
        if name == "backoff":
            for at, value in enumerate(values):
                if value is not None and not BACKOFF.fullmatch(value.decode(errors="replace")):
                    fail(at, f"{BAD_BACKOFF}, not {value.decode(errors='replace')!r}")
        return [words_of(name, usual if value is None else value) for value in values]


def words_of(name: str, word: bytes | None) -> Words:
    """An option of ADDJOB, if there is one."""
    return () if word is None else (name.upper().encode(), word)


def header_words(headers: Any, at: int, fail: Fail) -> Words:  # noqa: ANN401 - a map as Arrow gives it
    """The headers of the row at this place; one without a value is left out."""
    words: list[bytes] = []
    for name, value in headers or ():
        if not name:
            fail(at, "a header has no name")
        if value is not None:
            words += (b"HEADER", name.encode(), encoded(value) or b"")
    return tuple(words)


def encoded(value: str | bytes | None) -> bytes | None:
    """A text as bytes."""
    return value.encode() if isinstance(value, str) else value


def moments(column: Any, fail: Fail) -> list[int | None]:  # noqa: ANN401 - Arrow has no types
    """Timestamps as ms since 1970, rounded up."""
    micros = pc.cast(pc.cast(column, pa.timestamp("us", column.type.tz)), pa.int64()).to_pylist()
    for at, one in enumerate(micros):
        if one is not None and one < 0:
            fail(at, f"at is before 1970: {column[at].as_py()}")
    return [None if one is None else -(-one // 1000) for one in micros]


def distinct(head: bytes, words: Words) -> bytes:
    """What distinguishes a row, with its texts: no two rows can look the same."""
    return head + b"".join([b"%d %b " % (len(word), word) for word in words]) + b"\n"
