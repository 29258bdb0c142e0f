"""Where the checker of zones takes nodes to be."""

from types import SimpleNamespace
from typing import Any

import pytest

from cluster.messages import GOTJOB
from tests.simulation.checks.zoned import Open, Zoned
from tests.simulation.cluster import Cluster
from tests.simulation.options import Options
from tests.simulation.world import World

JOB = b"D-11111111-that-lies-in-several-zones---05a1"
#: Two nodes of one zone, and the coordinator, which has none.
FIRST, SECOND, MINE = b"1" * 40, b"2" * 40, b"3" * 40


class Coordinator:
    """A process, which can be a key."""

    name = "n2.1"
    node = SimpleNamespace(node_id=MINE, membership=SimpleNamespace(nodes={FIRST: None, SECOND: None, MINE: None}))


def test_who_was_reset_is_where_it_was_when_it_confirmed_its_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(World(Options(1, 3, zones=2)))
    checker = Zoned(cluster)
    zones: dict[bytes, Any] = {FIRST: SimpleNamespace(zone=b"zone-1"), SECOND: SimpleNamespace(zone=b"zone-1")}
    monkeypatch.setattr(cluster, "machine_of", zones.get)
    process: Any = Coordinator()
    source: Any = SimpleNamespace(node=SimpleNamespace(node_id=FIRST))
    spread: Any = SimpleNamespace(job=SimpleNamespace(repl=3), outside=False)
    checker.taken(process, source, (GOTJOB, (JOB,)))
    del zones[FIRST]  # it has another ID now
    checker.judge(process, JOB, Open(spread, {FIRST}, {SECOND}), {SECOND})
    assert not checker.verdicts, "the other one would be in the same zone"
    checker.zones.clear()
    checker.judge(process, JOB, Open(spread, {FIRST}, {SECOND}), {SECOND})
    assert JOB in checker.verdicts


def test_who_was_forgotten_since_it_confirmed_its_copy_is_a_zone_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(World(Options(1, 3, zones=2)))
    checker = Zoned(cluster)
    zones: dict[bytes, Any] = {node_id: SimpleNamespace(zone=b"zone-1") for node_id in (FIRST, MINE)}
    monkeypatch.setattr(cluster, "machine_of", lambda node_id: zones.get(node_id, SimpleNamespace(zone=b"zone-2")))
    process: Any = Coordinator()
    spread: Any = SimpleNamespace(job=SimpleNamespace(repl=2), outside=False)
    checker.judge(process, JOB, Open(spread, {FIRST}, {SECOND}), {SECOND})
    assert JOB in checker.verdicts
    checker.verdicts.clear()
    monkeypatch.setattr(process.node.membership, "nodes", {SECOND: None, MINE: None})
    checker.judge(process, JOB, Open(spread, {FIRST}, {SECOND}), {SECOND})
    assert not checker.verdicts
