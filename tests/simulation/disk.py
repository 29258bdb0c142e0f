"""The disk of one machine: the payloads of the journal, how many are written, and how many would survive a power loss.

A write is a payload at the end of the newest segment. While the disk fails, payloads wait in the memory of the process.
An fsync takes its time; what was written when it began is durable when it has ended. The process dies: what was
written is still there. The power fails: what is durable is there, and as much of the rest, in order, as chance wants.

`contents` reads the payloads as a stranger would, without the code under test: which jobs does this journal yield?
"""

from collections.abc import Iterable
from random import Random
from typing import Any

import msgpack

from disque.core.job import ACKED, SPENT
from disque.core.records import ACK, DELETE, END, FLUSH, HEAD, JOB, SPEND

Payload = tuple[int, bytes]  # segment, bytes


class Yield:
    """What a journal says of one job."""

    __slots__ = ("expires_ms", "retry", "spent")

    def __init__(self, retry: int, expires_ms: int) -> None:
        self.retry = retry
        self.expires_ms = expires_ms
        self.spent = False


class Disk:
    """``sequence`` counts the payloads of this process; ``safe`` says how many of them count as written."""

    def __init__(self, random: Random, policy: str) -> None:
        self.random = random
        self.policy = policy
        self.kept: list[Payload] = []
        #: Payloads at the front of `kept` that a power loss spares.
        self.synced = 0
        self.waiting: list[Payload] = []
        self.failing = False
        self.fsync_ms = 0
        #: Numbers of this process's payloads: handed in, written, durable.
        self.sequence = 0
        self.written = 0
        self.durable = 0
        self._busy = False
        self._end_ms = 0

    @property
    def safe(self) -> int:
        """Whatever hangs on payloads up to this number may leave."""
        return self.durable if self.policy == "always" else self.written

    def append(self, segment: int, payload: bytes) -> None:
        """Take a payload, and write it if the disk does."""
        self.sequence += 1
        self.waiting.append((segment, payload))
        self.write()

    def write(self) -> None:
        """Write what waits."""
        if not self.failing and self.waiting:
            self.written += len(self.waiting)
            self.kept += self.waiting
            self.waiting.clear()

    def sync(self) -> None:
        """Everything that is written is durable now."""
        self.synced = len(self.kept)
        self.durable = self.written

    def mark(self) -> tuple[int, int]:
        """What an fsync that begins now will have made durable: for `reached`."""
        return len(self.kept), self.written

    def reached(self, mark: tuple[int, int]) -> None:
        """An fsync that began at ``mark`` has ended. Nothing may have been dropped since."""
        self.synced = max(self.synced, mark[0])
        self.durable = max(self.durable, mark[1])

    def drop(self, upto: int) -> int:
        """Unlink the segments up to this one; returns how many payloads that were."""
        before = len(self.kept)
        self.kept = [payload for payload in self.kept if payload[0] > upto]
        dropped = before - len(self.kept)
        self.synced = max(0, self.synced - dropped)
        return dropped

    @property
    def segment(self) -> int:
        """The number of the newest segment, 0 for an empty disk."""
        return self.kept[-1][0] if self.kept else 0

    def process_died(self) -> None:
        """What the process had not written is lost."""
        self.waiting.clear()
        self.sequence = self.written = self.durable = 0

    def power_failed(self) -> int:
        """What was not durable may be lost; returns how many payloads are."""
        keep = self.random.randint(self.synced, len(self.kept)) if self.kept else 0
        lost = len(self.kept) - keep
        del self.kept[keep:]
        self.synced = len(self.kept)
        self.process_died()
        return lost

    def wipe(self) -> None:
        """All of it is gone."""
        self.kept.clear()
        self.synced = 0
        self.process_died()

    def contents(self, boot_id: bytes) -> dict[bytes, Yield]:
        """The jobs that a start under ``boot_id`` gets, unacknowledged, read without the code under test."""
        return self.reader(boot_id).found

    def reader(self, boot_id: bytes) -> "Reader":
        """All that a start under ``boot_id`` would read, read without the code under test."""
        reader = Reader()
        for _, payload in self.kept:
            reader.read(msgpack.unpackb(payload, use_list=False, raw=False)[1:])
        reader.begin(boot_id, b"")
        return reader


class Reader:
    """Reads records. At-most-once jobs that may have been delivered without a trace do not count as yielded."""

    def __init__(self) -> None:
        self.found: dict[bytes, Yield] = {}
        #: Jobs of which it says that they are over.
        self.over: set[bytes] = set()
        self.boot_id = b""
        self.policy = b""
        self.clean = False

    def begin(self, boot_id: bytes, policy: bytes) -> None:
        """A segment begins, perhaps written by another process, perhaps after a loss of power."""
        if not self.clean and boot_id != self.boot_id and self.policy != b"always":
            self.found = {job_id: job for job_id, job in self.found.items() if job.retry or job.spent}
        self.boot_id, self.policy = boot_id, policy

    def read(self, records: Iterable[tuple[Any, ...]]) -> None:
        """Take some records."""
        found = self.found
        for record in records:
            kind = record[0]
            if kind == HEAD:
                self.begin(record[3], record[4])
            elif kind == JOB and record[4] != ACKED:
                job = found[record[1]] = Yield(record[10], record[8])
                job.spent = bool(record[5] & SPENT)
            elif kind in {ACK, DELETE, JOB}:
                found.pop(record[1], None)
                self.over.add(record[1])
            elif kind == SPEND and record[1] in found:
                found[record[1]].spent = True
            elif kind == FLUSH:
                found.clear()
            self.clean = kind == END
