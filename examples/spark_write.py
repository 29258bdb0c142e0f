"""Write rows as jobs: `python examples/spark_write.py node-1:7711,node-2:7711`.

Each row becomes a job of the queue `orders`. The run has a name, so starting it again within the window adds nothing
twice, whatever failed in between. The number of partitions decides how many tasks write at once.
"""

import os
import sys

from pyspark.sql import SparkSession

import disque.spark


def main(spark: SparkSession, hosts: str, run: str = "2026-11-21") -> None:
    """Add a thousand orders."""
    disque.spark.register(spark)
    orders = spark.range(0, 1000, 1, 3).selectExpr(
        "to_json(named_struct('order', id, 'amount', id % 97)) AS body",
        "IF(id % 10 = 0, 60, NULL) AS retry",  # these take longer: a minute instead of what the option says
    )
    orders.write.format("disque").mode("append").options(
        hosts=hosts, queue="orders", retry=30, runId=run, dedupWindow=3600
    ).save()


if __name__ == "__main__":
    if len(sys.argv) <= 1:
        sys.exit(__doc__.splitlines()[0])
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # or the workers run with the python3 of the PATH
    main(SparkSession.builder.appName("write").getOrCreate(), *sys.argv[1:])
