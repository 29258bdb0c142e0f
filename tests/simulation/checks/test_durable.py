"""What the checker of durability takes for the record of an acknowledgement."""

from types import SimpleNamespace
from typing import Any

import pytest

from cluster.messages import GOTJOB
from tests.core.support import Bench
from tests.simulation.checks.durable import Durable
from tests.simulation.cluster import Cluster
from tests.simulation.options import Options
from tests.simulation.world import Violation, World
from tests.simulation.writer import Writer


@pytest.mark.parametrize("acknowledged", [True, False])
@pytest.mark.parametrize("written", [True, False])
@pytest.mark.parametrize("is_waiting", [True, False])
def test_a_job_that_is_written_when_it_is_done_already_is_acknowledged_by_that_record(
    is_waiting: bool, written: bool, acknowledged: bool
) -> None:
    bench = Bench(peers=1, journaling=True)
    writer = Writer.__new__(Writer)
    writer.places = {}
    bench.client().send("ADDJOB", "q", "b", 0, "REPLICATE", 2)
    (job_id,) = bench.node.copies.wanted
    if not is_waiting:
        bench.hear(bench.peers[0], (GOTJOB, (job_id,)))
        writer._note(bench.node.outbox.take(), 1)
    assert not bench.node.outbox.records, "a job that waits for its copies is not in the journal yet"
    if acknowledged:
        assert bench.client()("ACKJOB", job_id) == 1
    writer._note(bench.node.outbox.take(), 2)
    journal: Any = SimpleNamespace(safe=2 if written else 1)
    writer.journal = journal
    process: Any = SimpleNamespace(name="n0", node=bench.node, journal=writer)
    request: Any = SimpleNamespace(verb=b"ACKJOB", args=[b"ACKJOB", job_id])
    checker = Durable(Cluster(World(Options(1, 2))))
    if acknowledged and written:
        checker.left(process, request, 1)
    else:
        with pytest.raises(Violation, match="an acknowledgement"):
            checker.left(process, request, 1)
