import pickle
import subprocess
import sys

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StringType, StructType

import pyspark_disque
from disque.spark import DisqueDataSource, register
from disque.spark.columns import SOURCE, ColumnError
from disque.spark.options import OptionError
from tests.end_to_end.node import ROOT

BODY = StructType().add("body", StringType())


def source(**given: str) -> DisqueDataSource:
    return DisqueDataSource({"hosts": "h:1", **given})


def test_its_name_and_columns() -> None:
    assert DisqueDataSource.name() == "disque"
    assert source().schema().names == ["queue", "id", "body", "nacks", "additional_deliveries", "added_at"]
    assert source(maxJobs="1", queue="q").schema().names[-1] == "additional_deliveries"
    assert source(action="nack").schema().names == ["id"]


def test_nothing_is_connected_before_there_is_work() -> None:
    found = source(queue="q")
    for part in (
        found.writer(BODY, overwrite=False),
        found.streamWriter(BODY, overwrite=False),
        found.streamReader(SOURCE),
        source(queue="q", maxJobs="1").reader(SOURCE),
    ):
        assert pickle.loads(pickle.dumps(part)) is not None


def test_wrong_options_and_columns_fail_the_plan() -> None:
    with pytest.raises(OptionError, match="did you mean 'queue'"):
        source(queu="q").writer(BODY, overwrite=False)
    with pytest.raises(ColumnError, match="'id' is required"):
        source(action="ack").writer(BODY, overwrite=False)
    with pytest.raises(OptionError, match="maxJobs"):
        source(queue="q").reader(SOURCE)
    with pytest.raises(OptionError, match="did you mean 'maxJobsPerTrigger'"):
        source(queue="q", maxJobPerTrigger="5").schema()


def test_what_is_wrong_with_a_stream_is_said_by_its_reader() -> None:
    for reader, message in (
        (source(queue="q").streamReader(BODY.add("x", StringType())), "unknown column"),
        (source().streamReader(SOURCE), "'queue' is required"),
    ):
        asked = pickle.loads(pickle.dumps(reader))
        for ask in (
            asked.getDefaultReadLimit,
            asked.initialOffset,
            asked.prepareForTriggerAvailableNow,
            lambda asked=asked: asked.latestOffset({}, ReadAllAvailable()),
            lambda asked=asked: asked.read(InputPartition(0)),
        ):
            with pytest.raises((OptionError, ColumnError), match=message):
                ask()


def test_jobs_are_only_added() -> None:
    for write in (source(queue="q").writer, source(queue="q").streamWriter):
        with pytest.raises(OptionError, match=r'mode\("append"\)'):
            write(BODY, overwrite=True)


def test_importing_it_imports_neither_redis_nor_arrow() -> None:
    found = subprocess.run(
        [sys.executable, "-c", "import sys, pyspark_disque; print({'redis', 'pyarrow'} & {*sys.modules})"],
        check=True, capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip
    assert found.stdout.strip() == "set()"


def test_spark_finds_it_by_itself() -> None:
    assert pyspark_disque.DefaultSource is DisqueDataSource


def test_where_it_cannot_be_used_other_sources_do_not_suffer() -> None:
    hidden = "import sys; sys.modules['disque.spark.source'] = None; import pyspark_disque; print(dir(pyspark_disque))"
    found = subprocess.run([sys.executable, "-c", hidden], check=True, capture_output=True, text=True, cwd=ROOT)
    assert "DefaultSource" not in found.stdout


def test_a_session_is_told() -> None:
    class Session:
        def __init__(self) -> None:
            self.told: list[type] = []

        @property
        def dataSource(self) -> "Session":
            return self

        def register(self, kind: type) -> None:
            self.told.append(kind)

    session = Session()
    register(session)  # type: ignore[arg-type]  # all that is used of it
    assert session.told == [DisqueDataSource]
