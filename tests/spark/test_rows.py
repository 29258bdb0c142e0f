import json
import tracemalloc
from typing import Any

import pyarrow as pa
import pytest

from disque.spark.keys import Keys
from disque.spark.occurrences import Occurrences
from disque.spark.rows import JobRows, RowError, as_bytes, light, number_words, pieces
from tests.spark.support import batch, options


def rows(names: str, keys: Keys | None = None, limit: int = 1 << 20, **given: Any) -> JobRows:
    columns = {name: at for at, name in enumerate(names.split())}
    return JobRows(options(**given), columns, keys, lambda _: limit)


def refusal(found: JobRows, piece: pa.RecordBatch) -> str:
    with pytest.raises(RowError) as caught:
        found.jobs(piece)
    return str(caught.value)


class TestPieces:
    def test_a_batch_is_cut_into_pipelines(self) -> None:
        whole = batch(body=[str(number) for number in range(10)])
        assert [piece.num_rows for piece in pieces([whole, whole.slice(8)], 4)] == [4, 4, 2, 2]

    def test_heavy_pieces_are_halved(self) -> None:
        heavy = batch(body=["x" * 1000] * 8)
        found = list(light(heavy, 3000))
        assert [piece.num_rows for piece in found] == [2, 2, 2, 2]

    def test_one_row_stays_one_however_heavy(self) -> None:
        assert [piece.num_rows for piece in pieces([batch(body=["x" * 1000] * 2)], 5, 10)] == [1, 1]


def peak_of(batches: int) -> int:
    """The most bytes that are in use while so many batches of a partition become jobs."""
    partition = (batch(body=[f"{number} {row}" for row in range(1000)]) for number in range(batches))
    found = JobRows(options(), {"body": 0}, Keys("s", 0, Occurrences(recent=5000)), lambda longest: longest)
    tracemalloc.start()
    for piece in pieces(partition, 500):
        found.jobs(piece)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def test_memory_follows_the_pipeline_and_not_the_partition() -> None:
    assert peak_of(100) < 1.2 * peak_of(10)


class TestJobs:
    def test_a_column_comes_before_an_option_before_the_server(self) -> None:
        piece = batch(body=["a", "b"], retry=[7, None], ttl=[None, 9])
        one, other = rows("body retry ttl", retry=5, replicate=1, timeoutMs=70).jobs(piece)
        assert b" ".join(one) == b"ADDJOB mails a 70 RETRY 7 REPLICATE 1"
        assert b" ".join(other) == b"ADDJOB mails b 70 TTL 9 RETRY 5 REPLICATE 1"

    def test_all_options(self) -> None:
        more: Any = {"async": "on"}
        found = rows("body", delay=1, ttl=9, retry=3, replicate=4, maxlen=5, dedup="off", **more)
        assert b" ".join(found.jobs(batch(body=["a"]))[0][4:]) == (b"DELAY 1 TTL 9 RETRY 3 REPLICATE 4 MAXLEN 5 ASYNC")
        assert number_words([("ttl", 0), ("retry", None)]) == (b"TTL", b"0")

    def test_text_and_bytes(self) -> None:
        assert rows("body").jobs(batch(body=["ä"]))[0][2] == "ä".encode()
        assert rows("body").jobs(batch(body=[b"\xff"]))[0][2] == b"\xff"

    def test_the_queue_of_a_row(self) -> None:
        found = rows("body queue").jobs(batch(body=["a", "b"], queue=["q", None]))
        assert [job[1] for job in found] == [b"q", b"mails"]

    def test_without_deduplication_there_is_no_key(self) -> None:
        assert rows("body", dedup="off").jobs(batch(body=["a"])) == [(b"ADDJOB", b"mails", b"a", b"5000")]

    def test_rows_get_keys_and_the_window(self) -> None:
        found = rows("body", Keys("s", 0), dedupWindow=60).jobs(batch(body=["a", "a", "b"]))
        assert len({job[5] for job in found}) == 3
        assert {(job[4], job[6]) for job in found} == {(b"UNIQUE", b"60")}

    def test_rows_that_differ_in_any_column_have_other_keys(self) -> None:
        found = rows("body queue delay", Keys("s", 0)).jobs(
            batch(body=["a"] * 3, queue=["q", "q", "r"], delay=[1, 2, 1])
        )
        again = rows("body queue delay", Keys("s", 0)).jobs(batch(body=["a"], queue=["r"], delay=[1]))
        assert len({job[5] for job in found}) == 3
        assert again[0][5] == found[2][5]

    def test_a_key_of_a_column_is_taken_as_it_is(self) -> None:
        one, other = rows("body key", Keys("s", 0)).jobs(batch(body=["a", "b"], key=["order 17", None]))
        assert one[5] == b"order 17"
        assert len(other[5]) == 16

    def test_bytes_of_a_column(self) -> None:
        assert as_bytes(pa.array(["a", None])) == [b"a", None]
        assert as_bytes(pa.array([b"a"], pa.large_binary())) == [b"a"]


