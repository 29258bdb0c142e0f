"""Acknowledgements of one turn that share what is known of them, and how one of them goes on alone."""

from typing import TYPE_CHECKING, Final

from disque.core.model.ack_batch import AGAIN_MS, AGAIN_SPREAD_MS, Ack, AckBatch, AckStage
from disque.core.model.memory import ACK_BYTES

if TYPE_CHECKING:
    from disque.core.model.job import Job
    from disque.core.node import Node

#: Jobs that one step takes out of a batch when its time has come: the steps of one tick may be for a thousand batches.
SOME: Final = 2


def lives(job: "Job", now_ms: int) -> bool:
    """Whether ``job`` can be in a batch: one that expires sooner than its batch ends needs a timer of its own."""
    return job.expires_ms > now_ms + AGAIN_MS + AGAIN_SPREAD_MS


def join(node: "Node", stage: AckStage, job_id: bytes, now_ms: int) -> None:
    """A job comes to the batch of ``stage``."""
    batch = stage.batch
    if not batch.left:
        node.timers.arm(batch, now_ms + AGAIN_MS)
    batch.ids.append(job_id)
    batch.left += 1
    node.acks.by_id[job_id] = stage
    node.used += ACK_BYTES


def alone(node: "Node", job_id: bytes, now_ms: int) -> Ack | None:
    """The acknowledgement of this job alone, if there is one: what happens to it does not concern others."""
    ack = node.acks.by_id.get(job_id)
    return take_out(node, ack, job_id, max(now_ms, ack.batch.due_ms)) if isinstance(ack, AckStage) else ack


def take_out(node: "Node", stage: AckStage, job_id: bytes, due_ms: int) -> Ack:
    """Take a job out of its batch; it comes out of the timers at ``due_ms`` or a little later."""
    job = node.find(job_id)
    assert job is not None
    ack = Ack(job_id, stage.holders, stage.confirmed, job.expires_ms)
    node.acks.by_id[job_id] = ack
    stage.batch.leave(node.timers)
    node.timers.arm(ack, min(due_ms + int(node.random.random() * AGAIN_SPREAD_MS), job.expires_ms))
    return ack


def due(node: "Node", batch: AckBatch, now_ms: int) -> None:
    """Those that are left are not as usual: some of them go on alone, the others in the next step."""
    ids = batch.ids
    for _ in range(SOME):
        if not ids:
            break  # with the last one that is taken out all go that were collected
        job_id = ids.pop()
        ack = node.acks.by_id.get(job_id)
        if isinstance(ack, AckStage) and ack.batch is batch:
            take_out(node, ack, job_id, now_ms)
    if batch.left:
        node.timers.arm(batch, now_ms)
