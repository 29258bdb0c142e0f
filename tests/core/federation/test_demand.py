"""When other nodes are asked for jobs, and how many: seen from one node whose peers say what a test lets them say."""

from typing import Any

import pytest

from cluster import membership
from cluster.messages import NEEDJOBS, NEEDNOW, OFFER, YOURJOBS
from disque.core import links
from disque.core.federation import demand
from tests.core.support import NOTHING, START_MS, Bench, Client, assert_still_waiting
from tests.support.formats import yourjobs_row

B0, B1, B2 = [b"%02x" % (0xB0 + number) * 20 for number in range(3)]


def rows(first: int, count: int, body: bytes = b"body") -> tuple[tuple[Any, ...], ...]:
    """Jobs of YOURJOBS."""
    ctime = START_MS * 1_000_000
    return tuple(
        yourjobs_row(b"D-b0b0b0b0-%024d-05a1" % number, body=body, ctime=ctime + number, holders=(B0,))
        for number in range(first, first + count)
    )


def send(bench: Bench, peer: membership.Member, first: int, count: int, body: bytes = b"body") -> None:
    bench.hear(peer, (YOURJOBS, b"q", rows(first, count, body)))


def asked(bench: Bench) -> list[tuple[bytes, int]]:
    """Who was asked since the last call, for how many."""
    return [(peer, message[2]) for peer, message in bench.sent(NEEDJOBS)]


def waiting(bench: Bench, count: int = 1, *queues: str) -> Client:
    client = bench.client()
    assert client("GETJOB", "COUNT", count, "FROM", *(queues or ("q",))) is NOTHING
    return client


# -- when --------------------------------------------------------------------------------------------------------------


def test_a_client_that_waits_makes_the_node_ask_all_others_at_once() -> None:
    bench = Bench(peers=3)
    waiting(bench)
    assert asked(bench) == [(B0, 1), (B1, 1), (B2, 1)]
    assert bench.sent() == []


def test_a_client_that_finds_jobs_or_is_served_at_once_asks_nobody() -> None:
    bench = Bench(peers=2)
    client, consumer = bench.client(), bench.client()
    client.add("q", "b", "REPLICATE", 1)
    client.get("q")
    consumer.send("GETJOB", "FROM", "q")
    client.send("ADDJOB", "q", "b", 0, "REPLICATE", 1)
    client.read()
    assert asked(bench) == []


def test_clients_that_join_the_line_cause_few_messages() -> None:
    bench = Bench(peers=1)
    for _ in range(200):
        waiting(bench)
    counts = [count for _, count in asked(bench)]
    assert counts == sorted(counts)
    assert counts[-1] >= 50
    assert len(counts) <= 8


def test_little_is_asked_of_each_of_many_nodes() -> None:
    bench = Bench(peers=3)
    waiting(bench, 10)
    assert asked(bench) == [(B0, 4), (B1, 4), (B2, 4)]
    waiting(bench, 10**9, "other")
    assert asked(bench) == [(B0, 34), (B1, 34), (B2, 34)]


def test_while_somebody_waits_the_request_is_renewed_every_half_minute() -> None:
    bench = Bench(peers=1)
    waiting(bench)
    asked(bench)
    bench.live(29_000)
    assert asked(bench) == []
    bench.live(3000)
    assert asked(bench) == [(B0, 1)]


def test_when_nobody_has_waited_for_a_while_the_request_is_taken_back() -> None:
    bench = Bench(peers=2)
    client = waiting(bench)
    bench.live(2000)
    asked(bench)
    client.disconnect()
    assert asked(bench) == []
    bench.live(1500)
    assert asked(bench) == [(B0, 0), (B1, 0)]
    assert bench.node.federation.flows == {}


def test_jobs_that_nobody_waits_for_any_more_end_the_request_at_once() -> None:
    bench = Bench(peers=2)
    waiting(bench).disconnect()
    asked(bench)
    send(bench, bench.peers[0], 1, 1)
    assert asked(bench) == [(B0, 0), (B1, 0)]


def test_a_client_that_does_not_wait_makes_the_node_ask_but_no_queue() -> None:
    bench = Bench(peers=2)
    client = bench.client()
    assert client.get("q", count=6) == []
    assert asked(bench) == [(B0, 3), (B1, 3)]
    assert client.get("q", count=6) == []
    assert asked(bench) == [], "its request stands"
    assert bench.node.queues == {}
    bench.live(4500)
    assert asked(bench) == [(B0, 0), (B1, 0)]


def test_clients_that_do_not_wait_are_bounded_in_the_names_they_ask_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demand, "POLLED_MOST", 3)
    bench = Bench(peers=1)
    client = bench.client()
    for number in range(5):
        client.get(f"q{number}")
    assert [message[1] for _, message in bench.sent(NEEDJOBS)] == [b"q0", b"q1", b"q2"]


