"""The marks that follow from maxmemory."""

import pytest

from disque.core.model.memory import Limits


@pytest.mark.parametrize(("used", "level"), [(0, 0), (750, 0), (751, 1), (950, 1), (951, 2), (10**9, 2)])
def test_levels(used: int, level: int) -> None:
    assert Limits(1000).level(used) == level


def test_no_limit_is_never_reached() -> None:
    limits = Limits(0)
    assert limits.level(2**61) == 0
    assert limits.max_bytes == 0
