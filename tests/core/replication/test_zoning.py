"""Where copies go, and how they count, when some nodes share a zone."""

from typing import Any

import pytest

from cluster.membership import Member
from cluster.messages import ENQUEUE, GOTJOB, REFUSED, REFUSED_MEMORY, REFUSED_PAUSED, REPLJOB
from disque.core import handover, links
from disque.core.replication import zoning
from disque.core.replication.coordinator import PATIENCE_MS
from tests.core.support import MYSELF, Bench, Client, assert_still_waiting, repljob


def bench_of(mine: str, *others: str, seed: int = 1) -> Bench:
    """A node and others beside it, in these zones ("" is none)."""
    bench = Bench(peers=len(others), seed=seed)
    bench.membership.set_zone(MYSELF, mine.encode())
    for peer, zone in zip(bench.peers, others, strict=True):
        bench.membership.set_zone(peer.id, zone.encode())
    links.review(bench.node, bench.now_ms)
    return bench


def asked(bench: Bench) -> list[Member]:
    """Who was sent a body, in order."""
    return [bench.membership.nodes[peer] for peer, _ in bench.sent(REPLJOB)]


def begin(bench: Bench, copies: int, *options: str) -> tuple[Client, bytes, list[Member]]:
    """ADDJOB with so many copies: who waits, the ID, and the nodes that were asked."""
    client = bench.client()
    client.send("ADDJOB", "q", "body", 0, "REPLICATE", copies, *options)
    job_id = next(reversed(bench.node.copies.wanted))
    return client, job_id, asked(bench)


def refuse(bench: Bench, job_id: bytes, peer: Member, reason: int = REFUSED_MEMORY) -> None:
    """REFUSED from a node."""
    bench.hear(peer, (REFUSED, reason, (job_id,)))


def assert_answered(client: Client, job_id: bytes) -> None:
    """The client has its ID."""
    assert client.read_raw() == b"+%b\r\n" % job_id


def zones_of(nodes: list[Member]) -> list[bytes]:
    """The zones of nodes, sorted."""
    return sorted(node.zone for node in nodes)


class TestWhoIsAsked:
    @pytest.mark.parametrize("seed", range(8))
    def test_nodes_of_other_zones_come_before_those_of_this_one(self, seed: int) -> None:
        bench = bench_of("a", "a", "a", "a", "b", seed=seed)
        assert zones_of(begin(bench, 2)[2]) == [b"b"]

    @pytest.mark.parametrize("seed", range(8))
    def test_each_copy_is_in_a_zone_of_its_own_as_long_as_there_are_zones(self, seed: int) -> None:
        bench = bench_of("a", "a", "b", "b", "b", "c", "c", seed=seed)
        assert zones_of(begin(bench, 3)[2]) == [b"b", b"c"]

    @pytest.mark.parametrize("seed", range(8))
    def test_beyond_that_the_copies_are_spread_evenly(self, seed: int) -> None:
        bench = bench_of("a", "a", "a", "b", "b", "b", seed=seed)
        assert zones_of(begin(bench, 4)[2]) == [b"a", b"b", b"b"]

    @pytest.mark.parametrize("seed", range(8))
    def test_a_node_without_a_label_is_a_zone_of_its_own(self, seed: int) -> None:
        bench = bench_of("", "", "a", "a", seed=seed)
        assert zones_of(begin(bench, 3)[2]) == [b"", b"a"]

    def test_who_keeps_no_copy_itself_may_use_its_own_zone(self) -> None:
        bench = bench_of("a", "a", "b", "b")
        bench.membership.leaving = True
        assert zones_of(begin(bench, 2)[2]) == [b"a", b"b"]

    def test_in_another_zone_every_node_has_its_turn(self) -> None:
        bench = bench_of("a", "a", "b", "b", "b")
        assert {begin(bench, 2)[2][0].id for _ in range(40)} == {peer.id for peer in bench.peers[1:]}

    def test_keepers_of_a_unique_key_are_no_reason_to_stay_in_a_zone(self) -> None:
        bench = bench_of("a", "a", "a", "b")
        for number in range(10):
            client = bench.client()
            client.send("ADDJOB", "q", "body", 0, "REPLICATE", 2, "UNIQUE", f"key {number}", 60)
            bench.tick()
            assert zones_of(asked(bench)) == [b"b"]


