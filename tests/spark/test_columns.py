from typing import Final

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
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
)

from disque.spark.columns import (
    READABLE,
    SOURCE,
    ColumnError,
    answer_columns,
    columns_for,
    job_columns,
    source_schema,
)
from disque.spark.options import ADD, ANSWER, Options
from tests.spark.support import options

NACK = Options(action="nack")
ACK = Options(action="ack")


TYPES: Final[dict[str, DataType]] = {
    "string": StringType(),
    "binary": BinaryType(),
    "smallint": ShortType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "struct": StructType().add("a", IntegerType()),
    "map": MapType(StringType(), StringType()),
    "numbers": MapType(StringType(), IntegerType()),
    "timestamp": TimestampType(),
    "void": NullType(),
    "array": ArrayType(IntegerType()),
}


def schema(text: str) -> StructType:
    """A schema out of "name type, name type"."""
    return StructType([StructField(name, TYPES[kind]) for name, kind in map(str.split, text.split(", "))])


def refusal(text: str, given: Options | None = None) -> str:
    with pytest.raises(ColumnError) as caught:
        job_columns(schema(text), given or options())
    return str(caught.value)


class TestJobs:
    def test_all_columns_in_any_order_and_case(self) -> None:
        found = job_columns(schema("TTL bigint, body binary, Queue string, delay smallint"), options())
        assert found == {"ttl": 0, "body": 1, "queue": 2, "delay": 3}

    def test_the_body_may_be_called_value(self) -> None:
        assert job_columns(schema("value string"), options()) == {"body": 0}

    def test_both_names_of_the_body_are_one_too_many(self) -> None:
        assert "'body' and 'value' are both the body" in refusal("body string, value string")

    def test_without_a_body(self) -> None:
        assert refusal("queue string") == "a column 'body' (or 'value') is required; there are 'queue'"

    def test_an_unknown_column_is_refused_with_the_nearest(self) -> None:
        assert refusal("body string, dely int") == "unknown column 'dely': did you mean 'delay'?"
        every = (
            "at, backoff, body, deadletter, delay, headers, key, maxlen, priority, queue, replicate, retain, retry, "
            "tries, ttl"
        )
        assert refusal("body string, xyzzy int").endswith(f"only {every}, value can be written")

    @pytest.mark.parametrize("kind", ["struct", "map", "array"])
    def test_a_nested_body_is_refused_with_the_advice_to_make_json_of_it(self, kind: str) -> None:
        assert "to_json(body)" in refusal(f"body {kind}")

    def test_other_types_of_a_body_are_told_to_be_cast(self) -> None:
        assert "CAST(body AS STRING)" in refusal("body int")
        assert "CAST(delay AS INT)" in refusal("body string, delay string")

    def test_what_few_jobs_have(self) -> None:
        found = job_columns(schema("body string, Tries int, backoff string, headers map, at timestamp"), options())
        assert found == {"body": 0, "tries": 1, "backoff": 2, "headers": 3, "at": 4}
        assert "map<string,binary>" in refusal("body string, headers string")
        assert "map<string,binary>" in refusal("body string, headers numbers")
        assert "CAST(at AS TIMESTAMP)" in refusal("body string, at bigint")
        assert refusal("body string, trys int") == "unknown column 'trys': did you mean 'tries'?"
        assert "'at' and 'delay' both say when" in refusal("body string, at timestamp, delay int")

    @pytest.mark.parametrize(
        ("kind", "expression"),
        [
            ("numbers", "CAST(Headers AS MAP<STRING,STRING>)"),
            ("void", "CAST(Headers AS MAP<STRING,STRING>)"),
            ("struct", "from_json(to_json(Headers), 'MAP<STRING,STRING>')"),
            ("string", "from_json(Headers, 'MAP<STRING,STRING>') if it is a JSON object"),
            ("int", "map('name', CAST(Headers AS STRING))"),
        ],
    )
    def test_headers_of_another_type_are_told_how_to_be_a_map(self, kind: str, expression: str) -> None:
        assert refusal(f"body string, Headers {kind}").endswith(f", for example {expression}")

    def test_a_queue_must_be_named_somewhere(self) -> None:
        assert "name the queue" in refusal("body string", Options())
        assert job_columns(schema("body string, queue string"), Options())

    def test_a_key_needs_deduplication(self) -> None:
        assert "needs dedup=on" in refusal("body string, key string", options(dedup="off"))


class TestAnswers:
    def test_what_was_read_may_come_along(self) -> None:
        assert answer_columns(SOURCE, ACK) == answer_columns(READABLE, ACK) == {"id": 1}

    def test_a_delay_is_for_nack(self) -> None:
        assert answer_columns(schema("id string, delay int"), NACK) == {"id": 0, "delay": 1}
        with pytest.raises(ColumnError, match="action=nack"):
            answer_columns(schema("id string, delay int"), ACK)

    def test_without_an_id(self) -> None:
        with pytest.raises(ColumnError, match="'id' is required for action=ack"):
            answer_columns(schema("queue string"), ACK)

    def test_the_use_decides(self) -> None:
        assert columns_for(ANSWER, schema("id string"), ACK) == {"id": 0}
        assert columns_for(ADD, schema("body string"), options()) == {"body": 0}


class TestReads:
    def test_some_columns_and_the_body_as_text(self) -> None:
        wanted = schema("body string, ID string")
        assert source_schema(wanted) is wanted

    def test_what_is_known_of_few_jobs_must_be_named(self) -> None:
        wanted = schema("id string, tries int, headers map, error string, origin string")
        assert source_schema(wanted) is wanted
        assert not {"tries", "headers", "error", "origin"} & {*SOURCE.names}
        with pytest.raises(ColumnError, match="did you mean 'origin'"):
            source_schema(schema("orign string"))
        with pytest.raises(ColumnError, match="'headers' is map<string,string>"):
            source_schema(schema("headers numbers"))

    def test_what_must_not_be_null_is_refused(self) -> None:
        with pytest.raises(ColumnError, match="column 'id' is NOT NULL: leave that away"):
            source_schema(StructType([StructField("id", StringType(), nullable=False)]))

    def test_others_are_refused(self) -> None:
        with pytest.raises(ColumnError, match="did you mean 'nacks'"):
            source_schema(schema("nack int"))
        with pytest.raises(ColumnError, match="'nacks' is int, not string"):
            source_schema(schema("nacks string"))
        with pytest.raises(ColumnError, match=r"nacks, origin, queue, tries can be read$"):
            source_schema(schema("xyzzy int"))
