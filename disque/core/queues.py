"""What is done to whole queues: pausing them, here or at all nodes, and forgetting those that nobody uses.

A PAUSE for all nodes carries a counter and the node that it began at; the greatest of both wins, whatever the order in
which nodes hear of it, and nodes tell each other when a link comes up. A PAUSE for this node alone is not told and does
not count in that: the next one for all nodes replaces it.
"""

from typing import TYPE_CHECKING, Final

from cluster.messages import PAUSE as SAY_PAUSE
from cluster.messages import STAMP_BITS
from disque.core.peers import broadcast
from disque.core.queue import PAUSE_NAMES, QUEUE_IDLE_MS, Queue
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
    node.wake(queue)
    if node.journaling:
        file_pause(node, queue)


#: Counters end here.
COUNTER_MOST: Final = (1 << STAMP_BITS) - 1


def pause_everywhere(node: "Node", name: bytes, now_ms: int) -> None:
    """Let the queue stand at all nodes as it stands here.

    The time is the least counter, so a node that has forgotten its counters in a restart mostly goes on above them.
    """
    federation = node.federation
    known = federation.pauses.get(name)
    counter = min(max(now_ms, known[0] + 1 if known is not None else 0), COUNTER_MOST)
    flags = pause_flags(node, name)
    federation.paused(name, counter, node.node_id, flags)
    broadcast(node, (SAY_PAUSE, name, flags, counter, node.node_id))


def pause_told(node: "Node", peer: bytes, message: tuple[int, bytes, int, int, bytes], now_ms: int) -> None:
    """PAUSE: the queue stands so at all nodes, if nothing newer is known."""
    del peer
    _, name, flags, counter, origin = message
    if flags < len(PAUSE_NAMES) and node.federation.paused(name, counter, origin, flags):
        pause(node, name, flags, now_ms)


def tell_pauses(node: "Node", peer: bytes) -> None:
    """Tell ``peer`` how queues stand at all nodes."""
    for name, (counter, origin, flags) in node.federation.pauses.items():
        node.messages.append((peer, (SAY_PAUSE, name, flags, counter, origin)))


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
    for queue in node.roll.some(most):
        if not queue.length and queue.waiters is None and not queue.paused:
            due(node, queue, now_ms)
