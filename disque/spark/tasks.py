"""What a task does with its partition."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from disque.client import Disque, DisqueError
from disque.spark import runs
from disque.spark.adding import WriteError, add_rows
from disque.spark.answering import answer_rows
from disque.spark.commits import LOG, Written
from disque.spark.connection import connect, warn_of_password
from disque.spark.keys import Keys, scope_of
from disque.spark.nodes import greet
from disque.spark.options import ADD, Options
from disque.spark.rows import RowError

if TYPE_CHECKING:
    from disque.spark.sink import Writing


def write_partition(
    client: Disque,
    batches: Iterable[pa.RecordBatch],
    writing: "Writing",
    partition: int,
    query_id: str | None,
    batch_id: str | None,
) -> Written:
    """Write the rows of one partition. Raises RowError, WriteError, NodeError."""
    options, columns = writing.options, writing.columns
    begin(client, partition)
    try:
        if writing.use != ADD:
            return Written(answer_rows(client, batches, options, columns))
        scope = scope_of(options.run_id, query_id, batch_id, writing.save_id)
        keys = Keys(scope, partition) if options.deduplicates else None
        look = runs.Look(client, scope, partition, options) if writing.counts_partitions else None
        return Written(*add_rows(client, batches, options, columns, keys, look))
    except RowError as error:
        raise RowError(f"partition {partition}, {error}") from None


def begin(client: Disque, partition: int) -> None:
    """Ask for a node before there are rows. Raises WriteError, NodeError."""
    try:
        greet(client)
        if partition == 0:
            warn_of_password(client.config)
    except DisqueError as error:
        raise WriteError(str(error)) from None


def note_run(options: Options, messages: list[WriterCommitMessage | None], batch_id: int | None) -> runs.Run | None:
    """Note in the driver how a run was written, and give what was noted first; None if no node takes it."""
    finished = frozenset(at for at, message in enumerate(messages) if message is not None)
    run = runs.Run(len(messages), None if len(finished) == len(messages) else finished)
    batch = None if batch_id is None else str(batch_id)
    scope = scope_of(options.run_id, None if batch is None else "", batch, "")
    try:
        with connect(options) as client:
            return runs.note(client, scope, run, options)
    except DisqueError as error:
        LOG.warning("run %r: its number of partitions could not be noted: %s", options.run_id, error)
        return None


def finish_run(options: Options, messages: list[WriterCommitMessage | None], batch_id: int | None) -> None:
    """Note it, and see that it was written so before. Raises WriteError."""
    first = note_run(options, messages, batch_id)
    if first is not None:
        runs.compare(first, len(messages), options)
