"""Take a bounded number of jobs, work on them, and say which are done: `python examples/spark_drain.py node-1:7711`.

The jobs are leased for their RETRY: what is not written back by then comes again.
"""

import os
import sys

from pyspark.sql import SparkSession

import disque.spark


def main(spark: SparkSession, hosts: str) -> int:
    """Sum up the amounts of the orders that are there."""
    disque.spark.register(spark)
    jobs = spark.read.format("disque").options(hosts=hosts, queue="orders", maxJobs=10_000).load()
    amounts = jobs.selectExpr("id", "get_json_object(CAST(body AS STRING), '$.amount') AS amount")
    good, bad = amounts.filter("amount IS NOT NULL"), amounts.filter("amount IS NULL")

    total: int = good.selectExpr("COALESCE(SUM(CAST(amount AS INT)), 0) AS total").first()["total"]  # type: ignore[index]  # one row

    good.select("id").write.format("disque").mode("append").options(hosts=hosts, action="ack").save()
    bad.select("id").write.format("disque").mode("append").options(hosts=hosts, action="nack", delay=60).save()
    return total


if __name__ == "__main__":
    if len(sys.argv) <= 1:
        sys.exit(__doc__.splitlines()[0])
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # or the workers run with the python3 of the PATH
    print(main(SparkSession.builder.appName("drain").getOrCreate(), *sys.argv[1:]))
