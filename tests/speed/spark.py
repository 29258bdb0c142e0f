"""How fast Spark writes and reads jobs, beside what one plain Python process does: `python -m tests.speed.spark`.

One node of ours on loopback without a journal, REPLICATE 1, `local[2]`, three partitions, bodies of 100 bytes. The
contenders take turns (A B C A B C ...) in one run, since machines drift: judge by ratios. Each write is checked to
have added exactly its rows.

- sink: `df.write.format("disque")`, with keys (the default) and without.
- client: one process that adds the same rows with `Disque.add_many`, with keys made beforehand and without.
- foreachPartition: the same frame, with redis-py pipelines of the same size.
- drain: `spark.read.format("disque")`, counted and acknowledged. stream: triggers of 10,000 jobs, acknowledged.
- memory: what a UNIQUE key adds to the server, by its own account (`used_memory`) and by its resident set.

Not a test: nothing here passes or fails.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Any, Final

import redis
from pyspark.sql import DataFrame, Row, SparkSession

import disque.spark
from disque.client import Config, Disque, NewJob
from tests.end_to_end.node import ROOT, Node
from tests.spark.conftest import SESSION

BODY_BYTES: Final = 100
PIPELINE: Final = 1000
PARTITIONS: Final = 3
TRIGGER: Final = 10_000


def session() -> SparkSession:
    """A session like that of the tests, but with one attempt of a task."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    os.environ.update(PYSPARK_PYTHON=sys.executable, PYTHONPATH=path, SPARK_LOCAL_IP="127.0.0.1")
    spark = SparkSession.builder.master("local[2]").config(map=dict(SESSION)).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    disque.spark.register(spark)
    return spark


class Bench:
    """A node, a session and the rows."""

    def __init__(self, node: Node, spark: SparkSession, rows: int) -> None:
        self.node, self.spark, self.rows = node, spark, rows
        self.hosts = f"127.0.0.1:{node.port}"
        self.bodies = [f"{number:0{BODY_BYTES}d}".encode() for number in range(rows)]
        frame = spark.range(0, rows, 1, PARTITIONS).selectExpr(f"LPAD(CAST(id AS STRING), {BODY_BYTES}, '0') AS body")
        self.frame: DataFrame = frame.persist()
        self.frame.count()

    def sink(self, **given: Any) -> None:
        """Write with the data source."""
        words = {"queue": "q", "replicate": "1", "pipelineSize": str(PIPELINE), **given}
        self.frame.write.format("disque").mode("append").option("hosts", self.hosts).options(**words).save()

    def client(self, *, unique: bool) -> None:
        """Add with the client, in this process."""
        config = Config(nodes=(("127.0.0.1", self.node.port),))
        with Disque(config) as client:
            if unique:
                salt = os.urandom(8)
                jobs = (
                    NewJob(b"q", body, replicate=1, unique=salt + b"%08d" % at, window=600)
                    for at, body in enumerate(self.bodies)
                )
                client.add_many(jobs, pipeline=PIPELINE)
            else:
                client.add_many(((b"q", body) for body in self.bodies), replicate=1, pipeline=PIPELINE)

    def foreach_partition(self) -> None:
        """Add with redis-py, as one would without a data source."""
        port = self.node.port

        def write(rows: Iterable[Row]) -> None:
            client = redis.Redis(port=port)
            pipeline = client.pipeline(transaction=False)
            for at, row in enumerate(rows, 1):
                pipeline.execute_command("ADDJOB", "q", row.body, 5000, "REPLICATE", 1)
                if at % PIPELINE == 0:
                    pipeline.execute()
            pipeline.execute()

        self.frame.foreachPartition(write)

    def drain(self) -> None:
        """Read all jobs, and acknowledge them."""
        reader = self.spark.read.format("disque").options(hosts=self.hosts, queue="q", partitions=str(PARTITIONS))
        jobs = reader.options(maxJobs=str(self.rows), pollTimeoutMs="100").load()
        jobs.select("id").write.format("disque").mode("append").options(hosts=self.hosts, action="ack").save()

    def stream(self, checkpoint: str) -> None:
        """Read all jobs as a stream, to nowhere."""
        words = {"queue": "q", "maxJobsPerTrigger": str(TRIGGER), "pollTimeoutMs": "100", "partitions": str(PARTITIONS)}
        frame = self.spark.readStream.format("disque").options(hosts=self.hosts, **words).load()
        writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).trigger(availableNow=True)
        writer.start().awaitTermination()

    def timed(self, what: Callable[[], None], *, adds: bool) -> float:
        """Rows a second. Checks that the rows are there, or are gone, and empties the node where they were added."""
        begin_s = time.monotonic()
        what()
        seconds = time.monotonic() - begin_s
        there = int(self.node.info("registered_jobs"))
        if there != self.rows * adds:
            raise SystemExit(f"{there} jobs are there, {self.rows * adds} should be")
        return self.rows / seconds

    def empty(self) -> None:
        """Forget all jobs and keys."""
        self.node.ask("DEBUG", "FLUSHALL")
        time.sleep(0.5)


