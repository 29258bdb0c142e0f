"""What the tasks of a write tell the driver."""

import logging
from collections.abc import Iterable
from typing import Final

from pyspark.sql.datasource import WriterCommitMessage

LOG: Final = logging.getLogger("disque.spark")


class Written(WriterCommitMessage):
    """A partition was written: so many rows, of which some were bad and left out."""

    def __init__(self, rows: int, bad: int = 0) -> None:
        self.rows = rows
        self.bad = bad


def count(messages: Iterable[WriterCommitMessage | None]) -> int:
    """The rows that were written in all partitions."""
    return sum(message.rows - message.bad for message in messages if isinstance(message, Written))


def count_bad(messages: Iterable[WriterCommitMessage | None]) -> int:
    """The rows of all partitions that were left out."""
    return sum(message.bad for message in messages if isinstance(message, Written))
