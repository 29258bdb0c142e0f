"""Queues that are too long: `overflow drop-oldest` of QCONFIG.

The bound is `maxlen`, of each node by itself. It is looked at when ADDJOB has made a job, and when a dead letter has
come: a job that comes back is the oldest one, and must not be lost for it. Consumers that wait get jobs first. What is
too much ends, as by CANCEL, at all nodes, with the status `dropped`.
"""

from typing import TYPE_CHECKING, Final

from disque.core.model.ends import DROPPED
from disque.core.replication import acks, queue_options

if TYPE_CHECKING:
    from disque.core.node import Node

#: Jobs that are dropped at once; the others a moment later.
DROPS_MOST = 1000  # not Final: tests want less, compiled too
#: So many priorities of a queue are looked at in the time in which a job is dropped.
LANES: Final = 16


def trim(node: "Node", now_ms: int) -> None:
    """Drop what is too much in queues that have grown: the oldest jobs."""
    if node.reconciling or node.misconf:
        return  # others may have these jobs; or it could not be written
    left = DROPS_MOST
    names, node.overflowing = node.overflowing, {}
    for name in names:
        if left <= 0:
            node.overflowing[name] = None
            continue
        queue = node.queues.get(name)
        found = queue_options.of(node, name)
        if queue is None or found is None or not found.drops or found.maxlen <= 0:
            continue
        if queue.length > found.maxlen:
            left -= queue.lanes() // LANES
            for job in queue.oldest_first():
                acks.end(node, job, DROPPED, b"", now_ms)
                left -= 1
                if queue.length <= found.maxlen or left <= 0:
                    break
        if queue.length > found.maxlen:
            node.overflowing[name] = None
