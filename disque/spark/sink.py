"""The writers: Spark calls them in the driver and in each task. Batch and stream share one write path.

A writer is made in the driver, which finds all errors in options and columns, and pickled into the tasks. There `write`
gets the partition as Arrow batches. Committing counts. Aborting takes nothing back, since jobs that were added may be
done by now, and an old attempt may go on writing after it. Keys prevent duplicates, see `keys`.
"""

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from disque.spark.columns import columns_for
from disque.spark.commits import LOG, Written, count, count_bad
from disque.spark.doors import door
from disque.spark.needs import TO_WORK, need
from disque.spark.options import ADD, SKIP, Options

if TYPE_CHECKING:
    import pyarrow as pa

#: What Spark tells the tasks of a streaming query.
QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"


class Writing:
    """What is to be written where. ``use`` is ADD or ANSWER. Raises ColumnError."""

    def __init__(self, schema: StructType, options: Options, use: str) -> None:
        self.options = options
        self.use = use
        self.columns = columns_for(use, schema, options)
        self.save_id = uuid.uuid4().hex

    def write(self, batches: "Iterator[pa.RecordBatch]", query_id: str | None, batch_id: str | None) -> Written:
        """Write one partition, in a task. Raises OptionError, RowError, WriteError."""
        need(*TO_WORK)
        # Only tasks need Arrow and a client: whoever plans a query does not pay for them.
        from disque.spark.connection import connect  # noqa: PLC0415 - see above
        from disque.spark.tasks import write_partition  # noqa: PLC0415 - see above

        context = TaskContext.get()
        partition = context.partitionId() if context is not None else 0
        with connect(self.options) as client:
            return write_partition(client, batches, self, partition, query_id, batch_id)

    @property
    def counts_partitions(self) -> bool:
        """Whether this is a run that must always be written in the same partitions."""
        options = self.options
        return self.use == ADD and options.run_id is not None and options.deduplicates and "key" not in self.columns

    def done(self, messages: list[WriterCommitMessage | None], batch_id: int | None) -> None:
        """All partitions are written: say what was left out, and see that a run has the partitions that it had.

        Raises WriteError.
        """
        if bad := count_bad(messages):
            where = (
                "" if self.options.bad_rows == SKIP else f", with notes in the queue {self.options.bad_rows_queue!r}"
            )
            LOG.warning("%d bad rows were left out (badRows=%s)%s", bad, self.options.bad_rows, where)
        if self.counts_partitions and messages:
            from disque.spark.tasks import finish_run  # noqa: PLC0415 - as above

            finish_run(self.options, messages, batch_id)

    def failed(self, messages: list[WriterCommitMessage | None], batch_id: int | None) -> None:
        """Some partitions are written: note which, for when the run is started again."""
        if self.counts_partitions and messages:
            from disque.spark.tasks import note_run  # noqa: PLC0415 - as above

            note_run(self.options, messages, batch_id)


def remains(messages: list[WriterCommitMessage | None]) -> str:
    """What a write that has failed leaves behind, for a message."""
    return f"{count(messages)} rows of finished partitions stay written, and what unfinished ones had added"


class BatchWriter(DataSourceArrowWriter):
    """Writes one save()."""

    def __init__(self, schema: StructType, options: Options, use: str = ADD) -> None:
        self._writing = Writing(schema, options, use)

    @door
    def write(self, iterator: "Iterator[pa.RecordBatch]") -> Written:
        """Write one partition. Raises what fails the task."""
        return self._writing.write(iterator, None, None)

    @door
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """All partitions are written."""
        LOG.info("%d rows written in %d partitions", count(messages), len(messages))
        self._writing.done(messages, None)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """A partition could not be written; what was written stays."""
        LOG.warning("the write has failed; %s", remains(messages))
        self._writing.failed(messages, None)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a streaming query."""

    def __init__(self, schema: StructType, options: Options, use: str = ADD) -> None:
        self._writing = Writing(schema, options, use)

    @door
    def write(self, iterator: "Iterator[pa.RecordBatch]") -> Written:
        """Write one partition of one batch. Raises what fails the task."""
        context = TaskContext.get()
        query_id = context.getLocalProperty(QUERY_ID) if context is not None else None
        batch_id = context.getLocalProperty(BATCH_ID) if context is not None else None
        return self._writing.write(iterator, query_id, batch_id)

    @door
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """All partitions of a batch are written."""
        LOG.info("batch %d: %d rows written in %d partitions", batchId, count(messages), len(messages))
        self._writing.done(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """A partition of a batch could not be written; what was written stays."""
        LOG.warning("batch %d has failed; %s", batchId, remains(messages))
        self._writing.failed(messages, batchId)
