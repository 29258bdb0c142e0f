"""How long the checker of answers waits for what asks all nodes."""

from types import SimpleNamespace
from typing import Any

import pytest

from disque.core.model.survey import WAIT_MS
from tests.simulation.checks.answers import LOOK_MS, Answers
from tests.simulation.cluster import Cluster
from tests.simulation.connection import Request
from tests.simulation.options import Options
from tests.simulation.world import Violation, World


@pytest.mark.parametrize(("users", "rounds"), [(False, 1), (True, 2)])
def test_where_there_are_users_all_are_asked_first_whether_they_may(users: bool, rounds: int) -> None:
    cluster = Cluster(World(Options(1, 3, users=users)))
    request = Request([b"RESULT", b"D-11111111-that-somebody-asks-about----05a1"], 0)
    request.ran_ms = 0
    connection: Any = SimpleNamespace(owed=[request])
    process: Any = SimpleNamespace(name="n0.1", machine=SimpleNamespace(number=0))
    cluster.world.now = rounds * WAIT_MS + LOOK_MS
    Answers(cluster).look(process, connection)
    cluster.world.now += 1
    with pytest.raises(Violation, match="owes an answer"):
        Answers(cluster).look(process, connection)
