"""The streaming source: at least once, and exactly once together with a sink that knows its batches.

All of it except `read` happens in one process beside the driver, which lives as long as the query. In each trigger
Spark calls `latestOffset` with the end of the batch before, and only when that batch is written down as done. So there
the jobs of the batch before are acknowledged, on an idle queue too, and new ones are claimed, without their bodies. The
new offset has their IDs. Spark writes it down, then asks for `partitions`, which have IDs too: tasks fetch the bodies.
Meanwhile a heartbeat holds the claims, so a batch may take longer than RETRY.

When the driver dies, the heartbeat ends with it. The query that is started again on the checkpoint gets the last batch
once more, under the same number, from the IDs. Jobs that are done meanwhile are left out. Each other job is in the same
partition as before, so that a sink of this package recognises it.
"""

import time
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from disque.spark.commits import LOG
from disque.spark.doors import door, is_plain, rows_door
from disque.spark.needs import TO_WORK, need
from disque.spark.offsets import Offset, first, read
from disque.spark.options import COMMIT, Options
from disque.spark.partitions import Claimed, IdsPartition, JobsPartition, batches, split_ids

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa


class Lease:
    """What the reader has claimed, beside the driver: claims, and the heartbeat that holds them."""

    def __init__(self, options: Options) -> None:
        need(*TO_WORK)
        # The planner pickles a reader that has none of this; only the process of the query connects.
        from disque.spark.claims import Claims  # noqa: PLC0415 - see above
        from disque.spark.heartbeat import Heartbeat  # noqa: PLC0415 - see above
        from disque.spark.poison import Poison  # noqa: PLC0415 - see above

        self.claims: Claims = Claims(options, bodies=False)
        self.heartbeat: Heartbeat = Heartbeat(self.claims.working, time.monotonic)
        self.claims.on_claim = self.heartbeat.hold
        self.poison = Poison(options) if options.poison_tries else None

    def close(self) -> None:
        """Hold nothing any more."""
        self.heartbeat.stop()
        self.claims.close()
        if self.poison is not None:
            self.poison.close()


class RefusedReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Stands for a reader that cannot be made, and says why whatever it is asked. Can be pickled."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    @door
    def getDefaultReadLimit(self) -> ReadLimit:
        """Raise the error."""
        raise self._error

    @door
    def initialOffset(self) -> dict[str, Any]:
        """Raise the error."""
        raise self._error

    @door
    def prepareForTriggerAvailableNow(self) -> None:
        """Raise the error."""
        raise self._error

    @door
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Raise the error."""
        del start, limit
        raise self._error

    @door
    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Raise the error."""
        del partition
        raise self._error


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads one queue, or several. Can be pickled before it is used."""

    def __init__(self, schema: StructType, options: Options) -> None:
        self._schema = schema
        self._options = options
        self._queue = ",".join(options.sources)
        self._lease: Lease | None = None
        self._batch = first(self._queue)  # what was claimed last
        self._again = 0  # the batch that was claimed by a process that is gone
        self._without: frozenset[str] = frozenset()  # what is not in it any more
        self._settled = 0  # batches up to this number are acknowledged
        self._left: int | None = None  # how many jobs availableNow may still take

    # -- what Spark asks -------------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:
        """Give the offset before any job."""
        return first(self._queue).as_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """A trigger takes as many jobs as `maxJobsPerTrigger` says."""
        return ReadMaxRows(self._options.max_jobs_per_trigger)

    @door
    def prepareForTriggerAvailableNow(self) -> None:
        """Take no more jobs than are queued now: what comes later is left to the next run."""
        self._left = self._leased().claims.queued()

    @door
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Acknowledge what ended at ``start``, claim new jobs, and give the offset that has them.

        Without new jobs it is ``start``. Raises OffsetError for a checkpoint of something else, ReadError.
        """
        before = read(start, self._queue)
        if self._batch.number == before.number + 1:
            return self._batch.as_json()
        self._settle(before)
        jobs = self._take(limit)
        if not jobs:
            return start
        self._batch = before.next([job.id for job in jobs])
        return self._batch.as_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Give what is left in the queue, for the progress of the query: Python sources have no other figures there."""
        try:
            return dict(self._leased().claims.lag())
        except Exception as error:
            if not is_plain(error):
                raise
            LOG.warning("%s: the number of queued jobs is not known: %s", self._queue, error)
            return None

    @door
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Give the jobs that ``end`` has and ``start`` has not. Raises OffsetError."""
        if start == end:
            return []
        offset = read(end, self._queue)
        if self._batch.number != offset.number:
            lease = self._leased()
            ids = offset.ids if lease.poison is None else lease.poison.failed(offset.ids)
            lease.heartbeat.hold(ids)
            self._batch, self._again = offset, offset.number
            self._without = frozenset(offset.ids).difference(ids)
        again = offset.number == self._again
        return [*split_ids(offset.ids, self._options.partitions, again=again, without=self._without if again else ())]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Give the jobs of a partition, in a task."""
        assert isinstance(partition, IdsPartition)
        return rows_door(self._fetched(partition))

    def _fetched(self, partition: IdsPartition) -> "Iterator[pa.RecordBatch]":
        need(*TO_WORK)
        from disque.spark.fetching import fetch  # noqa: PLC0415 - planners need no client

        for jobs in fetch(partition, self._options):
            yield from batches(JobsPartition(jobs), self._schema)

    @door
    def commit(self, end: dict[str, Any]) -> None:
        """Acknowledge what ended here, if that was not done yet."""
        self._settle(read(end, self._queue))

    def stop(self) -> None:
        """Hold nothing any more."""
        if self._lease is not None:
            self._lease.close()
            self._lease = None

    # -- how -------------------------------------------------------------------------------------------------------

    def _leased(self) -> Lease:
        if self._lease is None:
            self._lease = Lease(self._options)
        return self._lease

    def _settle(self, offset: Offset) -> None:
        """The batch that ends here is done: acknowledge its jobs, unless the user does that."""
        if offset.number <= self._settled:
            return
        self._leased().heartbeat.release(offset.ids)  # first, so that no beat asks about jobs that are done
        if offset.ids and self._options.ack_mode == COMMIT:
            lease = self._leased()
            claimed = offset.number == self._batch.number != self._again
            ids = offset.ids if lease.poison is None else lease.poison.ours(offset.ids, claimed=claimed)
            lease.claims.acknowledge(ids)
        self._leased().claims.forget(offset.ids)
        self._settled = offset.number

    def _take(self, limit: ReadLimit) -> list[Claimed]:
        """Claim jobs within the limit. They are held from the moment on in which they are claimed."""
        most = None if isinstance(limit, ReadAllAvailable) else self._options.max_jobs_per_trigger
        if isinstance(limit, ReadMaxRows):
            most = limit.max_rows
        if self._left is not None:
            most = self._left if most is None else min(most, self._left)
        most_bytes = None if isinstance(limit, ReadAllAvailable) else self._options.max_bytes_per_trigger or None
        jobs = [] if most == 0 else self._leased().claims.take(most, most_bytes)
        if self._left is not None:
            self._left = self._left - len(jobs) if jobs else 0
        return jobs
