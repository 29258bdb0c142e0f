"""How long jobs wait for their first delivery, and how long consumers work on them: samples, see `model.figures`.

A plain job has no field for it. When it was due follows from its age and its delay; when it was delivered, from the end
of its RETRY. WORKING moves that, so the first WORKING of a delivery notes when it began.
"""

from typing import TYPE_CHECKING, Final

from disque.core.model import census
from disque.core.model.job import ACTIVE, DEFERRED, DELIVERED, LEASE_OWNER, Job
from disque.core.model.memory import BEGAN_BYTES
from disque.core.model.queue import ELSEWHERE, Queue

if TYPE_CHECKING:
    from disque.core.node import Node

#: In so long a time one of the jobs of a queue that are delivered is looked at, and one of those that are acknowledged.
SAMPLE_MS: Final = 10

IN_FLIGHT: Final = DELIVERED | LEASE_OWNER


def note_wait(queue: Queue, job: Job, now_ms: int) -> None:
    """``job`` was taken out of ``queue`` and is about to be delivered."""
    queue.sample_ms = now_ms + SAMPLE_MS
    if not job.flags & DELIVERED and not job.deliveries and not job.nacks:
        job.spec.figures.waited(job.age_ms(now_ms) - job.delay * 1000)


def note_run(node: "Node", job: Job, now_ms: int) -> None:
    """``job`` is acknowledged."""
    job.spec.figures.sample_ms = now_ms + SAMPLE_MS
    if not is_in_flight(job):
        return
    began_ms = job.requeue_ms - job.retry * 1000
    noted = node.census.began.pop(job.id, None) if node.census.began else None
    if noted is not None:
        node.used -= BEGAN_BYTES
        if noted[1] == job.nacks + job.deliveries:
            began_ms = noted[0]
    job.spec.figures.ran(now_ms - began_ms)


def is_in_flight(job: Job) -> bool:
    """Whether a consumer has got ``job`` from this node and may still work on it."""
    is_out = job.state == ACTIVE and job.flags & (IN_FLIGHT | DEFERRED) == IN_FLIGHT
    return is_out and job.requeue_ms > 0 and job.place < ELSEWHERE


def prolong(node: "Node", job: Job) -> None:
    """WORKING is about to move the end of the RETRY of ``job``: note when its delivery began."""
    began = node.census.began
    count = job.nacks + job.deliveries
    noted = began.get(job.id)
    if (noted is not None and noted[1] == count) or not is_in_flight(job):
        return
    if noted is None:
        node.used += BEGAN_BYTES
    began[job.id] = (job.requeue_ms - job.retry * 1000, count)
    if len(began) > census.BEGAN_MOST:
        del began[next(iter(began))]
        node.used -= BEGAN_BYTES
