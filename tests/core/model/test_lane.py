"""Priorities: what `test_queue` says of jobs of priority 0 holds for each lane."""

from disque.core.model.job import OUT, Job
from disque.core.model.lane import LONG, Lane, leaving_order, priority_of
from disque.core.model.queue import Queue
from disque.core.model.spec import PRIORITY, JobSpec, Rows


def job(ctime: int, priority: int) -> Job:
    rows: Rows | None = {PRIORITY.number: priority} if priority else None
    return Job(b"%040d" % ctime, JobSpec(b"q", 1, 1, 1, rows), b"", ctime, 0, 0, ())


def filled(*priorities: int) -> tuple[Queue, list[Job]]:
    queue = Queue(b"q", 0)
    jobs = [job(ctime, priority) for ctime, priority in enumerate(priorities)]
    for one in jobs:
        queue.push(one)
    return queue, jobs


def drained(queue: Queue) -> list[Job]:
    jobs = []
    while (one := queue.pop()) is not None:
        jobs.append(one)
    return jobs


def test_higher_ones_leave_first_and_equal_ones_in_order_of_creation() -> None:
    queue, jobs = filled(0, 3, 255, 3, 0, 1)
    assert queue.length == 6
    assert queue.head() is jobs[2]
    assert queue.oldest() is jobs[0]
    wanted = [jobs[at] for at in (2, 1, 3, 5, 0, 4)]
    assert list(queue.jobs()) == wanted == queue.peek(9)
    assert queue.peek(-2) == [jobs[4], jobs[0]]
    assert queue.peek(-9) == wanted[::-1]
    assert drained(queue) == wanted
    assert queue.length == 0
    assert queue.head() is queue.oldest() is None


def test_the_oldest_come_first_whatever_their_priority_while_they_are_taken_out() -> None:
    queue, jobs = filled(*[ctime * 7 % 5 for ctime in range(60)])
    taken = [queue.pop() for _ in range(20)]
    for one in taken:
        assert one is not None
        queue.push(one)
    for at in (1, 2, 30, 59):
        queue.remove(jobs[at])
    wanted = [one for one in jobs if one.place != OUT]
    wanted = [one for one in wanted if one not in (jobs[1], jobs[2], jobs[30], jobs[59])]
    assert queue.lanes() == 4
    found = []
    for one in queue.oldest_first():
        assert one is queue.oldest()
        queue.remove(one)
        found.append(one)
        if len(found) == 40:
            break
    for one in queue.oldest_first():
        queue.remove(one)
        found.append(one)
    assert found == wanted
    assert (queue.length, queue.lanes()) == (0, 0)


def test_so_do_those_without_priorities() -> None:
    queue, jobs = filled(0, 0, 0)
    found = []
    for one in queue.oldest_first():
        queue.remove(one)
        found.append(one)
    assert found == jobs


def test_one_that_comes_back_stands_where_it_stood() -> None:
    queue, jobs = filled(2, 2, 0, 2)
    assert queue.pop() is jobs[0]
    assert queue.pop() is jobs[1]
    queue.push(jobs[1])
    queue.push(jobs[0])
    assert drained(queue) == [jobs[0], jobs[1], jobs[3], jobs[2]]


def test_one_can_be_taken_out_of_each_lane() -> None:
    queue, jobs = filled(0, 1, 2, 0, 1, 2)
    for at in (2, 1, 0, 5):
        queue.remove(jobs[at])
    assert queue.length == 2
    assert queue.head() is jobs[4]
    assert drained(queue) == [jobs[4], jobs[3]]
    assert all(one.place == OUT for one in jobs)


def has_lanes(queue: Queue) -> bool:
    return queue._above is not None


def test_a_queue_without_priorities_has_no_lanes_and_one_that_had_some_neither() -> None:
    queue, jobs = filled(0, 0)
    assert not has_lanes(queue)
    queue.push(job(9, 7))
    assert has_lanes(queue)
    queue.pop()
    assert not has_lanes(queue)
    queue.push(job(10, 7))
    queue.remove(queue.peek(1)[0])
    assert not has_lanes(queue)
    assert drained(queue) == jobs


def test_options_that_are_no_priority_make_no_lane() -> None:
    queue = Queue(b"q", 0)
    one = Job(b"a" * 40, JobSpec(b"q", 1, 1, 1, {999: b"x"}), b"", 1, 0, 0, ())
    queue.push(one)
    assert queue._above is None
    assert priority_of(one) == 0
    queue.push(job(2, 1))
    queue.remove(one)
    assert queue.length == 1


def test_a_queue_can_be_filled_at_once() -> None:
    queue = Queue(b"q", 0)
    jobs = [job(ctime, ctime % 3) for ctime in range(100)]
    queue.fill(jobs)
    assert queue.length == 100
    queue.push(job(100, 0))
    assert drained(queue)[:-1] == sorted(jobs, key=leaving_order)


def test_a_queue_whose_jobs_all_have_priorities_can_be_filled_and_used() -> None:
    queue = Queue(b"q", 0)
    queue.fill([job(1, 1), job(2, 2)])
    late = job(3, 0)
    queue.push(late)
    assert queue.oldest() is queue.peek(2)[1]
    assert drained(queue)[-1] is late


def test_whoever_frees_a_queue_is_told_of_all_lanes() -> None:
    queue, _ = filled(*[0, 1, 2] * LONG)
    queue.pop()
    assert sum(map(len, queue.lines())) == 3 * LONG - 1
    short, _ = filled(*[0] * LONG)
    assert short.lines() == []


def test_a_lane_above_knows_one_priority() -> None:
    lane = Lane()
    assert not lane.rises(job(1, 5))
    lane.push(job(1, 5))
    assert lane.length == 1
