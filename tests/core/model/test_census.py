from disque.core.model.census import NEVER_MADE, Census
from disque.core.model.memory import BEGAN_BYTES


def test_what_it_counts_for_and_that_it_begins_anew() -> None:
    census = Census()
    census.began[b"x"] = (1, 0)
    census.delayed[b"q"] = 1
    census.made_ms = 5
    census.running = True
    assert census.cost() == BEGAN_BYTES
    census.clear()
    assert census.cost() == 0
    assert (census.delayed, census.made_ms, census.running) == ({}, NEVER_MADE, False)
