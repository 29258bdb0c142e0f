"""What the checker of deliveries takes for a job that nobody got."""

import pytest

from tests.simulation.checks.delivered import Orderly
from tests.simulation.checks.kept import Kept
from tests.simulation.cluster import Cluster
from tests.simulation.history import Known, Plan
from tests.simulation.options import Options
from tests.simulation.world import Violation, World

JOB = b"D-11111111-that-waits-for-its-RETRY------05a1"


@pytest.mark.parametrize(
    ("policy", "mixed", "may_wait"), [("off", True, True), ("off", False, False), ("everysec", True, False)]
)
def test_who_cannot_say_that_its_copies_are_lost_may_get_a_job_that_it_has_no_more(
    policy: str, mixed: bool, may_wait: bool
) -> None:
    cluster = Cluster(World(Options(1, 3, policy=policy, mixed=mixed, faults={"stop": 1000})))
    kept = Kept(cluster)
    known = kept.live[JOB] = Known(JOB, Plan(JOB, b"q"), 86_400_000)
    known.answered_ms = 1000
    known.plan.retry = 300
    known.holders = {0, 1}
    cluster.world.now = 20_000
    checker = Orderly(cluster, kept)
    if may_wait:
        checker.end()
    else:
        with pytest.raises(Violation, match="reached nobody"):
            checker.end()
