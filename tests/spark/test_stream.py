"""Reading a stream with real Spark: nothing is lost, and twice only what is promised to be possible."""

import json
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.streaming.query import StreamingQuery

from disque.spark.columns import SOURCE
from disque.spark.offsets import OffsetError, first
from disque.spark.options import STREAM, parse_options
from disque.spark.partitions import IdsPartition
from disque.spark.stream import StreamReader
from tests.end_to_end.cluster import Cluster
from tests.end_to_end.node import ROOT, Node, until
from tests.spark.support import hosts_of, options, texts

Sink = Callable[[DataFrame, int], None]


class Account:
    """A sink that is idempotent by the number of the batch, as an exactly-once sink must be."""

    def __init__(self) -> None:
        self.batches: dict[int, list[bytes]] = {}
        self.attempts: defaultdict[int, int] = defaultdict(int)
        self.redelivered = 0

    def __call__(self, frame: DataFrame, number: int) -> None:
        rows = frame.select("body", "additional_deliveries").collect()
        self.attempts[number] += 1
        self.redelivered += sum(row.additional_deliveries for row in rows)
        self.batches[number] = [bytes(row.body) for row in rows]

    def all(self) -> list[bytes]:
        return sorted(body for batch in self.batches.values() for body in batch)


def fill(node: Node, count: int, *words: str | int) -> None:
    for number in range(count):
        node.ask("ADDJOB", "mails", number, 0, *words)


def start(
    spark: SparkSession, hosts: str, checkpoint: Path, sink: Sink, *, available: bool = False, **given: Any
) -> StreamingQuery:
    words = {"queue": "mails", "pollTimeoutMs": 200, **given}
    frame = spark.readStream.format("disque").option("hosts", hosts)
    frame.options(**{name: str(value) for name, value in words.items()})
    writer = frame.load().writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))
    return (
        writer.trigger(availableNow=True) if available else writer.trigger(processingTime="100 milliseconds")
    ).start()


@contextmanager
def running(*args: Any, **given: Any) -> Iterator[StreamingQuery]:
    query = start(*args, **given)
    try:
        yield query
    finally:
        query.stop()


class TestAvailableNow:
    def test_it_reads_what_is_there_in_batches_and_acknowledges_the_last_one(
        self, spark: SparkSession, node: Node, hosts: str, tmp_path: Path
    ) -> None:
        fill(node, 25)
        account = Account()
        query = start(spark, hosts, tmp_path, account, available=True, maxJobsPerTrigger=10)
        query.awaitTermination()
        left = [json.loads(one.sources[0].latestOffset) for one in query.recentProgress if one.numInputRows]
        assert [one["queued"] for one in left] == [15, 5, 0]
        assert [len(batch) for batch in account.batches.values()] == [10, 10, 5]
        assert account.all() == texts(25)
        assert node.info("registered_jobs") == "0"

    @pytest.mark.slow
    def test_what_comes_later_is_left_to_the_next_run(
        self, spark: SparkSession, node: Node, hosts: str, tmp_path: Path
    ) -> None:
        fill(node, 3)
        account = Account()

        def adding(frame: DataFrame, number: int) -> None:
            account(frame, number)
            fill(node, 3)

        start(spark, hosts, tmp_path, adding, available=True, maxJobsPerTrigger=2).awaitTermination()
        assert [len(batch) for batch in account.batches.values()] == [2, 1]
        assert node.ask("QLEN", "mails") == 6


