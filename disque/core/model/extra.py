"""What few jobs have beyond their fields: headers, tries that ended, the last error, and where the job came from.

A job with any of it has the flag EXTRA, and an `Extra` in a table beside the jobs. So a plain job pays nothing.

Between nodes and in the journal an extra is one byte string: a msgpack map of row numbers to values, in ascending
order, without those that have the default. Rows that are not known here come from a newer node: they are kept, and
passed on with the job.

A job *moves* when it is put into another queue for good: as a dead letter, by MOVE, or back by REVIVE. Each move begins
a *generation*. Of two moves of one job one wins at all nodes alike: see `Extra.beats`.
"""

from typing import TYPE_CHECKING, Final

from msgpack import Packer, unpackb
from mypy_extensions import mypyc_attr

from disque.core.model.job import COUNTER_MAX, EXTRA
from disque.core.model.memory import EXTRA_BYTES
from disque.core.model.part import Part
from disque.core.model.spec import ENCODED_MOST, VALUE_BYTES

if TYPE_CHECKING:
    from disque.core.model.job import Job

#: The rows. Their numbers are for ever.
HEADERS: Final = 1
TRIES: Final = 2
ERROR: Final = 3
ERROR_AGE_MS: Final = 4
GENERATION: Final = 5
MOVER: Final = 6
ORIGIN: Final = 7
DIED: Final = 8
FIRST: Final = 9
ERROR_MS: Final = 10
PROGRESS: Final = 11
PROGRESS_AGE_MS: Final = 12
PROGRESS_MS: Final = 13

#: In place of the time: in the journal, node time stands as it is.
IN_JOURNAL: Final = -1

#: Bounds of headers: how many, bytes of a name, bytes of all names and values together.
HEADERS_MOST: Final = 64
HEADER_NAME_MOST: Final = 128
HEADERS_BYTES: Final = 1 << 16
#: Bytes of an error text: what is longer is cut.
ERROR_MOST: Final = 4096
#: Bytes of what a consumer says of its progress.
PROGRESS_MOST: Final = 1024
#: How often a job can move.
GENERATION_MOST: Final = 1 << 40
#: Bytes of the name of a queue that a dead letter knows as its origin. From one with a longer name it has none.
ORIGIN_MOST: Final = 4096
#: An encoded extra that is longer is refused.
ENCODED_BYTES: Final = 1 << 20
ROWS_MOST: Final = 32
#: So many rows are of newer nodes, with so many bytes: beside them there is room for all that is ever said here.
NEWER_MOST: Final = 16
NEWER_BYTES: Final = 4096
NUMBERS_MOST: Final = 1 << 16
AGE_MOST: Final = 1 << 43

#: What can stand in each row, and the greatest number or length of it.
BOUNDS: Final[dict[int, tuple[type, int]]] = {
    HEADERS: (tuple, 2 * HEADERS_MOST),
    TRIES: (int, COUNTER_MAX),
    ERROR: (bytes, ERROR_MOST),
    ERROR_AGE_MS: (int, AGE_MOST),
    ERROR_MS: (int, AGE_MOST),
    PROGRESS: (bytes, PROGRESS_MOST),
    PROGRESS_AGE_MS: (int, AGE_MOST),
    PROGRESS_MS: (int, AGE_MOST),
    GENERATION: (int, GENERATION_MOST),
    MOVER: (bytes, 40),
    ORIGIN: (bytes, ENCODED_BYTES),
    DIED: (int, COUNTER_MAX),
    FIRST: (bytes, ENCODED_MOST),
}

#: Rows that must not be there: in the journal, and between nodes.
WRONG_TIMES: Final = (frozenset({ERROR_AGE_MS, PROGRESS_AGE_MS}), frozenset({ERROR_MS, PROGRESS_MS}))

#: Why a job died, by number.
DIED_TRIES: Final = 1
DIED_NACK: Final = 2
DIED_RETURNED: Final = 3
CAUSES: Final = (b"", b"tries", b"nack", b"returned")

#: Names and values in turn.
Headers = tuple[bytes, ...]
Value = int | bytes | Headers

_packer: Final = Packer(use_bin_type=True)


