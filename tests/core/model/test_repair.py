from disque.core.model.job import Job
from disque.core.model.memory import CHECK_BYTES
from disque.core.model.repair import NEWS_MOST, Check, Repairs, Replacement, Walk
from disque.core.model.spec import JobSpec
from tests.core.support import MYSELF, foreign_id

A, B, C = b"a" * 40, b"b" * 40, b"c" * 40


def job() -> Job:
    return Job(foreign_id(), JobSpec(b"q", 600, 60, 3), b"body", 1, 1000, 0, (A, B, MYSELF))


def test_a_replacement_has_its_copies_when_as_many_as_are_missing_have_confirmed() -> None:
    spread = Replacement(job(), (A,), (B,), 2, 5, is_alone=False)
    assert spread.asked == (A, B)
    assert spread.missing() == 2
    spread.confirmed += (C,)
    assert spread.missing() == 1
    assert spread.had == 1
    assert spread.before == (A, B, MYSELF)


def test_a_check_counts_for_memory_until_all_is_forgotten() -> None:
    repairs = Repairs(MYSELF, 1000)
    assert repairs.doubts == {MYSELF: 1000}
    repairs.checks[foreign_id()] = Check([A], 0)
    repairs.walk = Walk(frozenset(), "", 1000, everything=False)
    assert repairs.cost() == CHECK_BYTES
    assert repairs.drop_job(job()) == 0
    repairs.clear()
    assert repairs.cost() == 0
    assert repairs.walk is None


def test_news_that_nobody_takes_are_bounded() -> None:
    repairs = Repairs(MYSELF, 1000)
    repairs.news.extend(str(number) for number in range(10 * NEWS_MOST))
    assert len(repairs.news) == NEWS_MOST
