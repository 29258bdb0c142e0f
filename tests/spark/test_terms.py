from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from disque.core.model.backoff import parse
from disque.spark.keys import Keys
from disque.spark.options import ADD, OptionError, parse_options
from disque.spark.rows import JobRows, RowError
from disque.spark.terms import distinct, moments, words_of
from tests.spark.support import as_array, options

HEADERS = pa.map_(pa.string(), pa.string())
TIMES = pa.timestamp("us", "UTC")
KINDS = {"headers": HEADERS, "at": TIMES}


def jobs(keys: Keys | None = None, given: Any = None, **columns: list[Any]) -> list[tuple[bytes, ...]]:
    arrays = {name: pa.array(row, KINDS[name]) if name in KINDS else as_array(row) for name, row in columns.items()}
    positions = {name: at for at, name in enumerate(columns)}
    rows = JobRows(options(**(given or {})), positions, keys, lambda _: 1 << 20)
    return rows.jobs(pa.RecordBatch.from_pydict(arrays))


def test_columns_come_before_options() -> None:
    given = {"tries": 3, "backoff": "fixed:1", "deadletter": "morgue", "priority": 9}
    one, other = jobs(
        None,
        given,
        body=["a", "b"],
        tries=[5, None],
        backoff=["linear:0.5:60", None],
        deadletter=["", None],
        headers=[[("a", "ä"), ("none", None)], None],
    )
    assert one[4:] == (
        *(b"TRIES", b"5", b"PRIORITY", b"9", b"BACKOFF", b"linear:0.5:60", b"DEADLETTER", b""),
        *(b"HEADER", b"a", "ä".encode()),
    )
    assert b" ".join(other[4:]) == b"TRIES 3 PRIORITY 9 BACKOFF fixed:1 DEADLETTER morgue"
    [plain] = jobs(None, given, body=["a"])
    assert plain[4:] == other[4:]


def test_a_time_is_in_place_of_the_delay() -> None:
    at = datetime(2026, 11, 23, 9, 0, 0, 123001, tzinfo=UTC)
    one, other = jobs(None, {"delay": 5, "async": "on", "dedup": "off"}, body=["a", "b"], at=[at, None])
    assert one[4:] == (b"AT", b"1795424400124", b"ASYNC")
    assert other[4:] == (b"DELAY", b"5", b"ASYNC")
    [alone] = jobs(body=["a"], at=[at])
    assert alone[4:] == (b"AT", b"1795424400124")


def test_headers_may_be_bytes() -> None:
    binary = pa.array([[("a", b"\xff")]], pa.map_(pa.string(), pa.binary()))
    piece = pa.RecordBatch.from_pydict({"body": pa.array(["a"]), "headers": binary})
    [job] = JobRows(options(), {"body": 0, "headers": 1}, None, lambda _: 99).jobs(piece)
    assert job[4:] == (b"HEADER", b"a", b"\xff")


def test_rows_that_differ_in_any_text_have_other_keys_whatever_the_options_say() -> None:
    def keys_of(given: Any = None, **columns: list[Any]) -> list[bytes]:
        return [job[5] for job in jobs(Keys("s", 0), given, **columns)]

    two: Any = {
        "body": ["a"] * 4,
        "backoff": ["fixed:1", None, "fixed:2", None],
        "headers": [None, None, None, [("a", "b")]],
    }
    found = keys_of(**two)
    assert len(set(found)) == 4
    assert keys_of({"backoff": "fixed:9", "deadletter": "x"}, **two) == found
    at = [datetime(2026, 1, 1, tzinfo=UTC), None]
    assert len(set(keys_of(body=["a"] * 2, at=at))) == 2
    assert distinct(b"", (b"a", b"b c")) != distinct(b"", (b"a b", b"c"))


@pytest.mark.parametrize(("column", "reason"), [
    ({"backoff": ["fixed:1", "cubic:1"]}, "row 1: the backoff must be kind:base"),
    ({"headers": [None, [("", "x")]]}, "row 1: a header has no name"),
    ({"at": [None, datetime(1969, 1, 1, tzinfo=UTC)]}, "row 1: at is before 1970: 1969-01-01"),
    ({"tries": [1, 70_000]}, "row 1: the tries must be a whole number from 0 to 65535, not 70000"),
    ({"priority": [1, 256]}, "row 1: the priority must be"),
])  # fmt: skip
def test_errors_name_the_row(column: Any, reason: str) -> None:
    with pytest.raises(RowError, match=reason):
        jobs(body=["a", "b"], **column)


@pytest.mark.parametrize(("given", "reason"), [
    ({"tries": "65536"}, "must be a whole number from 0 to 65535"),
    ({"backoff": "exponential"}, "option 'backoff' must be kind:base"),
    ({"priority": "-1"}, "from 0 to 255"),
    ({"trise": "1"}, "did you mean 'tries'"),
    ({"backof": "1"}, "did you mean 'backoff'"),
    ({"tries": "1", "retry": "0"}, "option 'tries' needs a 'retry' above 0"),
])  # fmt: skip
def test_options_that_cannot_be(given: dict[str, str], reason: str) -> None:
    with pytest.raises(OptionError, match=reason):
        parse_options({"hosts": "h", "queue": "q", **given}, ADD)


def test_what_options_take_a_node_takes() -> None:
    found = parse_options({"hosts": "h", "queue": "q", "backoff": " Linear:0.5:60:0 ", "deadletter": ""}, ADD)
    assert found.deadletter == ""
    assert parse((found.backoff or "").encode()) is not None
    assert words_of("backoff", None) == ()


def test_moments_of_any_unit() -> None:
    seconds = pa.array([5, None], pa.timestamp("s"))
    assert moments(seconds, lambda _at, _reason: None) == [5000, None]


def test_notes_of_bad_rows_have_times_and_headers() -> None:
    at = datetime(2026, 11, 23, tzinfo=UTC)
    given = {"badRows": "queue", "badRowsQueue": "bad"}
    [note] = jobs(None, given, body=[None], at=[at], headers=[[("a", "b")]])
    assert b'"at": "2026-11-23 00:00:00+00:00"' in note[2]
    assert b'[["a", "b"]]' in note[2]
