from collections import OrderedDict

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from disque.core.model.job import Job
from disque.core.model.lane import SWEEP, leaving_order, priority_of
from disque.core.model.queue import Queue
from disque.core.model.session import Session
from disque.core.model.spec import PRIORITY, JobSpec, Rows
from tests.conftest import examples


def job(ctime: int, name: str = "", priority: int = 0) -> Job:
    rows: Rows | None = {PRIORITY.number: priority} if priority else None
    return Job(b"%020d%-20b" % (ctime, name.encode()), JobSpec(b"q", 1, 1, 1, rows), b"", ctime, 0, 0, ())


def filled(*ctimes: int) -> tuple[Queue, list[Job]]:
    queue = Queue(b"q", 0)
    jobs = [job(ctime) for ctime in ctimes]
    for one in jobs:
        queue.push(one)
    return queue, jobs


def drained(queue: Queue) -> list[Job]:
    jobs = []
    while (one := queue.pop()) is not None:
        jobs.append(one)
    return jobs


def test_an_empty_queue_gives_nothing() -> None:
    queue = Queue(b"name", 0)
    assert queue.pop() is None
    assert queue.head() is None
    assert queue.peek(5) == queue.peek(-5) == []
    assert queue.header == b"$4\r\nname\r\n"


def test_jobs_leave_in_the_order_of_their_creation_however_they_came() -> None:
    queue, jobs = filled(3, 1, 2, 5, 4)
    assert drained(queue) == sorted(jobs, key=Job.order)


def test_jobs_of_equal_creation_time_leave_in_the_order_of_their_ids() -> None:
    queue = Queue(b"q", 0)
    jobs = [job(1, name) for name in "cab"]
    for one in jobs:
        queue.push(one)
    assert drained(queue) == [jobs[1], jobs[2], jobs[0]]


def test_a_job_that_comes_back_stands_where_it_stood() -> None:
    queue, jobs = filled(1, 2, 3)
    first = queue.pop()
    assert first is jobs[0]
    queue.push(first)
    queue.remove(jobs[1])
    queue.push(jobs[1])
    assert queue.head() is jobs[0]
    assert drained(queue) == jobs


def test_peek_shows_either_end() -> None:
    queue, jobs = filled(1, 3, 5, 2, 4)
    jobs.sort(key=Job.order)
    assert queue.peek(2) == jobs[:2]
    assert queue.peek(-2) == jobs[:2:-1]
    assert queue.peek(99) == jobs
    assert queue.peek(-99) == jobs[::-1]
    assert queue.length == 5


def test_a_queue_can_be_filled_at_once() -> None:
    queue = Queue(b"q", 0)
    jobs = [job(number) for number in range(100)]
    queue.fill(jobs)
    assert queue.length == 100
    queue.remove(jobs[50])
    assert drained(queue) == jobs[:50] + jobs[51:]


def test_jobs_taken_out_of_the_middle_are_swept_out_a_few_at_a_time() -> None:
    queue, jobs = filled(*range(10_000))
    for one in jobs[1:9_990]:
        entries = len(queue._front) + len(queue._back)
        queue.remove(one)
        assert entries - SWEEP <= len(queue._front) + len(queue._back) <= entries
    assert len(queue._front) + len(queue._back) < 3000
    assert queue.length == 11
    assert drained(queue) == [jobs[0], *jobs[9_990:]]
    assert not queue._front
    assert not queue._back


def test_the_head_is_never_one_that_was_taken_out() -> None:
    queue, jobs = filled(1, 2, 3, 4)
    queue.remove(jobs[1])
    queue.remove(jobs[0])
    assert queue.head() is jobs[2]
    queue.remove(jobs[3])
    queue.remove(jobs[2])
    assert queue.head() is None
    assert not queue._front
    assert not queue._back


def test_a_session_stands_in_line_once() -> None:
    queue = Queue(b"q", 0)
    first, second = Session(1, b"", b"", 0), Session(2, b"", b"", 0)
    for session in (first, second, first):
        queue.wait(session)
    assert list(queue.waiters or ()) == [first, second]
    assert type(queue.waiters) is OrderedDict  # a plain dict finds its first one more slowly the more have left
    queue.leave(first)
    queue.leave(first)
    queue.leave(second)
    assert queue.waiters is None


#: Most jobs have none.
PRIORITIES = st.sampled_from([0, 0, 0, 1, 7, 255])


class AgainstASortedList(RuleBasedStateMachine):
    """A queue does what a list that is sorted each time does."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = Queue(b"q", 0)
        self.inside: list[Job] = []
        self.outside: list[Job] = []
        self.next = 1000

    @rule(count=st.integers(1, 40), priority=PRIORITIES)
    def add(self, count: int, priority: int) -> None:
        for _ in range(count):
            self.next += 1
            self.put(job(self.next, priority=priority))

    @rule(ctime=st.integers(0, 2000), priority=PRIORITIES)
    def import_one(self, ctime: int, priority: int) -> None:
        self.put(job(ctime, f"other{len(self.inside)}-{len(self.outside)}", priority))

    def put(self, one: Job) -> None:
        self.queue.push(one)
        self.inside.append(one)

    @precondition(lambda self: self.inside)
    @rule()
    def take(self) -> None:
        oldest = min(self.inside, key=leaving_order)
        assert self.queue.pop() is oldest
        self.inside.remove(oldest)
        self.outside.append(oldest)

    @precondition(lambda self: self.inside)
    @rule(data=st.data(), count=st.integers(1, 60))
    def remove_some(self, data: st.DataObject, count: int) -> None:
        start = data.draw(st.integers(0, len(self.inside) - 1))
        for one in self.inside[start : start + count]:
            self.queue.remove(one)
            self.outside.append(one)
        del self.inside[start : start + count]

    @precondition(lambda self: self.outside)
    @rule(data=st.data(), count=st.integers(1, 10))
    def bring_back(self, data: st.DataObject, count: int) -> None:
        start = data.draw(st.integers(0, len(self.outside) - 1))
        for one in self.outside[start : start + count]:
            self.put(one)
        del self.outside[start : start + count]

    @invariant()
    def they_agree(self) -> None:
        wanted = sorted(self.inside, key=leaving_order)
        assert self.queue.length == len(wanted)
        assert self.queue.head() is (wanted[0] if wanted else None)
        assert list(self.queue.jobs()) == wanted
        assert self.queue.oldest() is min(wanted, key=Job.order, default=None)
        assert list(self.queue.newest()) == wanted[::-1]
        assert (self.queue._above is None) == all(priority_of(one) == 0 for one in wanted)
        entries = len(self.queue._front) + len(self.queue._back)
        assert entries <= 2 * len(wanted) + self.queue._shells + 1


AgainstASortedList.TestCase.settings = settings(max_examples=examples(40), stateful_step_count=30)
TestAgainstASortedList = AgainstASortedList.TestCase


@given(st.permutations(range(8)), st.integers(-9, 9))
def test_peek_is_a_slice_of_all(order: list[int], count: int) -> None:
    queue, jobs = filled(*order)
    ordered = sorted(jobs, key=Job.order)
    assert queue.peek(count) == (ordered[:count] if count >= 0 else ordered[::-1][:-count])
