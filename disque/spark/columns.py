"""The columns that are written and read: names, types, and errors about others before any task starts.

Names are matched in any case, as Spark does. `body` may be called `value`, as in other sinks.
"""

import difflib
from collections.abc import Iterable, Mapping
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    CharType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VarcharType,
    VariantType,
)

from disque.spark.doors import PlainError
from disque.spark.options import ADD, NACK, Options

TEXT: Final = (StringType, VarcharType, CharType, BinaryType)
WHOLE: Final = (ByteType, ShortType, IntegerType, LongType)
NESTED: Final = (StructType, MapType, ArrayType, VariantType)

#: Columns of a job that is added, and what they may be made of.
JOB: Final[dict[str, tuple[type[DataType], ...]]] = {
    "body": TEXT,
    "queue": TEXT,
    "key": TEXT,
    "delay": WHOLE,
    "ttl": WHOLE,
    "retry": WHOLE,
    "replicate": WHOLE,
    "maxlen": WHOLE,
    "tries": WHOLE,
    "backoff": TEXT,
    "deadletter": TEXT,
    "priority": WHOLE,
    "retain": WHOLE,
    "headers": (MapType,),
    "at": (TimestampType,),
}
ALIASES: Final = {"value": "body"}
#: Columns of an answer to a job. Those of a read that mean nothing here may come along.
ANSWER: Final = {"id": TEXT, "delay": WHOLE}
#: What a drain gives unless it is asked for more. All may be NULL for Spark, though none is.
DRAINED: Final = StructType([
    StructField("queue", StringType()),
    StructField("id", StringType()),
    StructField("body", BinaryType()),
    StructField("nacks", IntegerType()),
    StructField("additional_deliveries", IntegerType()),
])  # fmt: skip
#: What a stream gives unless it is asked for more.
SOURCE: Final = StructType([*DRAINED.fields, StructField("added_at", TimestampType())])
#: What can be read.
READABLE: Final = StructType([
    *SOURCE.fields,
    StructField("tries", IntegerType()),
    StructField("headers", MapType(StringType(), StringType())),
    StructField("error", StringType()),
    StructField("origin", StringType()),
])  # fmt: skip

#: What is written to answer.
ANSWERED: Final = StructType([StructField("id", StringType())])


class ColumnError(PlainError, ValueError):
    """Columns that cannot be written, or not be read."""


def job_columns(schema: StructType, options: Options) -> dict[str, int]:
    """Where the columns of jobs are: name to position. Raises ColumnError that says what to write instead."""
    found = positions(schema, JOB, ALIASES)
    if "body" not in found:
        raise ColumnError(f"a column 'body' (or 'value') is required; there {listed(schema.names)}")
    check_types(schema, found, JOB)
    if "queue" not in found and options.queue is None:
        raise ColumnError("name the queue: with the option 'queue', or in a column 'queue'")
    if "at" in found and "delay" in found:
        raise ColumnError("columns 'at' and 'delay' both say when: drop one")
    if "key" in found and not options.deduplicates:
        raise ColumnError("a column 'key' needs dedup=on")
    return found


def answer_columns(schema: StructType, options: Options) -> dict[str, int]:
    """Where ID and delay are. Raises ColumnError."""
    ignored = {name for name in READABLE.names if name not in ANSWER}
    found = positions(schema, {**ANSWER, **dict.fromkeys(ignored, ())}, {})
    if "id" not in found:
        raise ColumnError(f"a column 'id' is required for action={options.action}; there {listed(schema.names)}")
    wanted = {name: at for name, at in found.items() if name in ANSWER}
    check_types(schema, wanted, ANSWER)
    if "delay" in wanted and options.action != NACK:
        raise ColumnError("a column 'delay' is for action=nack and for adding jobs")
    return wanted


def columns_for(use: str, schema: StructType, options: Options) -> dict[str, int]:
    """The columns of a write."""
    return job_columns(schema, options) if use == ADD else answer_columns(schema, options)


