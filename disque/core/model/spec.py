"""What the jobs of a queue have in common: one small object for all of them.

Nearly all jobs of a queue were added by the same producers with the same options. What these say - TTL, RETRY and
REPLICATE - and the name of the queue would stand in each job by the million, so they stand in one object, the spec, to
which the jobs point.

A queue remembers the spec that came last and a few before it, so two or three kinds of jobs that take turns share
theirs as well. Only where nearly every job is different, by a TTL counted down for each, has each job an object of its
own: some 100 bytes more than if its numbers were in the job.

`TABLE` has a row for each option. Between nodes and in the journal a spec is one byte string: a msgpack map of the
numbers of the rows, in ascending order, to their values, without those that have the default. So equal specs are equal
bytes, and whoever receives one that is known compares bytes, no more. A row that the table does not have comes from a
newer node. It is kept as it is, and passed on with the job.
"""

from typing import Final

from msgpack import Packer, unpackb
from mypy_extensions import i32, mypyc_attr

from disque.core.base.numbers import SECONDS_MAX
from disque.core.model.figures import Figures

#: So many specs does one queue remember.
SPECS_MOST: Final = 4
#: Bytes of an encoded spec. What is longer is refused, so nobody can have a job cost much more than is counted for it.
ENCODED_MOST: Final = 1024
#: Encoded specs that were read, with what stands in them: they are looked up when they come again.
READ_MOST: Final = 1024
#: So many rows has one at most, and their numbers are below.
ROWS_MOST: Final = 32
NUMBERS_MOST: Final = 1 << 16
#: So many of them are of newer nodes, with so many bytes: beside them there is room for all values of the others.
NEWER_MOST: Final = 16
NEWER_BYTES: Final = 256
#: What one counts for, beside the length of a byte string: its number and a number take that much at most.
VALUE_BYTES: Final = 12

#: A whole number or a byte string.
Value = int | bytes
#: Values by number of the row.
Rows = dict[int, Value]


class Row:
    """One option.

    ``number`` stands for it in encoded specs, and ``default`` is meant where they have no value for it: both for ever.
    ``least`` and ``most`` bound a number, or the length of a byte string. Other values are refused.
    """

    __slots__ = ("default", "least", "most", "name", "number")

    def __init__(self, number: int, name: str, default: Value, least: int, most: int) -> None:
        self.number = number
        self.name = name
        self.default = default
        self.least = least
        self.most = most

    def fits(self, value: Value) -> bool:
        """Whether the option can have this value."""
        size = len(value) if isinstance(value, bytes) else value
        return type(value) is type(self.default) and self.least <= size <= self.most


#: In seconds. How long the job lives.
TTL: Final = Row(1, "ttl", 86_400, 1, SECONDS_MAX)
#: In seconds. How long after a delivery it is queued again; 0: never.
RETRY: Final = Row(2, "retry", 300, 0, SECONDS_MAX)
#: How many nodes were to have a copy when it was added.
REPL: Final = Row(3, "repl", 1, 1, 65_535)
#: Those with a higher one leave their queue first.
PRIORITY: Final = Row(4, "priority", 0, 0, 255)
#: How often it is tried before it becomes a dead letter; 0: without end.
TRIES: Final = Row(5, "tries", 0, 0, 65_535)
#: How long it is held back after a failure: see `model.backoff`.
BACKOFF: Final = Row(6, "backoff", b"", 0, 64)
#: In seconds. How long its end is kept.
RETAIN: Final = Row(7, "retain", 0, 0, 31_536_000)
#: The queue of its dead letters behind "=", or "=" alone for none; nothing: that of its queue with ":dead".
DEADLETTER: Final = Row(8, "deadletter", b"", 0, 513)

#: The options by number. The first three are attributes of a `JobSpec`, all others are read by `number` and `text`.
TABLE: Final[dict[int, Row]] = {
    row.number: row for row in (TTL, RETRY, REPL, PRIORITY, TRIES, BACKOFF, RETAIN, DEADLETTER)
}


#: What specs count into that no cache knows: nobody reads it.
_UNREAD: Final = Figures()


@mypyc_attr(acyclic=True)
class JobSpec:
    """What a job has in common with others: queue, TTL and RETRY in seconds, how many copies were asked for.

    ``rows`` are the values of all other options, those that are not known here among them; None where there are none.
    It never changes. ``figures`` are those of the queue, one object for all specs of a `SpecCache`.
    """

    __slots__ = ("_encoded", "figures", "queue", "repl", "retry", "rows", "ttl")

    def __init__(
        self, queue: bytes, ttl: int, retry: int, repl: int, rows: Rows | None = None, encoded: bytes = b""
    ) -> None:
        self.queue = queue
        self.ttl = ttl
        self.retry = retry
        self.repl = repl
        self.rows = rows
        self.figures = _UNREAD
        self._encoded = encoded

    @property
    def encoded(self) -> bytes:
        """All of it but the queue, as nodes and the journal say it. It is made when somebody needs it, once."""
        if not self._encoded:
            self._encoded = encode(self.ttl, self.retry, self.repl, self.rows)
        return self._encoded

    def number(self, row: Row) -> int:
        """The value of an option that is a number, and not one of the first three."""
        found = self._value(row)
        assert isinstance(found, int)
        return found

    def text(self, row: Row) -> bytes:
        """The value of an option that is a byte string."""
        found = self._value(row)
        assert isinstance(found, bytes)
        return found

    def _value(self, row: Row) -> Value:
        assert row.number > REPL.number
        return row.default if self.rows is None else self.rows.get(row.number, row.default)

    def says(self, ttl: int, retry: int, repl: int) -> bool:
        """Whether these are the numbers, and nothing else is said."""
        return self.ttl == ttl and self.retry == retry and self.repl == repl and self.rows is None

    def equals(self, other: "JobSpec") -> bool:
        """Whether the other object says the same."""
        if self is other:
            return True
        numbers = self.ttl == other.ttl and self.retry == other.retry and self.repl == other.repl
        return numbers and self.queue == other.queue and self.rows == other.rows