class TestWhoIsAskedNext:
    def test_another_node_of_a_zone_that_refuses(self) -> None:
        bench = bench_of("a", "a", "b", "b")
        _, job_id, (first,) = begin(bench, 2)
        refuse(bench, job_id, first)
        (second,) = asked(bench)
        assert (second.zone, second.id != first.id) == (b"b", True)

    def test_another_node_of_a_zone_in_which_one_hangs(self) -> None:
        bench = bench_of("a", "a", "b", "b")
        _, _, (first,) = begin(bench, 2)
        bench.live(PATIENCE_MS + 200)
        (second,) = asked(bench)
        assert (second.zone, second.id != first.id) == (b"b", True)

    def test_a_third_zone_before_the_one_in_which_a_node_hangs(self) -> None:
        bench = bench_of("a", "a", "b", "b", "b", "c")
        _, _, (first,) = begin(bench, 2)
        bench.live(PATIENCE_MS + 200)
        assert {first.zone, asked(bench)[0].zone} == {b"b", b"c"}

    def test_nobody_of_this_zone_while_a_node_elsewhere_hangs(self) -> None:
        bench = bench_of("a", "a", "b")
        client, job_id, (first,) = begin(bench, 2)
        bench.live(5 * PATIENCE_MS)
        assert asked(bench) == []
        assert_still_waiting(client)
        bench.confirm(job_id, first)
        assert_answered(client, job_id)

    def test_somebody_of_this_zone_when_nobody_elsewhere_takes_it(self) -> None:
        bench = bench_of("a", "a", "b", "b")
        client, job_id, (first,) = begin(bench, 2)
        refuse(bench, job_id, first)
        (second,) = asked(bench)
        refuse(bench, job_id, second, REFUSED_PAUSED)
        (third,) = asked(bench)
        assert third.zone == b"a"
        bench.confirm(job_id, third)
        assert_answered(client, job_id)

    def test_a_node_that_refused_another_job_is_asked_for_this_one(self) -> None:
        bench = bench_of("a", "a", "b")
        _, job_id, (first,) = begin(bench, 2)
        refuse(bench, job_id, first, REFUSED_PAUSED)
        bench.sent()
        assert begin(bench, 2)[2] == [first]

    def test_somebody_of_this_zone_when_the_others_fail(self) -> None:
        bench = bench_of("a", "a", "b")
        client, job_id, (first,) = begin(bench, 2)
        bench.live(PATIENCE_MS + 200)
        bench.fail(first)
        (second,) = asked(bench)
        assert second.zone == b"a"
        bench.confirm(job_id, second)
        assert_answered(client, job_id)

    def test_somebody_of_this_zone_when_a_link_is_away_for_long(self) -> None:
        bench = bench_of("a", "a", "b")
        _, _, (first,) = begin(bench, 2)
        bench.link_down(first)
        bench.live(zoning.GRACE_MS - 300)
        assert asked(bench) == []
        bench.live(1000)
        assert zones_of(asked(bench)) == [b"a"]

    def test_nobody_else_when_the_others_refuse_the_connection(self) -> None:
        bench = bench_of("a", "a", "b")
        _, _, (first,) = begin(bench, 2)
        bench.link_down(first, refused=True)
        assert zones_of(asked(bench)) == [b"a"]

    def test_a_node_that_leaves_is_not_waited_for(self) -> None:
        bench = bench_of("a", "a", "b")
        bench.fail(bench.peers[1], 128)
        assert zones_of(begin(bench, 2)[2]) == [b"a"]


