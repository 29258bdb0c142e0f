"""The line of at-most-once jobs that were delivered."""

from random import Random

from disque.core.model.evictable import GAPS_LEAST, SWEEP, Evictable
from disque.core.model.job import IN_LINE, OUT, Job
from disque.core.model.spec import JobSpec


def make(number: int) -> Job:
    """A job whose ID says which one it is."""
    return Job(b"%040d" % number, JobSpec(b"q", 100, 0, 1), b"", number, 1000, 0, ())


def filled(count: int) -> tuple[Evictable, list[Job]]:
    """A line of so many jobs."""
    spent = Evictable()
    jobs = [make(number) for number in range(count)]
    for job in jobs:
        spent.add(job)
    return spent, jobs


def test_the_first_is_the_one_that_came_first_and_is_still_there() -> None:
    spent, jobs = filled(4)
    assert spent.first() is jobs[0]
    spent.drop(jobs[1])
    spent.drop(jobs[0])
    assert spent.first() is jobs[2]
    assert list(spent) == [jobs[2].id, jobs[3].id]


def test_a_job_stands_there_once_and_goes_once() -> None:
    spent, jobs = filled(2)
    spent.add(jobs[0])
    assert len(spent) == 2
    spent.drop(jobs[0])
    spent.drop(jobs[0])
    spent.drop(make(7))
    assert len(spent) == 1


def test_a_job_that_is_taken_back_can_be_in_a_queue_and_comes_again_at_the_end() -> None:
    spent, jobs = filled(4)
    spent.drop(jobs[3])
    spent.take_back(jobs[1])
    assert jobs[1].place == OUT
    jobs[1].place = IN_LINE
    spent.take_back(jobs[1])
    assert jobs[1].place == IN_LINE, "it is not there any more"
    jobs[1].place = OUT
    spent.add(jobs[1])
    assert list(spent) == [jobs[0].id, jobs[2].id, jobs[1].id]


def test_gaps_are_closed_before_they_are_many_and_some_at_a_time() -> None:
    spent, jobs = filled(1000)
    for job in jobs[1:]:
        spent.drop(job)
        length = sum(map(len, spent.lines()))
        assert length <= 2 * spent.count + GAPS_LEAST + 1000 // SWEEP
    assert list(spent) == [jobs[0].id]


def test_any_course_of_events_leaves_the_order_of_coming() -> None:
    random = Random(5)
    spent = Evictable()
    model: list[Job] = []
    for number in range(20_000):
        what = random.random()
        if what < 0.5 or not model:
            model.append(make(number))
            spent.add(model[-1])
        elif what < 0.7:
            spent.drop(model.pop(random.randrange(len(model))))
        elif what < 0.95:
            assert spent.first() is model[0]
            spent.drop(model.pop(0))
        else:
            spent.take_back(model.pop(random.randrange(len(model))))
        assert spent.count == len(model)
    assert list(spent) == [job.id for job in model]
