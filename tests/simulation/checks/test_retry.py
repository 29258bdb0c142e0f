"""What the checker of RETRY lets pass, and what it does not."""

import pytest

from tests.simulation.checks.retry import Retry
from tests.simulation.cluster import Cluster
from tests.simulation.history import FOREVER, Claim, Known, Plan
from tests.simulation.options import Options
from tests.simulation.world import Violation, World

JOB = b"D-11111111-that-is-delivered-once-more--05a1"


class Place:
    """Three machines. WORKING of a job is said to machine 0 at 10 s, and machine 1 hands it out a second later."""

    def __init__(self) -> None:
        self.cluster = Cluster(World(Options(1, 3)))
        self.history = self.cluster.watch.history
        for pair in ((0, 1), (0, 2), (1, 2)):
            self.cluster.network.log.since[pair] = 0
        self.known = Known(JOB, Plan(JOB, b"q"), 86_400_000)
        self.known.plan.asked_ms = 5000
        self.working = Claim(10_000, 0, 1, (0,), working=True)
        self.working.left_ms = 10_000
        self.known.claims.append(self.working)

    def deliver(self, at_ms: int = 11_000, path: tuple[int, ...] = (1,)) -> None:
        """It is handed out."""
        Retry(self.cluster).delivered(self.known, Claim(at_ms, path[0], 1, path, working=False))


def test_a_job_on_which_somebody_works_does_not_come() -> None:
    with pytest.raises(Violation, match="1000 ms after a WORKING"):
        Place().deliver()


def test_but_from_where_it_was_queued_before_that_was_heard() -> None:
    place = Place()
    place.working.late = frozenset({1})
    place.deliver()
    place.deliver(path=(2, 1))
    with pytest.raises(Violation, match="1000 ms after a WORKING"):
        place.deliver(path=(2,))
    with pytest.raises(Violation, match="5000 ms after a WORKING"):
        place.deliver(15_000)


@pytest.mark.parametrize(("machine", "is_excused"), [(0, True), (1, True), (2, False)])
def test_what_others_threw_away_excuses_nothing(machine: int, is_excused: bool) -> None:
    place = Place()
    place.history.evictions = {machine: [10_500]}
    if is_excused:
        place.deliver()
    else:
        with pytest.raises(Violation, match="1000 ms after a WORKING"):
            place.deliver()


def test_nor_do_nodes_that_were_forgotten_and_known_again_before_the_job_was_there() -> None:
    place = Place()
    place.history.forgets = {1: [(3000, 4000)]}
    with pytest.raises(Violation, match="1000 ms after a WORKING"):
        place.deliver()
    place.history.forgets = {1: [(3000, FOREVER)]}
    place.deliver()


@pytest.mark.parametrize(
    ("forgotten", "is_excused"), [((6000, 9500), True), ((6000, 7500), False), ((9500, FOREVER), False)]
)
def test_a_copy_of_one_that_had_forgotten_who_delivered_knows_nothing_of_that(
    forgotten: tuple[int, int], is_excused: bool
) -> None:
    place = Place()
    place.history.copied = {JOB: {0: 5000, 2: 8000, 1: 9000}}
    place.history.forgets = {2: [forgotten]}
    if is_excused:
        place.deliver()
    else:
        with pytest.raises(Violation, match="1000 ms after a WORKING"):
            place.deliver()
