"""What those who watch know of a WORKING that comes late, of clocks, of jobs given away, and of who knew of an end."""

from types import SimpleNamespace
from typing import Any

import pytest

from cluster.messages import REFUSED, REFUSED_JOURNAL
from tests.core.support import Bench
from tests.simulation.cluster import Cluster
from tests.simulation.disk import Yield
from tests.simulation.history import Known, Plan
from tests.simulation.options import Options
from tests.simulation.watch import is_over
from tests.simulation.world import World

#: So long the messages of these two machines take, there and back.
TRAVEL_MS = 6


@pytest.mark.parametrize(("left_ms", "late"), [(0, True), (TRAVEL_MS, True), (TRAVEL_MS + 1, False)])
def test_a_working_is_late_if_the_job_is_queued_elsewhere_before_that_is_heard(left_ms: int, late: bool) -> None:
    watch = Cluster(World(Options(1, 2))).watch
    bench = Bench()
    client = bench.client()
    job_id = bytes(client.add("q", "b", "RETRY", 1))
    first: Any = SimpleNamespace(machine=SimpleNamespace(number=0))
    now_ms = bench.now_ms + 1000 - left_ms
    other: Any = SimpleNamespace(machine=SimpleNamespace(number=1), node=bench.node, now_ms=lambda: now_ms)
    assert watch.is_late(first, other, job_id), "it is in the queue"
    assert client.get("q") == [job_id]
    assert watch.is_late(first, other, job_id) == late
    client("ACKJOB", job_id)
    assert not watch.is_late(first, other, job_id)


def test_a_clock_that_was_set_before_a_start_that_failed_has_jumped() -> None:
    world = World(Options(1, 1))
    machine = Cluster(world).machines[0]
    watch = machine.cluster.watch
    process: Any = SimpleNamespace(machine=machine, node=Bench().node, now_ms=lambda: 0)
    watch.started(process)
    assert not watch.history.jumps
    machine.offset_ms += 5000
    machine.jumped = False  # that start ended while it read its journal; the next one finds the clock as it is
    watch.started(process)
    watch.started(process)
    assert watch.history.jumps == {0: [world.now]}


def test_a_process_that_dies_had_heard_of_an_end_if_it_or_its_journal_knew() -> None:
    bench = Bench()
    client = bench.client()
    job_id = bytes(client.add("q"))
    process: Any = SimpleNamespace(node=bench.node)
    assert not is_over(process, job_id, None)
    client("ACKJOB", job_id)
    assert is_over(process, job_id, None)
    bench.node.loading = True
    assert not is_over(process, job_id, {job_id: Yield(300, 1000)})
    assert not is_over(process, job_id, None), "it is the first process of its machine"
    assert is_over(process, job_id, {}), "the one before knew, and power failed while this one was reading"


@pytest.mark.parametrize("is_given", [True, False])
@pytest.mark.parametrize("is_kept", [True, False])
@pytest.mark.parametrize("ended_ms", [0, 500])
def test_a_job_that_is_refused_after_a_link_has_ended_is_lost_if_its_node_had_forgotten_it(
    ended_ms: int, is_kept: bool, is_given: bool
) -> None:
    cluster = Cluster(World(Options(1, 2)))
    watch, log = cluster.watch, cluster.network.log
    begin_ms = cluster.world.now
    cluster.world.now += 1000
    log.since[0, 1] = begin_ms + ended_ms  # ended, and came again
    bench = Bench()
    job_id = bytes(bench.client().add("q", "b", "RETRY", 0))
    if not is_kept:
        bench.client()("DELJOB", job_id)
    known = watch.history.jobs[job_id] = Known(job_id, Plan(b"b", b"q"), cluster.world.now + 86_400_000)
    known.answered_ms = begin_ms
    known.handing = is_given
    giver: Any = SimpleNamespace(machine=SimpleNamespace(number=0), node=bench.node)
    taker: Any = SimpleNamespace(machine=SimpleNamespace(number=1), node=Bench().node)
    watch.message(giver, taker, (REFUSED, REFUSED_JOURNAL, (job_id,)))
    assert known.lost == (is_given and not is_kept and ended_ms > 0)
    assert not known.handing