@mypyc_attr(acyclic=True)
class Extra:
    """The extra of one job.

    ``tries`` are those that have ended in this generation. ``error`` is the last text that a consumer gave, at node
    time ``error_ms``, ``progress`` what one said of its work, at ``progress_ms``. ``generation`` counts the moves,
    ``mover`` is the node of the last one. Of a dead letter ``origin`` is the queue where it died, ``died`` why, and
    ``first`` its encoded spec there. ``sure`` are the nodes that have confirmed this generation, with the start number
    of their process. ``other`` are rows of newer nodes.
    """

    __slots__ = (
        "died",
        "error",
        "error_ms",
        "first",
        "generation",
        "headers",
        "mover",
        "origin",
        "other",
        "progress",
        "progress_ms",
        "sure",
        "tries",
    )

    def __init__(self) -> None:
        self.headers: Headers = ()
        self.tries = 0
        self.error = b""
        self.error_ms = 0
        self.progress = b""
        self.progress_ms = 0
        self.generation = 0
        self.mover = b""
        self.origin = b""
        self.died = 0
        self.first = b""
        self.sure: dict[bytes, int] | None = None
        self.other: dict[int, Value] | None = None

    def beats(self, queue: bytes, other: "Extra", other_queue: bytes) -> bool:
        """Whether this move of a job into ``queue`` wins against another one: at all nodes alike."""
        if self.generation != other.generation:
            return self.generation > other.generation
        return (queue, self.mover) < (other_queue, other.mover)

    def size(self) -> int:
        """Bytes of memory that it counts for."""
        texts = sum([len(word) for word in self.headers]) + len(self.error) + len(self.origin) + len(self.first)
        newer = 0 if self.other is None else sum([size_of(value) for value in self.other.values()])
        return EXTRA_BYTES + 40 * len(self.headers) + texts + len(self.progress) + newer

    def copied(self) -> "Extra":
        """Another one that says the same."""
        other = Extra()
        other.take_move(self)
        other.headers = self.headers
        other.progress, other.progress_ms = self.progress, self.progress_ms
        other.sure = self.sure
        other.other = self.other
        return other

    @property
    def is_dead(self) -> bool:
        """Whether the job is a dead letter."""
        return self.died != 0

    def take_move(self, newer: "Extra") -> None:
        """Be of the generation of ``newer``; headers stay, and so does an error that is later than its own."""
        self.tries = newer.tries
        self.generation = newer.generation
        self.mover = newer.mover
        self.origin = newer.origin
        self.died = newer.died
        self.first = newer.first
        self.sure = None
        if newer.error_ms > self.error_ms:
            self.error, self.error_ms = newer.error, newer.error_ms


# -- bytes -------------------------------------------------------------------------------------------------------------


def encode(extra: Extra, now_ms: int) -> bytes:
    """What nodes say of it at ``now_ms``, or the journal (IN_JOURNAL)."""
    rows: dict[int, Value] = dict(extra.other) if extra.other is not None else {}
    if extra.headers:
        rows[HEADERS] = extra.headers
    if extra.tries:
        rows[TRIES] = extra.tries
    if extra.error:
        rows[ERROR] = extra.error
        if now_ms < 0:
            rows[ERROR_MS] = extra.error_ms
        else:
            rows[ERROR_AGE_MS] = max(0, now_ms - extra.error_ms)
    if extra.progress:
        rows[PROGRESS] = extra.progress
        if now_ms < 0:
            rows[PROGRESS_MS] = extra.progress_ms
        else:
            rows[PROGRESS_AGE_MS] = max(0, now_ms - extra.progress_ms)
    if extra.generation:
        rows[GENERATION] = extra.generation
        rows[MOVER] = extra.mover
    if extra.died:
        rows[ORIGIN] = extra.origin
        rows[DIED] = extra.died
        rows[FIRST] = extra.first
    packed: bytes = _packer.pack({number: rows[number] for number in sorted(rows)})
    return packed


