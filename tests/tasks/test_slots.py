"""Which job begins next."""

from typing import Any

import pytest

from disque.tasks import App
from disque.tasks.held import Held
from disque.tasks.slots import ASIDE_LEAST, Slots

app = App()


@app.task
def free() -> None: ...


@app.task(limit=1)
def narrow() -> None: ...


@app.task(cpu=True)
def heavy() -> None: ...


@app.task(cpu=True, limit=1)
def heaviest() -> None: ...


def job(task: Any, queue: str = "q") -> Held:
    held = Held("D-1", queue, b"", None, None, 0.0)
    held.task = task
    return held


def test_as_many_as_there_are_places() -> None:
    slots = Slots(2)
    jobs = [job(free) for _ in range(3)]
    for one in jobs:
        slots.put(one)
    assert [slots.next(), slots.next(), slots.next()] == [jobs[0], jobs[1], None]
    assert (slots.free, slots.waiting) == (0, 1)
    slots.ended(free)
    assert slots.next() is jobs[2]


def test_a_task_with_a_limit_lets_others_pass() -> None:
    slots = Slots(10)
    first, second, third, other = job(narrow, "n"), job(narrow, "n"), job(narrow, "n"), job(free)
    for one in (first, second, third, other):
        slots.put(one)
    assert [slots.next(), slots.next(), slots.next()] == [first, other, None]
    assert slots.blocked() == set()
    assert slots.waiting == 2
    slots.ended(narrow)
    assert slots.next() is second
    assert slots.drain() == [third]
    assert slots.blocked() == set()
    slots.ended(narrow)
    slots.ended(free)
    assert slots.running == 0


def test_tasks_that_compute_have_a_limit_together_and_take_turns() -> None:
    slots = Slots(10, cpus=2)
    jobs = [job(task) for task in (heaviest, heaviest, heavy, heavy, heavy, free)]
    for one in jobs:
        slots.put(one)
    assert [slots.next(), slots.next(), slots.next(), slots.next()] == [jobs[0], jobs[2], jobs[5], None]
    slots.ended(heavy)
    assert slots.next() is jobs[3], "one of the other task is at its own limit"
    slots.ended(heaviest)
    assert slots.next() is jobs[1]
    slots.ended(heavy)
    assert slots.next() is jobs[4]
    assert (slots.waiting, slots.running) == (0, 3)


def test_how_many_of_some_tasks_could_begin() -> None:
    slots = Slots(10, cpus=2)
    assert [slots.room(some) for some in ([None], [free], [narrow], [heavy, heaviest], [narrow, heavy])] == [
        *(10, 10, 1, 2, 3)
    ]
    slots.force(heavy)
    assert [slots.room(some) for some in ([free, heavy], [heaviest], [heavy, heaviest])] == [9, 1, 1]
    slots.force(heavy)
    assert slots.room([heavy, heaviest]) == 0
    assert slots.room([narrow]) == 1


def test_a_queue_is_left_alone_when_enough_of_it_wait_aside() -> None:
    slots = Slots(100)
    for _ in range(ASIDE_LEAST + 1):
        slots.put(job(narrow, "n"))
    assert slots.next() is not None
    assert slots.next() is None
    assert slots.blocked() == {"n"}
    slots.ended(narrow)
    assert slots.next() is not None
    assert slots.blocked() == set()


def test_what_must_begin_begins() -> None:
    slots = Slots(1)
    slots.force(narrow)
    slots.force(narrow)
    assert slots.free == -1
    slots.ended(narrow)
    slots.ended(narrow)
    assert slots.free == 1
    with pytest.raises(ValueError, match="at least 1"):
        Slots(0)
