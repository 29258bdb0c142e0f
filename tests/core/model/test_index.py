from hypothesis import given
from hypothesis import strategies as st

from disque.core.model.index import Index
from disque.core.model.queue import Queue


def filled(count: int) -> tuple[Index[Queue], list[Queue]]:
    index: Index[Queue] = Index()
    queues = [Queue(b"%d" % number, 0) for number in range(count)]
    for queue in queues:
        queue.number = index.add(queue)
    return index, queues


def walked(index: Index[Queue], most: int) -> list[Queue]:
    cursor, found = index.look(0, most)
    while cursor:
        cursor, some = index.look(cursor, most)
        found += some
    return found


def test_an_empty_roll() -> None:
    index: Index[Queue] = Index()
    assert index.look(0, 10) == (0, [])
    assert index.look(77, 10) == (0, [])
    assert index.some(10) == []


@given(st.integers(0, 300), st.integers(1, 50), st.sets(st.integers(0, 299)))
def test_a_walk_meets_every_queue_once_in_the_order_of_their_making(count: int, most: int, dropped: set[int]) -> None:
    index, queues = filled(count)
    for number in dropped:
        if number < count:
            index.drop(queues[number].number)
    assert walked(index, most) == [queue for number, queue in enumerate(queues) if number not in dropped]


def test_numbers_are_not_given_twice() -> None:
    index, queues = filled(200)
    for queue in queues:
        index.drop(queue.number)
    assert index.add(queues[0]) == 201


def test_gaps_are_closed_when_they_are_the_majority() -> None:
    index, queues = filled(1000)
    for queue in queues[:-5]:
        index.drop(queue.number)
    assert len(index._elements) < 150
    assert walked(index, 7) == queues[-5:]


def test_a_cursor_survives_the_closing_of_gaps() -> None:
    index, queues = filled(400)
    cursor, first = index.look(0, 100)
    for queue in queues[:300]:
        index.drop(queue.number)
    assert first == queues[:100]
    assert index.look(cursor, 1000) == (0, queues[300:])


def test_some_goes_round() -> None:
    index, queues = filled(5)
    assert [queue for _ in range(4) for queue in index.some(2)] == [*queues[:4], queues[4], *queues[:2]]
