"""What all nodes agree on: entries, of which the newest wins.

An entry is a value under a kind, a name and a field. It carries a counter and the node where it was set; of two the
greater pair wins, and of two with the same pair the deletion. A deletion is an entry, too, until it is old enough to be
purged. Whoever keeps the entries does not know what their values mean: see `entries`.

All entries lie in buckets. Each bucket has a sum of its entries, by which two nodes find where they differ.
"""

from collections import OrderedDict
from hashlib import blake2b
from typing import Final
from zlib import crc32

from disque.core.model.defaults import Defaults
from disque.core.model.session import Session

#: Kinds of entries. Numbers are for ever.
PAUSED_QUEUE: Final = 1
QUEUE_OPTION: Final = 2
SCHEDULE: Final = 3
LAST_TICK: Final = 4
USER: Final = 5

#: Bytes that an entry counts for beside its name, field and value.
ENTRY_BYTES: Final = 300
#: How many buckets there are, and bytes of the sum of one.
BUCKETS: Final = 256
SUM_BYTES: Final = 8
DIGEST_BYTES: Final = BUCKETS * SUM_BYTES

#: Kind, name, field.
Key = tuple[int, bytes, bytes]


class Entry:
    """One entry. ``deleted`` is 0 or 1; a deletion has no value. ``segment`` is the part of the journal it lies in.

    ``taken_ms`` is when this node took it in, by its own time: ``counter`` comes from the clock of another one.
    ``is_strange``: this node does not know its kind, so it has not taken effect here.
    """

    __slots__ = ("counter", "deleted", "is_strange", "key", "origin", "segment", "taken_ms", "value")

    def __init__(self, key: Key, value: bytes, counter: int, origin: bytes, deleted: int) -> None:
        self.key = key
        self.value = value
        self.counter = counter
        self.origin = origin
        self.deleted = deleted
        self.segment = 0
        self.taken_ms = 0
        self.is_strange = False

    def stamp(self) -> tuple[int, bytes, int]:
        """What decides between two entries of one key."""
        return (self.counter, self.origin, self.deleted)

    def size(self) -> int:
        """Bytes that it counts for."""
        _, name, field = self.key
        return ENTRY_BYTES + len(name) + len(field) + len(self.value)

    def sum(self) -> int:
        """What it adds to the sum of its bucket."""
        kind, name, field = self.key
        head = b"%d %d %d %d %d %b" % (kind, self.counter, self.deleted, len(name), len(field), self.origin)
        return int.from_bytes(blake2b(head + name + field + self.value, digest_size=SUM_BYTES).digest(), "big")


def bucket_of(key: Key) -> int:
    """In which bucket an entry lies."""
    return crc32(key[2], crc32(key[1], key[0])) % BUCKETS


class Registry:
    """The entries that one node knows.

    ``size`` are the bytes that they count for. ``greatest`` is the greatest counter that was seen, ``purged`` the
    greatest one of a deletion that was purged, ``purged_segment`` the part of the journal where that stands.
    ``waiting`` are keys of entries that could not take effect yet. ``must_ask``: others may know more.
    ``failing`` are the nodes that could not be reached when this was last compared. ``defaults`` are the options of
    queues among the entries. ``schedules`` are names of which an entry has changed since somebody looked, the first one
    first.

    ``held`` are clients that want to set something, by session, with their request. They wait until this process knows
    how far another node is (``is_met``), or the time is ``sure_ms`` (-1: no beat yet).
    """

    __slots__ = (
        "buckets",
        "count",
        "defaults",
        "failing",
        "greatest",
        "held",
        "is_met",
        "must_ask",
        "purged",
        "purged_segment",
        "schedules",
        "size",
        "sums",
        "sure_ms",
        "turn",
        "waiting",
    )

    def __init__(self) -> None:
        self.buckets: list[dict[Key, Entry]] = [{} for _ in range(BUCKETS)]
        self.sums = [0] * BUCKETS
        self.count = 0
        self.size = 0
        self.greatest = 0
        self.purged = 0
        self.purged_segment = 0
        self.must_ask = False
        self.failing: frozenset[bytes] = frozenset()
        self.waiting: dict[Key, None] = {}
        self.held: dict[int, tuple[Session, list[bytes]]] = {}
        self.is_met = False
        self.sure_ms = -1
        self.defaults = Defaults()
        self.schedules: OrderedDict[bytes, None] = OrderedDict()
        #: The bucket that is looked through next for deletions that are old.
        self.turn = 0

    def get(self, key: Key) -> Entry | None:
        """The entry of this key."""
        return self.buckets[bucket_of(key)].get(key)

    def entries(self) -> list[Entry]:
        """All entries."""
        return [entry for bucket in self.buckets for entry in bucket.values()]

    def put(self, entry: Entry) -> Entry | None:
        """Take an entry in. Returns the one that it replaces."""
        at = bucket_of(entry.key)
        bucket = self.buckets[at]
        gone = bucket.get(entry.key)
        if gone is not None:
            self.sums[at] ^= gone.sum()
            self.size -= gone.size()
            self.count -= 1
        bucket[entry.key] = entry
        self._note(entry, is_there=not entry.deleted)
        self.sums[at] ^= entry.sum()
        self.size += entry.size()
        self.count += 1
        self.greatest = max(self.greatest, entry.counter)
        return gone

    def drop(self, entry: Entry) -> None:
        """Forget an entry that is there."""
        at = bucket_of(entry.key)
        del self.buckets[at][entry.key]
        self._note(entry, is_there=False)
        self.sums[at] ^= entry.sum()
        self.size -= entry.size()
        self.count -= 1
        self.waiting.pop(entry.key, None)

    def empty(self) -> None:
        """Forget all entries at once; to free what they were in is up to the caller."""
        self.buckets = [{} for _ in range(BUCKETS)]
        self.sums = [0] * BUCKETS
        self.count = self.size = 0
        self.waiting = {}
        self.defaults = Defaults()

    def _note(self, entry: Entry, *, is_there: bool) -> None:
        """Keep the options of queues as the entries say them, and the names of schedules that are to be looked at."""
        kind, name, field = entry.key
        if kind in {SCHEDULE, LAST_TICK}:
            self.schedules[name] = None
            return
        if kind != QUEUE_OPTION:
            return
        if is_there:
            self.defaults.set(name, field, entry.value)
        else:
            self.defaults.unset(name, field)

    def digest(self) -> bytes:
        """The sums of all buckets; nothing when there are no entries."""
        return b"".join([one.to_bytes(SUM_BYTES, "big") for one in self.sums]) if self.count else b""

    def differing(self, digest: bytes) -> list[int]:
        """The buckets with entries in which another node, with this digest, has others."""
        if len(digest) != DIGEST_BYTES:
            digest = bytes(DIGEST_BYTES)
        theirs = [digest[at : at + SUM_BYTES] for at in range(0, DIGEST_BYTES, SUM_BYTES)]
        return [
            at for at in range(BUCKETS) if self.buckets[at] and self.sums[at].to_bytes(SUM_BYTES, "big") != theirs[at]
        ]
