"""What is done to whole queues: pausing them, here or at all nodes, and forgetting those that nobody uses.

A PAUSE for all nodes is an entry of the registry: the newest wins, whatever the order in which nodes hear of it. A
PAUSE for this node alone is not told and does not count in that: the next one for all nodes replaces it.

A queue that another node pauses is made for that, unless memory is full: then the entry waits until there is room or
the queue exists.
"""

from typing import TYPE_CHECKING, Any, Final

from disque.core.journal.schema import PAUSE
from disque.core.model.queue import PAUSE_NAMES, QUEUE_IDLE_MS, Queue
from disque.core.model.registry import Entry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disque.core.journal.compaction import Copying
    from disque.core.journal.recovery import Recovery
    from disque.core.node import Node


#: How a PAUSE for all nodes stands in the registry: its flags, in digits.
PAUSE_VALUES: Final = frozenset([b"%d" % flags for flags in range(1, len(PAUSE_NAMES))])


def pause_flags(node: "Node", name: bytes) -> int:
    """How the queue stands; a queue that does not exist is not paused."""
    queue = node.queues.get(name)
    return queue.paused if queue is not None else 0


def pause(node: "Node", name: bytes, flags: int, now_ms: int) -> None:
    """Set the pause flags of a queue; it is made for that when it is to be paused."""
    if not flags and name not in node.queues:
        return
    queue = node.queue(name, now_ms)
    if queue.paused == flags:
        return
    queue.paused = flags
    node.wake(queue)
    if node.journaling:
        file_pause(node, queue)


def is_pause(entry: Entry) -> bool:
    """Whether an entry of the registry can be a PAUSE for all nodes. A queue that is not paused has none."""
    return not entry.key[2] and (bool(entry.deleted) or entry.value in PAUSE_VALUES)


def may_pause(node: "Node", entry: Entry) -> bool:
    """Whether there is memory for the queue that an entry of the registry pauses."""
    return bool(entry.deleted) or node.may_make_queues([entry.key[1]])


def pause_as_all(node: "Node", entry: Entry, now_ms: int) -> None:
    """Let a queue stand as an entry of the registry says."""
    pause(node, entry.key[1], 0 if entry.deleted else int(entry.value), now_ms)


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
