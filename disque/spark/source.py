"""The data source: what Spark makes of the name "disque", and where it asks for writers and readers.

An instance only has the options. Nothing is connected, and neither redis nor Arrow is imported, until there is work.
"""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from disque.spark.columns import ANSWERED, DRAINED, SOURCE, ColumnError, source_schema
from disque.spark.doors import door
from disque.spark.drain import DrainReader
from disque.spark.options import ADD, DRAIN, STREAM, OptionError, Options, check_given, parse_options, use_of_writer
from disque.spark.sink import BatchWriter, StreamWriter
from disque.spark.stream import RefusedReader, StreamReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class DisqueDataSource(DataSource):
    """`format("disque")`: jobs as rows. The options are those of `disque.spark.options`."""

    @classmethod
    def name(cls) -> str:
        """Give the name of the format."""
        return "disque"

    @door
    def schema(self) -> StructType:
        """Give the columns of a read; of a table that takes answers (INSERT), the ID alone. Raises OptionError."""
        check_given(self.options)
        if use_of_writer(self.options) != ADD:
            return ANSWERED
        return DRAINED if "maxjobs" in map(str.lower, self.options) else SOURCE

    @door
    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """Make the writer of one save(). Raises OptionError, ColumnError."""
        options, use = self._to_write(overwrite)
        return BatchWriter(schema, options, use)

    @door
    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        """Make the writer of a streaming query. Raises OptionError, ColumnError."""
        options, use = self._to_write(overwrite)
        return StreamWriter(schema, options, use)

    @door
    def reader(self, schema: StructType) -> DrainReader:
        """Make the reader of a bounded drain. Raises OptionError, ColumnError."""
        options = parse_options(self.options, DRAIN)
        return DrainReader(source_schema(schema), options)

    def streamReader(self, schema: StructType) -> "StreamReader | RefusedReader":
        """Make the reader of a streaming query.

        It raises what is wrong with options and columns: Spark loses an error that is raised here.
        """
        try:
            options = parse_options(self.options, STREAM)
            return StreamReader(source_schema(schema), options)
        except (OptionError, ColumnError) as error:
            return RefusedReader(error)

    def _to_write(self, overwrite: bool) -> tuple[Options, str]:
        if overwrite:
            raise OptionError('jobs can only be added: use mode("append"), or outputMode("append") for a stream')
        use = use_of_writer(self.options)
        return parse_options(self.options, use), use


def register(spark: "SparkSession") -> None:
    """Make `format("disque")` known to a session. Where the package is installed, Spark does so by itself.

    In a Python thread of its own that is not enough: there Spark looks for sources only if a session is active. So this
    also makes ``spark`` the active one of the thread that calls it.
    """
    java = getattr(spark, "_jvm", None)
    if java is not None:  # a session of Spark Connect has none, and needs it not
        java.org.apache.spark.sql.SparkSession.setActiveSession(spark._jsparkSession)  # noqa: SLF001 - PySpark's own way
    spark.dataSource.register(DisqueDataSource)