@mypyc_attr(acyclic=True)
class SpecCache:
    """The specs that are usual in one queue. ``last`` is the one that was wanted last."""

    __slots__ = ("_next", "_ring", "last")

    def __init__(self, first: JobSpec) -> None:
        if first.figures is _UNREAD:
            first.figures = Figures()
        self.last = first
        #: All that are remembered, from the second on: most queues know one. `_next` is to be replaced next.
        self._ring: list[JobSpec] | None = None
        self._next: i32 = 0

    def spec(self, ttl: int, retry: int, repl: int) -> JobSpec:
        """The one object for these numbers and nothing else; a new one if it is not remembered."""
        last = self.last
        if last.says(ttl, retry, repl):
            return last
        ring = self._ring
        if ring is not None:
            for known in ring:
                if known.says(ttl, retry, repl):
                    self.last = known
                    return known
        return self._remember(JobSpec(last.queue, ttl, retry, repl))

    def read(self, encoded: bytes) -> JobSpec | None:
        """The one object for this encoded spec; a new one if it is not remembered; None for what is none."""
        last = self.last
        if last.encoded == encoded:
            return last
        ring = self._ring
        if ring is not None:
            for known in ring:
                if known.encoded == encoded:
                    self.last = known
                    return known
        new = read(last.queue, encoded)
        return None if new is None else self._remember(new)

    def _remember(self, new: JobSpec) -> JobSpec:
        new.figures = self.last.figures
        ring = self._ring
        if ring is None:
            ring = self._ring = [self.last]
        if len(ring) < SPECS_MOST:
            ring.append(new)
        else:
            ring[self._next] = new
            self._next = (self._next + 1) % SPECS_MOST
        self.last = new
        return new


# -- bytes -------------------------------------------------------------------------------------------------------------

_packer: Final = Packer(use_bin_type=True)


class Said:
    """What stands in an encoded spec, whatever the queue."""

    __slots__ = ("encoded", "repl", "retry", "rows", "ttl")

    def __init__(self, encoded: bytes, ttl: int, retry: int, repl: int, rows: Rows | None) -> None:
        self.encoded = encoded
        self.ttl = ttl
        self.retry = retry
        self.repl = repl
        self.rows = rows


#: Those that were read, by what they were encoded as.
_said: Final[dict[bytes, Said]] = {}


def encode(ttl: int, retry: int, repl: int, rows: Rows | None) -> bytes:
    """The bytes for these values; ``rows`` are those of the options behind the first three."""
    values: Rows = {TTL.number: ttl, RETRY.number: retry, REPL.number: repl}
    if rows is not None:
        values.update(rows)
    return _pack(values)


def _pack(values: Rows) -> bytes:
    said: Rows = {}
    for number in sorted(values):
        row = TABLE.get(number)
        value = values[number]
        if row is None or value != row.default:
            said[number] = value
    packed: bytes = _packer.pack(said)
    return packed


def read(queue: bytes, encoded: bytes) -> JobSpec | None:
    """A new object for what ``encoded`` says of jobs of this queue; None if no node makes these bytes."""
    said = decode(encoded)
    return None if said is None else JobSpec(queue, said.ttl, said.retry, said.repl, said.rows, said.encoded)


def decode(encoded: bytes) -> Said | None:
    """What ``encoded`` says; None if no node makes these bytes."""
    if len(encoded) > ENCODED_MOST:
        return None  # not even looked up: that goes over all of it
    said = _said.get(encoded)
    if said is None:
        said = _decode(encoded)
        if said is not None:
            if len(_said) >= READ_MOST:
                _said.clear()
            _said[encoded] = said
    return said


def _decode(encoded: bytes) -> Said | None:
    values = _unpack(encoded)
    if values is None or _pack(values) != encoded:
        return None
    ttl = values.pop(TTL.number, TTL.default)
    retry = values.pop(RETRY.number, RETRY.default)
    repl = values.pop(REPL.number, REPL.default)
    assert isinstance(ttl, int)
    assert isinstance(retry, int)
    assert isinstance(repl, int)
    return Said(encoded, ttl, retry, repl, values or None)


def _unpack(encoded: bytes) -> Rows | None:
    """The values, each as its row allows; None if they are not."""
    try:
        found: object = unpackb(
            encoded,
            use_list=False,
            strict_map_key=False,
            max_map_len=ROWS_MOST,
            max_array_len=0,
            max_str_len=0,
            max_ext_len=0,
        )
    except Exception:  # noqa: BLE001 - whatever the decoder says, it is garbage
        return None
    if not isinstance(found, dict):
        return None
    values: Rows = {}
    newer = size = 0
    for number, value in found.items():
        if type(number) is not int or not 0 < number < NUMBERS_MOST or type(value) not in {int, bytes}:
            return None
        row = TABLE.get(number)
        if row is None:
            newer += 1
            size += VALUE_BYTES + (len(value) if isinstance(value, bytes) else 0)
        elif not row.fits(value):
            return None
        values[number] = value
    return None if newer > NEWER_MOST or size > NEWER_BYTES else values