class TestFailures:
    def test_a_batch_that_fails_comes_again_with_its_number_and_its_jobs(
        self, spark: SparkSession, node: Node, hosts: str, tmp_path: Path
    ) -> None:
        fill(node, 20)
        account = Account()

        def failing(frame: DataFrame, number: int) -> None:
            account(frame, number)
            if number == 1:
                raise OSError("the sink is gone")

        with pytest.raises(StreamingQueryException, match="the sink is gone"):
            start(spark, hosts, tmp_path, failing, available=True, maxJobsPerTrigger=8).awaitTermination()
        failed = sorted(account.batches[1])
        start(spark, hosts, tmp_path, account, available=True, maxJobsPerTrigger=8).awaitTermination()
        assert sorted(account.batches[1]) == failed
        assert dict(account.attempts) == {0: 1, 1: 2, 2: 1}
        assert account.all() == texts(20)
        assert node.info("registered_jobs") == "0"

    @pytest.mark.slow
    def test_at_most_once_jobs_are_not_in_a_batch_that_comes_again(
        self, spark: SparkSession, node: Node, hosts: str, tmp_path: Path
    ) -> None:
        fill(node, 3)
        node.ask("ADDJOB", "mails", "once", 0, "RETRY", 0)
        account = Account()

        def failing(frame: DataFrame, number: int) -> None:
            account(frame, number)
            raise OSError("the sink is gone")

        with pytest.raises(StreamingQueryException, match="the sink is gone"):
            start(spark, hosts, tmp_path, failing, available=True).awaitTermination()
        assert account.all() == [*texts(3), b"once"]
        start(spark, hosts, tmp_path, account, available=True).awaitTermination()
        assert account.all() == texts(3)
        assert node.info("registered_jobs") == "0"

    @pytest.mark.slow
    def test_a_checkpoint_of_a_queue_that_was_flushed_goes_on_with_what_comes(
        self, spark: SparkSession, node: Node, hosts: str, tmp_path: Path
    ) -> None:
        fill(node, 5)
        account = Account()
        start(spark, hosts, tmp_path, account, available=True).awaitTermination()
        for commit in tmp_path.glob("commits/*0*"):
            commit.unlink()
        node.ask("DEBUG", "FLUSHALL")
        fill(node, 2)
        again = Account()
        start(spark, hosts, tmp_path, again, available=True).awaitTermination()
        assert again.batches == {0: [], 1: [b"0", b"1"]}

    @pytest.mark.slow
    def test_a_checkpoint_of_another_queue_is_refused(
        self, spark: SparkSession, node: Node, hosts: str, tmp_path: Path
    ) -> None:
        fill(node, 1)
        start(spark, hosts, tmp_path, Account(), available=True).awaitTermination()
        with pytest.raises(StreamingQueryException, match="belongs to a query of the queue 'mails', not of 'others'"):
            start(spark, hosts, tmp_path, Account(), available=True, queue="others").awaitTermination()


class TestRunning:
    @pytest.mark.slow
    def test_the_last_batch_of_a_queue_that_is_idle_is_acknowledged(
        self, spark: SparkSession, node: Node, hosts: str, tmp_path: Path
    ) -> None:
        fill(node, 5)
        account = Account()
        with running(spark, hosts, tmp_path, account):
            until(lambda: node.info("registered_jobs") == "0", "the acknowledgements")
            assert account.all() == texts(5)

    @pytest.mark.slow
    def test_a_batch_that_takes_longer_than_retry_is_not_delivered_again(
        self, spark: SparkSession, node: Node, hosts: str, tmp_path: Path
    ) -> None:
        fill(node, 10, "RETRY", 1)
        account, others = Account(), []

        def slow(frame: DataFrame, number: int) -> None:
            account(frame, number)
            end_s = time.monotonic() + 3.5
            while time.monotonic() < end_s:
                others.append(node.ask("GETJOB", "NOHANG", "FROM", "mails"))
                time.sleep(0.05)

        with running(spark, hosts, tmp_path, slow):
            until(lambda: node.info("registered_jobs") == "0", "the acknowledgements")
        assert account.all() == texts(10)
        assert len(others) > 30
        assert set(map(str, others)) == {"None"}

    @pytest.mark.slow
    def test_when_it_is_stopped_nobody_holds_its_claims(
        self, spark: SparkSession, node: Node, hosts: str, tmp_path: Path
    ) -> None:
        fill(node, 3, "RETRY", 1)
        seen: list[int] = []

        def stuck(frame: DataFrame, number: int) -> None:
            seen.append(number)
            frame.collect()
            time.sleep(2)
            raise OSError("stopped in the middle")

        with running(spark, hosts, tmp_path, stuck, ackMode="manual"):
            until(lambda: seen, "the batch")
        until(lambda: node.ask("QLEN", "mails") == 3, "jobs that come again")

    def test_with_manual_acknowledgement_the_jobs_stay_until_their_ids_are_written_back(
        self, spark: SparkSession, node: Node, hosts: str, tmp_path: Path
    ) -> None:
        fill(node, 6)

        def some(frame: DataFrame, number: int) -> None:
            del number
            done = frame.filter("CAST(body AS STRING) < '4'").select("id")
            done.write.format("disque").option("hosts", hosts).option("action", "ack").mode("append").save()

        start(spark, hosts, tmp_path, some, available=True, ackMode="manual").awaitTermination()
        assert node.info("registered_jobs") == "2"

    @pytest.mark.slow
    def test_a_node_dies_and_the_stream_goes_on_with_what_the_others_have(
        self, spark: SparkSession, cluster: Cluster, tmp_path: Path
    ) -> None:
        first_node, *others = cluster.members
        for node in cluster.members:
            fill(node, 300, "REPLICATE", 2, "RETRY", 3)
        account = Account()
        with running(spark, hosts_of(cluster), tmp_path, account, maxJobsPerTrigger=100):
            until(lambda: account.batches, "the first batch")
            cluster.kill(first_node)
            until(lambda: set(account.all()) == set(texts(300)) and len(account.all()) >= 900, "all jobs")
            until(lambda: all(node.ask("QLEN", "mails") == 0 for node in others), "empty queues")


