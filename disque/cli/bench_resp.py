"""Requests as bytes that are made once and sent often, and the few kinds of replies that a load generator needs."""

from typing import Any, Final

import hiredis


class BenchError(Exception):
    """A run cannot go on; the message is the one line that the user sees."""


class ErrorReply(Exception):  # noqa: N818 - it is what the server said, not something that this program raises
    """An error reply, as hiredis hands it over among the other replies."""


Reply = bytes | int | list["Reply"] | ErrorReply | None

# After one of these every further request would get the same answer, so the run ends at the first.
_FATAL: Final = ("NOAUTH", "WRONGPASS", "NOPERM", "OOM", "MISCONF", "LOADING", "LEAVING", "ERR unknown command")

# An ACKJOB up to its ID, which has this length on every server that makes IDs like ours, and from one ID to the next.
_ID_BYTES: Final = frozenset([40])
_ACKJOB: Final = b"*2\r\n$6\r\nACKJOB\r\n$40\r\n"
_NEXT_ACKJOB: Final = b"\r\n" + _ACKJOB


def encode(*arguments: bytes) -> bytes:
    """Give one request in RESP."""
    head = b"*%d\r\n" % len(arguments)
    return head + b"".join(b"$%d\r\n%s\r\n" % (len(argument), argument) for argument in arguments)


def new_reader() -> hiredis.Reader:
    """Give a parser of replies that hands over error replies as ErrorReply."""
    return hiredis.Reader(replyError=ErrorReply)


def next_reply(reader: hiredis.Reader) -> Any:  # noqa: ANN401 - False, which is no Reply, says that one is incomplete
    """Give the next complete reply, or False.

    Raises BenchError when the bytes are not RESP.
    """
    try:
        return reader.gets()
    except hiredis.ProtocolError as error:
        raise BenchError(f"the server does not speak RESP: {error}") from error


def is_fatal(text: str) -> bool:
    """Say whether an error reply makes it pointless to go on."""
    return text.startswith(_FATAL)


def addjob_ends(queue: bytes, body_bytes: int, timeout_ms: int, words: tuple[bytes, ...]) -> tuple[bytes, bytes]:
    """Give what stands before and behind the body of an ADDJOB with a body of `body_bytes` bytes.

    `words` are the options behind the timeout, such as (b"RETRY", b"10").
    """
    head = b"*%d\r\n$6\r\nADDJOB\r\n$%d\r\n%s\r\n$%d\r\n" % (4 + len(words), len(queue), queue, body_bytes)
    tail = b"".join(b"\r\n$%d\r\n%s" % (len(word), word) for word in (b"%d" % timeout_ms, *words))
    return head, tail + b"\r\n"


def getjob(queues: tuple[bytes, ...], count: int, *, timeout_ms: int | None = None) -> bytes:
    """Give a GETJOB: NOHANG without a timeout, blocking for `timeout_ms` with one. COUNT 1 is left out."""
    wait = (b"NOHANG",) if timeout_ms is None else (b"TIMEOUT", b"%d" % timeout_ms)
    many = () if count == 1 else (b"COUNT", b"%d" % count)
    return encode(b"GETJOB", *wait, *many, b"FROM", *queues)


def ackjob(job_ids: list[bytes]) -> bytes:
    """Give one ACKJOB for all of `job_ids`."""
    return encode(b"ACKJOB", *job_ids)


def ackjobs(job_ids: list[bytes]) -> bytes:
    """Give an ACKJOB for each of `job_ids`."""
    if not job_ids:
        return b""
    if not _ID_BYTES.issuperset(map(len, job_ids)):
        return b"".join([ackjob([job_id]) for job_id in job_ids])
    return _ACKJOB + _NEXT_ACKJOB.join(job_ids) + b"\r\n"
