"""The records of this turn, until the process around the core takes them at its flush."""

from typing import TYPE_CHECKING

from disque.core.journal.schema import Filed, Record

if TYPE_CHECKING:
    from disque.core.model.job import Job


class Outbox:
    """What is to be written, in this order. ``count`` only grows: whoever saw it grow depends on what was added."""

    __slots__ = ("_filed", "count", "records")

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.count = 0
        #: The record of whole jobs that was begun last.
        self._filed: Filed | None = None

    def add(self, record: Record) -> None:
        """Have a record written."""
        self.count += 1
        self.records.append(record)

    def file(self, job: "Job") -> None:
        """Have a job written as it is now: in the last record, if that is one of jobs like this one."""
        self.count += 1
        records = self.records
        filed = self._filed
        if filed is None or not records or records[-1] is not filed.record or not filed.takes(job):
            filed = self._filed = Filed(job)
            records.append(filed.record)
        filed.add(job)

    def take(self) -> list[Record]:
        """Give what is there, for the journal, and begin anew."""
        records, self.records = self.records, []
        self._filed = None
        return records
