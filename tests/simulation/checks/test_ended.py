"""What the checker of ends takes for two answers about one end."""

from typing import Any

import pytest

from tests.simulation.checks.ended import Beside, Ended
from tests.simulation.cluster import Cluster
from tests.simulation.connection import Request
from tests.simulation.history import Ack, Known, Plan
from tests.simulation.options import Options
from tests.simulation.world import Violation, World

JOB = b"D-11111111-how-it-has-ended-is-of-use---05a1"


@pytest.mark.parametrize("machines", [(), (2,), (2, 1), (2, 2)])
def test_what_is_said_beside_an_end_differs_only_where_one_node_took_it_twice(machines: tuple[int, ...]) -> None:
    """The job came back, moved, and ended there once more: others know one end or the other, which are the same."""
    cluster = Cluster(World(Options(1, 3)))
    checker = Ended(cluster)
    known = cluster.watch.history.jobs[JOB] = Known(JOB, Plan(b"b", b"q"), 86_400_000)
    known.plan.retain = 60
    known.acks = [Ack(1000 * number, machine) for number, machine in enumerate(machines)]
    request = Request([b"RESULT", JOB], 0)
    process: Any = cluster.machines[0]
    first: Beside = (b"q:dead", None, 0)
    checker.note_beside(process, request, JOB, first)
    checker.note_beside(process, request, JOB, first)
    if machines == (2, 2):
        checker.note_beside(process, request, JOB, (b"q", None, 1))
    else:
        with pytest.raises(Violation, match="beside"):
            checker.note_beside(process, request, JOB, (b"q", None, 1))


@pytest.mark.parametrize("reply", [b":1\r\n", b":0\r\n"])
def test_nor_need_it_be_the_same_where_who_took_it_did_not_know_the_job(reply: bytes) -> None:
    """Each holder takes the end as it knows the job: one may have heard of the last try already."""
    cluster = Cluster(World(Options(1, 3)))
    checker = Ended(cluster)
    known = cluster.watch.history.jobs[JOB] = Known(JOB, Plan(b"b", b"q"), 86_400_000)
    known.plan.retain = 60
    process: Any = cluster.machines[0]
    checker.ran(process, Request([b"ACKJOB", JOB, b"RESULT", b"x"], 0), reply)
    request = Request([b"RESULT", JOB], 0)
    checker.note_beside(process, request, JOB, (b"q", None, 2))
    if reply == b":0\r\n":
        checker.note_beside(process, request, JOB, (b"q", None, 1))
    else:
        with pytest.raises(Violation, match="beside"):
            checker.note_beside(process, request, JOB, (b"q", None, 1))
