"""What is to be said of a job beyond queue, ID and body: for GETJOB WITHMETA and SHOW."""

from typing import TYPE_CHECKING

from disque.core.base import resp
from disque.core.model import backoff
from disque.core.model.extra import CAUSES
from disque.core.model.job import Job
from disque.core.model.spec import BACKOFF, PRIORITY, TRIES
from disque.core.replication import generations

if TYPE_CHECKING:
    from disque.core.node import Node


def tries_left(node: "Node", job: Job) -> int:
    """How many tries there are yet, this one among them; -1 without a bound."""
    most = job.spec.number(TRIES)
    return max(0, most - generations.ended(node, job)) if most else -1


def headers(node: "Node", job: Job, protocol: int) -> bytes:
    """The headers of ``job`` as a map."""
    extra = node.extra_of(job)
    return resp.mapping([resp.bulk(word) for word in extra.headers] if extra is not None else [], protocol)


def written_backoff(job: Job) -> bytes:
    """The BACKOFF of ``job`` as ADDJOB takes it."""
    found = backoff.read(job.spec.text(BACKOFF))
    return b"" if found is None else found.written()


def text(word: bytes, protocol: int) -> bytes:
    """A word, or nil if there is none."""
    return resp.bulk(word) if word else resp.null_bulk(protocol)


def number(value: int, protocol: int) -> bytes:
    """A number, or nil if it is negative."""
    return resp.integer(value) if value >= 0 else resp.null_bulk(protocol)


def encode(node: "Node", job: Job, protocol: int, now_ms: int) -> bytes:
    """The map that GETJOB WITHMETA adds to a job that was just delivered. Times are in ms."""
    extra = node.extra_of(job)
    age_ms = max(0, job.age_ms(now_ms))
    pairs = [
        (b"tries", resp.integer(generations.ended(node, job))),
        (b"tries-left", number(tries_left(node, job), protocol)),
        (b"nacks", resp.integer(job.nacks)),
        (b"additional-deliveries", resp.integer(job.deliveries)),
        (b"priority", resp.integer(job.spec.number(PRIORITY))),
        (b"created-ms-ago", resp.integer(age_ms)),
        (b"due-ms-ago", resp.integer(max(0, age_ms - job.delay * 1000))),
        (b"ttl-ms", resp.integer(max(0, job.expires_ms - now_ms))),
        (b"lease-ms", resp.integer(max(0, job.requeue_ms - now_ms) if job.retry else 0)),
        (b"error", text(b"" if extra is None else extra.error, protocol)),
        (b"origin", text(b"" if extra is None else extra.origin, protocol)),
        (b"headers", headers(node, job, protocol)),
    ]
    if job.spec.rows is not None and BACKOFF.number in job.spec.rows:
        pairs.append((b"backoff", text(written_backoff(job), protocol)))
    return resp.mapping([part for name, value in pairs for part in (resp.bulk(name), value)], protocol)


def shown(node: "Node", job: Job, protocol: int, now_ms: int) -> list[tuple[bytes, bytes]]:
    """What SHOW adds for a job with options that few have, or with a history: names and values."""
    extra = node.extra_of(job)
    if job.spec.rows is None and extra is None:
        return []
    return [
        (b"tries", resp.integer(generations.ended(node, job))),
        (b"tries-left", number(tries_left(node, job), protocol)),
        (b"priority", resp.integer(job.spec.number(PRIORITY))),
        (b"error", text(b"" if extra is None else extra.error, protocol)),
        (b"error-ms-ago", number(now_ms - extra.error_ms if extra is not None and extra.error else -1, protocol)),
        (b"origin", text(b"" if extra is None else extra.origin, protocol)),
        (b"died", text(died(0 if extra is None else extra.died), protocol)),
        (b"headers", headers(node, job, protocol)),
        (b"progress", text(b"" if extra is None else extra.progress, protocol)),
    ]


def died(cause: int) -> bytes:
    """Why a job died, in a word; a cause that a newer node knows is told by its number."""
    return CAUSES[cause] if cause < len(CAUSES) else b"%d" % cause
