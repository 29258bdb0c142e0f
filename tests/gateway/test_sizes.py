"""What the jobs of queues take of memory, about, as asynq's exporter tells it."""

import pytest

from disque.gateway import scrape, sizes
from disque.gateway.compat import samples
from disque.gateway.sizes import JOB_BYTES, Sizes
from tests.end_to_end.node import Node
from tests.gateway.conftest import MakeGateway
from tests.gateway.support import Gateway


def look(gateway: Gateway, known: Sizes) -> dict[str, float]:
    async def ask() -> dict[str, float]:
        own = gateway.hub.clusters.own
        return await known.of(own, samples(await scrape.nodes(own)))

    return gateway.run(ask())


def test_a_few_jobs_stand_for_all_in_each_state(gateway: Gateway, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "JOBS", 2)
    for body in ("x" * 100, "x" * 300, "x" * 9000):
        node.ask("ADDJOB", "q", body, 0)
    node.ask("ADDJOB", "q", "later", 0, "DELAY", 600)
    node.ask("ADDJOB", "empty", "x", 0)
    node.ask("GETJOB", "FROM", "empty")
    found = look(gateway, Sizes())
    assert found["q"] == 4 * (200 + JOB_BYTES)
    assert "empty" not in found  # one is in flight, and none was seen


def test_what_was_seen_counts_for_a_while(gateway: Gateway, node: Node) -> None:
    now = [1000.0]
    known = Sizes(lambda: now[0])
    node.ask("ADDJOB", "q", "x" * 100, 0)
    assert look(gateway, known)["q"] == 100 + JOB_BYTES
    node.ask("ADDJOB", "q", "x" * 300, 0)
    assert look(gateway, known)["q"] == 2 * (100 + JOB_BYTES)
    now[0] += sizes.FRESH_S
    assert look(gateway, known)["q"] == 400 + 2 * JOB_BYTES
    now[0] += sizes.FRESH_S
    node.ask("GETJOB", "COUNT", 2, "FROM", "q")
    assert look(gateway, known)["q"] == 400 + 2 * JOB_BYTES


@pytest.mark.parametrize(("bound", "value"), [("QUEUES", 2), ("BYTES_MOST", 2)])
def test_one_scrape_is_bounded_and_the_next_ones_see_the_others(
    gateway: Gateway, node: Node, monkeypatch: pytest.MonkeyPatch, bound: str, value: int
) -> None:
    monkeypatch.setattr(sizes, bound, value)
    for queue in "abcde":
        node.ask("ADDJOB", queue, "x", 0)
    known = Sizes()
    counts = [len([one for one in look(gateway, known).values() if one]) for _ in range(3)]
    assert counts == [2, 4, 5]


def test_it_is_told_where_it_is_wanted(make_gateway: MakeGateway, node: Node) -> None:
    node.ask("ADDJOB", "mails", "x" * 100, 0)
    line = f'asynq_queue_memory_usage_approx_bytes{{queue="mails"}} {100 + JOB_BYTES}'
    assert line in make_gateway(metrics_compat=True).ask("GET", "/metrics").text.splitlines()
    assert "asynq" not in make_gateway().ask("GET", "/metrics").text


def test_a_queue_that_the_user_may_not_look_at_has_no_size(make_gateway: MakeGateway, node: Node) -> None:
    node.ask("ADDJOB", "mails", "x", 0)
    node.ask("ACL", "SETUSER", "sums", "on", ">a-long-password", "+@all", "-qpeek", "~*")
    try:
        gateway = make_gateway(metrics_compat=True)
        answer = gateway.ask("GET", "/metrics", authorization="Basic c3VtczphLWxvbmctcGFzc3dvcmQ=")
        assert 'asynq_queue_size{queue="mails"} 1' in answer.text
        assert 'memory_usage_approx_bytes{queue="mails"}' not in answer.text
    finally:
        node.ask("ACL", "DELUSER", "sums")
