"""Reading a batch with real Spark: a bounded drain, acknowledged by writing the IDs back."""

import time
from collections.abc import Callable

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from disque.spark.columns import SOURCE
from disque.spark.drain import DrainReader
from disque.spark.options import DRAIN, NO_TABLES
from tests.end_to_end.node import Node
from tests.spark.support import options, save


def fill(node: Node, count: int) -> None:
    for number in range(count):
        node.ask("ADDJOB", "mails", number, 0)


def read(spark: SparkSession, hosts: str, **given: object) -> DataFrame:
    words = {"queue": "mails", "maxJobs": 10, "pollTimeoutMs": 100, **given}
    reader = spark.read.format("disque").option("hosts", hosts)
    return reader.options(**{name: str(value) for name, value in words.items()}).load()


def test_all_actions_on_a_drain_see_the_same_jobs_and_what_is_written_back_is_done(
    spark: SparkSession, node: Node, hosts: str
) -> None:
    fill(node, 25)
    jobs = read(spark, hosts)
    assert jobs.count() == 10
    small = jobs.filter("CAST(body AS STRING) < '5'")
    assert sorted(bytes(row.body) for row in small.collect()) == [b"%d" % number for number in range(5)]
    save(small.select("id"), hosts, action="ack")
    save(jobs.subtract(small), hosts, action="nack")
    assert node.info("registered_jobs") == "20"
    assert node.ask("QLEN", "mails") == 20


@pytest.mark.parametrize("action", [DataFrame.count, DataFrame.persist])
def test_a_drain_that_was_counted_or_persisted_can_be_joined_with_itself(
    action: Callable[[DataFrame], object], spark: SparkSession, node: Node, hosts: str
) -> None:
    fill(node, 25)
    words = {"hosts": hosts, "queue": "mails", "maxJobs": "10", "pollTimeoutMs": "100"}
    jobs = spark.read.format("disque").schema("id STRING, body STRING").options(**words).load()
    action(jobs)
    assert jobs.alias("a").join(jobs.alias("b"), "id").count() == 10
    assert jobs.join(jobs.select("id"), "id", "left_anti").count() == 0
    assert node.ask("QLEN", "mails") == 15
    jobs.unpersist()


def test_where_filters_are_pushed_down_none_takes_other_jobs(spark: SparkSession, node: Node, hosts: str) -> None:
    fill(node, 25)
    jobs = read(spark, hosts)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        assert jobs.count() == 10
        with pytest.raises(PySparkException, match=r"filterPushdown\.enabled .* set it to false"):
            jobs.filter("nacks = 0").collect()
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
    assert jobs.filter("nacks = 0").count() == 10
    assert node.ask("QLEN", "mails") == 15


def test_an_empty_queue_is_an_empty_frame(spark: SparkSession, node: Node, hosts: str) -> None:
    del node
    assert read(spark, hosts).collect() == []


@pytest.mark.slow
def test_sql_reads_adds_and_answers(spark: SparkSession, node: Node, hosts: str) -> None:
    view = "CREATE OR REPLACE TEMPORARY VIEW {} USING disque OPTIONS (hosts '{}', {})"
    spark.sql(view.format("mails (body STRING, delay INT)", hosts, "queue 'mails'"))
    spark.sql("INSERT INTO mails VALUES ('a', NULL), ('b', 0), ('c', 100)")
    spark.sql(view.format("jobs", hosts, "queue 'mails', maxJobs '9', pollTimeoutMs '100'"))
    spark.sql(view.format("done", hosts, "action 'ack'"))
    assert [row.text for row in spark.sql("SELECT CAST(body AS STRING) AS text FROM jobs ORDER BY text").collect()] == [
        "a",
        "b",
    ]
    spark.sql("INSERT INTO done SELECT id FROM jobs")
    assert node.info("registered_jobs") == "1"


