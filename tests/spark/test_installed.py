"""Whether the data source can be tested here at all."""

import pytest

from tests.spark.conftest import INSTALLED, NO_PYSPARK, need_java


def test_pyspark_is_installed() -> None:
    if not INSTALLED:
        pytest.skip(NO_PYSPARK)


def test_java_is_installed() -> None:
    need_java()
