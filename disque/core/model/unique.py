"""UNIQUE keys, and what ADDJOBs do to get one."""

from collections import OrderedDict
from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from disque.core.model.key_ring import KeyRing
from disque.core.model.key_store import KeyStore
from disque.core.model.memory import STORED_BYTES
from disque.core.model.part import Part

if TYPE_CHECKING:
    from cluster.membership import Membership
    from disque.core.base.timers import Timers
    from disque.core.model.job import Job
    from disque.core.model.key import Key
    from disque.core.model.session import Acquisition


@mypyc_attr(acyclic=True)
class Orphan:
    """A job that the process ``start`` of the node ``owner`` was adding when it died. ``told`` do not know its key."""

    __slots__ = ("digest", "expires_ms", "owner", "start", "told")

    def __init__(self, digest: bytes, owner: bytes, start: int, expires_ms: int) -> None:
        self.digest = digest
        self.owner = owner
        self.start = start
        self.expires_ms = expires_ms
        self.told: set[bytes] = set()


class Unique(Part):
    """Those of a node. See `dedup.keys`.

    ``table`` are the keys by digest, but for those in ``store``, about which nothing is asked; ``by_job`` those of the
    table by the ID of their job. ``acquisitions`` are what ADDJOBs do to get one, by digest; ``attempts`` those that
    ask keepers to note an ID, by this ID. ``ended`` are those whose job is decided and whose key has ended: answered at
    the next settle. ``ring`` says which nodes keep a key. ``live`` counts records by segment. ``orphans`` are jobs that
    a node was adding when it died, whose key is free again: see `dedup.orphans`. ``answered`` are jobs whose IDs were
    answered, and whose key is another job's now, as two parts of the cluster had each given it.
    """

    __slots__ = ("acquisitions", "answered", "attempts", "by_job", "ended", "live", "orphans", "ring", "store", "table",
                 "timers")  # fmt: skip

    def __init__(self, membership: "Membership", timers: "Timers", live: dict[int, int]) -> None:
        self.timers = timers
        self.live = live
        self.table: dict[bytes, Key] = {}
        self.store = KeyStore()
        self.by_job: dict[bytes, Key] = {}
        self.acquisitions: dict[bytes, Acquisition] = {}
        self.attempts: dict[bytes, Acquisition] = {}
        self.ended: list[Acquisition] = []
        self.ring = KeyRing(membership)
        self.orphans: OrderedDict[bytes, Orphan] = OrderedDict()
        self.answered: OrderedDict[bytes, None] = OrderedDict()

    def drop_job(self, job: "Job") -> int:
        """A key that lasts as long as its job goes with it."""
        return self.free(job.id) if self.by_job else 0

    def free(self, job_id: bytes) -> int:
        """The job with this ID is gone: so is a key that lasts as long. Returns the bytes that this frees."""
        key = self.by_job.get(job_id)
        return 0 if key is None or key.expires_ms else self.drop(key)

    def drop(self, key: "Key") -> int:
        """Forget a key, unless its window has ended and another one has the digest now. Returns the bytes it frees."""
        digest = key.digest
        held = self.table.get(digest)
        if held is key:
            del self.table[digest]
            if self.by_job.get(key.job_id) is key:
                del self.by_job[key.job_id]
            self.timers.disarm(key)
            freed = key.cost()
        else:
            row = self.store.get(digest)
            if held is not None or row is None or row[0] != key.job_id:
                return 0
            self.store.drop(digest)
            freed = STORED_BYTES
        acquisition = self.acquisitions.get(digest)
        if acquisition is not None and acquisition.decided:
            self.ended.append(acquisition)
        if key.segment:
            self.live[key.segment] -= 1
        return freed

    def clear(self) -> None:
        """No key is known any more."""
        self.table.clear()
        self.store = KeyStore()
        self.by_job.clear()
        self.acquisitions.clear()
        self.attempts.clear()
        self.ended.clear()
        self.orphans.clear()
        self.answered.clear()
        self.ring.moving = False

    def cost(self) -> int:
        """Bytes of memory that they count for, with the ADDJOBs that wait for a key."""
        waiting = sum([pending.size for one in self.acquisitions.values() for pending in one.waiting or ()])
        return sum([key.cost() for key in self.table.values()]) + STORED_BYTES * self.store.count + waiting
