"""What the tasks of a write tell the driver."""

import logging
from collections.abc import Iterable
from typing import Final

from pyspark.sql.datasource import WriterCommitMessage

LOG: Final = logging.getLogger("disque.spark")


class Written(WriterCommitMessage):
    """A partition was written: so many rows."""

    def __init__(self, rows: int) -> None:
        self.rows = rows


def count(messages: Iterable[WriterCommitMessage | None]) -> int:
    """The rows of all partitions that were written."""
    return sum(message.rows for message in messages if isinstance(message, Written))
