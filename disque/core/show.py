"""What is shown of a job, as field and value in turn, in the order of Disque 1.0."""

from typing import TYPE_CHECKING

from disque.core import resp
from disque.core.job import ACKED, ACTIVE, QUEUED, STATE_NAMES, Job
from disque.core.terms import Terms

if TYPE_CHECKING:
    from disque.core.lots import Ack
    from disque.core.node import Node


def requeue_within_ms(job: Job, now_ms: int) -> int:
    """Milliseconds until the job could be queued again, at least 0; -1 for a job that never will be.

    For a job that is queued this is its RETRY: that is what it would wait after a delivery now.
    """
    if job.state == QUEUED:
        return job.retry * 1000 if job.retry else -1
    if job.state == ACTIVE and job.requeue_ms:
        return max(0, job.requeue_ms - now_ms)
    return -1


def awake_within_ms(job: Job, now_ms: int) -> int:
    """Milliseconds until this node looks at the job by itself, at least 0."""
    return max(0, job.due_ms - now_ms)


def encode_dummy(node: "Node", ack: "Ack", protocol: int, now_ms: int) -> bytes:
    """The reply of SHOW for an acknowledgement of a job that is not known here."""
    job = Job(ack.job_id, Terms(b"", 0, 0, 0), b"", 0, ack.expires_ms, 0, ())
    job.state = ACKED
    job.due_ms = ack.due_ms
    shown = encode(node, job, protocol, now_ms)
    return shown.replace(b"$5\r\nqueue\r\n$0\r\n\r\n", b"$5\r\nqueue\r\n" + resp.null_bulk(protocol), 1)


def encode(node: "Node", job: Job, protocol: int, now_ms: int) -> bytes:
    """The reply of SHOW for ``job``."""
    pending = node.pending.get(job.id)
    ack = node.acking.get(job.id)
    confirmed = sorted(pending.confirmed if pending is not None else ack.confirmed if ack is not None else ())
    requeue_ms = requeue_within_ms(job, now_ms)
    fields = (
        (b"id", resp.bulk(job.id)),
        (b"queue", resp.bulk(job.queue)),
        (b"state", resp.bulk(STATE_NAMES[job.state])),
        (b"repl", resp.integer(job.repl)),
        (b"ttl", resp.integer(max(0, -(-(job.expires_ms - now_ms) // 1000)))),
        (b"ctime", resp.integer(job.ctime)),
        (b"delay", resp.integer(job.delay)),
        (b"retry", resp.integer(job.retry)),
        (b"nacks", resp.integer(job.nacks)),
        (b"additional-deliveries", resp.integer(job.deliveries)),
        (b"nodes-delivered", resp.bulks(list(job.holders))),
        (b"nodes-confirmed", resp.bulks(confirmed)),
        (b"next-requeue-within", resp.null_bulk(protocol) if requeue_ms < 0 else resp.integer(requeue_ms)),
        (b"next-awake-within", resp.integer(awake_within_ms(job, now_ms))),
        (b"body", resp.bulk(job.body) if job.state != ACKED else resp.null_bulk(protocol)),
    )
    parts = [part for name, value in fields for part in (resp.bulk(name), value)]
    return resp.array(parts)
