"""What the entries of the registry mean: a row for each kind, and how a change of one takes effect.

A kind that a row does not know comes from a newer node: it is kept, written and told to others like all others.
"""

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Final

from cluster.messages import ENTRIES
from disque.core.auth import access, users
from disque.core.base import errors, resp
from disque.core.jobs import queues
from disque.core.model.registry import LAST_TICK, PAUSED_QUEUE, QUEUE_OPTION, SCHEDULE, USER, Entry, Key
from disque.core.model.session import NOT_WAITING, WAIT_ENTRIES, Session
from disque.core.replication import queue_options, registry
from disque.core.schedule import keeping

if TYPE_CHECKING:
    from disque.core.node import Node

#: Bytes of one value.
VALUE_MOST: Final = 1 << 20
#: Waiting entries that one beat tries.
APPLY_MOST: Final = 500
#: What other nodes have set is taken up to so many times the bound: each of them has looked at it for itself.
ROOM: Final = 2

#: Clients that wait to set something; more do not wait.
HELD_MOST = 100  # not Final: tests want less, compiled too

Row = tuple[int, bytes, bytes, bytes, int, bytes, int]


class EntryKind:
    """One kind of entries.

    ``check`` says whether a value can stand under a name and a field. ``is_ready`` says whether it can take effect now:
    one that cannot is tried again at each beat, and is in the journal only when it can. ``change`` lets it take effect.
    """

    __slots__ = ("change", "check", "is_ready", "number")

    def __init__(
        self,
        number: int,
        check: Callable[[Entry], bool],
        is_ready: "Callable[[Node, Entry], bool]",
        change: "Callable[[Node, Entry, int], None]",
    ) -> None:
        self.number = number
        self.check = check
        self.is_ready = is_ready
        self.change = change


KINDS: Final = (
    EntryKind(PAUSED_QUEUE, queues.is_pause, queues.may_pause, queues.pause_as_all),
    EntryKind(QUEUE_OPTION, queue_options.is_option, queue_options.is_ready, queue_options.has_changed),
    EntryKind(SCHEDULE, keeping.is_schedule, keeping.is_ready, keeping.has_changed),
    EntryKind(LAST_TICK, keeping.is_tick, keeping.is_ready, keeping.has_changed),
    EntryKind(USER, users.is_user, users.is_ready, users.has_changed),
)
TABLE: Final[dict[int, EntryKind]] = {kind.number: kind for kind in KINDS}


def must_wait(node: "Node", session: Session, args: list[bytes], now_ms: int) -> bool:
    """Whether a client that sets something has to wait, since this node has started a moment ago, or is refused.

    Other nodes may know newer entries than this one: what it set would be lost to them. The request is executed once
    more when another node has said how new its entries are, or after one node timeout.
    """
    if node.misconf:
        session.out.append(resp.error(node.misconf))
        return True
    held = node.registry.held
    if is_sure(node, now_ms) or len(held) >= HELD_MOST or sum(map(len, args)) > VALUE_MOST:
        return False
    session.waiting = WAIT_ENTRIES
    held[session.id] = (session, args)
    return True


def is_sure(node: "Node", now_ms: int) -> bool:
    """Whether what is set here now is newer than all that the others know, or they cannot be asked."""
    registry = node.registry
    return registry.is_met or len(node.membership.nodes) <= 1 or 0 <= registry.sure_ms <= now_ms


def execute_held(node: "Node", now_ms: int) -> None:
    """Nobody needs to wait any more: execute what was asked for."""
    held = list(node.registry.held.values())
    node.registry.held.clear()
    for session, args in held:
        session.waiting = NOT_WAITING
        replies, written = len(session.out), node.outbox.count
        row = node.lookup[args[0].lower()]
        wrong = b""  # what the client may do can have changed meanwhile
        if session.limited:
            wrong = access.refusal(node, session, row, args, now_ms) if session.may() else errors.NO_AUTH
        if wrong:
            session.out.append(resp.error(wrong))
        else:
            row.function(node, session, args, now_ms)
        if session.wait_silent:
            session.wait_silent = False
            del session.out[replies:]
        if node.outbox.count != written:
            session.unsettled = True
        node.touch(session)


