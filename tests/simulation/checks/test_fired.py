"""When the checker of schedules takes a CRON SET for news, and what it takes for the job of a tick."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.core.support import Bench, Client
from tests.simulation.checks.fired import Fired
from tests.simulation.cluster import Cluster
from tests.simulation.connection import Request
from tests.simulation.options import Options
from tests.simulation.workload import MOODY
from tests.simulation.world import WALL_MS, Violation, World


def test_what_is_set_as_it_is_already_is_no_news() -> None:
    bench = Bench()
    client: Client = bench.client()
    checker = Fired(Cluster(World(Options(1, 1))))
    process: Any = SimpleNamespace(node=bench.node)
    for spec, is_news in (("@hourly", True), ("@hourly", False), ("@daily", True)):
        assert client("CRON", "SET", "name", spec, "q", "body") == b"OK"
        assert checker.is_taken(process, b"name") == is_news
    elsewhere: Any = SimpleNamespace(node=SimpleNamespace(registry=bench.node.registry, node_id=b"another"))
    assert not checker.is_taken(elsewhere, b"name"), "it heard of it"
    assert not checker.is_taken(process, b"unknown")


def test_a_tick_that_was_put_away_after_its_node_was_forgotten_has_a_job() -> None:
    bench = Bench()
    client: Client = bench.client()
    checker = Fired(Cluster(World(Options(1, 1))))
    process: Any = SimpleNamespace(node=bench.node)
    at_s = WALL_MS // 1000 + 18
    tick = client("ADDJOB", "disque:returned", "b", 0, "HEADER", "cron-name", "steady 3", "HEADER", "cron-tick", at_s)
    for job_id in (tick, client.add("disque:returned")):
        job = bench.node.find(job_id)
        assert job is not None
        checker.put_away(process, job)
    assert checker.seen == {(b"steady 3", 18_000): {tick}}


def test_a_node_that_is_gone_for_good_may_have_had_the_only_copy_of_the_job_of_a_tick() -> None:
    for fault, loses in (("decline", True), ("leaving", False)):
        assert Fired(Cluster(World(Options(1, 3, faults={fault: 5000})))).loses == loses


@pytest.mark.parametrize(("node_id", "ms", "fires"), [(b"two", 2, True), (b"one", 2, False), (b"two", 500, False)])
def test_of_two_changes_at_the_same_time_either_may_win(
    monkeypatch: pytest.MonkeyPatch, node_id: bytes, ms: int, *, fires: bool
) -> None:
    """Seed 1570093."""
    checker = Fired(Cluster(World(Options(1, 2))))
    monkeypatch.setattr(checker, "is_taken", lambda *_: False)
    for by, verb, reply in ((b"one", b"RESUME", b":1\r\n"), (node_id, b"DEL", b":1\r\n")):
        checker.world.now += ms
        process: Any = SimpleNamespace(node=SimpleNamespace(node_id=by))
        checker.ran(process, Request([b"CRON", verb, MOODY], checker.world.now), reply)
    assert checker.moody_fires == fires


@pytest.mark.parametrize("is_there", [True, False])
def test_a_schedule_is_set_where_an_older_version_is_linked_but_for_a_process_that_is_no_more(
    monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    cluster = Cluster(World(Options(1, 2)))
    member = SimpleNamespace(linked=True)
    process: Any = SimpleNamespace(name="n0.1", node=SimpleNamespace(membership=SimpleNamespace(nodes={b"1": member})))
    myself = SimpleNamespace(capabilities=0)
    older: Any = SimpleNamespace(
        name="n1.2", node=SimpleNamespace(node_id=b"1", membership=SimpleNamespace(myself=myself))
    )
    gone: Any = SimpleNamespace(name="n1.1", node=older.node)
    monkeypatch.setattr(cluster, "processes", lambda: [older])
    link: Any = SimpleNamespace(src=process, target=older if is_there else gone)
    monkeypatch.setattr(cluster.network, "links", {1: link}.values())
    if is_there:
        with pytest.raises(Violation, match=r"n0\.1 takes a schedule, and n1\.2 knows nothing"):
            Fired(cluster).look_at_versions(process)
    else:
        Fired(cluster).look_at_versions(process)
