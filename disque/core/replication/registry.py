"""The replicated registry: how entries are written, told to other nodes, compared with theirs, and purged.

Whoever sets an entry tells it to all nodes to which there is a link. When a link comes up, or a third node fails, is
forgotten or has started again, a node sends a digest of what it knows. The other one answers with its own, and with its
entries of the buckets that differ; then the first one does the same. So both know the union, of which the newest wins,
whatever the order in which entries arrive, and it does not matter which of them are lost or come twice.

Who has just started does not know how new the entries of the others are, and might set one that loses to an older one.
So it says so over each new link, and clients that set something wait until another node has told its greatest counter,
or for one node timeout: see `entries`.

A deletion is kept for `cluster-forget-after` since it was made, and since it came here, and then purged. An entry that
is unknown here and not newer than what was purged may be one that was deleted: it is not taken, and deleted at the node
that sent it. A deletion like that was purged here, or nothing here hangs on it: it is not taken either.
"""

from typing import TYPE_CHECKING, Any, Final

from cluster.messages import ANSWER_ME, DIGEST, ENTRIES, IS_ANSWER, NOTHING_YET, STAMP_BITS
from disque.core.journal.schema import ENTRY, PURGED
from disque.core.model.registry import BUCKETS, Entry, Key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disque.core.journal.compaction import Copying
    from disque.core.journal.recovery import Recovery
    from disque.core.model.peers import Peer
    from disque.core.model.trash import Trash
    from disque.core.node import Message, Node

#: Counters end here.
COUNTER_MOST: Final = (1 << STAMP_BITS) - 1
#: A counter that is farther ahead of the time than a century is a lie: nothing could ever be newer.
AHEAD_MOST_MS: Final = 100 * 365 * 86_400_000
#: In a record, beside whether an entry is a deletion: it has not taken effect, since its kind was not known.
STRANGE: Final = 2
#: Entries, and bytes of them, that go in one message.
TOLD_MOST: Final = 200
TOLD_BYTES: Final = 64 * 1024
#: So much counts for each, beside its value, of what a node is told in a beat: as much as the ID of a job; and for each
#: time that all are compared.
ENTRY_BYTES: Final = 1024
ROUND_BYTES: Final = 500 * 1024

#: An entry as a message says it: kind, name, field, value, counter, node, deleted.
Row = tuple[int, bytes, bytes, bytes, int, bytes, int]


def make(node: "Node", key: Key, value: bytes, now_ms: int, *, deleted: bool) -> Entry:
    """An entry that is newer than all that this node knows.

    The time is the least counter, so a node that has no journal mostly goes on above those that it has forgotten.
    """
    counter = min(max(now_ms, node.registry.greatest + 1), COUNTER_MOST)
    return Entry(key, value, counter, node.node_id, int(deleted))


def is_news(node: "Node", entry: Entry) -> bool:
    """Whether no newer entry of this key is known, nor this one."""
    known = node.registry.get(entry.key)
    return known is None or entry.stamp() > known.stamp()


def may_be_deleted(node: "Node", entry: Entry) -> bool:
    """Whether an entry may be one that was deleted, and whose deletion was purged."""
    return not entry.deleted and is_unknown(node, entry)


def was_purged(node: "Node", entry: Entry) -> bool:
    """Whether this is a deletion that was purged here, or has nothing to delete here."""
    return entry.deleted > 0 and is_unknown(node, entry)


def is_unknown(node: "Node", entry: Entry) -> bool:
    """Whether nothing is known here of what an entry is about, which is not newer than what was purged."""
    return entry.counter <= node.registry.purged and node.registry.get(entry.key) is None


def put(node: "Node", entry: Entry) -> None:
    """Take an entry in; what it replaces is alive in the journal no more. Its record is up to the caller."""
    entry.taken_ms = node.beat_ms
    gone = node.registry.put(entry)
    if gone is not None and gone.segment:
        node.live[gone.segment] -= 1


def row_of(entry: Entry) -> Row:
    """An entry as a message says it."""
    return (*entry.key, entry.value, entry.counter, entry.origin, entry.deleted)


def tell_all(node: "Node", entry: Entry) -> None:
    """Tell an entry to every node to which there is a link."""
    node.tell_all((ENTRIES, (row_of(entry),)))


# -- over a new link ---------------------------------------------------------------------------------------------------


def link_up(node: "Node", peer_id: bytes) -> None:
    """Say what this node knows, so that the other one can tell what is missing.

    Who knows nothing waits to be told, unless it has just started, or has forgotten what it knew (for the others its
    links are no new ones), or somebody has said something that was not taken or could not be answered.
    """
    registry = node.registry
    if registry.count or registry.must_ask:
        node.send(peer_id, (DIGEST, ANSWER_ME, registry.digest(), registry.greatest))
    elif not registry.is_met:
        node.send(peer_id, (DIGEST, NOTHING_YET, b"", registry.greatest))


