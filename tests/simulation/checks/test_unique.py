"""What the checker of UNIQUE keys lets pass, and what it does not."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from disque.core.model.job import WAIT_REPL
from tests.simulation.checks.unique import Unique
from tests.simulation.cluster import Cluster
from tests.simulation.history import Known, Plan
from tests.simulation.options import Options
from tests.simulation.world import Violation, World

A = frozenset({b"a"})
B = frozenset({b"b"})
BOTH = A | B


class Place:
    """Two machines that were asked for one key and agree, from the beginning, that they reach each other."""

    def __init__(self) -> None:
        cluster = Cluster(World(Options(1, 2)))
        self.world = cluster.world
        self.checker = Unique(cluster)
        self.see(BOTH, BOTH)

    def see(self, *views: frozenset[bytes]) -> None:
        """From now on the machines reach these."""
        for machine, view in enumerate(views):
            self.checker.note(machine, view)

    def split(self) -> None:
        """They do not reach each other for a second."""
        self.see(A, B)
        self.world.now += 1000
        self.see(BOTH, BOTH)

    def answer(self, machine: int, name: bytes, window: int, asked_ms: int = -1) -> None:
        """A machine gives the key to a new ID, a moment after it was asked for."""
        plan = Plan(name, b"q")
        plan.key, plan.window, plan.repl = b"k", window, 2
        known = Known(name, plan, self.world.now + 86_400_000)
        process: Any = SimpleNamespace(name=f"n{machine}", machine=SimpleNamespace(number=machine))
        request: Any = SimpleNamespace(ran_ms=self.world.now if asked_ms < 0 else asked_ms)
        self.checker.answered(process, request, known)
        self.world.now += 10


def test_a_second_id_within_the_window_of_the_first_is_wrong() -> None:
    place = Place()
    place.answer(0, b"one", 10)
    place.world.now += 5000
    with pytest.raises(Violation, match="one"):
        place.answer(1, b"two", 10)


def test_behind_the_window_it_is_not() -> None:
    place = Place()
    place.answer(0, b"one", 10)
    place.world.now += 10_000
    place.answer(1, b"two", 10)


def test_who_asked_first_and_was_answered_second_is_wrong_too() -> None:
    place = Place()
    begin_ms = place.world.now
    place.world.now += 1000
    place.answer(0, b"one", 10)
    with pytest.raises(Violation):
        place.answer(1, b"two", 10, asked_ms=begin_ms)


def test_who_waited_until_the_window_of_the_first_had_ended_may_have_the_key() -> None:
    place = Place()
    begin_ms = place.world.now
    place.answer(0, b"one", 2)
    place.world.now += 3000
    place.answer(1, b"two", 10, asked_ms=begin_ms + 1000)


def test_those_who_do_not_reach_each_other_may_give_the_key_twice() -> None:
    place = Place()
    place.answer(0, b"one", 10)
    place.split()
    place.answer(1, b"two", 10)


def test_when_one_of_two_that_a_split_has_made_ends_the_key_may_be_free() -> None:
    place = Place()
    place.answer(0, b"one", 2)
    place.split()
    place.answer(1, b"two", 100)
    place.world.now += 2000
    place.answer(1, b"three", 100)


def test_one_that_was_asked_for_long_before_it_began_can_still_take_the_place_of_another() -> None:
    place = Place()
    begin_ms = place.world.now
    place.world.now += 1900
    place.answer(0, b"one", 2, asked_ms=begin_ms)
    place.split()
    place.answer(1, b"two", 100)
    place.world.now += 2000
    place.answer(1, b"three", 100)


def test_while_both_last_a_third_is_wrong() -> None:
    place = Place()
    place.answer(0, b"one", 20)
    place.split()
    place.answer(1, b"two", 100)
    place.world.now += 2000
    with pytest.raises(Violation):
        place.answer(1, b"three", 100)


def test_who_came_after_a_split_is_not_excused_by_it() -> None:
    place = Place()
    place.answer(0, b"one", 2)
    place.split()
    place.answer(1, b"two", 100)
    place.world.now += 2000
    place.answer(1, b"three", 100)
    with pytest.raises(Violation, match="three"):
        place.answer(0, b"four", 100)


@pytest.mark.parametrize("parts", [True, False])
def test_a_job_of_which_a_leaving_node_has_let_go_is_decided_one_that_waits_for_its_copies_is_not(
    parts: bool,
) -> None:
    place = Place()
    known = Known(b"one", Plan(b"one", b"q"), place.world.now + 86_400_000)
    known.plan.key = b"k"
    waiting = SimpleNamespace(state=WAIT_REPL)
    repairs = SimpleNamespace(parting={b"one": waiting} if parts else {})
    node = SimpleNamespace(find={b"one": waiting}.get, repairs=repairs)
    process: Any = SimpleNamespace(name="n0", node=node)
    cluster: Any = SimpleNamespace(processes=lambda: [process])
    place.checker.cluster = cluster
    request: Any = SimpleNamespace(args=[b"ADDJOB", b"q", b"one", b"0", b"UNIQUE", b"k"])
    with nullcontext() if parts else pytest.raises(Violation, match="not decided"):
        place.checker.hit(process, request, known)
