import pytest
from hypothesis import given
from hypothesis import strategies as st

from disque.core.model.figures import COUNTS_MOST, TIME_MOST, TOTAL_MOST, Figures, Histogram, middle, place


@given(st.integers(0, TIME_MOST))
def test_a_time_is_known_within_an_eighth(ms: int) -> None:
    assert 0 <= place(ms) < COUNTS_MOST
    assert abs(middle(place(ms)) - ms) <= ms / 8


def test_places_follow_each_other() -> None:
    places = [place(ms) for ms in range(100_000)]
    assert places == sorted(places)
    assert set(places) == set(range(places[-1] + 1))
    assert place(TIME_MOST) == COUNTS_MOST - 1


@pytest.mark.parametrize(("ms", "at"), [(-5, 0), (0, 0), (7, 7), (8, 8), (9, 8), (2**60, COUNTS_MOST - 1)])
def test_where_times_are_counted(ms: int, at: int) -> None:
    times = Histogram()
    times.add(ms)
    assert times.counts == [*[0] * at, 1]


def test_percentiles() -> None:
    times = Histogram()
    assert times.percentile(50) == 0
    for ms in (*[1] * 90, *[5] * 8, 700, 100_000):
        times.add(ms)
    assert [times.percentile(percent) for percent in (50, 90, 95, 98)] == [1, 1, 5, 5]
    assert times.percentile(99) == pytest.approx(700, rel=1 / 8)
    assert times.percentile(100) == pytest.approx(100_000, rel=1 / 8)


def test_what_was_lately_counts_more() -> None:
    times = Histogram()
    for _ in range(10 * TOTAL_MOST):
        times.add(1000)
    assert times.total < TOTAL_MOST
    for _ in range(TOTAL_MOST):
        times.add(1)
    assert times.percentile(50) == 1
    assert times.total == sum(times.counts) < TOTAL_MOST


def test_histograms_of_several_nodes_are_one() -> None:
    one, other = Histogram(), Histogram()
    one.add(3)
    other.add(100)
    other.add(3)
    whole = Histogram()
    for times in (one, other):
        whole.merge(times.counts)
    assert (whole.total, whole.percentile(50)) == (3, 3)
    assert whole.percentile(99) == middle(place(100))
    assert one.counts == [0, 0, 0, 1]


def test_a_queue_without_times_has_no_histogram() -> None:
    figures = Figures()
    assert (figures.waits, figures.runs) == (None, None)
    figures.waited(5)
    figures.ran(7)
    figures.ran(7)
    assert [times.total for times in (figures.waits, figures.runs) if times is not None] == [1, 2]


def test_what_was_ever_seen_only_grows() -> None:
    times = Histogram()
    for number in range(3 * TOTAL_MOST):
        times.add(number % 3)
    assert times.ever() == [TOTAL_MOST] * 3
    assert times.sum_ms == 3 * TOTAL_MOST
    assert times.total < TOTAL_MOST
