"""What is done to whole queues: pausing them, here or at all nodes, and forgetting those that nobody uses.

A PAUSE for all nodes carries a counter and the node that it began at; the greatest of both wins, whatever the order in
which nodes hear of it, and nodes tell each other when a link comes up. So it is in the journal, too: after a restart an
older one must not win. A PAUSE for this node alone is not told and does not count in that: the next one for all nodes
replaces it.

A queue that another node pauses is made for that, unless memory is full: then the PAUSE is remembered, in a bounded
table, and waits until there is room or the queue exists.
"""

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from cluster.messages import PAUSE as SAY_PAUSE
from cluster.messages import STAMP_BITS
from disque.core.journal.schema import BCAST, PAUSE
from disque.core.model.demand import Broadcast
from disque.core.model.peers import Peer
from disque.core.model.queue import PAUSE_NAMES, QUEUE_IDLE_MS, Queue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disque.core.journal.compaction import Copying
    from disque.core.journal.recovery import Recovery
    from disque.core.node import Node


def pause_flags(node: "Node", name: bytes) -> int:
    """How the queue stands; a queue that does not exist is not paused."""
    queue = node.queues.get(name)
    return queue.paused if queue is not None else 0


def pause(node: "Node", name: bytes, flags: int, now_ms: int) -> None:
    """Set the pause flags of a queue; it is made for that when it is to be paused.

    A broadcast that waits for memory is older than this, and is done with.
    """
    federation = node.federation
    if name in federation.waiting:
        del federation.waiting[name]
        if node.journaling:
            file_broadcast(node, federation.pauses[name])
    if not flags and name not in node.queues:
        return
    queue = node.queue(name, now_ms)
    if queue.paused == flags:
        return
    queue.paused = flags
    node.wake(queue)
    if node.journaling:
        file_pause(node, queue)


#: Counters end here.
COUNTER_MOST: Final = (1 << STAMP_BITS) - 1
#: A counter that is farther ahead of the time than a century is a lie: nothing could ever be newer.
AHEAD_MOST_MS: Final = 100 * 365 * 86_400_000
#: Broadcasts that one beat tries to apply.
APPLY_MOST: Final = 500


def pause_everywhere(node: "Node", name: bytes, now_ms: int) -> None:
    """Let the queue stand at all nodes as it stands here.

    The time is the least counter, so a node that has no journal mostly goes on above those that it has forgotten.
    """
    known = node.federation.pauses.get(name)
    counter = min(max(now_ms, known.counter + 1 if known is not None else 0), COUNTER_MOST)
    flags = pause_flags(node, name)
    note(node, Broadcast(name, flags, counter, node.node_id))
    if node.journaling and name in node.federation.pauses:
        file_broadcast(node, node.federation.pauses[name])
    node.tell_all((SAY_PAUSE, name, flags, counter, node.node_id))


def pause_told(node: "Node", peer: bytes, message: tuple[int, bytes, int, int, bytes], now_ms: int) -> None:
    """PAUSE: the queue stands so at all nodes, if nothing newer is known."""
    del peer
    _, name, flags, counter, origin = message
    if flags >= len(PAUSE_NAMES) or counter > now_ms + AHEAD_MOST_MS:
        node.messages_skipped += 1
    elif node.federation.is_news(name, counter, origin):
        told = Broadcast(name, flags, counter, origin)
        note(node, told)
        apply(node, told, now_ms)


def apply(node: "Node", told: Broadcast, now_ms: int) -> None:
    """Let a queue stand as a broadcast says, now or when there is memory for it.

    The record comes with that: after a crash before it the broadcast is news again.
    """
    known = node.federation.pauses.get(told.name) is told
    if known and told.flags and not node.may_make_queues([told.name]):
        node.federation.waiting[told.name] = None
        return
    if known and node.journaling:
        file_broadcast(node, told)
    pause(node, told.name, told.flags, now_ms)


def apply_waiting(node: "Node", now_ms: int) -> None:
    """See whether there is room by now for queues that other nodes have paused."""
    federation = node.federation
    for name in list(islice(federation.waiting, APPLY_MOST)):
        del federation.waiting[name]  # at the end again, if it stays
        apply(node, federation.pauses[name], now_ms)


def note(node: "Node", told: Broadcast) -> None:
    """Remember a broadcast; what it replaces is alive in the journal no more."""
    for gone in node.federation.paused(told):
        if gone.segment:
            node.live[gone.segment] -= 1


