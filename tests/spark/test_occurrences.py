from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from disque.spark.occurrences import Occurrences, found_in, make_run, on_disk

FINGERPRINTS = st.integers(0, 2**64 - 1)


@given(st.lists(st.lists(st.one_of(st.integers(0, 5), FINGERPRINTS), max_size=20), max_size=20), st.integers(1, 8))
def test_each_is_numbered_as_if_all_were_remembered(batches: list[list[int]], recent: int) -> None:
    occurrences, seen = Occurrences(recent), Counter[int]()
    for batch in batches:
        expected = []
        for one in batch:
            expected.append(seen[one])
            seen[one] += 1
        assert occurrences.numbers(batch) == expected


def test_memory_holds_no_more_than_the_recent_ones() -> None:
    occurrences = Occurrences(recent=100)
    for start in range(0, 10_000, 50):
        occurrences.numbers(range(start, start + 50))
        assert len(occurrences._recent) < 100
    assert occurrences.numbers([0, 9_999, 10_000]) == [1, 1, 0]


def test_a_run_knows_how_often_each_was_seen() -> None:
    run = make_run({7: 3, 2**64 - 1: 1, 0: 2})
    assert found_in(run, on_disk(run.fingerprints[[2, 0, 1]])).tolist() == [1, 2, 3]
