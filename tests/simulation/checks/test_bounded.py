"""What the checker of bounds of queues lets pass, and what it does not."""

from types import SimpleNamespace
from typing import Any

import pytest

from cluster.messages import SETACK
from disque.core.jobs import overflow
from disque.core.model.extra import DIED_NACK, DIED_RETURNED
from disque.core.model.job import ACKED, WAIT_REPL
from disque.core.model.pubsub import ADDED, DEAD, DROPPED
from disque.core.replication import returned, tries
from tests.core.support import Bench, Client
from tests.simulation.checks.bounded import Bounded
from tests.simulation.cluster import Cluster
from tests.simulation.history import Known, Plan
from tests.simulation.options import Options
from tests.simulation.process import Process
from tests.simulation.world import Violation, World

BOUND = ("QCONFIG", "SET", "q", "maxlen", 1, "overflow", "drop-oldest")


class Place:
    """One node, whose turns are a few commands each."""

    def __init__(self, peers: int = 0) -> None:
        self.checker = Bounded(Cluster(World(Options(1, 1))))
        self.bench = Bench(peers=peers)
        self.client: Client = self.bench.client()
        process: Any = SimpleNamespace(name="n0", node=self.bench.node)
        self.process: Process = process
        self.checker.flushed(self.process)

    def add(self) -> bytes:
        return bytes(self.client.add("q", "body", "REPLICATE", 1))

    def turn_ends(self, *added: bytes) -> None:
        """These jobs have been added in this turn."""
        self.checker.happened(self.process, [(ADDED, b"q", job_id) for job_id in added])
        self.checker.flushed(self.process)


def test_a_queue_longer_than_its_bound_is_wrong() -> None:
    place = Place()
    job_ids = [place.add(), place.add()]
    place.client(*BOUND)
    place.turn_ends()
    with pytest.raises(Violation, match="2 jobs, not 1"):
        place.turn_ends(*job_ids)


def test_but_not_where_the_bound_may_have_come_behind_the_job() -> None:
    place = Place()
    job_ids = [place.add(), place.add()]
    place.client(*BOUND)
    place.turn_ends(*job_ids)
    place.client("QCONFIG", "SET", "q", "maxlen", 5)
    place.turn_ends(place.add())
    place.client(*BOUND)
    place.turn_ends(*job_ids)


def test_the_bound_before_counts_meanwhile() -> None:
    place = Place()
    job_ids = [place.add() for _ in range(3)]
    place.client("QCONFIG", "SET", "q", "maxlen", 2, "overflow", "drop-oldest")
    place.turn_ends()
    place.client(*BOUND)
    with pytest.raises(Violation, match="3 jobs, not 1"):
        place.turn_ends(*job_ids)


def test_what_is_set_for_another_queue_excuses_nothing() -> None:
    place = Place()
    job_ids = [place.add(), place.add()]
    place.client(*BOUND)
    place.turn_ends()
    place.client("QCONFIG", "SET", "r", "maxlen", 1)
    with pytest.raises(Violation, match="2 jobs, not 1"):
        place.turn_ends(*job_ids)


def test_nor_where_another_node_has_the_job() -> None:
    place = Place()
    place.add()
    place.add()
    place.client(*BOUND)
    place.turn_ends()
    place.turn_ends(b"D-11111111-handed-out-to-a-node-05a1")


def test_nor_where_another_node_is_asked_to_take_it() -> None:
    place = Place(peers=1)
    place.add()
    place.add()
    place.client(*BOUND)
    place.turn_ends()
    bench = place.bench
    bench.set("maxmemory", bench.node.used * 100 // 90)
    job_id = bytes(place.client.add("q", "body", "REPLICATE", 1, "ASYNC"))
    bench.set("maxmemory", 0)  # what took the memory is gone a moment later
    job = bench.node.find(job_id)
    assert job is not None
    assert job.state == WAIT_REPL
    place.turn_ends(job_id)


def test_nor_where_the_job_was_done_elsewhere_before_its_copies_were_known() -> None:
    place = Place(peers=2)
    place.add()
    place.add()
    place.client(*BOUND)
    place.turn_ends()
    bench = place.bench
    adding = bench.client()
    adding.send("ADDJOB", "q", "body", 0, "REPLICATE", 3)
    (job,) = [job for shard in bench.node.shards for job in shard.values() if len(job.holders) > 1]
    bench.hear(bench.peers[0], (SETACK, job.holders, (job.id,)))
    assert job.state == ACKED
    assert place.client("QLEN", "q") == 2
    place.turn_ends(job.id)


@pytest.mark.parametrize(("drops", "is_wrong"), [(2, True), (3, False)])
def test_the_rest_of_what_is_too_much_goes_with_the_next_turn(
    drops: int, is_wrong: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overflow, "DROPS_MOST", 3)
    place = Place()
    job_ids = [place.add() for _ in range(drops + 2)]
    place.client(*BOUND)
    place.turn_ends()
    place.client("CANCEL", *job_ids[:drops])  # as `drop-oldest` ends them
    events = [(DROPPED, b"q", job_id) for job_id in job_ids[:drops]]
    events.append((ADDED, b"q", job_ids[-1]))
    if is_wrong:
        with pytest.raises(Violation, match="2 jobs, not 1"):
            place.checker.happened(place.process, events)
    else:
        place.checker.happened(place.process, events)


def letter(place: Place, cause: int, queue: bytes) -> bytes:
    """A job of another queue whose dead letters go to q; it dies now, and goes to this one."""
    job_id = bytes(place.client.add("work", "b", "DEADLETTER", "q"))
    plan = Plan(job_id, b"work")
    plan.dead, plan.retry = b"q", 300
    place.checker.history.jobs[job_id] = Known(job_id, plan, 86_400_000)
    job = place.bench.node.find(job_id)
    assert job is not None
    tries.put_away(place.bench.node, job, queue, cause, place.bench.now_ms)
    return job_id


def test_a_queue_of_dead_letters_too_long_is_wrong() -> None:
    place = Place()
    place.add()
    job_id = letter(place, DIED_NACK, b"q")
    place.client(*BOUND)
    place.turn_ends()
    with pytest.raises(Violation, match="jobs, not 1"):
        place.checker.happened(place.process, [(DEAD, b"work", job_id)])


def test_but_not_by_jobs_that_returned_with_their_node_and_go_elsewhere() -> None:
    place = Place()
    job_ids = [place.add(), place.add()]
    job_id = letter(place, DIED_RETURNED, returned.QUEUE)
    place.client(*BOUND)
    place.turn_ends()
    assert place.client("QLEN", "q") == len(job_ids)
    place.checker.happened(place.process, [(DEAD, b"work", job_id)])
