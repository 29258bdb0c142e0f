"""What the tests of the data source need: PySpark, Java, one session for all, and real nodes.

Without PySpark nothing here can be imported, so only `test_installed.py` is collected, which says so; without Java the
tests that ask for `spark` are skipped. With CI=true both are failures.
"""

import importlib.util
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.end_to_end.node import ROOT, Node

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INSTALLED: Final = all(importlib.util.find_spec(name) for name in ("pyspark", "pyarrow", "redis"))
NO_PYSPARK: Final = "PySpark is missing: pip install 'disque-server[spark]'"
NO_JAVA: Final = "Java is missing: apt-get install --no-install-recommends openjdk-17-jre-headless"

collect_ignore_glob = [] if INSTALLED else [path.name for path in Path(__file__).parent.glob("test_[!i]*.py")]

#: Quick to start, small, and heard by nobody else.
SESSION: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.streaming.pollingDelay": "50ms",
}

Adopt = Callable[..., None]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What PySpark and py4j warn of by themselves, such as a pandas that is too new, is no fault of a test."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore::FutureWarning:pyspark"))
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))


def need_java() -> None:
    """Skip the test that asks where there is no Java."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip(NO_JAVA)


@pytest.fixture(scope="session")
def spark_environment() -> Iterator[dict[str, str]]:
    """Let this process, and those that Spark starts, find this Python and this source."""
    need_java()
    before = dict(os.environ)
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    os.environ.update(PYSPARK_PYTHON=sys.executable, PYTHONPATH=path, SPARK_LOCAL_IP="127.0.0.1")
    yield dict(os.environ)
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(scope="session")
def spark(spark_environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    """Give a session with two tasks at a time and up to three attempts of each."""
    del spark_environment
    from pyspark.sql import SparkSession  # noqa: PLC0415 - it may be missing

    builder = SparkSession.builder.master("local[2,3]").appName("tests").config(map=dict(SESSION))
    session = builder.config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse"))).getOrCreate()
    session.sparkContext.setLogLevel("OFF")

    import disque.spark  # noqa: PLC0415 - it may be missing

    disque.spark.register(session)
    yield session
    session.stop()


@pytest.fixture
def hosts(node: Node) -> str:
    """Give the option for that node."""
    return f"127.0.0.1:{node.port}"
