"""What those who watch know of a WORKING that comes late, of clocks, and of who had heard that a job is over."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.core.support import Bench
from tests.simulation.cluster import Cluster
from tests.simulation.disk import Yield
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
