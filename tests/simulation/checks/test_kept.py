"""What the checker of kept jobs takes for a loss."""

import pytest

from tests.simulation.checks.kept import Kept
from tests.simulation.cluster import Cluster
from tests.simulation.history import Known, Plan
from tests.simulation.options import Options
from tests.simulation.world import Violation, World

LEFT_MS = 10_000


@pytest.mark.parametrize(
    ("lost", "knew"),
    [
        ({}, True),
        ({0: LEFT_MS}, True),
        ({1: LEFT_MS - 100}, False),
        ({1: LEFT_MS - 9000}, True),
        ({1: LEFT_MS + 1}, True),
    ],
)
def test_who_leaves_answers_for_what_it_could_hear_of(lost: dict[int, int], knew: bool) -> None:
    cluster = Cluster(World(Options(1, 3, timeout_ms=1000)))
    machine = cluster.machines[0]
    machine.retired = machine.departed = True
    machine.departed_ms = LEFT_MS
    assert Kept(cluster).knew(machine, lost) == knew


def kept_and(known: Known) -> Kept:
    """The checker, of three machines that have ``known``, which was answered with REPLICATE 1."""
    checker = Kept(Cluster(World(Options(1, 3, timeout_ms=1000))))
    known.answered_ms = 0
    known.plan.repl = 1
    checker.history.jobs[known.id] = checker.live[known.id] = known
    return checker


def job(retry: int) -> Known:
    known = Known(b"D-11111111-that-is-there-or-not---------05a1", Plan(b"body", b"q"), 86_400_000)
    known.plan.retry = retry
    known.holders = {0, 1}
    return known


@pytest.mark.parametrize(("copies", "promised"), [({0, 1}, False), ({0}, True), ({0, 1, 2}, True)])
def test_when_a_machine_has_left_the_others_are_those_that_have_the_copies(copies: set[int], promised: bool) -> None:
    known = job(5)
    checker = kept_and(known)
    machine = checker.cluster.machines[0]
    machine.retired = machine.departed = True
    machine.departed_ms = LEFT_MS
    checker.copies[known.id] = (copies, LEFT_MS - 500)
    checker.history.forgot[known.id] = {1}
    checker.history.forgot_ms[known.id] = {1: LEFT_MS + 50}
    assert checker.is_promised(known) == promised


@pytest.mark.parametrize("is_full", [False, True])
def test_a_job_on_its_way_waits_as_long_as_the_disk_is_full(is_full: bool) -> None:
    known = job(0)
    checker = kept_and(known)
    checker.look()
    checker.history.silences[0] = list(range(100, 15_000, 100)) if is_full else []
    checker.world.now = 12_000
    if is_full:
        checker.look()
        checker.world.now = 26_000
    with pytest.raises(Violation, match="is lost"):
        checker.look()