def test_a_queue_that_is_paused_out_is_not_asked_for_until_it_goes_on() -> None:
    bench = Bench(peers=1)
    admin = bench.client()
    admin("PAUSE", "q", "out")
    client = waiting(bench)
    bench.live(200_000)
    assert asked(bench) == []
    admin("PAUSE", "q", "none")
    bench.live(1500)
    assert asked(bench) == [(B0, 1)]
    assert_still_waiting(client)


@pytest.mark.parametrize("state", ["misconf", "reconciling", "full"])
def test_a_node_that_must_not_take_jobs_takes_its_requests_back_and_asks_again_later(state: str) -> None:
    bench = Bench(peers=1)
    waiting(bench)
    assert asked(bench) == [(B0, 1)]
    if state == "full":
        bench.set("maxmemory", 1)
    else:
        setattr(bench.node, state, b"MISCONF" if state == "misconf" else True)
    bench.live(2000)
    assert asked(bench) == [(B0, 0)]
    if state == "full":
        bench.set("maxmemory", 0)
    else:
        setattr(bench.node, state, b"" if state == "misconf" else False)
    bench.live(2000)
    assert asked(bench) == [(B0, 1)]


def test_a_leaving_node_does_not_ask() -> None:
    bench = Bench(peers=1)
    client = bench.client()
    client("CLUSTER", "LEAVING", "yes")
    bench.sent()
    assert client.get("q") == []
    assert asked(bench) == []


# -- links -------------------------------------------------------------------------------------------------------------


def test_a_node_that_comes_is_asked_too() -> None:
    bench = Bench(peers=1)
    waiting(bench)
    asked(bench)
    peer = membership.Member(B2, b"127.0.0.1", 7719)
    bench.membership.add(peer)
    bench.link_up(peer)
    assert asked(bench) == [(B2, 1)]


def test_who_waited_before_there_were_other_nodes_is_asked_for_when_they_come() -> None:
    bench = Bench()
    waiting(bench)
    assert asked(bench) == []
    peer = membership.Member(B0, b"127.0.0.1", 7719)
    bench.membership.add(peer)
    bench.link_up(peer)
    assert asked(bench) == [(B0, 1)]


def test_what_may_have_been_lost_with_a_link_is_asked_for_again() -> None:
    bench = Bench(peers=2)
    waiting(bench, 10)
    asked(bench)
    bench.link_down(bench.peers[0])
    bench.live(1500)
    assert asked(bench) == [(B1, 10)], "the others must bring more"
    bench.link_up(bench.peers[0])
    assert asked(bench) == [(B0, 5)], "the request may be lost"
    bench.called(bench.peers[1])
    assert asked(bench) == [(B1, 5)], "the answer may be lost"


def test_those_who_wait_when_a_node_comes_are_asked_for_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demand, "WAIT_SLICE", 4)
    bench = Bench()
    for number in range(10):
        waiting(bench, 1, f"queue {number}")
    peer = membership.Member(B0, b"127.0.0.1", 7712)
    bench.membership.add(peer)
    bench.peers.append(peer)
    links.link_up(bench.node, B0, 7, bench.now_ms)
    at_once = len(bench.node.federation.marked)
    assert 0 < at_once < 10
    bench.tick()
    assert {message[1] for _, message in bench.sent(NEEDJOBS)} == {b"queue %d" % number for number in range(10)}


def test_a_node_that_makes_a_new_link_says_again_what_it_wants() -> None:
    bench = Bench(peers=2)
    for peer in bench.peers:
        bench.hear(peer, (NEEDJOBS, b"q", 1))
    bench.called(bench.peers[0])
    bench.client().add("q", "b", "REPLICATE", 1)
    assert [peer for peer, _ in bench.sent(YOURJOBS)] == [B1]


def test_what_a_node_wants_stands_while_only_the_link_to_it_is_gone() -> None:
    bench = Bench(peers=1)
    bench.hear(bench.peers[0], (NEEDJOBS, b"q", 1))
    bench.link_down(bench.peers[0])
    bench.client().add("q", "b", "REPLICATE", 1)
    assert bench.sent(YOURJOBS) == []
    bench.link_up(bench.peers[0])
    bench.live(200)
    assert [peer for peer, _ in bench.sent(YOURJOBS)] == [B0]


# -- how many ----------------------------------------------------------------------------------------------------------


def test_a_request_is_renewed_when_half_of_it_has_come() -> None:
    bench = Bench(peers=1)
    waiting(bench, 100)
    assert asked(bench) == [(B0, 100)]
    for number in range(4):
        waiting(bench, 100)
        send(bench, bench.peers[0], number, 1)
    assert asked(bench) == []