def nodes_changed(node: "Node", failing: "frozenset[bytes]", forgotten: list[bytes]) -> None:
    """These cannot be reached, or are not of the cluster any more.

    One that is new among them may have told an entry to some nodes only: compare.
    """
    if not failing.union(forgotten) <= node.registry.failing:
        for peer in node.linked:
            link_up(node, peer.id)
    node.registry.failing = failing


def started_again(node: "Node", peer_id: bytes) -> None:
    """This one is another process than before, which may not know what that has told to some nodes only: compare."""
    for peer in node.peers.values():
        if node.registry.count and peer.linked and peer.id != peer_id:
            link_up(node, peer.id)


def compared(node: "Node", peer_id: bytes, message: tuple[int, int, bytes, int], now_ms: int) -> None:
    """DIGEST: all that the other node knows adds up to this. Tell it what it lacks, and let it do the same.

    While there is no link to it, nothing can be told: when there is one, this node begins. While it is being told what
    it lacked, the last that it says waits.
    """
    _, what, digest, greatest = message
    peer = node.peers[peer_id]
    registry = node.registry
    registry.is_met = True
    if greatest <= now_ms + AHEAD_MOST_MS:
        registry.greatest = max(registry.greatest, greatest)
    if digest == registry.digest() or what == NOTHING_YET:
        if what != IS_ANSWER and not registry.count:  # who knows something says so by itself
            registry.must_ask = registry.must_ask or not peer.linked
            node.send(peer_id, (DIGEST, IS_ANSWER, b"", registry.greatest))
        return
    if not peer.linked:
        registry.must_ask = True
        return
    peer.digest = digest
    peer.wants_digest = peer.wants_digest or what == ANSWER_ME
    if not peer.comparing:
        peer.comparing = True
        node.begin_chore(tell(node, peer))


def from_a_stranger(node: "Node", message: "Message", now_ms: int) -> None:
    """DIGEST or ENTRIES of a node that is not (yet) known here: they are not taken, so ask when the two have met.

    The other one may know this node, and have a link to it: then nothing is new there, and it does not say them again.
    """
    del message, now_ms
    node.messages_skipped += 1
    node.registry.must_ask = True


def tell(node: "Node", peer: "Peer") -> "Iterator[bool]":
    """Tell ``peer`` all entries of the buckets in which it says that it has others; again, if it has said so since."""
    registry = node.registry
    while peer.digest is not None and peer.linked:
        buckets = registry.differing(peer.digest)
        peer.digest = None
        if peer.wants_digest:
            peer.wants_digest = False
            node.send(peer.id, (DIGEST, IS_ANSWER, registry.digest(), registry.greatest))
        yield from tell_buckets(node, peer, buckets)
        if peer.tell(ROUND_BYTES):
            yield True
    peer.digest, peer.wants_digest, peer.comparing = None, False, False


def tell_buckets(node: "Node", peer: "Peer", buckets: list[int]) -> "Iterator[bool]":
    """Tell ``peer`` all entries of these buckets."""
    for at in buckets:
        for rows in portions(list(node.registry.buckets[at].values())):
            if not peer.linked:
                return
            node.send(peer.id, (ENTRIES, rows))
            if peer.tell(ENTRY_BYTES * (len(rows) - 1) + sum([len(row[3]) for row in rows])):
                yield True


def begin_anew(node: "Node") -> None:
    """The chores have ended before their time: ask those nodes again that were being told what they lack."""
    for peer in node.peers.values():
        if peer.comparing:
            peer.digest, peer.wants_digest, peer.comparing = None, False, False
            link_up(node, peer.id)


def portions(entries: list[Entry]) -> "Iterator[tuple[Row, ...]]":
    """These entries as rows of messages of moderate length."""
    rows: list[Row] = []
    size = 0
    for entry in entries:
        rows.append(row_of(entry))
        size += entry.size()
        if len(rows) >= TOLD_MOST or size >= TOLD_BYTES:
            yield tuple(rows)
            rows, size = [], 0
    if rows:
        yield tuple(rows)


# -- purging -----------------------------------------------------------------------------------------------------------


def purge_some(node: "Node", now_ms: int) -> None:
    """Look through one bucket for deletions that are old enough to be forgotten."""
    registry = node.registry
    registry.turn = (registry.turn + 1) % BUCKETS
    bucket = registry.buckets[registry.turn]
    if not bucket or not node.membership.forget_after_ms:
        return
    before = now_ms - node.membership.forget_after_ms
    purged = registry.purged
    old = [entry for entry in bucket.values() if entry.deleted and max(entry.taken_ms, entry.counter) < before]
    for entry in old:
        drop(node, entry)
        registry.purged = max(registry.purged, entry.counter)
    if registry.purged != purged and node.journaling:
        file_purged(node)


