"""What a node holds, as plain values: to compare two nodes, and to count what a node keeps count of."""

from typing import Any

from disque.core.model.job import ACKED, DELIVERED
from disque.core.node import Node
from tests.support.keys import keys


def queued(node: Node, name: bytes = b"q") -> list[bytes]:
    """The IDs in a queue, in order."""
    queue = node.queues.get(name)
    return [job.id for job in queue.jobs()] if queue is not None else []


def counted(node: Node) -> dict[int, int]:
    """How many things have their newest record in which segment."""
    things: list[Any] = [job for shard in node.shards for job in shard.values()]
    things += [*keys(node).values(), *node.queues.values(), *node.acks.by_id.values(), *node.registry.entries()]
    things += node.histories.by_queue.values()
    found: dict[int, int] = {}
    if node.repairs.noted:
        found[node.repairs.noted] = 1
    if node.registry.purged_segment:
        found[node.registry.purged_segment] = found.get(node.registry.purged_segment, 0) + 1
    for thing in things:
        if thing.segment:
            found[thing.segment] = found.get(thing.segment, 0) + 1
    return found


def alive(node: Node) -> dict[int, int]:
    """The same, as the node counts it."""
    return {segment: count for segment, count in node.live.items() if count}


def state(node: Node) -> tuple[Any, ...]:
    """All jobs, acknowledgements, keys and pauses, here or at all nodes, wherever their records are."""
    all_jobs = [job for shard in node.shards for job in shard.values()]
    jobs = sorted(
        (
            *(job.id, job.queue, job.body, job.state == ACKED, job.flags & ~DELIVERED, job.expires_ms, job.ttl),
            *(job.retry, job.nacks, job.requeue_ms, job.holders),
        )
        for job in all_jobs
    )
    ends = {job.id: job.expires_ms for job in all_jobs}
    acks = sorted((key, ack.holders, ends.get(key, ack.expires_ms)) for key, ack in node.acks.by_id.items())
    known = sorted((key, value.job_id, value.expires_ms) for key, value in keys(node).items())
    queues = sorted((name, queue.paused, tuple(queued(node, name))) for name, queue in node.queues.items())
    told = sorted((one.key, one.value, *one.stamp()) for one in node.registry.entries())
    return jobs, acks, known, queues, told, node.used
