"""From a queue to another one, as a stream: `python examples/spark_stream.py node-1:7711 /data/checkpoint`.

Orders come in, those above a limit go out to the queue `checks`. Both sides are safe: a batch that is made again reads
the same jobs and adds nothing twice, since the query and the number of the batch are in the keys.
"""

import os
import sys

from pyspark.sql import SparkSession

import disque.spark


def main(spark: SparkSession, hosts: str, checkpoint: str, *, forever: bool = True) -> None:
    """Forward orders as they come, or only those that are there."""
    disque.spark.register(spark)
    orders = spark.readStream.format("disque").options(hosts=hosts, queue="orders", maxJobsPerTrigger=500).load()
    large = orders.selectExpr("CAST(body AS STRING) AS body").filter(
        "CAST(get_json_object(body, '$.amount') AS INT) > 90"
    )
    writer = large.writeStream.format("disque").options(hosts=hosts, queue="checks", checkpointLocation=checkpoint)
    trigger = {"processingTime": "1 second"} if forever else {"availableNow": True}
    writer.trigger(**trigger).start().awaitTermination()


if __name__ == "__main__":
    if len(sys.argv) <= 2:
        sys.exit(__doc__.splitlines()[0])
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # or the workers run with the python3 of the PATH
    main(SparkSession.builder.appName("stream").getOrCreate(), *sys.argv[1:])
