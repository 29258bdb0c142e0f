"""The records of this turn, until the process around the core takes them at its flush."""

from typing import TYPE_CHECKING

from disque.core.journal.schema import Filed, FiledKeys, Record
from disque.core.model.job import ACKED

if TYPE_CHECKING:
    from disque.core.model.job import Job


class Outbox:
    """What is to be written, in this order. ``count`` only grows: whoever saw it grow depends on what was added."""

    __slots__ = ("_filed", "_filed_keys", "count", "records")

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.count = 0
        #: The record of whole jobs that was begun last.
        self._filed: Filed | None = None
        #: The record of keys that was begun last.
        self._filed_keys: FiledKeys | None = None

    def add(self, record: Record) -> None:
        """Have a record written."""
        self.count += 1
        self.records.append(record)

    def file(self, job: "Job") -> None:
        """Have a job written as it is now: in the last record, if that is one of jobs like this one.

        Or in the one before, if the last one is of keys, as when each job of a turn has one. What a job is that is not
        done changes nothing for keys, so it may stand before them.
        """
        self.count += 1
        records = self.records
        filed = self._filed
        at = len(records) - 1
        if at > 0 and self._filed_keys is not None and job.state != ACKED and records[at] is self._filed_keys.record:
            at -= 1
        if filed is None or at < 0 or records[at] is not filed.record or not filed.takes(job):
            filed = self._filed = Filed(job)
            records.append(filed.record)
        filed.add(job)

    def file_key(self, digest: bytes, job_id: bytes, expires_ms: int, life_ms: int, repl: int) -> None:
        """Have a key written: in the last record, if that is one of keys like this one."""
        self.count += 1
        records = self.records
        filed = self._filed_keys
        if (
            filed is None
            or not records
            or records[-1] is not filed.record
            or not filed.takes(expires_ms, life_ms, repl)
        ):
            filed = self._filed_keys = FiledKeys(expires_ms, life_ms, repl)
            records.append(filed.record)
        filed.add(digest, job_id)

    def take(self) -> list[Record]:
        """Give what is there, for the journal, and begin anew."""
        records, self.records = self.records, []
        self._filed = None
        self._filed_keys = None
        return records
