"""Writing with real Spark: what is written, what is never there twice, and how errors look."""

import json
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

import disque.spark
from disque.spark.commits import Written
from disque.spark.options import ADD
from disque.spark.sink import BatchWriter, StreamWriter, Writing
from tests.end_to_end.cluster import Cluster
from tests.end_to_end.node import Node, drain
from tests.spark.support import batch, bodies, hosts_of, killed_when, numbers, options, save, texts

BODY = StructType([StructField("body", StringType())])


def last_line(error: pytest.ExceptionInfo[PySparkException]) -> str:
    """The last line of an error that says something, without Spark's own."""
    lines = [line for line in str(error.value).splitlines() if line.strip() and not line.startswith(" SQLSTATE")]
    return lines[-1]


def test_a_thread_that_registers_can_save(spark: SparkSession, node: Node, hosts: str) -> None:
    frame = spark.range(3).selectExpr("CAST(id AS STRING) AS body")

    def work() -> None:
        disque.spark.register(spark)
        save(frame, hosts, queue="q")

    with ThreadPoolExecutor() as threads:
        threads.submit(work).result()
    assert node.ask("QLEN", "q") == 3


class TestRows:
    def test_columns_become_what_they_are_named_after(self, spark: SparkSession, node: Node, hosts: str) -> None:
        frame = spark.createDataFrame(
            [("a", "q1", 100, 900, 7), ("b", None, None, None, None)],
            "body STRING, queue STRING, delay INT, ttl BIGINT, retry SMALLINT",
        )
        save(frame, hosts, queue="q2", retry=3)
        shown = {job[b"queue"]: job for job in show_all(node)}
        one, other = shown[b"q1"], shown[b"q2"]
        assert (one[b"delay"], one[b"retry"]) == (100, 7)
        assert (other[b"delay"], other[b"retry"]) == (0, 3)
        assert one[b"ttl"] <= 900 < other[b"ttl"]

    def test_binary_and_text(self, spark: SparkSession, node: Node, hosts: str) -> None:
        frame = spark.createDataFrame([(bytearray(b"\xff\x00"),), (bytearray(b""),)], "value BINARY")
        save(frame, hosts, queue="mails")
        assert bodies(node) == [b"", b"\xff\x00"]


def show_all(node: Node) -> list[dict[bytes, Any]]:
    """What the node says of each job."""
    replies = [node.ask("SHOW", one) for one in node.ask("JSCAN", "0", "BUSYLOOP")[1]]
    return [dict(zip(reply[::2], reply[1::2], strict=True)) for reply in replies]


