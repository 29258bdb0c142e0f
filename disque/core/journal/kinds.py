"""What the journal knows: a row for each kind of record. `schema` says what stands in each.

A row has the shape of a record and its check, how a start applies it, and for what lasts how it is written again when
its segment is to go, and how it forgets that it has a record when there is no journal any more. What belongs to a part
of the core (jobs, acknowledgements, keys, pauses) stands there; here is what the journal says of itself.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from disque.core.dedup import keys
from disque.core.jobs import history, queues, restore, sessions
from disque.core.journal import checks
from disque.core.journal.checks import NewerError, OlderError, ReplayError
from disque.core.journal.compaction import Copy, Copying
from disque.core.journal.frames import WAY_OUT
from disque.core.journal.recovery import Recovery
from disque.core.journal.schema import (
    ACK,
    CLEAN,
    DELETE,
    DUMMY,
    END,
    ENDED,
    ENTRY,
    FLUSH,
    FORMAT,
    HEAD,
    HISTORY,
    HOLDERS,
    JOBS,
    KEPTBY,
    KEYS,
    MORE,
    MOVE,
    OFF,
    PARTIAL,
    PAUSE,
    PURGED,
    REQUEUE,
    RETURNED,
    SPEND,
    UNEND,
    WHOLE,
)
from disque.core.replication import ends, registry, returned

if TYPE_CHECKING:
    from disque.core.node import Node

Record = tuple[Any, ...]
Check = Callable[[Record], bool]
Apply = Callable[[Recovery, Record, int], None]
Forget = Callable[["Node"], Iterator[None]]


class Kind:
    """One kind of record.

    ``shape`` are the types of what follows the number, ``check`` says whether values of these types fit together.
    ``is_mark``: it says something of the journal, nothing of any job, queue or key.
    """

    __slots__ = ("apply", "check", "copy", "forget", "is_mark", "number", "shape")

    def __init__(
        self,
        number: int,
        shape: tuple[type, ...],
        check: Check,
        apply: Apply,
        *,
        copy: Copy | None = None,
        forget: Forget | None = None,
        is_mark: bool = False,
    ) -> None:
        self.number = number
        self.shape = (int, *shape)
        self.check = check
        self.apply = apply
        self.copy = copy
        self.forget = forget
        self.is_mark = is_mark


# -- what the journal says of itself -----------------------------------------------------------------------------------


def is_head(record: Record) -> bool:
    """Whether a node of this format can have begun a segment so."""
    return bool(record[1] == FORMAT)


def apply_head(recovery: Recovery, record: Record, segment: int) -> None:
    """HEAD: a segment begins. With another boot ID it was a new process, which dropped what it could not be sure of."""
    del segment
    _, _, _, boot_id, policy = record
    if boot_id != recovery.journal_boot_id and not recovery.tail_is_sure(boot_id):
        recovery.drop_unsure()
    recovery.journal_boot_id, recovery.journal_policy = boot_id, policy
    recovery.dropped = 0  # the process that wrote this has told of them


def apply_flush(recovery: Recovery, record: Record, segment: int) -> None:
    """FLUSH: everything before is gone."""
    del record, segment
    recovery.more.clear()
    registry.forget_all(recovery.node)
    sessions.forget_everything(recovery.node)


def apply_off(recovery: Recovery, record: Record, segment: int) -> None:
    """OFF: the journal was switched off: whatever was not delivered yet may have been delivered since."""
    del record, segment
    recovery.drop_unsure()


def apply_partial(recovery: Recovery, record: Record, segment: int) -> None:
    """PARTIAL: the journal was switched on: copies of what was in memory follow, up to WHOLE."""
    del segment
    recovery.incomplete = record[0] == PARTIAL


def apply_clean(recovery: Recovery, record: Record, segment: int) -> None:
    """CLEAN: part of the list of a clean stop."""
    del segment
    for job_id, state, flags, requeue_ms, nacks, deliveries in record[1]:
        recovery.clean[job_id] = (state, flags, requeue_ms, nacks, deliveries)


def apply_end(recovery: Recovery, record: Record, segment: int) -> None:
    """END: the list of a clean stop is complete, if nothing follows."""
    del record, segment
    recovery.clean_ended = True


# -- the table ---------------------------------------------------------------------------------------------------------

KINDS: Final[tuple[Kind, ...]] = (
    Kind(HEAD, (int, bytes, bytes, bytes), is_head, apply_head, is_mark=True),
    Kind(
        JOBS,
        (bytes, bytes, *[int] * 7, tuple, tuple, tuple, tuple),
        checks.are_jobs,
        restore.apply_jobs,
        copy=restore.copy_jobs,
        forget=restore.forget_jobs,
    ),
    Kind(ACK, (bytes,), checks.is_id, restore.apply_ack),
    Kind(DELETE, (bytes,), checks.is_id, restore.apply_delete),
    Kind(SPEND, (bytes,), checks.is_id, restore.apply_spend),
    Kind(REQUEUE, (bytes, int, int, int), checks.is_requeue, restore.apply_requeue),
    Kind(MORE, (bytes, bytes), checks.is_more, restore.apply_more),
    Kind(MOVE, (bytes, bytes, bytes, int, int, bytes), checks.is_move, restore.apply_move),
    Kind(HOLDERS, (bytes, tuple), checks.are_holders_of, restore.apply_holders),
    Kind(
        KEYS,
        (int, int, int, tuple, tuple),
        checks.are_keys,
        keys.apply_keys,
        copy=keys.copy_keys,
        forget=keys.forget_keys,
    ),
    Kind(
        DUMMY,
        (bytes, int),
        checks.is_dummy,
        restore.apply_dummy,
        copy=restore.copy_dummies,
        forget=restore.forget_dummies,
    ),
    Kind(
        ENDED,
        (bytes, bytes, int, bytes, *[int] * 4, bytes, bytes, bytes),
        checks.is_end,
        ends.apply_end,
        copy=ends.copy_ends,
        forget=ends.forget_ends,
    ),
    Kind(UNEND, (bytes,), checks.is_id, ends.apply_unend),
    Kind(KEPTBY, (bytes, int, int, tuple), checks.is_kept_by, ends.apply_kept_by),
    Kind(
        RETURNED,
        (int,),
        checks.is_returned,
        returned.apply_returned,
        copy=returned.copy_returned,
        forget=returned.forget_returned,
    ),
    Kind(
        PAUSE,
        (bytes, int),
        checks.is_pause,
        queues.apply_pause,
        copy=queues.copy_pauses,
        forget=queues.forget_pauses,
    ),
    Kind(
        ENTRY,
        (bytes, bytes, bytes, int, int, bytes, int),
        checks.is_registry_entry,
        registry.apply_entry,
        copy=registry.copy_entries,
        forget=registry.forget_entries,
    ),
    Kind(
        PURGED,
        (int,),
        checks.is_purged,
        registry.apply_purged,
        copy=registry.copy_purged,
        forget=registry.forget_entries,
    ),
    Kind(
        HISTORY,
        (bytes, int, bytes, bytes),
        history.is_history,
        history.apply_history,
        copy=history.copy_histories,
        forget=history.forget_histories,
    ),
    Kind(FLUSH, (), checks.is_anything, apply_flush, is_mark=True),
    Kind(OFF, (), checks.is_anything, apply_off, is_mark=True),
    Kind(CLEAN, (tuple,), checks.is_clean, apply_clean, is_mark=True),
    Kind(END, (), checks.is_anything, apply_end, is_mark=True),
    Kind(PARTIAL, (), checks.is_anything, apply_partial, is_mark=True),
    Kind(WHOLE, (), checks.is_anything, apply_partial, is_mark=True),
)
TABLE: Final[dict[int, Kind]] = {kind.number: kind for kind in KINDS}


def check(record: object) -> Record:
    """``record``, if a node of this format can have written it. Raises ReplayError otherwise."""
    if type(record) is not tuple or not record or type(record[0]) is not int:
        raise ReplayError("a record is not a list that begins with its kind")
    number = record[0]
    if number == HEAD and len(record) > 1 and type(record[1]) is int and record[1] != FORMAT:
        if record[1] > FORMAT:
            raise NewerError(f"written by a newer program (format {record[1]}, this one knows {FORMAT})")
        raise OlderError(f"written by an older program (format {record[1]}, this one knows {FORMAT}): {WAY_OUT}")
    kind = TABLE.get(number)
    if kind is None or tuple(map(type, record)) != kind.shape or not kind.check(record):
        raise ReplayError(f"a record of kind {number} is not valid")
    return record


def begin_copy(node: "Node", upto: int) -> Copying:
    """Begin to write again everything whose newest record is in segment ``upto`` or before."""
    return Copying(node, upto, [kind.copy for kind in KINDS if kind.copy is not None])


def forget_segments(node: "Node") -> Iterator[None]:
    """There is no journal any more: nothing has a record, in steps. Up to the last, ``live`` counts what had one."""
    for kind in KINDS:
        if kind.forget is not None:
            yield from kind.forget(node)
    node.live.clear()
