"""What the checker of kept jobs takes for a loss."""

import pytest

from tests.simulation.checks.kept import Kept
from tests.simulation.cluster import Cluster
from tests.simulation.options import Options
from tests.simulation.world import World

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
