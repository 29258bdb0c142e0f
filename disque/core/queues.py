"""What is done to whole queues: pausing them, and forgetting those that nobody uses."""

from typing import TYPE_CHECKING

from disque.core.node import QUEUE_IDLE_MS
from disque.core.queue import PAUSED_OUT, Queue
from disque.core.records import PAUSE

if TYPE_CHECKING:
    from disque.core.node import Node


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
    if queue.length and queue.waiters is not None and not queue.ready and not flags & PAUSED_OUT:
        queue.ready = True
        node.ready.append(queue)
    if node.journaling:
        file_pause(node, queue)


def file_pause(node: "Node", queue: Queue) -> None:
    """Write how the queue stands; it counts for the newest segment while it is paused."""
    node.journal.append((PAUSE, queue.name, queue.paused))
    if queue.segment:
        node.live[queue.segment] -= 1
        queue.segment = 0
    if queue.paused:
        queue.segment = node.segment
        node.live[node.segment] = node.live.get(node.segment, 0) + 1


def due(node: "Node", queue: Queue, now_ms: int) -> None:
    """Look whether ``queue`` is in use; drop it when it was not for long enough, else look again later."""
    limit_ms = QUEUE_IDLE_MS[node.limits.level(node.used)]
    idle_ms = now_ms - queue.used_ms
    if queue.length or queue.waiters is not None or queue.paused:
        node.timers.arm(queue, now_ms + QUEUE_IDLE_MS[0])
    elif idle_ms >= limit_ms:
        node.drop_queue(queue)
    else:
        node.timers.arm(queue, now_ms + limit_ms - idle_ms)


def drop_idle(node: "Node", now_ms: int, most: int) -> None:
    """Memory is short: look at ``most`` of the queues out of their turn."""
    for queue in node.roll.some(most):
        if not queue.length and queue.waiters is None and not queue.paused:
            due(node, queue, now_ms)
