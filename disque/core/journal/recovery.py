"""What is known while a journal is read: the node that it is read into, and what the journal has said of itself."""

from typing import TYPE_CHECKING

from disque.core.model.extra import Extra
from disque.core.model.job import ACKED, SPENT, Job
from disque.core.model.spec import JobSpec, SpecCache, read

if TYPE_CHECKING:
    from disque.core.model.key import Key
    from disque.core.node import Node


class Recovery:
    """A node that was empty, and what is known of the journal that is read into it, so far."""

    __slots__ = (
        "boot_id",
        "clean",
        "clean_ended",
        "dropped",
        "freed",
        "incomplete",
        "journal_boot_id",
        "journal_policy",
        "more",
        "names",
        "node",
        "pending",
        "records",
        "specs",
        "time_ms",
    )

    def __init__(self, node: "Node", boot_id: str) -> None:
        self.node = node
        self.boot_id = boot_id.encode()
        self.journal_boot_id = b""
        self.journal_policy = b""
        #: By ID what the list of a clean stop says, and whether its end was the last thing read.
        self.clean: dict[bytes, tuple[int, int, int, int, int]] = {}
        self.clean_ended = False
        #: At-most-once jobs that were dropped, since they may have been delivered.
        self.dropped = 0
        #: Those of them that had UNIQUE keys, by ID, until it is read that they are gone.
        self.freed: dict[bytes, None] = {}
        #: The process ended while what it had in memory was still being copied: that is not all here.
        self.incomplete = False
        #: What is to be known of jobs beyond their fields, by ID, as long as they have not come.
        self.more: dict[bytes, Extra] = {}
        #: Keys of which the journal has said that nobody was told the ID of their job, by digest.
        self.pending: dict[bytes, Key] = {}
        self.records = 0
        self.time_ms = 0
        self.names: dict[bytes, bytes] = {}
        #: What the jobs of each queue have in common: no queue is there yet, and the node remembers some only.
        self.specs: dict[bytes, SpecCache] = {}

    def known(self, holders: tuple[bytes, ...]) -> tuple[bytes, ...]:
        """Those of the nodes that are still of the cluster, and this one.

        In a record that is younger than nodes.conf, one that is not known is one that was met after that (Rule 61).
        """
        node, membership = self.node, self.node.membership
        is_younger = 0 < membership.saved_ms <= self.time_ms
        known = [one for one in holders if one in membership.nodes or (is_younger and membership.expects(one))]
        return (
            node.shared(tuple(known)) if node.node_id in known else node.shared(tuple(sorted([*known, node.node_id])))
        )

    def spec(self, queue: bytes, encoded: bytes) -> JobSpec:
        """The one object for what jobs of this queue have in common; ``encoded`` was checked."""
        specs = self.specs.get(queue)
        spec = read(self.names.setdefault(queue, queue), encoded) if specs is None else specs.read(encoded)
        assert spec is not None
        if specs is None:
            self.specs[queue] = SpecCache(spec)
        return spec

    def tail_is_sure(self, boot_id: bytes) -> bool:
        """Whether a process that starts under ``boot_id`` knows that a job that is not spent was not delivered.

        It does when nothing that was written before can have been lost.
        """
        same_boot = bool(boot_id) and boot_id == self.journal_boot_id
        return self.clean_ended or same_boot or self.journal_policy == b"always"

    def drop_unsure(self) -> None:
        """What was written next may be lost: the at-most-once jobs that are not spent may have been delivered.

        And whoever waited for a pending key may have been answered.
        """
        for key in self.pending.values():
            key.is_pending = False
        for shard in self.node.shards:
            for job in [
                job for job in shard.values() if not job.retry and not job.flags & SPENT and job.state != ACKED
            ]:
                self.drop(job)

    def drop(self, job: Job) -> None:
        """Forget an at-most-once job that may have been delivered."""
        self.dropped += 1
        if job.id in self.node.unique.by_job:
            self.freed[job.id] = None
        self.node.remove(job)