def drop(node: "Node", entry: Entry) -> None:
    """Forget an entry."""
    node.registry.drop(entry)
    if entry.segment:
        node.live[entry.segment] -= 1


def forget_all(node: "Node") -> None:
    """This node knows no other nodes any more: what they have set is not its business.

    Records are up to the caller, who says that none in the journal counts any more.
    """
    known = node.registry
    gone: list[Trash] = [*known.buckets, known.waiting, known.defaults.by_name, known.defaults.resolved]
    node.trash += [some for some in gone if some]
    known.empty()
    for name in node.schedules.by_name:
        known.schedules[name] = None
    known.purged = known.purged_segment = 0
    known.must_ask = True
    known.is_met = False
    known.sure_ms = -1


# -- journal -----------------------------------------------------------------------------------------------------------


def file(node: "Node", entry: Entry) -> None:
    """Write an entry; it counts for the newest segment from here on."""
    kind, name, field = entry.key
    flags = entry.deleted | (STRANGE if entry.is_strange else 0)
    node.outbox.add((ENTRY, name, field, entry.value, kind, entry.counter, entry.origin, flags))
    lies_in(node, entry, node.segment)


def lies_in(node: "Node", entry: Entry, segment: int) -> None:
    """The newest record of an entry is in this segment."""
    if entry.segment:
        node.live[entry.segment] -= 1
    entry.segment = segment
    node.live[segment] = node.live.get(segment, 0) + 1


def file_purged(node: "Node") -> None:
    """Write up to where deletions were purged; it counts for the newest segment from here on."""
    node.outbox.add((PURGED, node.registry.purged))
    purged_lies_in(node, node.segment)


def purged_lies_in(node: "Node", segment: int) -> None:
    """The newest record of what was purged is in this segment."""
    if node.registry.purged_segment:
        node.live[node.registry.purged_segment] -= 1
    node.registry.purged_segment = segment
    node.live[segment] = node.live.get(segment, 0) + 1


def file_all(node: "Node") -> None:
    """Write all that has taken effect, or is of a kind not known here: what stood before in the journal is gone."""
    for entry in node.registry.entries():
        if entry.is_strange or entry.key not in node.registry.waiting:
            file(node, entry)
    if node.registry.purged:
        file_purged(node)


def forget_segments(node: "Node") -> None:
    """No entry has a record any more."""
    for entry in node.registry.entries():
        entry.segment = 0
    node.registry.purged_segment = 0


def apply_entry(recovery: "Recovery", record: tuple[Any, ...], segment: int) -> None:
    """ENTRY; it replaces what an earlier record said. What it is about has records of its own.

    One of a kind that the program before did not know takes effect soon, if this one knows it.
    """
    _, name, field, value, kind, counter, origin, flags = record
    node = recovery.node
    entry = Entry((kind, recovery.names.setdefault(name, name), field), value, counter, origin, flags & ~STRANGE)
    entry.is_strange = flags & STRANGE > 0
    known = node.registry.get(entry.key)
    if known is None or entry.stamp() >= known.stamp():
        put(node, entry)
        entry.taken_ms = min(recovery.time_ms, counter)  # the record may have been written again since
        lies_in(node, entry, segment)
        node.registry.waiting.pop(entry.key, None)
        if entry.is_strange:
            node.registry.waiting[entry.key] = None


def copy_entries(node: "Node", copying: "Copying") -> "Iterator[int]":
    """Write again the entries whose record is in an old segment."""
    for at in range(BUCKETS):
        for key in list(node.registry.buckets[at]):
            entry = node.registry.get(key)
            # One that waits is news again after a start, unless it stands there.
            is_there = entry is not None and (entry.segment > 0 or key not in node.registry.waiting)
            if entry is not None and is_there and entry.segment <= copying.upto:
                file(node, entry)
                yield 1 + len(entry.value) // 4096


def forget_entries(node: "Node") -> "Iterator[None]":
    """No entry has a record any more, nor has what was purged."""
    forget_segments(node)
    yield


def apply_purged(recovery: "Recovery", record: tuple[Any, ...], segment: int) -> None:
    """PURGED: deletions up to this counter may be missing. Those that are still there are purged again."""
    node = recovery.node
    node.registry.purged = max(node.registry.purged, record[1])
    node.registry.greatest = max(node.registry.greatest, record[1])
    purged_lies_in(node, segment)


def copy_purged(node: "Node", copying: "Copying") -> "Iterator[int]":
    """Write again up to where deletions were purged."""
    if 0 < node.registry.purged_segment <= copying.upto or (node.registry.purged and not node.registry.purged_segment):
        file_purged(node)
        yield 1