def apply_pause(recovery: "Recovery", record: tuple[Any, ...], segment: int) -> None:
    """PAUSE."""
    _, name, flags = record
    node = recovery.node
    queue = node.queue(recovery.names.setdefault(name, name), recovery.time_ms)
    if queue.segment:
        node.live[queue.segment] -= 1
    queue.paused = flags
    queue.segment = segment if flags else 0
    if flags:
        node.live[segment] = node.live.get(segment, 0) + 1


def copy_pauses(node: "Node", copying: "Copying") -> "Iterator[int]":
    """Write again how queues stand whose record is in an old segment."""
    for name in [name for name, queue in node.queues.items() if queue.paused]:
        queue = node.queues.get(name)
        if queue is not None and queue.paused and queue.segment <= copying.upto:
            file_pause(node, queue)
            yield 1


def forget_pauses(node: "Node") -> "Iterator[None]":
    """No queue has a record any more."""
    for queue in node.queues.values():
        queue.segment = 0
    yield


def copy_broadcasts(node: "Node", copying: "Copying") -> "Iterator[int]":
    """Write again the broadcasts whose record is in an old segment."""
    federation = node.federation
    for name in list(federation.pauses):
        told = federation.pauses.get(name)
        # One that waits for memory is news again after a start.
        if told is not None and told.segment <= copying.upto and name not in federation.waiting:
            file_broadcast(node, told)
            yield 1


def forget_broadcast_segments(node: "Node") -> "Iterator[None]":
    """No broadcast has a record any more."""
    for told in node.federation.pauses.values():
        told.segment = 0
    yield


def apply_broadcast(recovery: "Recovery", record: tuple[Any, ...], segment: int) -> None:
    """BCAST: PAUSE for all nodes; it replaces what an earlier one said. How the queue stands here is told by PAUSE."""
    _, name, flags, counter, origin = record
    node = recovery.node
    told = Broadcast(recovery.names.setdefault(name, name), flags, counter, origin)
    known = node.federation.pauses.get(told.name)
    if known is None or (told.counter, told.origin) >= (known.counter, known.origin):
        note(node, told)
        if told.name in node.federation.pauses:
            lies_in(node, told, segment)


def forget_broadcasts(node: "Node") -> None:
    """This node knows no other nodes any more: what they paused is not its business. Records are up to the caller."""
    for name in list(node.federation.pauses):
        gone = node.federation.forget_pause(name)
        if gone.segment:
            node.live[gone.segment] -= 1


def tell_pauses(node: "Node", peer: Peer) -> "Iterator[bool]":
    """Tell ``peer`` how queues stand at all nodes."""
    for one in list(node.federation.pauses.values()):
        if not peer.linked:
            return
        node.send(peer.id, (SAY_PAUSE, one.name, one.flags, one.counter, one.origin))
        if peer.tell(len(one.name)):
            yield True


def file_broadcast(node: "Node", told: Broadcast) -> None:
    """Write a broadcast; it counts for the newest segment from here on."""
    node.outbox.add((BCAST, told.name, told.flags, told.counter, told.origin))
    lies_in(node, told, node.segment)


def lies_in(node: "Node", told: Broadcast, segment: int) -> None:
    """The newest record of a broadcast is in this segment."""
    if told.segment:
        node.live[told.segment] -= 1
    told.segment = segment
    node.live[segment] = node.live.get(segment, 0) + 1


def file_pause(node: "Node", queue: Queue) -> None:
    """Write how the queue stands; it counts for the newest segment while it is paused."""
    node.outbox.add((PAUSE, queue.name, queue.paused))
    if queue.segment:
        node.live[queue.segment] -= 1
        queue.segment = 0
    if queue.paused:
        queue.segment = node.segment
        node.live[node.segment] = node.live.get(node.segment, 0) + 1


def due(node: "Node", queue: Queue, now_ms: int) -> None:
    """Look whether ``queue`` is in use; drop it when it was not for long enough, else look again later.

    Jobs that other nodes want may have been kept back until now.
    """
    limit_ms = QUEUE_IDLE_MS[node.limits.level(node.used)]
    idle_ms = now_ms - queue.used_ms
    if queue.length or queue.waiters is not None or queue.paused:
        node.timers.arm(queue, now_ms + QUEUE_IDLE_MS[0])
        if queue.wants is not None:
            node.wake(queue)
    elif idle_ms >= limit_ms:
        node.drop_queue(queue)
    else:
        node.timers.arm(queue, now_ms + limit_ms - idle_ms)


def drop_idle(node: "Node", now_ms: int, most: int) -> None:
    """Memory is short: look at ``most`` of the queues out of their turn."""
    for queue in node.queue_index.some(most):
        if not queue.length and queue.waiters is None and not queue.paused:
            due(node, queue, now_ms)
