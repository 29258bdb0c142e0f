"""What the checker of bounds of queues lets pass, and what it does not."""

from types import SimpleNamespace
from typing import Any

import pytest

from disque.core.model.pubsub import ADDED
from tests.core.support import Bench, Client
from tests.simulation.checks.bounded import Bounded
from tests.simulation.cluster import Cluster
from tests.simulation.options import Options
from tests.simulation.process import Process
from tests.simulation.world import Violation, World

BOUND = ("QCONFIG", "SET", "q", "maxlen", 1, "overflow", "drop-oldest")


class Place:
    """One node, whose turns are a few commands each."""

    def __init__(self) -> None:
        self.checker = Bounded(Cluster(World(Options(1, 1))))
        self.bench = Bench()
        self.client: Client = self.bench.client()
        process: Any = SimpleNamespace(name="n0", node=self.bench.node)
        self.process: Process = process
        self.checker.flushed(self.process)

    def add(self) -> bytes:
        return bytes(self.client.add("q"))

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


def test_nor_where_another_node_has_the_job() -> None:
    place = Place()
    place.add()
    place.add()
    place.client(*BOUND)
    place.turn_ends()
    place.turn_ends(b"D-11111111-handed-out-to-a-node-05a1")
