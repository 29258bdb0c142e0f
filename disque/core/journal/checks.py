"""What a record must look like to be believed: types, ranges, and values that fit together.

The checksums of the frames say that the bytes are those that were written; this says that they were written by a node
of this format. Nothing is taken from a record that fails.
"""

from itertools import pairwise
from typing import Any, Final

from disque.core.journal.schema import CTIME_A_MS
from disque.core.model import extra, spec
from disque.core.model.ends import ENDINGS
from disque.core.model.job import (
    ACKED,
    ACTIVE,
    BACKUP,
    COUNTER_MAX,
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

#: No number in a record is larger: times in ms * 10^6 fit, and nothing that is read runs over when added up.
NUMBER_MAX: Final = 2**62

#: The types of one entry in the list of a clean stop.
ENTRY: Final = (bytes, int, int, int, int, int)
FLAGS_MAX: Final = DELIVERED | DEFERRED | SPENT | LEASE_OWNER | BACKUP | REQUEUE_ANNOUNCED | LEASE_RELAYED
#: Nodes that one job may have copies on: all of a cluster, and some that others have named and that nobody met.
HOLDERS_MOST: Final = 10_000


class ReplayError(Exception):
    """A record makes no sense: the journal was not written by this program."""


class NewerError(ReplayError):
    """It was written by a newer one, which can read it."""


class OlderError(ReplayError):
    """It was written by one so old that this one has forgotten how to read it."""


def small(numbers: tuple[int, ...]) -> bool:
    """Whether all ``numbers`` are within what a node writes."""
    return min(numbers) >= 0 and max(numbers) < NUMBER_MAX


def are_jobs(record: tuple[Any, ...]) -> bool:
    """Whether the values of JOBS fit together."""
    _, _, encoded, state, flags, left_ms, *numbers, holders, ids, bodies, ctimes = record
    said = spec.decode(encoded)
    if said is None or not small((state, flags, *numbers)) or abs(left_ms) >= NUMBER_MAX or not are_holders(holders):
        return False
    if not ids or not len(ids) == len(bodies) == len(ctimes):
        return False
    if not {bytes}.issuperset(map(type, ids + bodies)) or not {int}.issuperset(map(type, ctimes)):
        return False
    if not all(map(valid, ids)) or not small(ctimes):
        return False
    if min(ctimes) // CTIME_A_MS + left_ms < 0 or max(ctimes) // CTIME_A_MS + left_ms >= NUMBER_MAX:
        return False
    _, nacks, deliveries, held_ms = numbers
    return fit(state, flags, said.retry, nacks, deliveries, held_ms)


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


def is_id(record: tuple[Any, ...]) -> bool:
    """Whether the value of a record that is about one job only is the ID of one."""
    return valid(record[1])


def is_anything(record: tuple[Any, ...]) -> bool:
    """A record whose values, if it has any, are right whenever their types are."""
    return bool(record)


def are_holders_of(record: tuple[Any, ...]) -> bool:
    """Whether the values of HOLDERS fit together."""
    return valid(record[1]) and are_holders(record[2])


def is_dummy(record: tuple[Any, ...]) -> bool:
    """Whether the values of a DUMMY fit together."""
    return valid(record[1]) and small(record[2:])


def is_requeue(record: tuple[Any, ...]) -> bool:
    """Whether the values of a REQUEUE fit together."""
    return valid(record[1]) and small(record[2:]) and max(record[2:4]) <= COUNTER_MAX


def is_more(record: tuple[Any, ...]) -> bool:
    """Whether the values of a MORE fit together."""
    return valid(record[1]) and extra.decode(record[2], extra.IN_JOURNAL) is not None


def is_move(record: tuple[Any, ...]) -> bool:
    """Whether the values of a MOVE fit together."""
    _, job_id, _, encoded, expires_ms, held_ms, more = record
    said = spec.decode(encoded)
    if said is None or not valid(job_id) or not small((expires_ms, held_ms)):
        return False
    found = extra.decode(more, extra.IN_JOURNAL)
    return found is not None and found.generation > 0


def is_end(record: tuple[Any, ...]) -> bool:
    """Whether the values of an ENDED fit together."""
    _, job_id, _, status, node_id, tries, strange, ended_ms, until_ms, *_ = record
    if not valid(job_id) or len(node_id) != 40 or status not in ENDINGS or not small((ended_ms, until_ms)):
        return False
    return bool(0 <= tries <= COUNTER_MAX and 0 <= strange <= 1)


def is_kept_by(record: tuple[Any, ...]) -> bool:
    """Whether the values of a KEPTBY fit together."""
    _, job_id, repl, copied, holders = record
    return bool(valid(job_id) and 1 <= repl <= REPL_MAX and 0 <= copied <= 1 and are_holders(holders))


def is_pause(record: tuple[Any, ...]) -> bool:
    """Whether a queue can stand as a PAUSE says."""
    return bool(0 <= record[2] < len(PAUSE_NAMES))


def is_registry_entry(record: tuple[Any, ...]) -> bool:
    """Whether the values of an ENTRY fit together."""
    _, _, _, value, kind, counter, origin, flags = record
    if not small((kind, counter, flags)) or len(origin) != 40 or flags > 3:
        return False
    return not (flags & 1 and value)


def is_purged(record: tuple[Any, ...]) -> bool:
    """Whether a counter of the registry can be so."""
    return small(record[1:])


def is_returned(record: tuple[Any, ...]) -> bool:
    """Whether it says yes or no."""
    return record[1] in {0, 1}


def is_clean(record: tuple[Any, ...]) -> bool:
    """Whether each entry in this part of a clean stop's list makes sense."""
    return all(map(is_entry, record[1]))


def are_keys(record: tuple[Any, ...]) -> bool:
    """Whether the values of KEYS fit together."""
    _, expires_ms, life_ms, repl, digests, ids = record
    if not small((expires_ms, life_ms, repl)) or repl > REPL_MAX or not (expires_ms or life_ms):
        return False
    if not ids or len(ids) != len(digests) or not {bytes}.issuperset(map(type, ids + digests)):
        return False
    return {DIGEST_BYTES}.issuperset(map(len, digests)) and all(map(valid, ids))