def positions(
    schema: StructType, valid: Iterable[str], aliases: Mapping[str, str], done: str = "written"
) -> dict[str, int]:
    """Where each column is, by its proper name. Raises ColumnError for what is unknown or there twice.

    ``done`` is what columns are, for the message: written or read.
    """
    names = {**{name: name for name in valid}, **aliases}
    found: dict[str, int] = {}
    for at, field in enumerate(schema.fields):
        name = names.get(field.name.lower())
        if name is None:
            raise ColumnError(f"unknown column {field.name!r}{suggestion(field.name, names, done)}")
        if name in found:
            raise ColumnError(f"columns {schema.names[found[name]]!r} and {field.name!r} are both the {name}: drop one")
        found[name] = at
    return found


def suggestion(name: str, valid: Iterable[str], done: str) -> str:
    """What was meant, as the end of an error message."""
    near = difflib.get_close_matches(name.lower(), valid, n=1, cutoff=0.5)
    return f": did you mean {near[0]!r}?" if near else f": only {', '.join(sorted(valid))} can be {done}"


def listed(names: list[str]) -> str:
    """What columns there are, for a message."""
    return f"are {', '.join(map(repr, names))}" if names else "are none"


def check_types(schema: StructType, found: Mapping[str, int], valid: Mapping[str, tuple[type[DataType], ...]]) -> None:
    """Raise ColumnError for a column that is not of a type that can be written, with what to do about it."""
    for name, at in found.items():
        field = schema.fields[at]
        if not isinstance(field.dataType, valid[name]) or not is_flat(field.dataType):
            raise ColumnError(f"column {field.name!r} is {field.dataType.simpleString()}: {advice(field, valid[name])}")


def is_flat(kind: DataType) -> bool:
    """Whether what may be a map is one of texts."""
    if not isinstance(kind, MapType):
        return True
    return isinstance(kind.keyType, StringType) and isinstance(kind.valueType, TEXT)


def advice(field: StructField, wanted: tuple[type[DataType], ...]) -> str:
    """What to make of a column of the wrong type."""
    if MapType in wanted:
        return f"it must be map<string,string> or map<string,binary>, for example {as_headers(field)}"
    if TimestampType in wanted:
        return f"it must be a timestamp, for example CAST({field.name} AS TIMESTAMP)"
    if wanted is WHOLE:
        return f"it must be a whole number, for example CAST({field.name} AS INT)"
    if isinstance(field.dataType, NESTED):
        return f"a job is text or bytes, so make text of it: to_json({field.name})"
    return f"it must be string or binary, for example CAST({field.name} AS STRING)"


def as_headers(field: StructField) -> str:
    """An expression that makes headers of a column, and that Spark takes for its type."""
    match field.dataType:
        case MapType() | NullType():
            return f"CAST({field.name} AS MAP<STRING,STRING>)"
        case StructType():
            return f"from_json(to_json({field.name}), 'MAP<STRING,STRING>')"
        case StringType():
            return f"from_json({field.name}, 'MAP<STRING,STRING>') if it is a JSON object"
        case _:
            return f"map('name', CAST({field.name} AS STRING))"


def source_schema(wanted: StructType) -> StructType:
    """Check a schema that a user gives for reading: some of the columns, the body as string or binary.

    Raises ColumnError.
    """
    positions(wanted, READABLE.names, {}, "read")
    for field in wanted.fields:
        given = READABLE[field.name.lower()].dataType
        text_body = field.name.lower() == "body" and field.dataType == StringType()
        if field.dataType != given and not text_body:
            raise ColumnError(f"column {field.name!r} is {given.simpleString()}, not {field.dataType.simpleString()}")
        if not field.nullable:  # Spark would refuse what the tasks give
            raise ColumnError(f"column {field.name!r} is NOT NULL: leave that away, what is read may be NULL for Spark")
    return wanted
