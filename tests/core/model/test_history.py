import pytest

from disque.core.model.history import (
    COUNT_MOST,
    ROW,
    ROW_BYTES,
    Histories,
    History,
    Rows,
    rows_in,
)
from disque.core.model.memory import HISTORY_BYTES

SOME = (1, 2, 3, 4, 5)


def test_a_row_has_the_bytes_that_it_counts_for() -> None:
    assert ROW.size == ROW_BYTES


class TestRows:
    def test_what_happens_in_one_time_is_one_row(self) -> None:
        rows = Rows(60)
        assert rows.last() is None
        rows.add(7, SOME)
        rows.add(7, SOME)
        rows.add(9, SOME)
        assert rows.all() == [(7, 2, 4, 6, 8, 10), (9, *SOME)]

    def test_a_clock_that_was_put_back_loses_nothing(self) -> None:
        rows = Rows(60)
        rows.add(7, SOME)
        rows.add(5, SOME)
        assert rows.all() == [(7, 2, 4, 6, 8, 10)]

    def test_old_ones_are_forgotten(self) -> None:
        rows = Rows(3)
        for slot in range(1, 6):
            rows.add(slot, SOME)
        assert [row[0] for row in rows.all()] == [3, 4, 5]
        rows.prune(7)
        assert [row[0] for row in rows.all()] == [5]
        rows.prune(8)
        assert rows.all() == []

    def test_counts_end_somewhere(self) -> None:
        rows = Rows(3)
        rows.add(1, (COUNT_MOST + 1, COUNT_MOST, 0, 0, 0))
        rows.add(1, (1, 1, 1, 0, 0))
        assert rows.last() == (1, COUNT_MOST, COUNT_MOST, 1, 0, 0)

    def test_a_row_that_is_put_replaces_what_is_there(self) -> None:
        rows = Rows(3)
        for slot in range(1, 4):
            rows.add(slot, SOME)
        rows.put((2, 0, 0, 0, 0, 9))
        assert rows.all() == [(1, *SOME), (2, 0, 0, 0, 0, 9)]


def test_bytes_become_rows() -> None:
    rows = Rows(3)
    for slot in range(1, 6):
        rows.add(slot, SOME)
    assert rows_in(bytes(rows.data), 3) == rows.all()
    assert rows_in(b"", 3) == []


@pytest.mark.parametrize(
    "slots",
    [(2, 1), (1, 1), (1, 4), (1, 2, 3, 4)],
    ids=["not in order", "twice", "too far apart", "too many"],
)
def test_bytes_that_no_node_makes(slots: tuple[int, ...]) -> None:
    assert rows_in(b"".join(ROW.pack(slot, *SOME) for slot in slots), 3) is None


def test_bytes_that_are_no_rows() -> None:
    assert rows_in(b"x" * (ROW_BYTES + 1), 3) is None
    assert rows_in(ROW.pack(1, COUNT_MOST + 1, 0, 0, 0, 0), 3) is None


def test_they_count_for_memory() -> None:
    histories = Histories()
    history = histories.by_queue[b"mails"] = History(b"mails")
    assert histories.cost() == HISTORY_BYTES + 5
    history.add(100, SOME)
    history.add(101, SOME)
    assert histories.cost() == HISTORY_BYTES + 5 + 4 * ROW_BYTES
    histories.running = True
    histories.clear()
    assert histories.cost() == 0
    assert not histories.running
