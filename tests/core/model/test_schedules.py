"""When schedules are due."""

import pytest

from disque.core.model import schedules
from disque.core.model.schedules import Schedule, Schedules


def known(count: int) -> tuple[Schedules, list[Schedule]]:
    table = Schedules(0)
    made = [Schedule(b"s%d" % number, b"slot") for number in range(count)]
    for schedule in made:
        table.add(schedule)
    return table, made


def test_they_come_in_the_order_of_their_time_so_many_at_once() -> None:
    table, made = known(5)
    for schedule, due_ms in zip(made, (50, 10, 30, 20, 40), strict=True):
        table.wake_at(schedule, due_ms)
    assert table.next_ms() == 10
    table.due(9, 100)
    assert not table.has_work()
    table.due(30, 2)
    assert [schedule.name for schedule in table.line] == [b"s1", b"s3"]
    table.due(30, 100)
    assert [schedule.name for schedule in table.line] == [b"s1", b"s3", b"s2"]
    assert table.next_ms() == 40


def test_the_last_time_that_was_said_counts() -> None:
    table, (one, other) = known(2)
    table.wake_at(one, 10)
    table.wake_at(other, 15)
    table.wake_at(one, 20)
    table.due(15, 100)
    assert [schedule.name for schedule in table.line] == [b"s1"]
    table.wake_at(one, 0)
    assert table.next_ms() == 0


def test_one_that_is_dropped_is_due_no_more() -> None:
    table, (one, other) = known(2)
    table.wake_at(one, 10)
    table.drop(one.name)
    table.drop(b"unknown")
    assert table.next_ms() == 0
    assert table.index.look(0, 10) == (0, [other])


def test_what_changes_all_the_time_does_not_pile_up() -> None:
    table, (one,) = known(1)
    for due_ms in range(1, 10 * schedules.STALE_MOST):
        table.wake_at(one, due_ms)
    assert len(table._heap) <= schedules.STALE_MOST + 2
    assert table.next_ms() == 10 * schedules.STALE_MOST - 1


def test_while_many_are_on_their_way_no_more_are_begun() -> None:
    table, made = known(2)
    table.look_at(made[0])
    table.look_at(made[0])
    assert len(table.line) == 1
    table.open = [made[1]] * schedules.OPEN_MOST
    assert not table.has_work()


def test_what_is_not_due_any_more_is_thrown_away_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedules, "SHELLS_MOST", 10)
    table, made = known(100)
    for schedule in made:
        table.wake_at(schedule, 10)
    for schedule in made[:-1]:
        table.wake_at(schedule, 0)
    assert table.next_ms() == 10
    assert len(table._heap) == 90
    table.due(10, 5)
    assert len(table._heap) == 85
    turns = 0
    while not table.line:
        table.due(10, 5)
        turns += 1
        assert turns < 100
    assert list(table.line) == made[-1:]
    assert table.next_ms() == 0
