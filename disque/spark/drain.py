"""The batch read: it drains a bounded number of jobs, which stay in flight for their RETRY.

Jobs are claimed in the driver when the first action needs them, and the bodies are in the partitions, which Spark keeps
for the DataFrame. So all later actions on it, and every task that is started again, see the same jobs, and writing
their IDs back with action=ack acknowledges only what was processed. Nothing extends the RETRY: what is not acknowledged
within it is delivered again.

Spark may plan more than once until then. If the first action reads a DataFrame twice, or two threads begin at once, two
threads of Spark may find no partitions yet, and each plans with a reader of its own. Nothing tells that these belong
together: with a schema of the user, Spark makes even the data source anew for each. So each claims other jobs; the
documents tell users to call persist() or count() before. Where Spark pushes filters down to sources, it plans again for
each query with a filter, which would claim other jobs, too: that is refused.
"""

import sys
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from disque.spark.doors import door, rows_door
from disque.spark.needs import TO_WORK, need
from disque.spark.options import ON_READ, Options
from disque.spark.partitions import Claimed, IdsPartition, JobsPartition, batches, split

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa


#: So many fields of a job GETJOB tells. The others cost one more request for each job.
TOLD: Final = 5
#: The module that plans a read in a process of its own, where Spark pushes filters down.
PUSHES_FILTERS: Final = "pyspark.sql.worker.data_source_pushdown_filters"
SHOWN: Final = frozenset(Claimed._fields[TOLD:])


class DrainReader(DataSourceReader):
    """Reads up to `maxJobs` jobs of one queue."""

    def __init__(self, schema: StructType, options: Options) -> None:
        self._schema = schema
        self._options = options

    @door
    def partitions(self) -> list[InputPartition]:
        """Claim the jobs. Raises ReadError."""
        need(*TO_WORK)
        from disque.spark.claims import Claims, ReadError  # noqa: PLC0415 - a reader is pickled where nothing was connected

        planner = sys.modules["__main__"].__spec__
        if PUSHES_FILTERS in sys.modules or (planner is not None and planner.name == PUSHES_FILTERS):
            raise ReadError(
                "with spark.sql.python.filterPushdown.enabled a query with a filter would take other jobs than one "
                "without: set it to false"
            )
        claims = Claims(self._options, bodies=True)
        try:
            jobs = claims.take(self._options.max_jobs)
            if SHOWN & {name.lower() for name in self._schema.names}:
                jobs = self._with_more(jobs)
            if self._options.ack_mode == ON_READ:
                claims.acknowledge([job.id for job in jobs])
        finally:
            claims.close()
        return [*split(jobs, self._options.partitions)] or [JobsPartition([])]

    def _with_more(self, jobs: "list[Claimed]") -> "list[Claimed]":
        """The same jobs with what GETJOB does not tell; None for one that nobody knows any more."""
        from disque.spark.fetching import fetch  # noqa: PLC0415 - as above

        partition = IdsPartition([job.id for job in jobs], again=False)
        more = {job.id: job[TOLD:] for some in fetch(partition, self._options) for job in some}
        return [Claimed(*job[:TOLD], *more.get(job.id, ())) for job in jobs]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Give the jobs of a partition, in a task."""
        assert isinstance(partition, JobsPartition)
        return rows_door(batches(partition, self._schema))