def decode(encoded: bytes, now_ms: int) -> Extra | None:
    """What ``encoded`` says, at ``now_ms`` or in the journal; None if no node makes these bytes."""
    rows = _unpack(encoded)
    if rows is None or not WRONG_TIMES[now_ms >= 0].isdisjoint(rows):
        return None
    extra = Extra()
    headers = rows.pop(HEADERS, ())
    assert isinstance(headers, tuple)
    extra.headers = headers
    extra.tries = _number(rows, TRIES)
    extra.error = _text(rows, ERROR)
    extra.progress = _text(rows, PROGRESS)
    if now_ms < 0:
        error_ms, progress_ms = _number(rows, ERROR_MS), _number(rows, PROGRESS_MS)
    else:
        error_ms = max(0, now_ms - _number(rows, ERROR_AGE_MS))
        progress_ms = max(0, now_ms - _number(rows, PROGRESS_AGE_MS))
    # A time without its text means nothing, and no newer node has said it.
    extra.error_ms = error_ms if extra.error else 0
    extra.progress_ms = progress_ms if extra.progress else 0
    extra.generation = _number(rows, GENERATION)
    extra.mover = _text(rows, MOVER)
    origin, first, extra.died = _text(rows, ORIGIN), _text(rows, FIRST), _number(rows, DIED)
    if extra.died and len(origin) <= ORIGIN_MOST:
        extra.origin, extra.first = origin, first
    extra.other = rows or None
    is_sound = are_headers(headers) and len(extra.mover) == (40 if extra.generation else 0)
    return extra if is_sound else None


def is_sound(encoded: bytes) -> bool:
    """Whether a node can have said this."""
    return not encoded or decode(encoded, 0) is not None


def _number(rows: dict[int, Value], row: int) -> int:
    value = rows.pop(row, 0)
    assert isinstance(value, int)
    return value


def _text(rows: dict[int, Value], row: int) -> bytes:
    value = rows.pop(row, b"")
    assert isinstance(value, bytes)
    return value


def are_headers(words: Headers) -> bool:
    """Whether a job can have these headers: names and values in turn."""
    if len(words) % 2 or len(words) > 2 * HEADERS_MOST or sum([len(word) for word in words]) > HEADERS_BYTES:
        return False
    return all(0 < len(name) <= HEADER_NAME_MOST for name in words[::2])


def _unpack(encoded: bytes) -> dict[int, Value] | None:
    """The values by row; None if this is no such map."""
    if len(encoded) > ENCODED_BYTES:
        return None
    try:
        found: object = unpackb(
            encoded,
            use_list=False,
            strict_map_key=False,
            max_map_len=ROWS_MOST,
            max_array_len=2 * HEADERS_MOST,
            max_str_len=0,
            max_ext_len=0,
        )
    except Exception:  # noqa: BLE001 - whatever the decoder says, it is garbage
        return None
    if not isinstance(found, dict):
        return None
    rows: dict[int, Value] = {}
    for number, value in found.items():
        if type(number) is not int or not 0 < number < NUMBERS_MOST or not _fits(number, value):
            return None
        rows[number] = value
    newer = [size_of(value) for number, value in rows.items() if number not in BOUNDS]
    return None if len(newer) > NEWER_MOST or sum(newer) > NEWER_BYTES else rows


def size_of(value: Value) -> int:
    """Bytes of a row, at most."""
    if isinstance(value, int):
        return VALUE_BYTES
    if isinstance(value, bytes):
        return VALUE_BYTES + len(value)
    return VALUE_BYTES + sum([VALUE_BYTES + len(word) for word in value])


def _fits(number: int, value: object) -> bool:
    """Whether this can stand in a row."""
    if isinstance(value, tuple):
        if any(type(word) is not bytes for word in value):
            return False
    elif type(value) is not bytes and type(value) is not int:
        return False
    if number not in BOUNDS:
        return True
    kind, most = BOUNDS[number]
    size = value if isinstance(value, int) else len(value)
    return type(value) is kind and 0 <= size <= most


# -- the table ---------------------------------------------------------------------------------------------------------


class Extras(Part):
    """The extras of a node, by the ID of the job."""

    __slots__ = ("by_id",)

    def __init__(self) -> None:
        self.by_id: dict[bytes, Extra] = {}

    def drop_job(self, job: "Job") -> int:
        """A job is gone or done: its extra goes with it."""
        if not job.flags & EXTRA:
            return 0
        job.flags &= ~EXTRA
        extra = self.by_id.pop(job.id, None)
        return 0 if extra is None else extra.size()

    def clear(self) -> None:
        """All are forgotten."""
        self.by_id.clear()

    def cost(self) -> int:
        """Bytes of memory that they count for."""
        return sum([extra.size() for extra in self.by_id.values()])