def has_room(node: "Node", more: list[tuple[Key, bytes]]) -> bool:
    """Whether all these values can be set."""
    size = 0
    for key, value in more:
        known = node.registry.get(key)
        size += Entry(key, value, 0, b"", 0).size() - (known.size() if known is not None else 0)
    return size <= 0 or node.registry.size + size <= node.registry_most


def set_value(node: "Node", key: Key, value: bytes, now_ms: int, *, deleted: bool = False) -> bytes:
    """Set or delete an entry at all nodes. The text of an error when there is no room; else nothing.

    What it means has taken effect here already.
    """
    entry = registry.make(node, key, value, now_ms, deleted=deleted)
    known = node.registry.get(key)
    more = entry.size() - (known.size() if known is not None else 0)
    if more > 0 and not deleted and node.registry.size + more > node.registry_most:
        return errors.REGISTRY_FULL
    node.registry.waiting.pop(key, None)
    registry.put(node, entry)
    if node.journaling:
        registry.file(node, entry)
    registry.tell_all(node, entry)
    return b""


def told(node: "Node", peer: bytes, message: tuple[int, tuple[Row, ...]], now_ms: int) -> None:
    """ENTRIES: another node knows these entries."""
    for row in message[1]:
        kind, name, field, value, counter, origin, deleted = row
        entry = Entry((kind, name, field), value, counter, origin, deleted)
        if not is_sound(entry, now_ms):
            node.messages_skipped += 1
        elif registry.may_be_deleted(node, entry):
            node.send(peer, (ENTRIES, ((kind, name, field, b"", counter, origin, 1),)))
        elif registry.is_news(node, entry) and not registry.was_purged(node, entry):
            if node.registry.size + entry.size() > ROOM * node.registry_most:
                node.messages_skipped += 1
                continue
            registry.put(node, entry)
            change(node, entry, now_ms)


def is_sound(entry: Entry, now_ms: int) -> bool:
    """Whether another node can mean this."""
    if entry.deleted > 1 or (entry.deleted and entry.value) or len(entry.value) > VALUE_MOST:
        return False
    if entry.counter > now_ms + registry.AHEAD_MOST_MS:
        return False
    kind = TABLE.get(entry.key[0])
    return kind is None or kind.check(entry)


def change(node: "Node", entry: Entry, now_ms: int) -> None:
    """Let an entry of another node take effect, now or when it can.

    Its record comes before that of the effect: after a crash before it the entry is news again.
    """
    kind = TABLE.get(entry.key[0])
    if kind is not None and not kind.is_ready(node, entry):
        node.registry.waiting[entry.key] = None
        return
    node.registry.waiting.pop(entry.key, None)
    entry.is_strange = kind is None
    if node.journaling:
        registry.file(node, entry)
    if kind is not None:
        kind.change(node, entry, now_ms)


def try_again(node: "Node", entry: Entry, now_ms: int) -> None:
    """Let an entry take effect that could not before: memory was full, or the program before did not know its kind."""
    if not entry.is_strange:
        change(node, entry, now_ms)
    elif entry.key[0] in TABLE:
        if is_sound(entry, now_ms):
            change(node, entry, now_ms)
        else:  # another node means nothing that this version knows
            node.messages_skipped += 1
            registry.drop(node, entry)


def settled(node: "Node", key: Key) -> None:
    """What waits to take effect is older than what was just done here, and is done with."""
    if key in node.registry.waiting:
        del node.registry.waiting[key]
        entry = node.registry.get(key)
        if entry is not None and node.journaling:
            registry.file(node, entry)


def beat(node: "Node", now_ms: int) -> None:
    """Ten times a second: try what waits, and forget deletions that are old."""
    if node.registry.sure_ms < 0:
        node.registry.sure_ms = now_ms + node.membership.timeout_ms
    if node.registry.held and is_sure(node, now_ms):
        execute_held(node, now_ms)
    for key in list(islice(node.registry.waiting, APPLY_MOST)):
        del node.registry.waiting[key]  # at the end again, if it stays
        entry = node.registry.get(key)
        if entry is not None:
            try_again(node, entry, now_ms)
    registry.purge_some(node, now_ms)
