"""When the checker of schedules takes a CRON SET for news."""

from types import SimpleNamespace
from typing import Any

from tests.core.support import Bench, Client
from tests.simulation.checks.fired import Fired
from tests.simulation.cluster import Cluster
from tests.simulation.options import Options
from tests.simulation.world import World


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