DRIVER = """
import sys, time
from pathlib import Path
from pyspark.sql import SparkSession
import disque.spark

hosts, folder, patience_s = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3])
spark = SparkSession.builder.master("local[2,3]").config(map=CONFIG).getOrCreate()
disque.spark.register(spark)

def sink(frame, number):
    rows = sorted(row.body.decode() for row in frame.collect())
    with (folder / "log").open("a") as log:
        log.write(f"{number} {' '.join(rows)}\\n")
    if number == 1:
        time.sleep(patience_s)

reader = spark.readStream.format("disque").option("hosts", hosts).option("queue", "mails")
stream = reader.option("maxJobsPerTrigger", "10").option("pollTimeoutMs", "200").load()
query = stream.writeStream.foreachBatch(sink).option("checkpointLocation", str(folder / "checkpoint"))
query.trigger(availableNow=True).start().awaitTermination()
"""


@pytest.mark.slow
def test_a_driver_that_is_killed_in_the_middle_of_a_batch_loses_nothing(
    spark_environment: dict[str, str], node: Node, hosts: str, tmp_path: Path
) -> None:
    from tests.spark.conftest import SESSION  # noqa: PLC0415 - beside its only use

    fill(node, 30, "RETRY", 2)
    (tmp_path / "driver.py").write_text(DRIVER.replace("CONFIG", repr(SESSION)))
    log = tmp_path / "log"
    command = [sys.executable, str(tmp_path / "driver.py"), hosts, str(tmp_path)]
    with (tmp_path / "driver.log").open("wb") as output:
        words: dict[str, Any] = {"cwd": ROOT, "env": spark_environment, "stdout": output, "stderr": output}
        driver = subprocess.Popen([*command, "600"], start_new_session=True, **words)
        try:
            until(lambda: log.exists() and len(log.read_text().splitlines()) == 2, "the second batch", 0.1, 240.0)
        finally:
            kill_family(driver)
        subprocess.run([*command, "0"], check=True, timeout=120, **words)
    batches = [line.split() for line in log.read_text().splitlines()]
    seen = [body for _, *found in batches for body in found]
    assert sorted(set(seen)) == sorted(map(str, range(30)))
    again = [(number, found) for number, *found in batches if number == "1"]
    assert len(again) == 2, "the batch that was under way, under the same number"
    assert again[0] == again[1], "with the same jobs"
    assert len(seen) == 40, "and no other job twice"
    assert node.info("registered_jobs") == "0"


def kill_family(process: "subprocess.Popen[bytes]") -> None:
    """Kill -9 a driver and all that it has started: its JVM, and the Python beside it."""
    family = [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]
    for one in family:
        one.send_signal(signal.SIGKILL) if one.is_running() else None
    process.wait()


