"""Partitions: jobs on their way from the driver, which has claimed them, to the tasks that read them.

In a stream only IDs travel, and tasks fetch the jobs, see `fetching`. In a drain the partitions contain the bodies: a
task that is started again reads the same jobs, whatever happened to them. Such a partition is a list of columns, which
travels faster than a list of jobs.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import BinaryType, DataType, IntegerType, MapType, StringType, StructType, TimestampType

from disque.spark.doors import PlainError
from disque.spark.needs import need

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

#: Spark sends a partition in one message, of 128 MB at most unless told otherwise.
PARTITION_BYTES: Final = 32_000_000
#: Rows of an Arrow batch that a task gives to Spark.
BATCH_ROWS: Final = 10_000


class Claimed(NamedTuple):
    """A job that was claimed. The names are those of the columns."""

    queue: str
    id: str
    body: bytes
    nacks: int
    additional_deliveries: int
    added_at: int | None = None  # microseconds since 1970
    tries: int | None = None
    headers: tuple[tuple[str, str | None], ...] | None = None
    error: str | None = None
    origin: str | None = None


class IdsPartition(InputPartition):
    """The IDs of some jobs. ``again`` if the batch was begun before, by a process that is gone."""

    def __init__(self, ids: Sequence[str], *, again: bool) -> None:
        super().__init__(None)
        self.ids = tuple(ids)
        self.again = again


class JobsPartition(InputPartition):
    """Some jobs, by columns in the order of `Claimed`."""

    def __init__(self, jobs: Sequence[Claimed]) -> None:
        super().__init__(None)
        self.columns = tuple(zip(*jobs, strict=True)) if jobs else ((),) * len(Claimed._fields)

    def __len__(self) -> int:
        return len(self.columns[0])


def slices(items: Sequence[T], wanted: int) -> Iterator[Sequence[T]]:
    """So many parts of the same length, fewer if there is not so much."""
    size = max(1, -(-len(items) // wanted))
    return (items[at : at + size] for at in range(0, len(items), size))


def split(jobs: Sequence[Claimed], wanted: int) -> list[JobsPartition]:
    """Jobs in so many partitions of the same length, fewer if there are not so many jobs, more if they are heavy."""
    return [JobsPartition(part) for one in slices(jobs, wanted) for part in light(one)]


def split_ids(ids: Sequence[str], wanted: int, *, again: bool, without: Collection[str] = ()) -> list[IdsPartition]:
    """The same for jobs that are fetched: whatever becomes of them, each is in the same partition every time.

    The number of the partition is a part of the keys that a sink makes. So what it is ``without`` leaves its place.
    """
    return [IdsPartition([one for one in part if one not in without], again=again) for part in slices(ids, wanted)]


def light(jobs: Sequence[Claimed]) -> Iterator[Sequence[Claimed]]:
    """Halve what is too heavy for one message."""
    if len(jobs) <= 1 or sum(len(job.body) for job in jobs) <= PARTITION_BYTES:
        yield jobs
        return
    half = len(jobs) // 2
    yield from light(jobs[:half])
    yield from light(jobs[half:])


def batches(partition: JobsPartition, schema: StructType) -> "Iterator[pa.RecordBatch]":
    """The jobs of a partition as Spark wants them: the columns of the schema, a body as text if that says so.

    Raises BodyError.
    """
    need("pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - only tasks need Arrow

    types = {
        StringType: pa.string(),
        BinaryType: pa.binary(),
        IntegerType: pa.int32(),
        TimestampType: pa.timestamp("us", "UTC"),
        MapType: pa.map_(pa.string(), pa.string()),
    }
    fields = pa.schema([pa.field(one.name, types[type(one.dataType)]) for one in schema.fields])
    columns = dict(zip(Claimed._fields, partition.columns, strict=True))
    for at in range(0, len(partition), BATCH_ROWS):
        rows = slice(at, at + BATCH_ROWS)
        arrays = [column(columns, one.name.lower(), one.dataType, rows) for one in schema.fields]
        yield pa.RecordBatch.from_arrays(
            [pa.array(values, field.type) for values, field in zip(arrays, fields, strict=True)], schema=fields
        )


class BodyError(PlainError, ValueError):
    """A body that is no text though it shall be read as some."""


def column(columns: dict[str, tuple[object, ...]], name: str, kind: DataType, rows: slice) -> Iterable[object]:
    """Some values of one column."""
    values = columns[name][rows]
    if name != "body" or not isinstance(kind, StringType):
        return values
    return [text(body, job_id) for body, job_id in zip(values, columns["id"][rows], strict=True)]


def text(body: object, job_id: object) -> str:
    """A body as text. Raises BodyError."""
    assert isinstance(body, bytes)
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise BodyError(f"job {job_id}: the body is not UTF-8; read it as binary") from None
