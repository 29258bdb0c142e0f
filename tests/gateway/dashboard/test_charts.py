"""Charts: what is drawn agrees with the figures behind it."""

import pytest

from disque.gateway.dashboard.charts import FOOT, HEIGHT, SIDE, WIDTH, Line, chart, nice, text_of


@pytest.mark.parametrize(
    ("value", "top"), [(0, 1), (1, 1), (1.2, 2), (3, 5), (7, 10), (11, 20), (480, 500), (501, 1000)]
)
def test_the_axis_ends_at_a_round_number(value: float, top: float) -> None:
    assert nice(value) == top


def test_a_line_goes_from_side_to_side_and_from_bottom_to_top() -> None:
    drawn = chart("jobs", [Line("added", [0, 5, 10], 0)], ["a", "b", "c"])
    points = [point.split(",") for point in drawn.lines[0][1].split()]
    assert [float(x) for x, _ in points] == [SIDE, (SIDE + WIDTH) / 2, WIDTH]
    assert [float(y) for _, y in points][:: len(points) - 1] == [HEIGHT - FOOT, 4]


def test_the_figures_are_behind_it_the_newest_first() -> None:
    drawn = chart("jobs", [Line("added", [1, 2], 0), Line("done", [3, 4], 1)], ["a", "b"])
    assert drawn.rows == [("b", [2, 4]), ("a", [1, 3])]


def test_a_chart_of_one_moment_or_of_none_can_be_drawn() -> None:
    assert chart("jobs", [Line("added", [7], 0)], ["a"]).times == [(SIDE, "a")]
    assert chart("jobs", [Line("added", [], 0)], []).times == []


@pytest.mark.parametrize(("value", "text"), [(0, "0"), (2.5, "2.5"), (500, "500"), (2500, "2.5k"), (1e6, "1M")])
def test_numbers_at_the_axis(value: float, text: str) -> None:
    assert text_of(value) == text
