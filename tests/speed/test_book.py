"""Rounds are compared within a round, and summed up by their median and extremes."""

from tests.speed.book import Book, Cell, Spread, spread

OURS, THEIRS = Cell("depth", "compiled", "add", 16), Cell("depth", "redis", "add", 16)


def book(*rates: tuple[float, float]) -> Book:
    found = Book()
    for turn, (ours, theirs) in enumerate(rates):
        found.add(OURS, turn, rate=ours)
        found.add(THEIRS, turn, rate=theirs)
    return found


def test_a_spread_is_median_and_extremes() -> None:
    assert spread([3.0, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0)
    assert spread([]) is None


def test_a_spread_in_words() -> None:
    assert Spread(2000.4, 1000, 3000).text() == "2,000 (1,000 to 3,000)"
    assert Spread(0.5, 0.5, 0.5).text(".2f") == "0.50"
    assert Spread(2.0, 1.0, 3.0).times(2) == Spread(4.0, 2.0, 6.0)


def test_a_ratio_is_that_of_a_round() -> None:
    assert book((50, 100), (10, 10), (30, 40)).ratio(OURS, THEIRS, "rate") == Spread(0.75, 0.5, 1.0)


def test_rounds_that_only_one_has_are_left_out() -> None:
    found = book((50, 100), (10, 0))
    found.add(OURS, 2, rate=1.0)
    assert found.ratio(OURS, THEIRS, "rate") == Spread(0.5, 0.5, 0.5)
    assert found.ratio(OURS, Cell("depth", "nobody", "add", 16), "rate") is None


def test_what_was_measured_twice_in_a_round_counts_by_its_last() -> None:
    found = book((50, 100))
    found.add(OURS, 0, rate=60)
    assert found.spread(OURS, "rate") == Spread(60, 60, 60)
    assert found.spread(OURS, "cpu_us") is None


def test_what_is_in_it() -> None:
    found = book((1, 2))
    found.add(Cell("depth", "compiled", "get", 1), 0, rate=3)
    assert found.sizes("depth") == [1, 16]
    assert found.sizes("depth", "redis") == [16]
    assert found.sizes("depth", what="get") == [1]
    assert found.servers("depth") == ["compiled", "redis"]
    assert found.servers("depth", "get") == ["compiled"]
    assert found.whats("depth", "compiled") == ["add", "get"]
    assert found.sizes("memory") == []


def test_it_comes_back_from_its_text() -> None:
    found = book((1, 2), (3, 4))
    found.facts["Python"], found.notes = "3", ["no beanstalkd"]
    again = Book.loads(found.dumps())
    assert (again.samples, again.facts, again.notes) == (found.samples, found.facts, found.notes)
    assert Book.loads(Book().dumps()).samples == []