def test_a_node_that_sends_quickly_is_asked_for_what_lasts_a_while() -> None:
    bench = Bench(peers=2, checked=False)
    number = 0
    most = 0
    client = bench.client()
    for _ in range(3000):
        client.read()
        if not client.waiting and client("GETJOB", "FROM", "q") is NOTHING:
            send(bench, bench.peers[0], number, 10)
            number += 10
        bench.now_ms += 1
        for peer, count in asked(bench):
            most = max(most, count)
            assert peer == B0 or count <= 1
    assert 100 <= most <= 400, "10 jobs in 10 ms are 200 in 200 ms"


def test_what_is_in_stock_is_not_asked_for_and_its_last_half_makes_the_node_ask_again() -> None:
    bench = Bench(peers=1)
    client = waiting(bench)
    send(bench, bench.peers[0], 0, 400)
    client.read()
    asked(bench)
    low = bench.node.queues[b"q"].low
    assert 0 < low < 399
    bench.now_ms += 1
    while bench.node.queues[b"q"].length > low + 1:
        client.get("q")
    assert asked(bench) == []
    client.get("q")
    ((_, count),) = asked(bench)
    assert count >= low


def test_a_message_of_great_bodies_ends_its_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("disque.core.federation.supply.BYTES_MOST", 10_000)
    bench = Bench(peers=1)
    client = waiting(bench, 10)
    assert asked(bench) == [(B0, 10)]
    send(bench, bench.peers[0], 1, 1, b"x" * 10_000)
    client.read()
    waiting(bench, 10)
    assert asked(bench) == [(B0, 10)]


def test_a_slow_consumer_asks_for_one_job_after_the_other() -> None:
    bench = Bench(peers=1)
    for number in range(10):
        client = waiting(bench)
        send(bench, bench.peers[0], number, 1)
        assert len(client.read()) == 1
        bench.live(2000)
    assert max(count for _, count in asked(bench)) == 1


# -- offers ------------------------------------------------------------------------------------------------------------


def test_who_is_offered_jobs_takes_them_when_somebody_waits() -> None:
    bench = Bench(peers=2)
    waiting(bench, 3)
    bench.sent()
    bench.hear(bench.peers[0], (OFFER, b"q"))
    assert bench.sent() == [(B0, (NEEDNOW, b"q", 3))]
    bench.live(200)
    assert bench.sent(NEEDNOW) == [], "once"


def test_several_that_offer_share_what_is_wanted() -> None:
    bench = Bench(peers=3)
    waiting(bench, 3)
    bench.sent()
    for peer in bench.peers[:2]:
        bench.node.federation.flows[b"q"].offers[peer.id] = None
    bench.hear(bench.peers[1], (OFFER, b"q"))
    assert bench.sent() == [(B0, (NEEDNOW, b"q", 2)), (B1, (NEEDNOW, b"q", 2))]


def test_an_offer_is_kept_for_somebody_who_comes_back() -> None:
    bench = Bench(peers=2)
    client = waiting(bench)
    send(bench, bench.peers[0], 1, 1)
    client.read()
    bench.sent()
    bench.hear(bench.peers[1], (OFFER, b"q"))
    assert bench.sent(NEEDNOW) == [], "nobody waits"
    waiting(bench)
    assert bench.sent(NEEDNOW) == [(B1, (NEEDNOW, b"q", 1))]


def test_offers_that_nobody_has_a_use_for_are_not_kept() -> None:
    bench = Bench(peers=1)
    bench.hear(bench.peers[0], (OFFER, b"q"))
    assert bench.node.federation.flows == {}
    client = waiting(bench)
    client.disconnect()
    bench.sent()
    bench.hear(bench.peers[0], (OFFER, b"q"))
    bench.live(5000)
    assert bench.node.federation.flows == {}
    assert bench.sent(NEEDNOW) == []


def test_who_looks_in_now_and_then_takes_no_offer() -> None:
    bench = Bench(peers=1)
    bench.client()("GETJOB", "NOHANG", "FROM", "q")
    bench.hear(bench.peers[0], (OFFER, b"q"))
    assert bench.sent(NEEDNOW) == []


def test_an_offer_ends_with_its_link() -> None:
    bench = Bench(peers=2)
    client = waiting(bench)
    send(bench, bench.peers[1], 1, 1)
    client.read()
    bench.hear(bench.peers[0], (OFFER, b"q"))
    bench.link_down(bench.peers[0])
    bench.sent()
    waiting(bench)
    assert bench.sent(NEEDNOW) == []
