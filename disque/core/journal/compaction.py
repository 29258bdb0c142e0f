"""Compaction: what is alive in old segments is written again, a few hundred records a turn. And its contrary."""

from typing import TYPE_CHECKING, Final

from disque.core.dedup import keys
from disque.core.dedup.keys import TENTATIVE, Key
from disque.core.jobs import queues
from disque.core.model.job import WAIT_REPL, Job
from disque.core.model.key_store import SHARDS
from disque.core.replication import acks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disque.core.node import Node


#: Arrays of keys without anything to write that may be looked at in the time of one record.
SHARDS_A_RECORD: Final = 16


def forget_segments(node: "Node") -> "Iterator[None]":
    """There is no journal any more: nothing has a record, in steps. Up to the last, ``live`` counts what had one."""
    for shard in node.shards:
        for job in shard.values():
            job.segment = 0
        yield
    keys.forget_segments(node)
    yield
    for queue in node.queues.values():
        queue.segment = 0
    for ack in node.acking.values():
        ack.segment = 0
    for broadcast in node.federation.pauses.values():
        broadcast.segment = 0
    node.live.clear()


class Copying:
    """Writes everything again whose newest record is in segment ``upto`` or before. Call `step` until it says True."""

    __slots__ = ("_digests", "_dummies", "_jobs", "_keys", "_paused", "_rows", "_shard", "_told", "node", "upto")

    def __init__(self, node: "Node", upto: int) -> None:
        self.node = node
        self.upto = upto
        self._shard = 0
        self._jobs: list[Job] = []
        self._digests: list[bytes] = []
        self._rows = 0
        self._keys: list[Key] | None = None
        self._dummies: list[bytes] | None = None
        self._paused: list[bytes] | None = None
        self._told: list[bytes] | None = None

    def step(self, most: int, now_ms: int) -> bool:
        """Write up to about ``most`` records; True when there is nothing left."""
        most = self._step_jobs(most)
        node = self.node
        most = self._step_shelf(most, now_ms)
        if most > 0 and self._keys is None:
            self._keys = list(node.keys.values())
        while most > 0 and self._keys:
            key = self._keys.pop()
            if node.keys.get(key.digest) is key:
                most -= self._copy_key(key)
        if most > 0 and self._dummies is None:
            self._dummies = list(node.dummies)
        while most > 0 and self._dummies:
            most -= self._copy_dummy(self._dummies.pop())
        if most > 0 and self._paused is None:
            self._paused = [name for name, queue in node.queues.items() if queue.paused]
        while most > 0 and self._paused:
            most -= self._copy_pause(self._paused.pop())
        if most > 0 and self._told is None:
            self._told = list(node.federation.pauses)
        while most > 0 and self._told:
            most -= self._copy_broadcast(self._told.pop())
        return most > 0

    def _step_jobs(self, most: int) -> int:
        """Write up to about ``most`` jobs; how much of ``most`` is left."""
        node = self.node
        while most > 0 and (self._jobs or self._shard < len(node.shards)):
            if self._jobs:
                most -= self._copy(self._jobs.pop())
            else:
                shard = node.shards[self._shard]
                self._jobs = [job for job in shard.values() if job.segment <= self.upto]
                self._shard += 1
                most -= 1 + len(shard) // 64
        return most

    def _step_shelf(self, most: int, now_ms: int) -> int:
        """Write up to about ``most`` keys that rest; how much of ``most`` is left. What rests later is written then."""
        node = self.node
        while most > 0 and (self._digests or self._rows < SHARDS):
            if self._digests:
                digest = self._digests.pop()
                key = keys.find(node, digest, now_ms)
                if key is not None and digest not in node.keys:
                    most -= self._copy_key(key)
            elif node.key_store.count:
                self._digests = node.key_store.digests(self._rows, self.upto)
                self._rows += 1
                most -= self._rows % SHARDS_A_RECORD == 0
            else:
                self._rows = SHARDS
        return most

    def _copy(self, job: Job) -> int:
        node = self.node
        if job.segment > self.upto or node.find(job.id) is not job:
            return 0
        if job.state == WAIT_REPL and (not job.retry or node.pending[job.id].add is not None):
            return 0  # nobody was told of it yet, or another node may deliver it, once
        node.file(job)
        return 1 + len(job.body) // 4096

    def _copy_dummy(self, job_id: bytes) -> int:
        ack = self.node.acking.get(job_id)
        if ack is None or job_id not in self.node.dummies or ack.segment > self.upto:
            return 0
        acks.file_dummy(self.node, ack)
        return 1

    def _copy_key(self, key: Key) -> int:
        if key.segment > self.upto or key.state == TENTATIVE:
            return 0
        keys.file(self.node, key)
        return 1

    def _copy_pause(self, name: bytes) -> int:
        queue = self.node.queues.get(name)
        if queue is None or not queue.paused or queue.segment > self.upto:
            return 0
        queues.file_pause(self.node, queue)
        return 1

    def _copy_broadcast(self, name: bytes) -> int:
        federation = self.node.federation
        told = federation.pauses.get(name)
        if told is None or told.segment > self.upto or name in federation.waiting:
            return 0  # one that waits for memory is news again after a start
        queues.file_broadcast(self.node, told)
        return 1
