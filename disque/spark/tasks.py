"""What a task does with its partition."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow as pa

from disque.client import Disque
from disque.spark.adding import add_rows
from disque.spark.answering import answer_rows
from disque.spark.keys import Keys, scope_of
from disque.spark.options import ADD

if TYPE_CHECKING:
    from disque.spark.sink import Writing


def write_partition(
    client: Disque,
    batches: Iterable[pa.RecordBatch],
    writing: "Writing",
    partition: int,
    query_id: str | None,
    batch_id: str | None,
) -> int:
    """Write the rows of one partition and give their number. Raises RowError, WriteError."""
    options, columns = writing.options, writing.columns
    if writing.use != ADD:
        return answer_rows(client, batches, options, columns)
    scope = scope_of(options.run_id, query_id, batch_id, writing.save_id)
    keys = Keys(scope, partition) if options.deduplicates else None
    return add_rows(client, batches, options, columns, keys)
