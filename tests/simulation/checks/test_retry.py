"""What the checker of RETRY lets pass, and what it does not."""

import pytest

from tests.simulation.checks.retry import Retry
from tests.simulation.cluster import Cluster
from tests.simulation.history import FOREVER, Claim, Interval, Known, Plan
from tests.simulation.options import Options
from tests.simulation.world import Violation, World

JOB = b"D-11111111-that-is-delivered-once-more--05a1"


class Place:
    """Three machines. WORKING of a job is said to machine 0 at 10 s, and machine 1 hands it out a second later."""

    def __init__(self, forget_s: int = 86_400) -> None:
        self.cluster = Cluster(World(Options(1, 3, forget_s=forget_s)))
        self.history = self.cluster.watch.history
        for pair in ((0, 1), (0, 2), (1, 2)):
            self.cluster.network.log.since[pair] = 0
        self.known = Known(JOB, Plan(JOB, b"q"), 86_400_000)
        self.known.plan.asked_ms = 5000
        self.working = Claim(10_000, 0, 1, (0,), working=True)
        self.working.left_ms = 10_000
        self.known.claims.append(self.working)

    def deliver(
        self, at_ms: int = 11_000, path: tuple[int, ...] = (1,), handed_ms: tuple[int, ...] | None = None
    ) -> None:
        """It is handed out."""
        claim = Claim(at_ms, path[0], 1, path, working=False)
        claim.handed_ms = claim.handed_ms if handed_ms is None else handed_ms
        Retry(self.cluster).delivered(self.known, claim)


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


@pytest.mark.parametrize(("apart_ms", "is_excused"), [((9990, 10_030), True), ((9900, 9990), False)])
def test_nor_is_that_ever_heard_if_nobody_had_the_job_and_the_link_was_cut(
    apart_ms: Interval, *, is_excused: bool
) -> None:
    place = Place()
    place.working.late = frozenset({1})
    log = place.cluster.network.log
    log.past[0, 1] = [(0, apart_ms[0])]
    log.since[0, 1] = apart_ms[1]
    if is_excused:
        place.deliver(15_000)
        place.known.claims.insert(0, Claim(9000, 1, 1, (1,), working=False))
    with pytest.raises(Violation, match="5000 ms after a WORKING"):
        place.deliver(15_000)


def test_nor_is_that_heard_within_the_same_ms() -> None:
    place = Place()
    place.deliver(place.working.at_ms)
    with pytest.raises(Violation, match="1 ms after a WORKING"):
        place.deliver(place.working.at_ms + 1)
    place.working.working = False
    with pytest.raises(Violation, match="0 ms after a delivery"):
        place.deliver(place.working.at_ms)


@pytest.mark.parametrize(("crash_ms", "is_excused"), [(4500, True), (3500, False), (7500, False)])
def test_who_crashed_may_have_forgotten_to_whom_it_was_handed_on(crash_ms: int, is_excused: bool) -> None:
    place = Place()
    place.working.path, place.working.handed_ms = (0, 2), (4000,)
    place.history.crashes = {2: [crash_ms]}
    if is_excused:
        place.deliver(path=(1, 2), handed_ms=(5000,))
    else:
        with pytest.raises(Violation, match="1000 ms after a WORKING"):
            place.deliver(path=(1, 2), handed_ms=(5000,))


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


@pytest.mark.parametrize("copied", [{0: 5000, 2: 8000, 1: 9000}, {1: 5000, 2: 8000, 0: 9000}])
@pytest.mark.parametrize(
    ("forgotten", "is_excused"), [((6000, 9500), True), ((6000, 7500), False), ((9500, FOREVER), False)]
)
def test_a_copy_of_one_that_had_forgotten_others_and_theirs_know_nothing_of_each_other(
    forgotten: tuple[int, int], is_excused: bool, copied: dict[int, int]
) -> None:
    place = Place()
    place.history.copied = {JOB: copied}
    place.history.forgets = {2: [forgotten]}
    if is_excused:
        place.deliver()
    else:
        with pytest.raises(Violation, match="1000 ms after a WORKING"):
            place.deliver()


