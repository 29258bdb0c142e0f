"""The end of a job: acknowledged, or deleted.

In a cluster of one an acknowledged job has nobody left who must hear of it, so it is gone at once.
"""

from typing import TYPE_CHECKING

from disque.core import replication
from disque.core.job import ACKED, WAIT_REPL, Job
from disque.core.records import ACK, DELETE

if TYPE_CHECKING:
    from disque.core.node import Node


def acknowledge(node: "Node", job_id: bytes, now_ms: int) -> bool:
    """A consumer is done with the job. True when it was known and not yet acknowledged."""
    del now_ms
    job = node.find(job_id)
    if job is None or job.state == ACKED:
        return False
    end(node, job, ACK)
    return True


def delete(node: "Node", job_id: bytes) -> bool:
    """Forget the job, whatever its state. True when it was known."""
    job = node.find(job_id)
    if job is None:
        return False
    end(node, job, DELETE)
    return True


def end(node: "Node", job: Job, record: int) -> None:
    """Remove ``job`` and write why."""
    if job.state == WAIT_REPL:
        replication.job_removed(node, job)
    elif node.journaling:
        node.journal.append((record, job.id))
    node.remove(job)
