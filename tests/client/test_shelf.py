import pytest

from disque.client.shelf import PILE_MOST, Pile, Shelf


class TestShelf:
    def test_jobs_are_wanted_when_half_of_them_are_gone(self) -> None:
        shelf: Shelf[int] = Shelf(8, None)
        assert shelf.wanted() == 8
        shelf.ready.extend(range(5))
        assert shelf.wanted() == 0
        shelf.ready.pop()
        assert shelf.wanted() == 4

    def test_so_many_at_a_time(self) -> None:
        assert Shelf[int](8, 3).wanted() == 3

    def test_at_the_end_the_rest_is_given_and_none_is_wanted(self) -> None:
        shelf: Shelf[int] = Shelf(2, None)
        shelf.ready.append(1)
        assert shelf.rest() == [1]
        assert shelf.wanted() == 0
        assert shelf.rest() == []

    def test_nonsense_is_refused(self) -> None:
        with pytest.raises(ValueError, match="prefetch must not be negative"):
            Shelf[int](-1, None)
        with pytest.raises(ValueError, match="count must be at least 1"):
            Shelf[int](1, 0)


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
