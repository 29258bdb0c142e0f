"""The histogram is bounded, and right to within 0.8 %."""

import pickle

from hypothesis import given
from hypothesis import strategies as st

from disque.cli.bench_histogram import Histogram, middle_of, slot_of

durations = st.integers(min_value=0, max_value=2**63 - 1)


def filled(values: list[int]) -> Histogram:
    histogram = Histogram()
    for value in values:
        histogram.record(value)
    return histogram


@given(durations)
def test_a_slot_is_never_further_than_a_hundredth_from_its_values(value_ns: int) -> None:
    assert abs(middle_of(slot_of(value_ns)) - value_ns) <= value_ns / 128


@given(durations, durations)
def test_longer_durations_never_count_in_earlier_slots(one: int, other: int) -> None:
    low, high = sorted((one, other))
    assert slot_of(low) <= slot_of(high)


@given(durations)
def test_no_duration_needs_more_memory(value_ns: int) -> None:
    assert slot_of(value_ns) < len(Histogram().slots) < 8000


@given(st.lists(durations, min_size=1, max_size=200), st.floats(min_value=0, max_value=1))
def test_percentiles_are_those_of_the_sorted_list(values: list[int], share: float) -> None:
    rank = max(1, -int(-share * len(values) // 1))
    exact = sorted(values)[rank - 1]
    assert abs(filled(values).percentile_ns(share) - exact) <= exact / 128


@given(st.lists(durations, max_size=50), st.lists(durations, max_size=50))
def test_merged_histograms_are_the_histogram_of_all(some: list[int], others: list[int]) -> None:
    merged, both = filled(some), filled(some + others)
    merged.merge(filled(others))
    assert (merged.slots, merged.count, merged.max_ns) == (both.slots, both.count, both.max_ns)


def test_an_empty_one_says_zero() -> None:
    assert set(Histogram().summary_ms().values()) == {0.0}


def test_the_maximum_is_exact_and_no_percentile_is_above_it() -> None:
    summary = filled([1_234_567] * 10).summary_ms()
    assert summary["max"] == 1.2346
    assert max(summary.values()) == summary["max"]


def test_a_clock_that_went_back_counts_as_zero() -> None:
    assert filled([-5]).summary_ms()["max"] == 0.0


def test_it_travels_between_processes() -> None:
    histogram = filled([1, 10_000, 10**9])
    assert pickle.loads(pickle.dumps(histogram)).slots == histogram.slots
