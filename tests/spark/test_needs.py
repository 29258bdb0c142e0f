import subprocess
import sys

import pytest

from disque.spark.needs import need


def last_words(*lines: str) -> str:
    """What a process says at its end that does this."""
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, check=False)
    return done.stderr.decode().strip().splitlines()[-1]


def test_what_is_there_is_not_mentioned() -> None:
    need("pyspark", "redis", "pyarrow", "numpy")


def test_what_is_missing_is_named_with_the_python_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.raises(ImportError) as caught:
        need("pyarrow", "redis", "numpy")
    text = "the data source needs redis-py and NumPy: pip install 'disque-server[spark]' for"
    assert str(caught.value) == f"{text} {sys.executable}"


def test_without_pyspark() -> None:
    told = last_words("import sys; sys.modules['pyspark'] = None", "import disque.spark")
    assert told.startswith("ImportError: the data source needs PySpark: pip install 'disque-server[spark]' for ")


@pytest.mark.parametrize("missing", ["redis", "pyarrow", "numpy"])
@pytest.mark.parametrize(
    "work",
    [
        "stream.StreamReader(SOURCE, parse_options(given, 'reading a stream')).prepareForTriggerAvailableNow()",
        "drain.DrainReader(SOURCE, parse_options({**given, 'maxJobs': '1'}, 'reading a batch')).partitions()",
        "sink.BatchWriter(SOURCE[2:3], parse_options(given, 'adding jobs')).write(iter(()))",
    ],
)
def test_work_says_what_it_lacks_before_it_begins(missing: str, work: str) -> None:
    told = last_words(
        f"import sys; sys.modules[{missing!r}] = None",
        "from disque.spark import drain, sink, stream",
        "from disque.spark.columns import SOURCE",
        "from disque.spark.options import parse_options",
        "given = {'hosts': '127.0.0.1:1', 'queue': 'q'}",
        work,
    )
    assert told.startswith("ImportError: the data source needs "), told
    assert "pip install 'disque-server[spark]'" in told