def ids_of(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[IdsPartition]:
    """The partitions of a batch."""
    parts = reader.partitions(start, end)
    return [part for part in parts if isinstance(part, IdsPartition)]


class TestReader:
    """The reader by itself, called as Spark calls it."""

    def reader(self, hosts: str, **given: Any) -> StreamReader:
        return StreamReader(SOURCE, options(STREAM, hosts=hosts, **{"pollTimeoutMs": 100, **given}))

    def test_the_limit_is_that_of_the_options_unless_spark_wants_all(self, node: Node, hosts: str) -> None:
        fill(node, 5)
        reader = self.reader(hosts, maxJobsPerTrigger=2)
        assert reader.getDefaultReadLimit() == ReadMaxRows(2)
        start = reader.initialOffset()
        one = reader.latestOffset(start, ReadMaxRows(2))
        assert sum(len(part.ids) for part in ids_of(reader, start, one)) == 2
        two = reader.latestOffset(one, ReadAllAvailable())
        assert sum(len(part.ids) for part in ids_of(reader, one, two)) == 3
        reader.stop()

    def test_asked_again_for_the_same_end_it_gives_the_same_batch(self, node: Node, hosts: str) -> None:
        fill(node, 5)
        reader = self.reader(hosts, maxJobsPerTrigger=2)
        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadMaxRows(2))
        assert reader.latestOffset(start, ReadMaxRows(2)) == end
        reader.stop()

    def test_an_empty_queue_ends_where_it_began(self, node: Node, hosts: str) -> None:
        del node
        reader = self.reader(hosts)
        start = reader.initialOffset()
        assert reader.latestOffset(start, ReadMaxRows(2)) is start
        assert reader.partitions(start, start) == []
        reader.stop()

    def test_a_commit_acknowledges_and_so_does_the_next_trigger(self, node: Node, hosts: str) -> None:
        fill(node, 2)
        reader = self.reader(hosts)
        one = reader.latestOffset(reader.initialOffset(), ReadMaxRows(1))
        two = reader.latestOffset(one, ReadMaxRows(1))
        assert node.info("registered_jobs") == "1"
        reader.commit(two)
        reader.commit(two)
        assert node.info("registered_jobs") == "0"
        reader.stop()

    def test_the_driver_has_ids_and_tasks_fetch_the_bodies(self, node: Node, hosts: str) -> None:
        fill(node, 3)
        reader = self.reader(hosts, partitions=2)
        end = reader.latestOffset(reader.initialOffset(), ReadMaxRows(9))
        parts = ids_of(reader, reader.initialOffset(), end)
        rows = [row for part in parts for found in self.reader(hosts).read(part) for row in found.to_pylist()]
        reader.stop()
        assert [row["body"] for row in rows] == [b"0", b"1", b"2"]
        assert all(abs(row["added_at"].timestamp() - time.time()) < 3600 for row in rows)

    def test_after_a_restart_each_job_is_in_the_partition_where_it_was(self, node: Node, hosts: str) -> None:
        for number in range(40):
            node.ask("ADDJOB", "mails", number, 0, "TTL", 3600 + number % 2 * 100_000)
        reader = self.reader(hosts, partitions=4)
        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadMaxRows(40))
        before = ids_of(reader, start, end)
        reader.stop()
        again = self.reader(hosts, partitions=4)
        after = ids_of(again, start, end)
        again.stop()
        assert [part.ids for part in after] == [part.ids for part in before]
        assert [part.again for part in before + after] == [False] * 4 + [True] * 4

    def test_a_trigger_is_bounded_by_bytes_unless_spark_wants_all(self, node: Node, hosts: str) -> None:
        fill(node, 9)
        reader = self.reader(hosts, maxBytesPerTrigger=6)
        start = reader.initialOffset()
        one = reader.latestOffset(start, ReadMaxRows(9))
        assert len(ids_of(reader, start, one)[0].ids) == 1, "a body and the name of its queue"
        assert sum(len(part.ids) for part in ids_of(reader, one, reader.latestOffset(one, ReadAllAvailable()))) == 8
        reader.stop()

    def test_progress_says_what_is_left(self, node: Node, hosts: str, caplog: pytest.LogCaptureFixture) -> None:
        fill(node, 5)
        reader = self.reader(hosts)
        reader.latestOffset(reader.initialOffset(), ReadMaxRows(2))
        report = reader.reportLatestOffset()
        assert report is not None
        assert report["queued"] == 3
        assert report.keys() == {"queued", "oldestMs"}
        reader.stop()
        lost = self.reader("127.0.0.1:1", timeoutMs=100)
        assert lost.reportLatestOffset() is None
        assert "the number of queued jobs is not known" in caplog.text

    def test_several_queues_are_one_stream(self, node: Node, hosts: str) -> None:
        node.ask("ADDJOB", "a", "x", 0)
        node.ask("ADDJOB", "b", "y", 0)
        words = {"hosts": hosts, "queues": "b,a", "pollTimeoutMs": "100"}
        reader = StreamReader(SOURCE, parse_options(words, STREAM))
        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadMaxRows(9))
        rows = [row for part in ids_of(reader, start, end) for one in reader.read(part) for row in one.to_pylist()]
        reader.stop()
        assert sorted((row["queue"], row["body"]) for row in rows) == [("a", b"x"), ("b", b"y")]
        with pytest.raises(OffsetError, match="belongs to a query of the queue 'a,b', not of 'mails'"):
            self.reader(hosts).commit(end)

    def test_an_offset_of_another_source_is_refused(self, hosts: str) -> None:
        with pytest.raises(OffsetError, match="another source"):
            self.reader(hosts).latestOffset({"file": 3}, ReadMaxRows(1))
        with pytest.raises(OffsetError, match="another source"):
            self.reader(hosts).commit({})
        assert first("mails").as_json() == self.reader(hosts).initialOffset()