class TestHowCopiesCount:
    def begin_apart(self) -> tuple[Bench, Client, bytes, list[Any]]:
        """A job whose copy was asked of this zone, as the other one could not be reached; now it can."""
        bench = bench_of("a", "a", "b")
        near, far = bench.peers
        bench.fail(far)
        client, job_id, nodes = begin(bench, 2)
        assert nodes == [near]
        bench.fail(far, 0)
        return bench, client, job_id, [near, far]

    def test_a_copy_in_this_zone_is_none_while_another_zone_can_be_reached(self) -> None:
        bench, client, job_id, (near, far) = self.begin_apart()
        bench.confirm(job_id, near)
        assert_still_waiting(client)
        assert asked(bench) == [far]
        bench.confirm(job_id, far)
        assert_answered(client, job_id)

    def test_it_counts_when_that_one_refuses(self) -> None:
        bench, client, job_id, (near, far) = self.begin_apart()
        bench.confirm(job_id, near)
        refuse(bench, job_id, far)
        assert_answered(client, job_id)

    def test_it_counts_when_that_one_fails(self) -> None:
        bench, client, job_id, (near, far) = self.begin_apart()
        bench.confirm(job_id, near)
        assert_still_waiting(client)
        bench.fail(far)
        assert_answered(client, job_id)

    def test_it_counts_when_that_one_has_no_link_for_two_seconds(self) -> None:
        bench, client, job_id, (near, far) = self.begin_apart()
        bench.confirm(job_id, near)
        bench.link_down(far)
        assert_still_waiting(client)
        bench.live(zoning.GRACE_MS + PATIENCE_MS + 200)
        assert_answered(client, job_id)

    def test_it_counts_when_the_only_other_zone_is_forgotten(self) -> None:
        bench, client, job_id, (near, far) = self.begin_apart()
        bench.confirm(job_id, near)
        assert_still_waiting(client)
        bench.membership.forget(far.id, bench.now_ms)
        bench.live(PATIENCE_MS + 200)
        assert not bench.node.zones.shared
        assert_answered(client, job_id)

    def test_the_timeout_of_the_client_ends_the_wait(self) -> None:
        bench = bench_of("a", "a", "b")
        client = bench.client()
        client.send("ADDJOB", "q", "body", 300, "REPLICATE", 2)
        bench.advance(300)
        assert client.read_raw().startswith(b"-NOREPL Timeout")

    def test_more_copies_than_zones_are_enough_when_each_zone_has_one(self) -> None:
        bench = bench_of("a", "a", "b", "b")
        client, job_id, nodes = begin(bench, 4)
        assert len(nodes) == 3
        bench.confirm(job_id, *nodes)
        assert_answered(client, job_id)

    def test_on_one_host_copies_are_on_different_nodes(self) -> None:
        bench = bench_of("a", "a", "a")
        assert not bench.node.zones.shared
        client, job_id, nodes = begin(bench, 3)
        bench.confirm(job_id, *nodes)
        assert_answered(client, job_id)

    def test_without_labels_nothing_is_waited_for(self) -> None:
        bench = bench_of("", "", "")
        assert not bench.node.zones.shared
        client, job_id, (first,) = begin(bench, 2)
        bench.live(PATIENCE_MS + 200)
        (second,) = asked(bench)
        assert second is not first
        bench.confirm(job_id, second)
        assert_answered(client, job_id)

    def test_a_label_that_comes_with_a_new_link_counts_from_then_on(self) -> None:
        bench = bench_of("a", "", "")
        bench.membership.set_zone(bench.peers[0].id, b"a")
        links.review(bench.node, bench.now_ms)
        assert bench.node.zones.shared
        assert begin(bench, 2)[2] == [bench.peers[1]]


def test_a_node_that_stops_hands_its_jobs_to_another_zone() -> None:
    bench = bench_of("a", "a", "b")
    ids = [b"D-b0b0b0b0-%024d-003d" % number for number in range(20)]
    near, far = bench.peers
    for job_id in ids:
        bench.hear(near, repljob(*sorted([MYSELF, near.id, far.id]), job_id=job_id))
        bench.hear(near, (ENQUEUE, job_id, 0))
    bench.sent()
    farewell = handover.Farewell(bench.node)
    while not farewell.done:
        farewell.step(bench.now_ms)
    assert {peer for peer, _ in bench.sent(ENQUEUE)} == {far.id}


def test_copies_are_still_confirmed_by_whoever_is_asked() -> None:
    bench = bench_of("a", "a", "b")
    bench.hear(bench.peers[0], repljob(*sorted([MYSELF, bench.peers[0].id]), job_id=b"D-b0b0b0b0-%024d-003d" % 1))
    assert len(bench.sent(GOTJOB)) == 1
