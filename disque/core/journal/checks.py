"""What a record must look like to be believed: types, ranges, and values that fit together.

The checksums of the frames say that the bytes are those that were written; this says that they were written by a node
of this format. Nothing is taken from a record that fails.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

from disque.core.journal.schema import (
    ACK,
    BCAST,
    CLEAN,
    CTIME_A_MS,
    DELETE,
    DUMMY,
    END,
    FLUSH,
    FORMAT,
    HEAD,
    HOLDERS,
    JOB,
    JOBS,
    KEY,
    KEYS,
    OFF,
    PARTIAL,
    PAUSE,
    REQUEUE,
    SPEND,
    WHOLE,
)
from disque.core.model.job import (
    ACKED,
    ACTIVE,
    BACKUP,
    DEFERRED,
    DELIVERED,
    LEASE_OWNER,
    LEASE_RELAYED,
    QUEUED,
    REQUEUE_ANNOUNCED,
    SPENT,
)
from disque.core.model.jobid import valid
from disque.core.model.key_store import DIGEST_BYTES, REPL_MAX
from disque.core.model.queue import PAUSE_NAMES
from disque.core.replication.announcements import COUNTER_MAX

#: No number in a record is larger: times in ms * 10^6 fit, and nothing that is read runs over when added up.
NUMBER_MAX: Final = 2**62

#: The types of each kind of record, first its kind, last its numbers (HEAD's version apart).
SHAPES: Final[dict[int, tuple[type, ...]]] = {
    HEAD: (int, int, bytes, bytes, bytes),
    JOB: (int, bytes, bytes, bytes, *[int] * 11, tuple),
    JOBS: (int, bytes, *[int] * 10, tuple, tuple, tuple, tuple),
    HOLDERS: (int, bytes, tuple),
    DUMMY: (int, bytes, int),
    ACK: (int, bytes),
    DELETE: (int, bytes),
    SPEND: (int, bytes),
    REQUEUE: (int, bytes, int, int, int),
    PAUSE: (int, bytes, int),
    BCAST: (int, bytes, int, int, bytes),
    KEY: (int, bytes, bytes, int, int, int),
    KEYS: (int, int, int, int, tuple, tuple),
    FLUSH: (int,),
    OFF: (int,),
    CLEAN: (int, tuple),
    END: (int,),
    PARTIAL: (int,),
    WHOLE: (int,),
}
#: The types of one entry in the list of a clean stop.
ENTRY: Final = (bytes, int, int, int, int, int)
FLAGS_MAX: Final = DELIVERED | DEFERRED | SPENT | LEASE_OWNER | BACKUP | REQUEUE_ANNOUNCED | LEASE_RELAYED
#: Nodes that one job may have copies on: all of a cluster, and some that others have named and that nobody met.
HOLDERS_MOST: Final = 10_000


class ReplayError(Exception):
    """A record makes no sense: the journal was not written by this program."""


class NewerError(ReplayError):
    """It was written by a newer one, which can read it."""


def check(record: object) -> tuple[Any, ...]:
    """``record``, if a node of this format can have written it. Raises ReplayError otherwise."""
    if type(record) is not tuple or not record or type(record[0]) is not int:
        raise ReplayError("a record is no list that begins with its kind")
    kind = record[0]
    if kind == HEAD and len(record) > 1 and type(record[1]) is int and record[1] > FORMAT:
        raise NewerError(f"written by a newer program (format {record[1]}, this one knows {FORMAT})")
    if tuple(map(type, record)) != SHAPES.get(kind) or not CHECKS[kind](record):
        raise ReplayError(f"a record of kind {kind} makes no sense")
    return record


def small(numbers: tuple[int, ...]) -> bool:
    """Whether all ``numbers`` are within what a node writes."""
    return min(numbers) >= 0 and max(numbers) < NUMBER_MAX


def is_job(record: tuple[Any, ...]) -> bool:
    """Whether the values of a JOB fit together."""
    _, job_id, _, _, state, flags, _, _, _, _, retry, nacks, deliveries, held_ms, _, holders = record
    return (
        valid(job_id)
        and small(record[4:-1])
        and are_holders(holders)
        and fit(state, flags, retry, nacks, deliveries, held_ms)
    )


def are_jobs(record: tuple[Any, ...]) -> bool:
    """Whether the values of JOBS fit together."""
    _, _, state, flags, repl, left_ms, *times, holders, ids, bodies, ctimes = record
    _, retry, nacks, deliveries, held_ms, _ = times
    if not small((state, flags, repl, *times)) or abs(left_ms) >= NUMBER_MAX or not are_holders(holders):
        return False
    if not ids or not len(ids) == len(bodies) == len(ctimes):
        return False
    if not {bytes}.issuperset(map(type, ids + bodies)) or not {int}.issuperset(map(type, ctimes)):
        return False
    if not all(map(valid, ids)) or not small(ctimes):
        return False
    if min(ctimes) // CTIME_A_MS + left_ms < 0 or max(ctimes) // CTIME_A_MS + left_ms >= NUMBER_MAX:
        return False
    return fit(state, flags, retry, nacks, deliveries, held_ms)


def fit(state: int, flags: int, retry: int, nacks: int, deliveries: int, held_ms: int) -> bool:
    """Whether a job can be as these say."""
    if state > ACKED or flags > FLAGS_MAX:
        return False
    if nacks > COUNTER_MAX or deliveries > COUNTER_MAX or (flags & DEFERRED > 0) != (held_ms > 0):
        return False
    return not (flags & SPENT and (retry or held_ms))


def are_holders(holders: tuple[Any, ...]) -> bool:
    """Whether this is a sorted set of node IDs."""
    if not 1 <= len(holders) <= HOLDERS_MOST or not all(type(one) is bytes and len(one) == 40 for one in holders):
        return False
    return all(first < second for first, second in pairwise(holders))


def is_entry(entry: object) -> bool:
    """Whether the values of one entry in the list of a clean stop fit together."""
    if type(entry) is not tuple or tuple(map(type, entry)) != ENTRY or not small(entry[1:]):
        return False
    job_id, state, flags, requeue_ms, nacks, deliveries = entry
    if not valid(job_id) or state not in {ACTIVE, QUEUED} or flags > FLAGS_MAX or max(nacks, deliveries) > COUNTER_MAX:
        return False
    return not requeue_ms if state == QUEUED or flags & SPENT else True


def is_key(record: tuple[Any, ...]) -> bool:
    """Whether the values of a KEY fit together."""
    _, digest, job_id, expires_ms, life_ms, repl = record
    if len(digest) != DIGEST_BYTES or not valid(job_id) or not small(record[3:]) or repl > REPL_MAX:
        return False
    return bool(expires_ms or life_ms)


def are_keys(record: tuple[Any, ...]) -> bool:
    """Whether the values of KEYS fit together."""
    _, expires_ms, life_ms, repl, digests, ids = record
    if not small((expires_ms, life_ms, repl)) or repl > REPL_MAX or not (expires_ms or life_ms):
        return False
    if not ids or len(ids) != len(digests) or not {bytes}.issuperset(map(type, ids + digests)):
        return False
    return {DIGEST_BYTES}.issuperset(map(len, digests)) and all(map(valid, ids))


#: What must hold for the values of each kind of record.
CHECKS: Final[dict[int, Callable[[tuple[Any, ...]], bool]]] = {
    HEAD: lambda record: 1 <= record[1] <= FORMAT,
    JOB: is_job,
    JOBS: are_jobs,
    ACK: lambda record: valid(record[1]),
    DELETE: lambda record: valid(record[1]),
    HOLDERS: lambda record: valid(record[1]) and are_holders(record[2]),
    DUMMY: lambda record: valid(record[1]) and small(record[2:]),
    SPEND: lambda record: valid(record[1]),
    REQUEUE: lambda record: valid(record[1]) and small(record[2:]) and max(record[2:4]) <= COUNTER_MAX,
    PAUSE: lambda record: 0 <= record[2] < len(PAUSE_NAMES),
    BCAST: lambda record: 0 <= record[2] < len(PAUSE_NAMES) and small(record[3:4]) and len(record[4]) == 40,
    KEY: is_key,
    KEYS: are_keys,
    FLUSH: lambda _: True,
    OFF: lambda _: True,
    CLEAN: lambda record: all(map(is_entry, record[1])),
    END: lambda _: True,
    PARTIAL: lambda _: True,
    WHOLE: lambda _: True,
}
