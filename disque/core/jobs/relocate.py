"""Putting jobs into another queue for good."""

from typing import TYPE_CHECKING

from disque.core.model.pubsub import MOVED
from disque.core.replication import generations, moves

if TYPE_CHECKING:
    from disque.core.node import Node


def move(node: "Node", job_id: bytes, queue: bytes, delay_ms: int, now_ms: int) -> bool:
    """Put a job that is known here into ``queue``, whatever it waits for. False if it cannot be."""
    job = node.find(job_id)
    if job is None or not moves.may_move(job):
        return False
    old = job.spec
    spec = node.specs.read(queue, old.encoded)
    assert spec is not None
    extra = generations.own(node, job)
    extra.tries = 0
    return moves.move(node, job, spec, extra, job.expires_ms - now_ms, delay_ms, now_ms, MOVED)
