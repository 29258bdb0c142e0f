"""When the checker of schedules takes a CRON SET for news, and what it takes for the job of a tick."""

from types import SimpleNamespace
from typing import Any

from tests.core.support import Bench, Client
from tests.simulation.checks.fired import Fired
from tests.simulation.cluster import Cluster
from tests.simulation.options import Options
from tests.simulation.world import WALL_MS, World


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