@pytest.mark.slow
def test_a_table_has_no_options_but_those_of_a_statement(spark: SparkSession, node: Node, hosts: str) -> None:
    def refused(act: Callable[[], object]) -> bool:
        with pytest.raises(PySparkException) as caught:
            act()
        return NO_TABLES in str(caught.value)

    def refuses(statement: str) -> bool:
        return refused(lambda: spark.sql(statement).collect())

    given = f"(hosts '{hosts}', queue 'mails', maxJobs '9', pollTimeoutMs '100')"
    make, body = spark.catalog.createTable, StructType().add("body", "string")
    try:
        spark.sql(f"CREATE TABLE shelf (body STRING) USING disque OPTIONS {given}")
        spark.sql(f"CREATE TABLE bench (body STRING) USING disque TBLPROPERTIES {given}")
        make("stool", source="disque", schema=body, hosts=hosts, queue="mails")
        for name in ("shelf", "bench", "stool"):
            assert refuses(f"INSERT INTO {name} VALUES ('a')")
            assert refuses(f"SELECT * FROM {name}")
        assert refuses(f"CREATE TABLE desk USING disque OPTIONS {given} AS SELECT 'a' AS body")
        assert refuses(f"CREATE TABLE desk USING disque OPTIONS {given}")
        assert refuses(f"CREATE TABLE desk USING disque TBLPROPERTIES {given}")
        assert refused(lambda: make("desk", source="disque", hosts=hosts, queue="mails"))
        assert not spark.catalog.tableExists("desk")

        spark.sql(f"INSERT INTO shelf WITH (hosts = '{hosts}', queue = 'mails') VALUES ('a')")
        assert node.ask("QLEN", "mails") == 1
        taken = f"SELECT * FROM shelf WITH (hosts = '{hosts}', queue = 'mails', maxJobs = 9, pollTimeoutMs = 100)"
        assert [row.body for row in spark.sql(taken).collect()] == ["a"]
    finally:
        for name in ("shelf", "bench", "stool", "desk"):
            spark.sql(f"DROP TABLE IF EXISTS {name}")


def test_a_schema_of_ones_own(spark: SparkSession, node: Node, hosts: str) -> None:
    fill(node, 1)
    words = {"hosts": hosts, "queue": "mails", "maxJobs": "1", "pollTimeoutMs": "100"}
    frame = spark.read.format("disque").schema("body STRING, id STRING, added_at TIMESTAMP").options(**words).load()
    [row] = frame.collect()
    assert row.body == "0"
    assert abs(row.added_at.timestamp() - time.time()) < 3600


def test_what_is_known_of_jobs_that_failed(spark: SparkSession, node: Node, hosts: str) -> None:
    frame = spark.sql(
        "SELECT 'a' AS body, map('a', 'b') AS headers, TIMESTAMP '2026-01-01 00:00:00' AS at, 2 AS tries, "
        "'fixed:0.001' AS backoff UNION ALL SELECT 'b', NULL, NULL, NULL, NULL"
    )
    save(frame, hosts, queue="mails", priority=3, tries=5)
    [[_, job_id, body]] = node.ask("GETJOB", "FROM", "mails")
    node.ask("NACK", job_id, "ERROR", "why", "DEAD")
    words = {"hosts": hosts, "queues": "mails,mails:dead", "maxJobs": "2", "pollTimeoutMs": "100"}
    schema = "body STRING, tries INT, headers MAP<STRING, STRING>, error STRING, origin STRING"
    found = {row.body: row for row in spark.read.format("disque").schema(schema).options(**words).load().collect()}
    assert {name: row.headers for name, row in found.items()} == {"a": {"a": "b"}, "b": {}}
    dead = found.pop(body.decode())
    assert (dead.tries, dead.error, dead.origin) == (0, "why", "mails")
    [alive] = found.values()
    assert (alive.tries, alive.error, alive.origin) == (0, None, None)


def test_a_wrong_password_or_none_says_so(spark: SparkSession, node: Node, hosts: str) -> None:
    node.ask("CONFIG", "SET", "requirepass", "secret")
    try:
        with pytest.raises(PySparkException, match="WRONGPASS"):
            read(spark, hosts, password="wrong").collect()
        assert read(spark, hosts, password="secret").count() == 0
    finally:
        client = node.client(password="secret")
        client.execute_command("CONFIG", "SET", "requirepass", "")


def test_what_is_acknowledged_as_it_is_read_is_gone(node: Node, hosts: str) -> None:
    fill(node, 3)
    reader = DrainReader(SOURCE, options(DRAIN, hosts=hosts, maxJobs=2, pollTimeoutMs=100, ackMode="read"))
    parts = reader.partitions()
    assert [row["body"] for part in parts for found in reader.read(part) for row in found.to_pylist()] == [b"0", b"1"]
    assert node.info("registered_jobs") == "1"