class TestNothingTwice:
    def test_a_task_that_fails_in_its_middle_and_is_retried(self, spark: SparkSession, node: Node, hosts: str) -> None:
        def fail_at_first(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            from pyspark import TaskContext  # noqa: PLC0415 - this runs in a task

            context = TaskContext.get()
            assert context is not None
            for one in batches:
                yield one.slice(0, 500)
                if context.attemptNumber() < 2 and context.partitionId() == 1:
                    raise OSError("the machine is gone")
                yield one.slice(500)

        frame = numbers(spark, 3000).mapInArrow(fail_at_first, "body STRING")
        save(frame, hosts, queue="mails")
        assert bodies(node) == texts(3000)

    def test_a_run_that_is_written_again_under_its_name(self, spark: SparkSession, node: Node, hosts: str) -> None:
        for _ in range(2):
            save(numbers(spark, 300), hosts, queue="mails", runId="monday")
        assert bodies(node) == texts(300)
        save(numbers(spark, 300), hosts, queue="mails", runId="tuesday")
        assert bodies(node) == texts(300)

    @pytest.mark.slow
    def test_a_run_in_other_partitions_adds_nothing_and_says_what_to_do(
        self, spark: SparkSession, node: Node, hosts: str
    ) -> None:
        save(numbers(spark, 3000, 4), hosts, queue="mails", runId="monday")
        with pytest.raises(PySparkException, match=r"repartition\(4\)"):  # of several tasks some would go on meanwhile
            save(numbers(spark, 3000, 1), hosts, queue="mails", runId="monday")
        assert node.ask("QLEN", "mails") == 3000

    @pytest.mark.slow
    def test_two_saves_without_a_name_are_two(self, spark: SparkSession, node: Node, hosts: str) -> None:
        for _ in range(2):
            save(numbers(spark, 10), hosts, queue="mails")
        assert bodies(node) == sorted(2 * texts(10))

    def test_rows_that_are_the_same_are_jobs_of_their_own(self, spark: SparkSession, node: Node, hosts: str) -> None:
        frame = spark.range(0, 30, 1, 3).selectExpr("'same' AS body")
        for _ in range(2):
            save(frame, hosts, queue="mails", runId="r")
        assert bodies(node) == [b"same"] * 30

    def test_a_key_of_a_column_is_unique_over_partitions_and_saves(
        self, spark: SparkSession, node: Node, hosts: str
    ) -> None:
        frame = spark.range(0, 30, 1, 3).selectExpr("CAST(id AS STRING) AS body", "CONCAT('order ', id % 10) AS key")
        for _ in range(2):
            save(frame, hosts, queue="mails")
        assert len(bodies(node)) == 10

    def test_an_attempt_that_was_given_up_and_goes_on_adds_nothing(self, node: Node, hosts: str) -> None:
        del node
        writing = Writing(BODY, options(hosts=hosts), ADD)
        rows = [str(number) for number in range(100)]
        attempts = [writing.write(iter([batch(body=order)]), None, None) for order in (rows, rows[::-1], rows[:50])]
        assert [written.rows for written in attempts] == [100, 100, 50]

    def test_of_two_attempts_in_any_order_each_row_is_there_once(self, node: Node, hosts: str) -> None:
        writer = BatchWriter(BODY, options(hosts=hosts))
        writer.write(iter([batch(body=["a", "b", "a"])]))
        writer.write(iter([batch(body=["b"]), batch(body=["a", "a"])]))
        assert bodies(node) == [b"a", b"a", b"b"]

    def test_without_deduplication_each_attempt_adds(self, node: Node, hosts: str) -> None:
        writer = BatchWriter(BODY, options(hosts=hosts, dedup="off"))
        for _ in range(2):
            writer.write(iter([batch(body=["a"])]))
        assert bodies(node) == [b"a", b"a"]

    @pytest.mark.slow
    def test_a_batch_of_a_stream_that_is_replayed(
        self, spark: SparkSession, node: Node, hosts: str, tmp_path: Path
    ) -> None:
        source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
        source.mkdir()
        for name in "ab":
            (source / name).write_text("same\nsame\nother\n")
            stream(spark, source, checkpoint, hosts)
        for commit in checkpoint.glob("commits/*1*"):
            commit.unlink()  # as if the driver had died before it wrote down that batch 1 is done
        stream(spark, source, checkpoint, hosts)
        assert bodies(node) == [b"other"] * 2 + [b"same"] * 4


def stream(spark: SparkSession, source: Path, checkpoint: Path, hosts: str) -> None:
    """Write all new lines of a folder as jobs."""
    frame = spark.readStream.schema("value STRING").text(str(source))
    query = frame.writeStream.format("disque").option("hosts", hosts).option("queue", "mails")
    query.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()


class TestNodeDies:
    @pytest.mark.slow
    def test_the_write_goes_on_at_the_others(self, spark: SparkSession, cluster: Cluster) -> None:
        first, *others = cluster.members

        def slowly(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for one in batches:
                for at in range(0, one.num_rows, 250):
                    time.sleep(0.1)
                    yield one.slice(at, 250)

        frame = numbers(spark, 9000).mapInArrow(slowly, "body STRING")
        with killed_when(lambda: others[0].ask("QLEN", "mails") + others[1].ask("QLEN", "mails") > 500, first):
            save(frame, hosts_of(cluster), queue="mails", replicate=2, retry=5)
        found: set[bytes] = set()
        count = 0
        deadline = time.monotonic() + 60
        while len(found) < 9000 and time.monotonic() < deadline:
            taken = [job for node in others for job in drain(node.ask, "mails")]
            count += len(taken)
            found.update(body for _, body in taken)
            for job_id, _ in taken:
                others[0].ask("ACKJOB", job_id)
            time.sleep(0.05)
        assert found == set(texts(9000))


class TestErrors:
    def refusal(self, frame: DataFrame, hosts: str, **given: object) -> str:
        with pytest.raises(PySparkException) as caught:
            save(frame, hosts, **given)
        return last_line(caught)

    def test_a_plan_that_cannot_be_is_refused_at_once(self, spark: SparkSession, hosts: str) -> None:
        frame = spark.createDataFrame([("a", 1)], "body STRING, dely INT")
        assert self.refusal(frame, hosts, queue="q").endswith("unknown column 'dely': did you mean 'delay'?")
        nested = frame.selectExpr("STRUCT(body) AS body")
        assert "to_json(body)" in self.refusal(nested, hosts, queue="q")

    def test_a_task_says_the_cause_last(self, spark: SparkSession, hosts: str) -> None:
        frame = spark.createDataFrame([("a",), (None,)], "body STRING").coalesce(1)
        assert "partition 0, row 1: the body is NULL" in self.refusal(frame, hosts, queue="q")

    def test_bad_rows_may_be_left_out_with_notes_in_a_queue(self, spark: SparkSession, node: Node, hosts: str) -> None:
        frame = spark.createDataFrame([("a", 1), (None, 2), ("b", 3)], "body STRING, delay INT").coalesce(1)
        for _ in range(2):
            save(frame, hosts, queue="mails", badRows="queue", badRowsQueue="bad", runId="r")
        [note] = bodies(node, "bad")
        assert json.loads(note) == {"error": "the body is NULL", "queue": "mails", "body": None, "delay": 2}
        assert node.info("registered_jobs") == "4", "two rows, a note of the third, and one of the run"

    @pytest.mark.slow
    def test_a_queue_that_takes_nothing_is_named(self, spark: SparkSession, node: Node, hosts: str) -> None:
        node.ask("PAUSE", "mails", "in")
        assert "queue 'mails': PAUSED" in self.refusal(numbers(spark, 1, 1), hosts, queue="mails", backoffMs=100)

    def test_nothing_can_be_overwritten(self, spark: SparkSession, hosts: str) -> None:
        writer = numbers(spark, 1).write.format("disque").option("hosts", hosts).option("queue", "q")
        with pytest.raises(PySparkException, match=r'mode\("append"\)'):
            writer.mode("overwrite").save()


class TestCommits:
    def test_bad_rows_are_reported(self, caplog: pytest.LogCaptureFixture) -> None:
        BatchWriter(BODY, options(badRows="skip")).commit([Written(5, 2), Written(3, 1)])
        assert caplog.messages == ["3 bad rows were left out (badRows=skip)"]

    def test_they_count_and_take_nothing_back(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level("INFO", "disque.spark")
        writer, streaming = BatchWriter(BODY, options()), StreamWriter(BODY, options())
        writer.commit([Written(2), Written(3)])
        writer.abort([Written(2), None])
        streaming.commit([Written(1)], 7)
        streaming.abort([None], 8)
        assert caplog.messages == [
            "5 rows written in 2 partitions",
            "the write has failed; 2 rows of finished partitions stay written, and what unfinished ones had added",
            "batch 7: 1 rows written in 1 partitions",
            "batch 8 has failed; 0 rows of finished partitions stay written, and what unfinished ones had added",
        ]