class TestBadRows:
    def test_they_are_left_out_and_counted(self) -> None:
        found = rows("body", limit=10, badRows="skip")
        assert [job[2] for job in found.jobs(batch(body=["a", None, "b" * 11, "c"]))] == [b"a", b"c"]
        assert found.jobs(batch(body=[None])) == []
        assert found.bad == 3
        assert [job[2] for job in found.jobs(batch(body=["d"]))] == [b"d"]

    def test_rows_keep_their_numbers(self) -> None:
        found = rows("body delay", badRows="skip")
        assert refusal(found, batch(body=[None, "b"], delay=[0, -1])).startswith("row 1: the delay")
        assert refusal(rows("body", badRows="fail"), batch(body=["a", None])).startswith("row 1: the body is NULL")

    def test_notes_go_to_a_queue_and_have_keys_of_their_own(self) -> None:
        def found() -> JobRows:
            return rows("body key", Keys("s", 0), limit=4, badRows="queue", badRowsQueue="bad", retry=9)

        piece = batch(body=[b"\xff" * 2000, b"a", b"\xff" * 2000], key=[b"k", b"l", b"k"])
        good, one, two = found().jobs(piece)
        assert (good[1:3], good[5]) == ((b"mails", b"a"), b"l")
        assert one[1:3] == two[1:3]
        assert one[5] != two[5]
        assert found().jobs(piece)[1:] == [one, two]
        note = json.loads(one[2])
        assert (note["queue"], note["key"], len(note["body"])) == ("mails", "k", 1000)
        assert note["error"] == "the body has 2000 bytes, the nodes take 4 at most (proto-max-bulk-len)"


class TestRefusals:
    def test_a_retry_that_is_not_below_the_ttl(self) -> None:
        assert refusal(rows("body retry", ttl=86400), batch(body=["a", "b"], retry=[9, 86400])) == (
            "row 1: the retry (86400) must be below the ttl (86400)"
        )
        assert len(rows("body retry").jobs(batch(body=["a"], retry=[864000]))) == 1, "the queue may have a ttl"
        assert "the retry (5)" in refusal(rows("body ttl", retry=5), batch(body=["a"], ttl=[5]))

    def test_a_body_that_is_null(self) -> None:
        found = rows("body")
        found.jobs(batch(body=["a", "b"]))
        assert refusal(found, batch(body=["c", None])).startswith("row 3: the body is NULL")

    def test_a_body_beyond_the_limit_of_the_nodes(self) -> None:
        message = refusal(rows("body", limit=10), batch(body=["a", "b" * 11]))
        assert message == "row 1: the body has 11 bytes, the nodes take 10 at most (proto-max-bulk-len)"

    def test_numbers_out_of_range(self) -> None:
        message = refusal(rows("body delay"), batch(body=["a", "b"], delay=[0, -1]))
        assert message == "row 1: the delay must be a whole number from 0 to 4294967295, not -1"
        assert "from 1 to" in refusal(rows("body ttl"), batch(body=["a"], ttl=[0]))

    def test_a_key_that_is_too_long_or_empty(self) -> None:
        keys = Keys("s", 0)
        assert "row 0: the key has 513 bytes" in refusal(rows("body key", keys), batch(body=["a"], key=["x" * 513]))
        assert "1 to 512" in refusal(rows("body key", keys), batch(body=["a"], key=[""]))

    def test_a_queue_that_nobody_names(self) -> None:
        found = JobRows(options(queue="q"), {"body": 0, "queue": 1}, None, lambda longest: longest)
        found._queue = b""
        assert refusal(found, batch(body=["a"], queue=[None])).startswith("row 0: the queue is NULL")
