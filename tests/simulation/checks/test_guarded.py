"""What the checker of rights to queues lets pass, and what it does not."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.simulation.checks.guarded import Guarded
from tests.simulation.cluster import Cluster
from tests.simulation.connection import Request
from tests.simulation.history import Known, Plan
from tests.simulation.options import Options
from tests.simulation.process import Process
from tests.simulation.world import Violation, World

JOB = b"D-11111111-of-which-only-its-end-is-known-05a1"


@pytest.mark.parametrize(("queue", "may"), [(b"mine", True), (b"foreign", False)])
@pytest.mark.parametrize("is_known", [True, False])
def test_a_job_of_which_only_the_end_is_known_has_the_queue_of_its_addjob(
    queue: bytes, may: bool, is_known: bool
) -> None:
    cluster = Cluster(World(Options(1, 1, users=True)))
    checker = Guarded(cluster)
    cluster.watch.history.jobs[JOB] = Known(JOB, Plan(JOB, queue), 86_400_000)
    process = Process.__new__(Process)
    process.name = "n0"
    user = cluster.world.options.user_names[0]
    checker.past[process, user] = [(-1, frozenset({b"mine"}))]
    words: Any = SimpleNamespace(user=user, verb=b"SHOW", ran_ms=0, ready_ms=0)
    request: Request = words
    reply = [b"id", JOB, b"queue", queue if is_known else None, b"state", b"acked"]
    if may:
        checker.left(process, request, reply)
    else:
        with pytest.raises(Violation, match="foreign"):
            checker.left(process, request, reply)
