import pickle
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from disque.spark.columns import READABLE, SOURCE
from disque.spark.partitions import (
    PARTITION_BYTES,
    BodyError,
    Claimed,
    JobsPartition,
    batches,
    column,
    light,
    slices,
    split,
    split_ids,
    text,
)

JOBS = [Claimed("mails", f"D-{number}", b"%d" % number, number, 0, number) for number in range(10)]


def test_jobs_are_spread_evenly_in_their_order() -> None:
    parts = split(JOBS, 4)
    assert [len(part) for part in parts] == [3, 3, 3, 1]
    assert [job_id for part in parts for job_id in part.columns[1]] == [job.id for job in JOBS]


def test_there_are_no_more_partitions_than_jobs() -> None:
    assert [len(part) for part in split(JOBS[:2], 4)] == [1, 1]
    assert split([], 4) == []


def test_ids_are_spread_in_the_same_way() -> None:
    ids = [job.id for job in JOBS]
    parts = [pickle.loads(pickle.dumps(part)) for part in split_ids(ids, 4, again=True)]
    assert [len(part.ids) for part in parts] == [3, 3, 3, 1]
    assert {part.again for part in parts} == {True}
    assert [len(part) for part in slices(ids, 20)] == [1] * 10
    assert [part.ids for part in split_ids(ids[:4], 2, again=True, without=ids[:2])] == [(), tuple(ids[2:4])]


def test_heavy_jobs_go_in_more_partitions() -> None:
    heavy = [job._replace(body=bytes(PARTITION_BYTES // 3)) for job in JOBS[:4]]
    assert [len(part) for part in light(heavy)] == [2, 2]
    assert [len(part) for part in split(heavy, 1)] == [2, 2]


def test_a_partition_travels() -> None:
    partition = pickle.loads(pickle.dumps(JobsPartition(JOBS)))
    [found] = batches(partition, READABLE)
    added = datetime(1970, 1, 1, microsecond=3, tzinfo=UTC)
    assert found.to_pylist()[3] == JOBS[3]._asdict() | {"added_at": added}
    assert found.schema.field("nacks").type == pa.int32()


def test_what_is_known_of_few_jobs() -> None:
    job = JOBS[1]._replace(tries=2, headers=(("a", "b"),), error="why", origin="mails")
    [found] = batches(JobsPartition([job, JOBS[2]]), READABLE)
    known, plain = found.to_pylist()
    assert (known["tries"], known["headers"], known["error"], known["origin"]) == (2, [("a", "b")], "why", "mails")
    assert (plain["tries"], plain["headers"], plain["error"]) == (None, None, None)


def test_an_empty_partition_gives_nothing() -> None:
    assert list(batches(JobsPartition([]), SOURCE)) == []


def test_some_columns_in_another_order_with_the_body_as_text() -> None:
    wanted = StructType([StructField("Nacks", IntegerType()), StructField("body", StringType())])
    [found] = batches(JobsPartition(JOBS[:2]), wanted)
    assert found.to_pylist() == [{"Nacks": 0, "body": "0"}, {"Nacks": 1, "body": "1"}]


def test_a_body_that_is_no_text_is_an_error_with_the_id() -> None:
    with pytest.raises(BodyError, match=r"job D-1: the body is not UTF-8"):
        column({"body": (b"\xff",), "id": ("D-1",)}, "body", StringType(), slice(0, 1))
    assert text("ä".encode(), "D-1") == "ä"
