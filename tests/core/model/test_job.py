"""A job's own knowledge: where it stands in the order of all jobs, and what it begins as."""

import pytest

from disque.core.base.numbers import SECONDS_MAX
from disque.core.base.timers import IDLE, Timed
from disque.core.model.job import ACTIVE, COMPILED, OUT, STATE_NAMES, Job
from disque.core.model.lane import job_order
from disque.core.model.spec import JobSpec
from tests.conftest import FORM


def job(ctime: int, job_id: bytes = b"D-1") -> Job:
    return Job(job_id, JobSpec(b"q", 100, 60, 1), b"body", ctime, 1000, 0, (b"n",))


def test_a_new_job_is_nowhere_and_armed_for_nothing() -> None:
    new = job(5)
    assert (new.state, new.place, new.flags, new.requeue_ms, new.segment) == (ACTIVE, OUT, 0, 0, 0)
    assert (new.nacks, new.deliveries) == (0, 0)


def test_it_begins_as_every_other_thing_with_a_timer() -> None:
    plain, new = Timed(), job(5)
    assert (new.due_ms, new.slot) == (plain.due_ms, plain.slot) == (0, IDLE)


def test_what_its_terms_say_is_read_from_the_job_itself() -> None:
    new = job(5)
    assert (new.queue, new.ttl, new.retry, new.repl) == (b"q", 100, 60, 1)


def test_a_job_is_small() -> None:
    assert Job.__basicsize__ == (112 if FORM == "compiled" else 144)


def test_a_job_knows_in_which_form_it_runs() -> None:
    assert (FORM == "compiled") == COMPILED


@pytest.mark.parametrize("seconds", [0, 1, 2**31 - 1, 2**31, 2**32 - 1])
def test_its_seconds_are_those_it_was_given_and_are_multiplied_as_numbers_without_a_width(seconds: int) -> None:
    new = Job(b"D-1", JobSpec(b"q", seconds, seconds, 1), b"body", 1, 1000, seconds, (b"n",))
    assert (new.retry, new.delay, new.ttl) == (seconds, seconds, seconds)
    assert new.retry * 1000 == seconds * 1000


def test_a_longer_delay_than_a_client_may_say_is_the_longest_it_may_say() -> None:
    assert Job(b"D-1", JobSpec(b"q", 1, 1, 1), b"body", 1, 1000, 2**40, (b"n",)).delay == SECONDS_MAX


def test_jobs_are_ordered_by_time_and_then_by_id() -> None:
    jobs = [job(2, b"a"), job(1, b"b"), job(1, b"a")]
    assert [one.order() for one in sorted(jobs, key=Job.order)] == [(1, b"a"), (1, b"b"), (2, b"a")]
    assert [job_order(one) for one in jobs] == [one.order() for one in jobs]


def test_its_age_follows_from_its_ttl_whatever_the_clock_of_its_maker_said() -> None:
    old = job(1_800_000_000_123_000_007)
    old.expires_ms = 500_000
    assert [old.age_ms(now_ms) for now_ms in (400_000, 450_001, 500_000)] == [0, 50_001, 100_000]


def test_states_are_named_in_the_order_of_their_numbers() -> None:
    assert STATE_NAMES == (b"wait-repl", b"active", b"queued", b"acked")
