import pytest

from disque.client.job import AnyJob
from disque.client.replies import Delivered
from disque.client.shelf import PILE_MOST, Pile, Shelf
from tests.client.fake import job_id


def job(number: int, *, once: bool = False) -> AnyJob:
    return AnyJob(Delivered(job_id(number, once=once), "q", b""), None)


class TestShelf:
    def test_jobs_are_wanted_when_half_of_them_are_gone(self) -> None:
        shelf: Shelf[AnyJob] = Shelf(8, None)
        assert shelf.wanted() == 8
        shelf.ready.extend(map(job, range(5)))
        assert shelf.wanted() == 0
        shelf.ready.pop()
        assert shelf.wanted() == 4

    def test_so_many_at_a_time(self) -> None:
        assert Shelf[AnyJob](8, 3).wanted() == 3

    def test_at_the_end_the_rest_is_given_and_none_is_wanted(self) -> None:
        shelf: Shelf[AnyJob] = Shelf(2, None)
        left = job(1)
        shelf.ready.append(left)
        assert shelf.rest() == [left]
        assert shelf.wanted() == 0
        assert shelf.rest() == []

    def test_after_a_stop_only_at_most_once_jobs_are_handed_out(self) -> None:
        shelf: Shelf[AnyJob] = Shelf(8, None)
        jobs = [job(number, once=number in {1, 3}) for number in range(5)]
        shelf.ready.extend(jobs)
        shelf.stop()
        assert [shelf.next() for _ in range(3)] == [jobs[1], jobs[3], None]
        assert shelf.rest() == [jobs[0], jobs[2], jobs[4]]

    def test_nonsense_is_refused(self) -> None:
        with pytest.raises(ValueError, match="prefetch must not be negative"):
            Shelf[AnyJob](-1, None)
        with pytest.raises(ValueError, match="count must be at least 1"):
            Shelf[AnyJob](1, 0)


class TestPile:
    def test_what_gathered_is_taken_at_once(self) -> None:
        pile = Pile()
        pile.ids += ["a", "b"]
        assert pile.take() == ["a", "b"]
        assert pile.take() == []

    def test_it_is_bounded_unless_something_went_wrong(self) -> None:
        pile = Pile()
        pile.ids = ["a"] * PILE_MOST
        assert pile.full
        pile.sent(ValueError())
        assert not pile.full

    def test_the_first_error_is_told_once(self) -> None:
        pile = Pile()
        pile.sent(ValueError("first"))
        pile.sent(ValueError("second"))
        assert str(pile.fault()) == "first"
        assert pile.fault() is None
