"""The Spark data source: DataFrames as jobs, queues as DataFrames and streams.

import disque.spark

disque.spark.register(spark)
df.write.format("disque").option("hosts", "node-1:7711").option("queue", "mails").mode("append").save()
"""

from disque.spark.needs import need

need("pyspark")

from disque.spark.source import DisqueDataSource, register  # noqa: E402 - imports PySpark

__all__ = ["DisqueDataSource", "register"]