def writes(bench: Bench, rounds: int) -> None:
    """Compare the ways to write."""
    ways: dict[str, Callable[[], None]] = {
        "sink, keys": bench.sink,
        "client, keys": lambda: bench.client(unique=True),
        "sink, dedup=off": lambda: bench.sink(dedup="off"),
        "client, no keys": lambda: bench.client(unique=False),
        "foreachPartition": bench.foreach_partition,
    }
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(rounds + 1):
        for name, way in ways.items():
            bench.empty()
            rate = bench.timed(way, adds=True)
            if turn:  # the first starts the workers
                rates[name].append(rate)
    for name, found in rates.items():
        print(f"{name:<28}{median(found):>10,.0f} rows/s  ({min(found):,.0f}-{max(found):,.0f})", flush=True)
    for one, other in (
        ("sink, keys", "client, keys"),
        ("sink, dedup=off", "client, no keys"),
        ("sink, keys", "foreachPartition"),
        ("sink, dedup=off", "foreachPartition"),
    ):
        ratios = [a / b for a, b in zip(rates[one], rates[other], strict=True)]
        print(f"{one} : {other:<28} ratio {median(ratios):.2f}  ({min(ratios):.2f}-{max(ratios):.2f})", flush=True)


def reads(bench: Bench, rounds: int, folder: Path) -> None:
    """Measure the ways to read; adding is not counted."""
    rates: dict[str, list[float]] = {"drain and acknowledge": [], "stream, acknowledged": []}
    for turn in range(rounds + 1):
        for name, way in (
            ("drain and acknowledge", bench.drain),
            ("stream, acknowledged", lambda turn=turn: bench.stream(str(folder / f"checkpoint{turn}"))),
        ):
            bench.empty()
            bench.client(unique=False)
            rate = bench.timed(way, adds=False)
            if turn:
                rates[name].append(rate)
    for name, found in rates.items():
        print(f"{name:<28}{median(found):>10,.0f} rows/s  ({min(found):,.0f}-{max(found):,.0f})", flush=True)


def memory(bench: Bench, folder: Path) -> None:
    """What jobs cost a fresh server with keys and without, after they are acknowledged: the keys alone."""
    node = Node(folder / "memory", "--maxmemory", "8gb")
    (folder / "memory").mkdir()
    node.start()
    fresh = Bench.__new__(Bench)
    fresh.__dict__.update(bench.__dict__, node=node, hosts=f"127.0.0.1:{node.port}")
    fresh.client(unique=False)
    fresh.drain()
    used, rss = int(node.info("used_memory")), node.rss()
    fresh.client(unique=True)
    fresh.drain()
    print(
        f"a UNIQUE key takes {(int(node.info('used_memory')) - used) / bench.rows:.0f} bytes of used_memory, ", end=""
    )
    print(f"{(node.rss() - rss) / bench.rows:.0f} of resident memory; {node.info('unique_keys')} keys")
    node.discard()


def main() -> int:
    """Print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        node = Node(folder, "--maxmemory", "8gb", "--loglevel", "warning").start()
        spark = session()
        try:
            bench = Bench(node, spark, given.rows)
            writes(bench, given.rounds)
            reads(bench, given.rounds, folder)
            memory(bench, folder)
        finally:
            spark.stop()
            node.discard()
    return 0


if __name__ == "__main__":
    sys.exit(main())
