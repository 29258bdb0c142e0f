"""Each job counts once: `python examples/spark_exactly_once.py node-1:7711 /data/checkpoint /data/orders.db`.

The source is at-least-once: after a failure the last batch comes again, with the same number and the same jobs. So a
sink that writes the rows of a batch and its number in one transaction, and leaves out a number that it has already,
makes it exactly once. SQLite stands for any database here; a folder named after the number that is replaced as a
whole does it, too. Two things are assumed: one query reads the queue, and the checkpoint is kept with the result.
"""

import os
import sqlite3
import sys
from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession

import disque.spark


def sink_of(database: str) -> Callable[[DataFrame, int], None]:
    """A sink that takes each batch once."""

    def write(frame: DataFrame, batch: int) -> None:
        rows = [(row.id, row.body) for row in frame.selectExpr("id", "CAST(body AS STRING) AS body").collect()]
        with sqlite3.connect(database) as connection:  # one transaction: all of it or nothing
            connection.execute("CREATE TABLE IF NOT EXISTS batches (number INTEGER PRIMARY KEY)")
            connection.execute("CREATE TABLE IF NOT EXISTS orders (id TEXT, body TEXT)")
            new = connection.execute("INSERT OR IGNORE INTO batches VALUES (?)", (batch,)).rowcount
            if new:
                connection.executemany("INSERT INTO orders VALUES (?, ?)", rows)
        connection.close()

    return write


def main(spark: SparkSession, hosts: str, checkpoint: str, database: str, *, forever: bool = True) -> None:
    """Keep all orders in a table."""
    disque.spark.register(spark)
    orders = spark.readStream.format("disque").options(hosts=hosts, queue="orders", maxJobsPerTrigger=500).load()
    writer = orders.writeStream.foreachBatch(sink_of(database)).option("checkpointLocation", checkpoint)
    trigger = {"processingTime": "1 second"} if forever else {"availableNow": True}
    writer.trigger(**trigger).start().awaitTermination()


if __name__ == "__main__":
    if len(sys.argv) <= 3:
        sys.exit(__doc__.splitlines()[0])
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # or the workers run with the python3 of the PATH
    main(SparkSession.builder.appName("exactly once").getOrCreate(), *sys.argv[1:])
