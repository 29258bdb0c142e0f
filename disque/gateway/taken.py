"""Replies to what gateways ask most, as typed values: jobs that were taken, and IDs of jobs that were added."""

from typing import Any, Final, NamedTuple

from disque.client.delivery import Reply
from disque.client.errors import UnexpectedReplyError
from disque.client.replies import listed, shown

#: The word of GETJOB that makes a node answer so.
WITHMETA: Final = b"WITHMETA"


class Taken(NamedTuple):
    """A job as a node gives it, in RESP3. Times are in ms; see `disque.client.replies.Meta`."""

    queue: bytes
    job_id: bytes
    body: bytes
    tries: int
    tries_left: int | None
    priority: int
    created_ms_ago: int
    ttl_ms: int
    lease_ms: int
    error: bytes | None
    origin: bytes | None
    headers: dict[bytes, bytes]


def jobs_of(reply: Reply) -> list[Taken]:
    """The jobs of a reply to GETJOB WITHMETA; nil is none. Raises UnexpectedReplyError."""
    rows: list[Any] = listed(reply)
    try:
        return [taken(*row) for row in rows]
    except (TypeError, LookupError):
        raise UnexpectedReplyError(f"jobs were expected, not {shown(reply)}") from None


def taken(queue: bytes, job_id: bytes, body: bytes, meta: dict[bytes, Any]) -> Taken:
    """One job. Raises LookupError, TypeError for what is none."""
    return Taken(
        queue,
        job_id,
        body,
        meta[b"tries"],
        meta[b"tries-left"],
        meta[b"priority"],
        meta[b"created-ms-ago"],
        meta[b"ttl-ms"],
        meta[b"lease-ms"],
        meta[b"error"],
        meta[b"origin"],
        meta[b"headers"],
    )


def id_of(reply: Reply) -> bytes:
    """The ID of a reply to ADDJOB. Raises UnexpectedReplyError."""
    if isinstance(reply, bytes):
        return reply
    raise UnexpectedReplyError(f"the ID of a job was expected, not {shown(reply)}")
