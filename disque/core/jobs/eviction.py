"""Throwing away what is no loss, where memory is short: see `memory`."""

from itertools import islice
from typing import TYPE_CHECKING

from disque.core.journal.schema import DELETE
from disque.core.replication import acks, ends

if TYPE_CHECKING:
    from disque.core.node import Node

#: Evictions that one command may cause, so that none stops the others.
EVICT_MOST = 1000  # not Final: tests want less, compiled too
#: The oldest acknowledgements that are looked up at once.
OLDEST_MOST = 10_000  # not Final: tests want less, compiled too


def make_room(node: "Node") -> bool:
    """Throw away what is no loss until the node is below 95 %; False when that was not enough."""
    if node.ends.by_id:
        ends.evict(node, node.limits.full, EVICT_MOST)
    if node.evict_acks:
        for _ in range(EVICT_MOST):
            if node.used <= node.limits.full or not node.evictable.count:
                break
            job = node.evictable.first()
            node.evicted += 1
            if node.journaling:
                node.outbox.add((DELETE, job.id))  # its UNIQUE key is free from here on, after a crash too
            node.remove(job)
        for _ in range(EVICT_MOST):
            if node.used <= node.limits.full or not node.acks.by_id:
                break
            evict_ack(node, oldest_ack(node))
    return node.used <= node.limits.full


def beat(node: "Node") -> None:
    """Ends of jobs that somebody may want to know are forgotten before anything else is short of memory."""
    if node.used > node.limits.warn and node.ends.by_id:
        ends.evict(node, node.limits.warn, EVICT_MOST)


def oldest_ack(node: "Node") -> bytes:
    """The acknowledgement that has been told to others for the longest time; there must be one.

    To find the first entry of a dict takes the longer, the more were taken away before it: a million by and by would
    take hours. So many are looked up at once, and a dict in which few are left is made anew. All acknowledgements are
    in that dict, so it is a plain one: an OrderedDict would cost each of them time and memory.
    """
    oldest = node.acks.oldest
    while True:
        while oldest:
            job_id = oldest.popleft()
            if job_id in node.acks.by_id:
                return job_id
        oldest.extend(islice(node.acks.by_id, OLDEST_MOST))
        if len(node.acks.by_id) <= OLDEST_MOST:
            node.acks.by_id = dict(node.acks.by_id)


def evict_ack(node: "Node", job_id: bytes) -> None:
    """Forget an acknowledgement that other nodes may not have heard of."""
    node.evicted += 1
    acks.drop(node, job_id)
