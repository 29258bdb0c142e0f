"""Messages and records that have many fields, as other nodes and journals say them: by name, and not by position.

Who wants a value that is not given gets a usual one. A ``spec`` that is given stands for ``ttl``, ``retry``, ``repl``
and ``rows``.
"""

from typing import Any, Final

from cluster import messages
from cluster.messages import REPLJOB_IDS, ROW_ID, YOURJOBS, YOURJOBS_JOBS
from disque.core.journal import schema
from disque.core.model.job import QUEUED
from disque.core.model.registry import PAUSED_QUEUE
from disque.core.model.spec import Rows, encode
from disque.core.node import Node

CTIME: Final = 1_800_000_000_000 * 1_000_000


def encoded(ttl: int = 3600, retry: int = 60, repl: int = 1, rows: Rows | None = None) -> bytes:
    """A spec as bytes."""
    return encode(ttl, retry, repl, rows)


def repljob(
    *ids: bytes,
    queue: bytes = b"q",
    ttl: int = 3600,
    retry: int = 60,
    repl: int = 2,
    rows: Rows | None = None,
    spec: bytes | None = None,
    flags: int = 0,
    left_ms: int = -1,
    delay_ms: int = 0,
    holders: tuple[bytes, ...] = (),
    bodies: tuple[bytes, ...] | None = None,
    ctimes: tuple[int, ...] | None = None,
) -> tuple[Any, ...]:
    """REPLJOB."""
    return messages.repljob(
        queue,
        encoded(ttl, retry, repl, rows) if spec is None else spec,
        flags=flags,
        left_ms=ttl * 1000 if left_ms < 0 else left_ms,
        delay_ms=delay_ms,
        holders=holders,
        ids=ids,
        bodies=(b"body",) * len(ids) if bodies is None else bodies,
        ctimes=tuple(range(CTIME, CTIME + len(ids))) if ctimes is None else ctimes,
    )


def repljob_with(message: tuple[Any, ...], **values: Any) -> tuple[Any, ...]:
    """This REPLJOB with other values of the fields of these names."""
    return _with(message, {getattr(messages, f"REPLJOB_{name.upper()}"): value for name, value in values.items()})


def row_with(row: tuple[Any, ...], **values: Any) -> tuple[Any, ...]:
    """This job of YOURJOBS with other values of the fields of these names."""
    return _with(row, {getattr(messages, f"ROW_{name.upper()}"): value for name, value in values.items()})


def jobs_with(record: tuple[Any, ...], **values: Any) -> tuple[Any, ...]:
    """This JOBS with other values of these names."""
    return _with(record, {getattr(schema, f"JOBS_{name.upper()}"): value for name, value in values.items()})


def _with(whole: tuple[Any, ...], values: dict[int, Any]) -> tuple[Any, ...]:
    return tuple([values.get(at, value) for at, value in enumerate(whole)])


def repljob_ids(message: tuple[Any, ...]) -> tuple[bytes, ...]:
    """The jobs of a REPLJOB."""
    ids: tuple[bytes, ...] = message[REPLJOB_IDS]
    return ids


def yourjobs_row(
    job_id: bytes,
    *,
    body: bytes = b"body",
    ttl: int = 3600,
    retry: int = 60,
    repl: int = 1,
    rows: Rows | None = None,
    spec: bytes | None = None,
    left_ms: int = -1,
    ctime: int = CTIME,
    nacks: int = 0,
    deliveries: int = 0,
    holders: tuple[bytes, ...] = (),
) -> tuple[Any, ...]:
    """One job of YOURJOBS."""
    return messages.yourjobs_row(
        job_id,
        body,
        encoded(ttl, retry, repl, rows) if spec is None else spec,
        left_ms=ttl * 1000 if left_ms < 0 else left_ms,
        ctime=ctime,
        nacks=nacks,
        deliveries=deliveries,
        holders=holders,
    )


def yourjobs(*rows: tuple[Any, ...], queue: bytes = b"q") -> tuple[Any, ...]:
    """YOURJOBS with these rows."""
    return (YOURJOBS, queue, rows)


def yourjobs_rows(message: tuple[Any, ...]) -> tuple[tuple[Any, ...], ...]:
    """The rows of a YOURJOBS."""
    rows: tuple[tuple[Any, ...], ...] = message[YOURJOBS_JOBS]
    return rows


def row_ids(message: tuple[Any, ...]) -> list[bytes]:
    """The jobs of a YOURJOBS."""
    return [row[ROW_ID] for row in yourjobs_rows(message)]


def jobs_record(
    *ids: Any,
    queue: Any = b"q",
    ttl: int = 3600,
    retry: int = 60,
    repl: int = 1,
    rows: Rows | None = None,
    spec: Any = None,
    state: Any = QUEUED,
    flags: Any = 0,
    left_ms: Any = -1,
    delay: Any = 0,
    nacks: Any = 0,
    deliveries: Any = 0,
    held_ms: Any = 0,
    holders: Any = (),
    bodies: Any = None,
    ctimes: Any = None,
) -> tuple[Any, ...]:
    """JOBS, as it is read. Any value may be nonsense."""
    usual = schema.jobs_record(
        b"",
        b"",
        state=0,
        flags=0,
        left_ms=0,
        delay=0,
        nacks=0,
        deliveries=0,
        held_ms=0,
        holders=(),
        ids=(),
        bodies=(),
        ctimes=(),
    )
    return jobs_with(
        usual,
        queue=queue,
        spec=encoded(ttl, retry, repl, rows) if spec is None else spec,
        state=state,
        flags=flags,
        left_ms=ttl * 1000 if left_ms == -1 else left_ms,
        delay=delay,
        nacks=nacks,
        deliveries=deliveries,
        held_ms=held_ms,
        holders=holders,
        ids=ids,
        bodies=(b"body",) * len(ids) if bodies is None else bodies,
        ctimes=tuple(range(CTIME, CTIME + len(ids))) if ctimes is None else ctimes,
    )


def pause_everywhere(queue: bytes, flags: int, counter: int, origin: bytes) -> tuple[Any, ...]:
    """ENTRIES with one PAUSE for all nodes."""
    value = b"%d" % flags if flags else b""
    return (messages.ENTRIES, ((PAUSED_QUEUE, queue, b"", value, counter, origin, int(not flags)),))


def pause_entry(queue: bytes, flags: int, counter: int, origin: bytes) -> tuple[Any, ...]:
    """The journal's record of one PAUSE for all nodes."""
    value = b"%d" % flags if flags else b""
    return (schema.ENTRY, queue, b"", value, PAUSED_QUEUE, counter, origin, int(not flags))


def pauses_everywhere(node: Node) -> dict[bytes, tuple[int, int, bytes]]:
    """The PAUSEs for all nodes that a node knows: flags, counter and origin by queue."""
    return {
        entry.key[1]: (int(entry.value or b"0"), entry.counter, entry.origin)
        for entry in node.registry.entries()
        if entry.key[0] == PAUSED_QUEUE
    }
