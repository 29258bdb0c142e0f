"""How many standing jobs a machine is given."""

import pytest

from tests.speed.scale import FULL, QUICK, Scale, jobs_that_fit, levels_within

LEVELS = (10, 100, 1000)


@pytest.mark.parametrize(
    ("most", "levels"), [(1000, LEVELS), (5000, LEVELS), (999, (10, 100, 999)), (150, (10, 100)), (5, (5,))]
)
def test_levels_end_at_what_fits(most: int, levels: tuple[int, ...]) -> None:
    assert levels_within(LEVELS, most) == levels


def test_ten_million_jobs_need_nine_gigabytes_to_spare() -> None:
    assert jobs_that_fit(8_000_000_000) < 10_000_000 <= jobs_that_fit(9_000_000_000)


@pytest.mark.parametrize("scale", [QUICK, FULL])
def test_a_pipeline_gets_more_operations_within_bounds(scale: Scale) -> None:
    assert [scale.operations_at(depth) / scale.operations for depth in (1, 2, 64)] == [1, 2, 4]
