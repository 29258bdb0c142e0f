"""The disk of one machine: files in memory, to which the server's own journal writes.

The process dies: what was written is still there. The power fails: what was fsynced is there, and of the rest as much
as chance wants, block by block: files end early, have holes, or end in the middle of a record, and names come back that
were unlinked. An fsync may fail: then nobody knows what of the file is on the disk, and later fsyncs say yes all the
same.

`Reader` reads the records as a stranger would, without the code under test: which jobs does this journal yield?
"""

from collections.abc import Iterable
from errno import EIO
from random import Random
from typing import Any

import msgpack

from disque.core.journal.schema import (
    ACK,
    CTIME_A_MS,
    DELETE,
    END,
    ENDED,
    FLUSH,
    HEAD,
    JOBS,
    JOBS_CTIMES,
    JOBS_FLAGS,
    JOBS_IDS,
    JOBS_LEFT_MS,
    JOBS_SPEC,
    JOBS_STATE,
    MOVE,
    SPEND,
    UNEND,
)
from disque.core.model.job import ACKED, SPENT
from disque.core.model.spec import decode
from disque.server.segments import Row
from tests.support.disk import FOLDER, FakeDisk

Payload = tuple[int, bytes]  # segment, bytes

NAME = "disque.aof"
#: Where ENDED says that the job is not known.
STRANGE = 6


class Yield:
    """What a journal says of one job."""

    __slots__ = ("expires_ms", "retry", "spent")

    def __init__(self, retry: int, expires_ms: int) -> None:
        self.retry = retry
        self.expires_ms = expires_ms
        self.spent = False


class Files(FakeDisk):
    """The files; the next ``bad_syncs`` fsyncs fail."""

    def __init__(self) -> None:
        super().__init__()
        self.bad_syncs = 0

    def _do(self, what: str, about: str = "") -> None:
        if what == "fdatasync" and self.bad_syncs:
            self.bad_syncs -= 1
            raise OSError(EIO, "Input/output error", about)


class Disk:
    """``policy`` is what the journal on it does about fsync, or off; ``fsync_ms`` how long an fsync takes."""

    def __init__(self, random: Random, policy: str) -> None:
        self.random = random
        self.policy = policy
        self.files = Files()
        self.fsync_ms = 0
        self._full = False
        #: Journals that ended in something that is no whole frame.
        self.torn = 0

    @property
    def full(self) -> bool:
        """Whether no byte more can be written."""
        return self._full

    @full.setter
    def full(self, full: bool) -> None:
        self._full = full
        self.files.room = 0 if full else None

    @property
    def is_empty(self) -> bool:
        """Whether there is no journal."""
        return not self.files.names

    def row(self) -> Row:
        """The files of the journal as they are now."""
        return Row(FOLDER, NAME, self.files)

    def payloads(self) -> list[Payload]:
        """What a start would read now. Raises JournalError."""
        row = self.row()
        found = [(piece.segment, payload) for piece in row.read() for payload in piece.payloads]
        self.torn += row.tail is not None and row.tail.lost > 0
        return found

    def process_died(self, *, forgiving: bool) -> None:
        """What the process had not written is lost. ``forgiving``: what an fsync could not write is written now."""
        self._replace(self.files.after_process_crash(forgiving))

    def power_failed(self) -> None:
        """What was not durable may be lost, or part of it, in any order."""
        self._replace(self.files.after_power_loss(self.random))

    def wipe(self) -> None:
        """All of it is gone."""
        self._replace(Files())

    def _replace(self, files: Files) -> None:
        self.files = files
        self.full = self._full

    def reader(self, boot_id: bytes) -> "Reader":
        """All that a start under ``boot_id`` would read of jobs, read without the code under test."""
        reader = Reader()
        for _, payload in self.payloads():
            reader.read(msgpack.unpackb(payload, use_list=False, raw=False)[1:])
        reader.begin(boot_id, b"")
        return reader


class Reader:
    """Reads records. At-most-once jobs that may have been delivered without a trace do not count as yielded."""

    def __init__(self) -> None:
        self.found: dict[bytes, Yield] = {}
        #: Jobs of which it says that they are over.
        self.over: set[bytes] = set()
        #: Those of which it says how they have ended, and those for which it has a result that no holder has taken yet.
        self.ends: set[bytes] = set()
        self.strange: set[bytes] = set()
        self.boot_id = b""
        self.policy = b""
        self.clean = False

    def begin(self, boot_id: bytes, policy: bytes) -> None:
        """A segment begins, perhaps written by another process, perhaps after a loss of power."""
        if not self.clean and boot_id != self.boot_id and self.policy != b"always":
            self.found = {job_id: job for job_id, job in self.found.items() if job.retry or job.spent}
        self.boot_id, self.policy = boot_id, policy

    def read(self, records: Iterable[tuple[Any, ...]]) -> None:  # noqa: C901 - a branch a kind
        """Take some records."""
        found = self.found
        for record in records:
            kind = record[0]
            if kind == HEAD:
                self.begin(record[3], record[4])
            elif kind == JOBS and record[JOBS_STATE] != ACKED:
                said = decode(record[JOBS_SPEC])
                assert said is not None
                for job_id, ctime in zip(record[JOBS_IDS], record[JOBS_CTIMES], strict=True):
                    job = found[job_id] = Yield(said.retry, ctime // CTIME_A_MS + record[JOBS_LEFT_MS])
                    job.spent = bool(record[JOBS_FLAGS] & SPENT)
            elif kind == JOBS:
                for job_id in record[JOBS_IDS]:
                    found.pop(job_id, None)
                    self.over.add(job_id)
            elif kind in {ACK, DELETE}:
                found.pop(record[1], None)
                self.over.add(record[1])
            elif kind == SPEND and record[1] in found:
                found[record[1]].spent = True
            elif kind == MOVE and record[1] in found:
                found[record[1]].expires_ms = record[4]
            elif kind == ENDED:
                (self.strange if record[STRANGE] else self.ends).add(record[1])
            elif kind == UNEND:
                self.ends.discard(record[1])
                self.strange.discard(record[1])
            elif kind == FLUSH:
                found.clear()
                self.ends.clear()
                self.strange.clear()
            self.clean = kind == END