@pytest.mark.parametrize(("apart_ms", "is_excused"), [((9000, 10_600), True), ((9000, 10_400), False)])
def test_who_stopped_without_a_link_has_told_nobody(apart_ms: Interval, is_excused: bool) -> None:
    place = Place()
    log = place.cluster.network.log
    log.past[0, 1] = [(0, apart_ms[0]), (apart_ms[1], 10_700)]
    del log.since[0, 1]
    place.history.down = {0: [(10_500, 10_650)]}
    if is_excused:
        place.deliver()
    else:
        with pytest.raises(Violation, match="1000 ms after a WORKING"):
            place.deliver()


def delivered_on_both_sides(
    down: Interval = (12_000, 20_000),
    *,
    links: tuple[Interval, ...] = (),
    copied: dict[int, int] | None = None,
    givers: dict[int, int] | None = None,
    one: int = 0,
    other: int = 1,
    handed_ms: int = -1,
    forget_s: int = 5,
) -> None:
    """Machine 1 was away for 6 s from 6 s on, and 0 while it was ``down``: much later two of them deliver a job.

    The ``other`` one has it from the queue of ``one``, which handed it over at ``handed_ms``, if that is not -1.

    They can talk with each other from 20.5 s on, and in ``links``; machine 2 with both, all the time that it can.
    """
    place = Place(forget_s)
    place.history.down = {1: [(6000, 12_000)], 0: [down]}
    place.history.copied = {JOB: copied or {0: 5000, 1: 5000}}
    place.history.givers = {JOB: givers or {1: 0}}
    log = place.cluster.network.log
    log.past = {(0, 1): [(0, 6000), *links], (1, 2): [(0, 6000)], (0, 2): [(0, down[0])]}
    log.since = {(0, 1): max(20_500, down[1]), (1, 2): 12_000, (0, 2): down[1]}
    place.working.at_ms = place.working.left_ms = 80_000
    place.working.machine, place.working.path = one, (one,)
    if handed_ms >= 0:
        place.deliver(81_000, (other, one), (handed_ms,))
    else:
        place.deliver(81_000, (other,))


def test_two_that_forgot_each_other_in_turn_deliver_both() -> None:
    delivered_on_both_sides()
    delivered_on_both_sides(one=1, other=0)
    with pytest.raises(Violation, match="1000 ms after a WORKING"):
        delivered_on_both_sides(forget_s=7)


def test_one_that_could_ask_the_other_one_before_that_went_does_not() -> None:
    delivered_on_both_sides((15_000, 22_000), links=((12_000, 15_000),))
    with pytest.raises(Violation, match="1000 ms after a WORKING"):
        delivered_on_both_sides((20_000, 27_000), links=((12_000, 20_000),))


def test_nor_one_that_was_not_forgotten_by_the_other_one_which_was_away_too() -> None:
    with pytest.raises(Violation, match="1000 ms after a WORKING"):
        delivered_on_both_sides((6500, 20_500))


def test_nor_one_that_knew_of_a_third_one_which_it_can_ask() -> None:
    with pytest.raises(Violation, match="1000 ms after a WORKING"):
        delivered_on_both_sides(copied={0: 5000, 1: 5000, 2: 5000})
    delivered_on_both_sides(copied={0: 5000, 1: 5000, 2: 11_500}, givers={1: 0, 2: 0}, one=2)


def test_who_has_a_copy_from_one_of_the_two_is_on_its_side() -> None:
    copied, givers = {0: 5000, 1: 5000, 2: 25_000}, {1: 0, 2: 1}
    delivered_on_both_sides(copied=copied, givers=givers, other=2)
    with pytest.raises(Violation, match="1000 ms after a WORKING"):
        delivered_on_both_sides(copied=copied, givers=givers, one=1, other=2)
    with pytest.raises(Violation, match="1000 ms after a WORKING"):
        delivered_on_both_sides(copied=copied, givers=givers, one=2, other=2)


@pytest.mark.parametrize("one", [0, 1])
def test_who_handed_it_on_before_that_is_on_the_other_side(one: int) -> None:
    delivered_on_both_sides(one=one, other=1 - one, handed_ms=5500)
    with pytest.raises(Violation, match="1000 ms after a WORKING"):
        delivered_on_both_sides(one=one, other=1 - one, handed_ms=25_000)


def test_a_claim_knows_when_the_job_was_handed_on() -> None:
    place = Place()
    place.known.is_handed(1, 0, 6000)
    place.known.is_handed(2, 1, 7000)
    assert place.known.path_to(2) == (2, 1, 0)
    assert place.known.handed_ms == {1: 6000, 2: 7000}
