"""What the jobs of a queue have in common is one object, as long as there are few kinds of jobs."""

import pytest

from disque.core.base.numbers import SECONDS_MAX
from disque.core.model.spec import TERMS_MOST, JobSpec, SpecCache
from tests.conftest import FORM


def usual(ttl: int = 100, retry: int = 10, repl: int = 1) -> SpecCache:
    return SpecCache(JobSpec(b"q", ttl, retry, repl))


def test_terms_say_what_they_were_given() -> None:
    terms = JobSpec(b"q", SECONDS_MAX, 0, 65535)
    assert (terms.queue, terms.ttl, terms.retry, terms.repl) == (b"q", SECONDS_MAX, 0, 65535)


def test_more_seconds_than_a_client_may_say_are_the_most_it_may_say() -> None:
    terms = JobSpec(b"q", 2**40, 2**40, 1)
    assert (terms.ttl, terms.retry) == (SECONDS_MAX, SECONDS_MAX)


def test_terms_are_equal_if_they_say_the_same() -> None:
    terms = JobSpec(b"q", 3, 2, 1)
    assert terms.equals(terms)
    assert terms.equals(JobSpec(b"q", 3, 2, 1))
    others = [JobSpec(b"r", 3, 2, 1), JobSpec(b"q", 4, 2, 1), JobSpec(b"q", 3, 3, 1), JobSpec(b"q", 3, 2, 2)]
    assert not any(terms.equals(other) for other in others)


def test_equal_numbers_get_one_object() -> None:
    known = usual()
    assert known.terms(100, 10, 1) is known.terms(100, 10, 1)
    assert known.terms(100, 10, 1) is known.last


@pytest.mark.parametrize("numbers", [(101, 10, 1), (100, 11, 1), (100, 10, 2)])
def test_each_number_makes_a_difference(numbers: tuple[int, int, int]) -> None:
    known = usual()
    first = known.terms(100, 10, 1)
    other = known.terms(*numbers)
    assert other is not first
    assert (other.ttl, other.retry, other.repl) == numbers
    assert other.queue is first.queue


def test_a_few_kinds_that_take_turns_share_theirs() -> None:
    known = usual(0)
    rounds = [[known.terms(ttl, 10, 1) for ttl in range(TERMS_MOST)] for _ in range(3)]
    assert len({id(terms) for turn in rounds for terms in turn}) == TERMS_MOST
    assert [terms.ttl for terms in rounds[-1]] == list(range(TERMS_MOST))


def test_the_oldest_make_room_so_that_no_more_than_a_few_are_remembered() -> None:
    known = usual(0)
    terms = [known.terms(ttl, 10, 1) for ttl in range(3 * TERMS_MOST)]
    assert [one.ttl for one in terms] == list(range(3 * TERMS_MOST))
    assert all(known.terms(one.ttl, 10, 1) is one for one in terms[-TERMS_MOST:])
    assert known.terms(0, 10, 1) is not terms[0]


def test_both_are_small() -> None:
    assert (JobSpec.__basicsize__, SpecCache.__basicsize__) == ((56, 48) if FORM == "compiled" else (48, 40))
