"""Samples: rates of what nodes count, of nodes that come, go and start anew."""

from disque.client import NodeInfo, UnavailableError
from disque.gateway.dashboard.sampler import TOTALS, Found, Sampler, ranked
from tests.gateway.support import Gateway

A, B = NodeInfo("a", "h", 1, 1), NodeInfo("b", "h", 2, 1)


def told(*totals: tuple[NodeInfo, int]) -> Found:
    """What nodes say that have counted so much of everything."""
    return [(node, dict.fromkeys(TOTALS.values(), total)) for node, total in totals]


def test_a_rate_is_what_was_counted_in_the_time_that_passed(gateway: Gateway) -> None:
    sampler = Sampler(gateway.hub.clusters.own)
    sampler.take(told((A, 100), (B, 0)), 10.0)
    assert not sampler.samples
    sampler.take(told((A, 120), (B, 10)), 12.0)
    assert sampler.samples[-1].rates["added"] == 15


def test_a_node_that_started_anew_or_is_new_counts_from_then_on(gateway: Gateway) -> None:
    sampler = Sampler(gateway.hub.clusters.own)
    sampler.take(told((A, 100)), 10.0)
    sampler.take(told((A, 5), (B, 70)), 12.0)
    assert sampler.samples[-1].rates["acked"] == 0
    sampler.take(told((A, 9), (B, 72)), 14.0)
    assert sampler.samples[-1].rates["acked"] == 3


def test_a_node_that_does_not_answer_is_left_out(gateway: Gateway) -> None:
    sampler = Sampler(gateway.hub.clusters.own)
    sampler.take(told((A, 100), (B, 100)), 10.0)
    sampler.take([(A, UnavailableError("gone")), *told((B, 102))], 12.0)
    assert sampler.samples[-1].rates["died"] == 1
    assert isinstance(sampler.nodes[0][1], UnavailableError)


def test_who_looks_has_what_the_nodes_say_at_once(gateway: Gateway) -> None:
    sampler = Sampler(gateway.hub.clusters.own)
    gateway.run(sampler.look())
    assert [type(info) for _, info in sampler.nodes] == [dict]
    sampler.stop()


def test_the_busiest_queues_are_those_with_most_jobs_at_all_nodes() -> None:
    first = 'disque_jobs_added_total{queue="a"} 5\ndisque_jobs_delivered_total{queue="b"} 3\n'
    second = 'disque_jobs_added_total{queue="b"} 4\ndisque_jobs_acked_total{queue="c"} 100\n'
    unused = 'disque_jobs_added_total{queue="d"} 0\n'
    assert ranked([first, second, unused]) == ["b", "a"]
    assert ranked([]) == []
