from hypothesis import given
from hypothesis import strategies as st

from disque.core.model.queue import Queue
from disque.core.model.roll import Roll


def rolled(count: int) -> tuple[Roll[Queue], list[Queue]]:
    roll: Roll[Queue] = Roll()
    queues = [Queue(b"%d" % number, 0) for number in range(count)]
    for queue in queues:
        queue.number = roll.add(queue)
    return roll, queues


def walked(roll: Roll[Queue], most: int) -> list[Queue]:
    cursor, found = roll.look(0, most)
    while cursor:
        cursor, some = roll.look(cursor, most)
        found += some
    return found


def test_an_empty_roll() -> None:
    roll: Roll[Queue] = Roll()
    assert roll.look(0, 10) == (0, [])
    assert roll.look(77, 10) == (0, [])
    assert roll.some(10) == []


@given(st.integers(0, 300), st.integers(1, 50), st.sets(st.integers(0, 299)))
def test_a_walk_meets_every_queue_once_in_the_order_of_their_making(count: int, most: int, dropped: set[int]) -> None:
    roll, queues = rolled(count)
    for number in dropped:
        if number < count:
            roll.drop(queues[number].number)
    assert walked(roll, most) == [queue for number, queue in enumerate(queues) if number not in dropped]


def test_numbers_are_not_given_twice() -> None:
    roll, queues = rolled(200)
    for queue in queues:
        roll.drop(queue.number)
    assert roll.add(queues[0]) == 201


def test_gaps_are_closed_when_they_are_the_majority() -> None:
    roll, queues = rolled(1000)
    for queue in queues[:-5]:
        roll.drop(queue.number)
    assert len(roll._elements) < 150
    assert walked(roll, 7) == queues[-5:]


def test_a_cursor_survives_the_closing_of_gaps() -> None:
    roll, queues = rolled(400)
    cursor, first = roll.look(0, 100)
    for queue in queues[:300]:
        roll.drop(queue.number)
    assert first == queues[:100]
    assert roll.look(cursor, 1000) == (0, queues[300:])


def test_some_goes_round() -> None:
    roll, queues = rolled(5)
    assert [queue for _ in range(4) for queue in roll.some(2)] == [*queues[:4], queues[4], *queues[:2]]
