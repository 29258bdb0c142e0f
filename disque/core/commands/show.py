"""What is shown of a job, as field and value in turn, in the order of Disque 1.0."""

from typing import TYPE_CHECKING, Final

from disque.core.base import resp
from disque.core.jobs import meta
from disque.core.jobs.deliver import LARGE_REPLY
from disque.core.model.job import ACKED, ACTIVE, EXTRA, QUEUED, STATE_NAMES, Job
from disque.core.model.spec import JobSpec

if TYPE_CHECKING:
    from disque.core.model.ack_batch import Ack
    from disque.core.node import Node


#: Names in their order; where a number always follows, it is a number here.
FIELDS: Final = (
    (b"id", b"%b"),
    (b"queue", b"%b"),
    (b"state", b"%b"),
    (b"repl", b":%d\r\n"),
    (b"ttl", b":%d\r\n"),
    (b"ctime", b":%d\r\n"),
    (b"delay", b":%d\r\n"),
    (b"retry", b":%d\r\n"),
    (b"nacks", b":%d\r\n"),
    (b"additional-deliveries", b":%d\r\n"),
    (b"nodes-delivered", b"%b"),
    (b"nodes-confirmed", b"%b"),
    (b"next-requeue-within", b"%b"),
    (b"next-awake-within", b":%d\r\n"),
    (b"body", b"%b"),
)
#: The reply, but for its values: SHOW is how bodies are fetched in bulk.
HEAD: Final = b"*%d\r\n" % (2 * len(FIELDS))
SHOWN: Final = resp.array([part for name, value in FIELDS for part in (resp.bulk(name), value)])


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
    job = Job(ack.job_id, JobSpec(b"", 0, 0, 0), b"", 0, ack.expires_ms, 0, ())
    job.state = ACKED
    job.due_ms = ack.due_ms
    shown = encode(node, job, protocol, now_ms)
    return shown.replace(b"$5\r\nqueue\r\n$0\r\n\r\n", b"$5\r\nqueue\r\n" + resp.null_bulk(protocol), 1)


def encode(node: "Node", job: Job, protocol: int, now_ms: int) -> bytes:
    """The reply of SHOW for ``job``, in one piece: one whose body is not large."""
    return b"".join(pieces(node, job, protocol, now_ms))


def pieces(node: "Node", job: Job, protocol: int, now_ms: int) -> list[bytes]:
    """The reply of SHOW for ``job``. A large body is a piece of its own: to copy some MB would stop the node."""
    pending = node.copies.wanted.get(job.id)
    ack = node.acks.by_id.get(job.id)
    confirmed = sorted(pending.confirmed if pending is not None else ack.confirmed if ack is not None else ())
    requeue_ms = requeue_within_ms(job, now_ms)
    body = job.body
    is_large = len(body) >= LARGE_REPLY and job.state != ACKED
    shown = SHOWN % (
        resp.bulk(job.id),
        resp.bulk(job.queue),
        resp.bulk(STATE_NAMES[job.state]),
        job.repl,
        max(0, -(-(job.expires_ms - now_ms) // 1000)),
        job.ctime,
        job.delay,
        job.retry,
        job.nacks,
        job.deliveries,
        resp.bulks(list(job.holders)),
        resp.bulks(confirmed),
        resp.null_bulk(protocol) if requeue_ms < 0 else resp.integer(requeue_ms),
        awake_within_ms(job, now_ms),
        resp.head(len(body)) if is_large else resp.bulk(body) if job.state != ACKED else resp.null_bulk(protocol),
    )
    more = meta.shown(node, job, protocol, now_ms) if job.spec.rows is not None or job.flags & EXTRA else []
    fields = b"".join([part for name, value in more for part in (resp.bulk(name), value)])
    if more:
        shown = b"*%d\r\n%b" % (2 * (len(FIELDS) + len(more)), shown[len(HEAD) :])
    return [shown, body, b"\r\n" + fields] if is_large else [shown + fields] if fields else [shown]
