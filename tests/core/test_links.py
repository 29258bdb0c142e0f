"""What follows when links and nodes come and go: what is said again, to whom else, and what is doubted."""

from typing import Any

import pytest

from cluster.member import HANDSHAKE
from cluster.membership import Member
from cluster.messages import (
    ABORT,
    ANNOUNCE,
    ANSWER,
    ANSWER_NO,
    DIGEST,
    ENDED,
    ENQUEUE,
    ENTRIES,
    GOTACK,
    GOTJOB,
    HAVE,
    QUEUE_IT,
    QUEUED,
    REFUSED,
    REPLJOB,
    REPLJOB_DELAY_MS,
    REPLJOB_FLAGS,
    REPLJOB_HOLDERS,
    REPLJOB_IDS,
    REPLJOB_LEFT_MS,
    REPLJOB_SPEC,
    SETACK,
    WILLQUEUE,
    WORKING,
)
from disque.core import step
from disque.core.journal.schema import JOBS_IDS, REQUEUE
from disque.core.model import peers
from disque.core.replication import acks
from disque.core.replication.coordinator import PATIENCE_MS
from tests.core.support import MYSELF, NOTHING, PROCESS, Bench, Client, assert_still_waiting, foreign_id, repljob
from tests.support.formats import pause_everywhere, yourjobs, yourjobs_row

B0 = b"b0" * 20
NO_LINK = "NOREPL job removed (expired?) before the requested replication level was achieved"


def asked(cluster: Bench) -> list[Member]:
    """Who was sent a body."""
    return [cluster.membership.nodes[peer] for peer, _ in cluster.sent(REPLJOB)]


def begin(client: Client, *options: str | int, copies: int = 3) -> tuple[bytes, list[Member]]:
    """ADDJOB with so many copies: the ID and the nodes that were asked."""
    client.send("ADDJOB", "q", "body", 0, "REPLICATE", copies, *options)
    (job_id,) = client.bench.node.copies.wanted
    return job_id, asked(client.bench)


def others(cluster: Bench, nodes: list[Member]) -> list[Member]:
    """The peers that were not asked."""
    return [peer for peer in cluster.peers if peer not in nodes]


@pytest.mark.parametrize("delay_ms", [0, 30_000])
def test_a_copy_that_came_later_than_others_is_told_again_over_each_new_link(delay_ms: int) -> None:
    bench = Bench(peers=3)
    sender, holder, other = bench.peers
    late, first = foreign_id(1), foreign_id(2)
    bench.hear(sender, repljob(sender.id, holder.id, job_id=late, flags=ANNOUNCE, delay_ms=delay_ms))
    bench.hear(sender, repljob(sender.id, holder.id, job_id=first))
    assert bench.sent(HAVE) == [(holder.id, (HAVE, (late,)))]
    for peer, said in ((holder, [(HAVE, (late,))]), (other, [])):
        bench.link_down(peer)
        bench.link_up(peer)
        bench.live(100)
        assert [message for message in bench.told(peer) if message[0] == HAVE] == said


def test_so_is_a_job_that_was_handed_over_and_is_out_with_a_consumer() -> None:
    bench = Bench(peers=2)
    sender, holder = bench.peers
    job_id = foreign_id()
    bench.hear(sender, yourjobs(yourjobs_row(job_id, holders=(sender.id, holder.id))))
    assert bench.client().get("q") == [job_id]
    bench.sent()
    bench.called(holder)
    bench.live(100)
    assert bench.told(holder) == [(HAVE, (job_id,))]


@pytest.fixture
def outside(cluster: Bench) -> Bench:
    """A node with four others that keeps no copies itself, since it leaves."""
    cluster.membership.leaving = True
    return cluster


class TestAnotherNode:
    """Rule 25: another node is tried on REFUSED, on a broken link, and when a peer confirms nothing for 500 ms."""

    def test_when_one_refuses(self, cluster: Bench) -> None:
        client = cluster.client()
        job_id, (first, second) = begin(client)
        cluster.hear(first, (REFUSED, 0, (job_id,)))
        (third,) = asked(cluster)
        assert third not in (first, second)
        assert cluster.job(job_id).holders == tuple(sorted([MYSELF, second.id, third.id]))
        cluster.confirm(job_id, second, third)
        assert client.read() == job_id

    def test_when_a_link_ends(self, cluster: Bench) -> None:
        client = cluster.client()
        job_id, (first, second) = begin(client)
        cluster.link_down(first)
        (third,) = asked(cluster)
        cluster.confirm(job_id, second, third)
        assert client.read() == job_id

    def test_when_one_is_silent_for_half_a_second(self, cluster: Bench) -> None:
        client = cluster.client()
        job_id, (first, second) = begin(client)
        cluster.live(100)
        cluster.confirm(job_id, second)
        cluster.live(PATIENCE_MS - 100)
        assert asked(cluster) == []
        cluster.live(200)
        (third,) = asked(cluster)
        assert third not in (first, second)
        cluster.confirm(job_id, third)
        assert client.read() == job_id

    def test_one_that_confirms_other_jobs_is_not_silent(self, cluster: Bench) -> None:
        client = cluster.client()
        job_id, nodes = begin(client)
        for _ in range(10):
            cluster.live(400)
            for peer in nodes:
                cluster.hear(peer, (GOTJOB, ()))
        assert asked(cluster) == []
        cluster.confirm(job_id, *nodes)
        assert client.read() == job_id

    def test_a_late_copy_counts_as_well(self, cluster: Bench) -> None:
        client = cluster.client()
        job_id, (first, second) = begin(client)
        cluster.live(700)
        cluster.confirm(job_id, second, first)
        assert client.read() == job_id
        assert len(cluster.job(job_id).holders) > 3, "whoever was asked may have a copy"

    def test_when_all_have_refused_they_are_asked_again(self) -> None:
        cluster = Bench(peers=1)
        client = cluster.client()
        job_id, (only,) = begin(client, copies=2)
        cluster.hear(only, (REFUSED, 0, (job_id,)))
        assert cluster.job(job_id).holders == (MYSELF,)
        cluster.live(600)
        assert asked(cluster) == [only]
        cluster.confirm(job_id, only)
        assert client.read() == job_id
        assert cluster.job(job_id).holders == tuple(sorted([MYSELF, only.id]))

    def test_when_there_is_nobody_left_a_node_that_comes_is_asked(self) -> None:
        cluster = Bench(peers=1)
        client = cluster.client()
        job_id, (only,) = begin(client, copies=2)
        cluster.link_down(only)
        assert asked(cluster) == []
        newcomer = cluster.meet(1)
        cluster.link_up(newcomer)
        cluster.live(600)
        assert newcomer.id in cluster.node.copies.wanted[job_id].asked
        cluster.confirm(job_id, newcomer)
        assert client.read() == job_id

    def test_a_refusal_of_what_nobody_asked_for_changes_nothing(self, cluster: Bench) -> None:
        client = cluster.client()
        job_id, nodes = begin(client)
        cluster.hear(others(cluster, nodes)[0], (REFUSED, 0, (job_id, job_id, b"x" * 40)))
        assert cluster.sent() == []
        assert_still_waiting(client)


class TestSayAgain:
    """Bodies are sent again over a new link, never on a tick."""

    def test_what_was_not_confirmed_is_sent_over_a_new_link(self, cluster: Bench) -> None:
        client = cluster.client()
        job_id, (first, second) = begin(client)
        cluster.confirm(job_id, second)
        cluster.link_down(first)
        cluster.sent()
        cluster.link_up(first)
        assert [(message[REPLJOB_IDS], message[REPLJOB_HOLDERS]) for message in cluster.told(first, REPLJOB)] == [
            ((job_id,), cluster.job(job_id).holders)
        ]
        cluster.link_down(second)
        cluster.link_up(second)
        assert cluster.told(second, REPLJOB) == []

    def test_and_when_the_other_makes_a_new_link_since_its_answer_may_be_lost(self, cluster: Bench) -> None:
        client = cluster.client()
        _, (first, _) = begin(client)
        cluster.called(first)
        assert len(cluster.told(first, REPLJOB)) == 1

    def test_a_tick_sends_no_body_twice_to_the_same_node(self, cluster: Bench) -> None:
        _, nodes = begin(cluster.client())
        cluster.live(10_000)
        assert sorted(peer.id for peer in asked(cluster)) == sorted(peer.id for peer in others(cluster, nodes))

    def test_what_is_left_of_its_life_is_told_as_it_is_now(self, cluster: Bench) -> None:
        job_id, (first, _) = begin(cluster.client(), "TTL", 100, "DELAY", 9)
        cluster.link_down(first)
        cluster.sent()
        cluster.live(5000)
        cluster.sent()
        cluster.link_up(first)
        (message,) = cluster.told(first, REPLJOB)
        assert (message[REPLJOB_LEFT_MS], message[REPLJOB_DELAY_MS]) == (95_000, 9000)
        assert message[REPLJOB_SPEC] == cluster.job(job_id).spec.encoded


class TestAnotherProcess:
    """Rule 26: the start number tells that a peer is another process, which may have lost what it confirmed."""

    def test_what_it_confirmed_counts_no_more_while_the_job_is_undecided(self, cluster: Bench) -> None:
        client = cluster.client()
        job_id, (first, second) = begin(client)
        cluster.confirm(job_id, first)
        cluster.link_down(first)
        cluster.sent()
        cluster.link_up(first, PROCESS + 1)
        assert len(cluster.told(first, REPLJOB)) == 1
        cluster.confirm(job_id, second)
        assert_still_waiting(client)
        cluster.confirm(job_id, first)
        assert client.read() == job_id

    def test_whether_it_calls_first_or_is_called(self, cluster: Bench) -> None:
        client = cluster.client()
        job_id, (first, second) = begin(client)
        cluster.confirm(job_id, first)
        cluster.called(first, PROCESS + 1)
        assert len(cluster.told(first, REPLJOB)) == 1
        cluster.confirm(job_id, second)
        assert_still_waiting(client)

    @pytest.mark.parametrize("calls", [False, True])
    def test_also_when_it_was_half_met_as_the_first_link_came_up(self, calls: bool) -> None:
        cluster = Bench(peers=1)
        newcomer = Member(b"%040x" % 7, b"127.0.0.1", 7799, 0, HANDSHAKE)
        cluster.membership.add(newcomer)
        if calls:
            cluster.called(newcomer)
            newcomer.linked = True
        else:
            cluster.link_up(newcomer)
        cluster.membership.set_flags(newcomer, 0)
        cluster.live(100)
        client = cluster.client()
        job_id, _ = begin(client)
        cluster.confirm(job_id, newcomer)
        cluster.link_up(newcomer, PROCESS + 1)
        cluster.confirm(job_id, cluster.peers[0])
        assert_still_waiting(client)
        cluster.confirm(job_id, newcomer)
        assert client.read() == job_id

    def test_who_is_half_met_and_never_met_leaves_nothing_behind(self, cluster: Bench) -> None:
        stranger = Member(b"%040x" % 7, b"127.0.0.1", 7799, 0, HANDSHAKE)
        cluster.membership.add(stranger)
        cluster.link_up(stranger)
        assert list(cluster.node.starts) == [stranger.id]
        cluster.membership.forget(stranger.id, cluster.now_ms)
        cluster.live(100)
        assert not cluster.node.starts

    def test_the_same_process_keeps_what_it_confirmed(self, cluster: Bench) -> None:
        client = cluster.client()
        job_id, (first, second) = begin(client)
        cluster.confirm(job_id, first)
        cluster.link_down(first)
        cluster.link_up(first)
        cluster.confirm(job_id, second)
        assert client.read() == job_id


class TestAtMostOnceFromOutside:
    """Rule 11: one candidate; the next after a refusal, or when no byte was sent."""

    def begin(self, cluster: Bench, client: Client) -> tuple[bytes, Member]:
        client.send("ADDJOB", "q", "body", 0, "REPLICATE", 1, "RETRY", 0)
        (job_id,) = cluster.node.copies.wanted
        ((peer_id, message),) = cluster.sent(REPLJOB)
        assert message[REPLJOB_FLAGS] == QUEUE_IT
        assert message[REPLJOB_HOLDERS] == (peer_id,)
        return job_id, cluster.membership.nodes[peer_id]

    def test_the_one_that_confirms_has_queued_it(self, outside: Bench) -> None:
        client = outside.client()
        job_id, first = self.begin(outside, client)
        outside.confirm(job_id, first)
        assert client.read() == job_id
        assert outside.state(job_id) == "gone"
        assert outside.sent() == [], "no ENQUEUE is needed"

    def test_silence_asks_nobody_else(self, outside: Bench) -> None:
        client = outside.client()
        self.begin(outside, client)
        outside.live(5000)
        assert asked(outside) == []
        assert_still_waiting(client)

    def test_a_refusal_does(self, outside: Bench) -> None:
        client = outside.client()
        job_id, first = self.begin(outside, client)
        outside.hear(first, (REFUSED, 0, (job_id,)))
        (second,) = asked(outside)
        assert second is not first
        outside.confirm(job_id, second)
        assert client.read() == job_id

    def test_a_broken_link_ends_it_since_it_may_have_arrived(self, outside: Bench) -> None:
        client = outside.client()
        job_id, first = self.begin(outside, client)
        outside.link_down(first)
        assert asked(outside) == []
        assert client.error("PING") == NO_LINK if client.waiting else str(client.read()) == NO_LINK
        assert outside.state(job_id) == "gone"

    def test_unless_no_byte_of_it_has_left(self, outside: Bench) -> None:
        client = outside.client()
        client.send("ADDJOB", "q", "body", 0, "REPLICATE", 1, "RETRY", 0)
        ((first, message),) = outside.sent(REPLJOB)
        step.undelivered(outside.node, first, [message], outside.now_ms)
        outside.link_down(outside.membership.nodes[first])
        (second,) = asked(outside)
        assert second.id != first
        (job_id,) = message[REPLJOB_IDS]
        outside.confirm(job_id, second)
        assert client.read() == job_id

    def test_then_the_only_other_node_is_asked_again_when_it_is_back(self) -> None:
        bench = Bench(peers=1)
        bench.membership.leaving = True
        (only,) = bench.peers
        job_id = bench.client().add("q", "b", "REPLICATE", 1, "RETRY", 0, "ASYNC")
        ((_, message),) = bench.sent(REPLJOB)
        step.undelivered(bench.node, only.id, [message], bench.now_ms)
        bench.link_down(only)
        assert asked(bench) == []
        bench.link_up(only)
        bench.live(1000)
        assert asked(bench) == [only]
        bench.confirm(job_id, only)
        assert bench.state(job_id) == "gone", "it is there"

    def test_so_does_another_process(self, outside: Bench) -> None:
        client = outside.client()
        job_id, first = self.begin(outside, client)
        outside.called(first, PROCESS + 1)
        assert str(client.read()) == NO_LINK
        assert outside.state(job_id) == "gone"

    def test_async_is_no_promise_of_the_journal(self) -> None:
        """Its one holder may deliver it, so no later start may find it here."""
        bench = Bench(peers=2, journaling=True)
        bench.membership.leaving = True
        client = bench.client()
        job_id = client.add("q", "b", "REPLICATE", 1, "RETRY", 0, "ASYNC")
        assert bench.records() == []
        ((first, _),) = bench.sent(REPLJOB)
        bench.confirm(job_id, bench.membership.nodes[first])
        assert bench.state(job_id) == "gone"
        assert bench.records() == []

    def test_is_sent_to_no_other_when_its_one_node_is_forgotten(self, outside: Bench) -> None:
        client = outside.client()
        _, first = self.begin(outside, client)
        assert outside.client()("CLUSTER", "FORGET", first.id) == b"OK"
        outside.live(2 * PATIENCE_MS)
        assert asked(outside) == [], "it may have been queued there"
        assert str(client.read()) == NO_LINK

    def test_is_not_sent_again_when_its_one_node_makes_a_new_link(self, outside: Bench) -> None:
        client = outside.client()
        _, first = self.begin(outside, client)
        outside.called(first)
        assert asked(outside) == [], "it may have been delivered there, acknowledged and forgotten"


class TestFromOutside:
    """A coordinator that keeps no copy: all are elsewhere, and one of the holders is told to queue it."""

    def test_all_copies_are_elsewhere(self, outside: Bench) -> None:
        client = outside.client()
        job_id, nodes = begin(client, copies=2)
        assert len(nodes) == 2
        outside.confirm(job_id, nodes[0])
        assert_still_waiting(client)
        outside.confirm(job_id, nodes[1])
        assert client.read() == job_id
        assert outside.state(job_id) == "gone"

    def test_exactly_one_of_them_is_told_to_queue_it(self, outside: Bench) -> None:
        client = outside.client()
        job_id, nodes = begin(client, "DELAY", 5, copies=2)
        outside.confirm(job_id, *nodes)
        ((peer, message),) = outside.sent()
        assert peer in [node.id for node in nodes]
        assert message[1:] == (job_id, 5000)

    def test_async_is_kept_not_queued_until_it_is_confirmed(self, outside: Bench) -> None:
        """Rule 27."""
        client = outside.client()
        job_id = client.add("q", "b", "REPLICATE", 2, "ASYNC")
        nodes = asked(outside)
        outside.confirm(job_id, nodes[0])
        assert outside.state(job_id) == "wait-repl"
        assert client.get("q") == []
        outside.confirm(job_id, nodes[1])
        assert outside.state(job_id) == "gone"

    @pytest.mark.parametrize("copies", [1, 2])
    def test_working_says_that_another_node_has_delivered_it(self, outside: Bench, copies: int) -> None:
        """So it is not queued for its RETRY, neither there nor here if this node keeps jobs again."""
        client = outside.client()
        job_id = client.add("q", "b", "REPLICATE", 2, "RETRY", 5, "ASYNC")
        nodes = asked(outside)
        assert client("WORKING", job_id) == 5
        assert sorted(outside.sent(WORKING)) == sorted((node.id, (WORKING, (job_id,))) for node in nodes)
        outside.membership.leaving = False
        outside.confirm(job_id, *nodes[:copies])
        outside.live(4000)
        assert client.get("q") == []
        assert outside.sent(ENQUEUE) == []

    def test_a_timeout_takes_it_back(self, outside: Bench) -> None:
        client = outside.client()
        client.send("ADDJOB", "q", "body", 100, "REPLICATE", 2)
        nodes = asked(outside)
        (job_id,) = outside.node.copies.wanted
        outside.advance(100)
        assert str(client.read()).startswith("NOREPL Timeout")
        assert outside.sent() == [(node.id, (ABORT, (job_id,))) for node in nodes]


class TestAsync:
    def test_it_is_queued_at_once_and_copied_all_the_same(self, cluster: Bench) -> None:
        client = cluster.client()
        job_id = client.add("q", "b", "REPLICATE", 3, "ASYNC")
        assert client.get("q") == [job_id]
        nodes = asked(cluster)
        assert len(nodes) == 2
        assert cluster.job(job_id).holders == tuple(sorted([MYSELF, *[node.id for node in nodes]]))
        cluster.hear(nodes[0], (REFUSED, 0, (job_id,)))
        assert len(asked(cluster)) == 1

    def test_who_may_have_a_copy_is_in_the_journal(self) -> None:
        bench = Bench(peers=1, journaling=True)
        job_id = bench.client().add("q", "b", "REPLICATE", 2, "ASYNC")
        records = bench.records()
        assert (records[0][JOBS_IDS], records[1][1]) == ((job_id,), job_id)
        assert records[-1][2] == tuple(sorted([MYSELF, bench.peers[0].id]))

    def test_when_it_is_done_copies_are_wanted_no_more(self, cluster: Bench) -> None:
        client = cluster.client()
        job_id = client.add("q", "b", "REPLICATE", 3, "ASYNC")
        nodes = asked(cluster)
        client("ACKJOB", job_id)
        assert not cluster.node.copies.wanted
        assert {peer for peer, _ in cluster.sent(SETACK)} == {node.id for node in nodes}


class TestForgotten:
    """Rule 6: FORGET takes the node out of all sets of holders."""

    def test_nobody_waits_for_it(self, cluster: Bench) -> None:
        client = cluster.client()
        job_id, nodes = begin(client, "RETRY", 60)
        cluster.confirm(job_id, *nodes)
        client.read()
        for node in nodes:
            cluster.membership.forget(node.id, cluster.now_ms)
        cluster.live(200)
        assert cluster.job(job_id).holders == (MYSELF,)
        assert client.get("q") == [job_id]
        cluster.sent()
        cluster.advance(60_000)
        assert client.get("q") == [job_id]
        assert cluster.sent() == []

    def test_a_delay_that_was_put_off_for_it_is_written_as_it_is_now(self) -> None:
        cluster = Bench(peers=1, journaling=True)
        (one,) = cluster.peers
        cluster.hear(one, repljob(one.id, delay_ms=4000))
        job_id = foreign_id()
        cluster.advance(63_000)
        cluster.hear(one, (WILLQUEUE, 1, cluster.job(job_id).holders, (job_id,)))
        cluster.membership.forget(one.id, cluster.now_ms)
        cluster.live(200)
        assert (REQUEUE, job_id, 0, 0, cluster.job(job_id).requeue_ms) in cluster.records()

    def test_a_claim_goes_on_without_it(self) -> None:
        cluster = Bench(peers=1)
        client = cluster.client()
        job_id, (only,) = begin(client, "RETRY", 60, copies=2)
        cluster.confirm(job_id, only)
        client.read()
        client.get("q")
        cluster.advance(60_000)
        assert job_id in cluster.node.votes.by_id
        cluster.membership.forget(only.id, cluster.now_ms)
        cluster.live(600)
        assert cluster.state(job_id) == "queued"

    def test_its_copies_are_asked_of_others(self, cluster: Bench) -> None:
        client = cluster.client()
        job_id, (first, second) = begin(client)
        cluster.membership.forget(first.id, cluster.now_ms)
        cluster.live(100)
        (third,) = asked(cluster)
        cluster.confirm(job_id, second, third)
        assert client.read() == job_id


class TestStandingStill:
    """Rule 19: after a gap over half a node timeout shared jobs are treated as after a restart."""

    def stand_still(self, cluster: Bench, ms: int) -> None:
        cluster.live(100)
        cluster.now_ms += ms
        step.beat(cluster.node, cluster.now_ms)

    def shared(self, cluster: Bench) -> bytes:
        client = cluster.client()
        job_id, nodes = begin(client, "RETRY", 60, copies=2)
        cluster.confirm(job_id, *nodes)
        client.read()
        return job_id

    def test_shared_jobs_are_asked_about_before_they_are_served(self, cluster: Bench) -> None:
        job_id = self.shared(cluster)
        alone = cluster.client().add("q", "b", "REPLICATE", 1)
        self.stand_still(cluster, cluster.membership.timeout_ms)
        cluster.tick()
        assert not cluster.node.reconciling
        assert cluster.client().get("q", count=2) == [alone]
        ((peer_id, (_, number, _, ids)),) = cluster.sent(WILLQUEUE)
        assert ids == (job_id,)
        cluster.hear(cluster.membership.nodes[peer_id], (ANSWER, number, ANSWER_NO, (), ids))
        assert cluster.client().get("q") == [job_id]

    def test_a_short_gap_is_nothing(self, cluster: Bench) -> None:
        job_id = self.shared(cluster)
        self.stand_still(cluster, cluster.membership.timeout_ms // 2 - 200)
        cluster.tick()
        assert cluster.client().get("q") == [job_id]

    def test_a_node_alone_doubts_nothing(self, bench: Bench) -> None:
        job_id = bench.client().add("q")
        self.stand_still(bench, 100_000)
        assert not bench.node.reconciling
        assert bench.client().get("q") == [job_id]


class TestUndelivered:
    @pytest.mark.parametrize(
        "message", [(ABORT, (b"x" * 40,)), (SETACK, (), (b"x" * 40,)), (GOTJOB, ()), (WILLQUEUE, 1, (), ())]
    )
    def test_what_is_said_again_anyway_is_let_go(self, cluster: Bench, message: Any) -> None:
        step.undelivered(cluster.node, cluster.peers[0].id, [message], cluster.now_ms)
        assert cluster.sent() == []

    def test_a_body_to_a_node_that_is_forgotten_meanwhile_is_let_go(self, cluster: Bench) -> None:
        client = cluster.client()
        client.send("ADDJOB", "q", "body", 0, "REPLICATE", 3)
        sent = cluster.sent(REPLJOB)
        cluster.membership.forget(sent[0][0], cluster.now_ms)
        cluster.live(100)
        step.undelivered(cluster.node, sent[0][0], [sent[0][1]], cluster.now_ms)
        assert client.read() is NOTHING


def test_links_to_nodes_that_are_not_known_change_nothing(cluster: Bench) -> None:
    stranger = b"c" * 40
    step.link_up(cluster.node, stranger, 5, cluster.now_ms)
    step.heard(cluster.node, stranger, 5, cluster.now_ms)
    step.link_down(cluster.node, stranger, True, cluster.now_ms)
    step.undelivered(cluster.node, stranger, [repljob(job_id=b"x" * 40)], cluster.now_ms)
    assert stranger not in cluster.node.peers
    assert cluster.sent() == []


class TestSoMuchABeat:
    """What is said again over a new link is not one burst: a link takes only so much."""

    @pytest.fixture(autouse=True)
    def five(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(peers, "TOLD_MOST", 5)
        monkeypatch.setattr(acks, "TOLD_MOST", 5)

    @staticmethod
    def acknowledged(number: int = 13) -> Bench:
        """A node with one peer that has not heard of so many acknowledgements."""
        bench = Bench(peers=1)
        bench.hear(bench.peers[0], *[repljob(B0, job_id=foreign_id(one)) for one in range(number)])
        bench.link_down(bench.peers[0])
        bench.client()("ACKJOB", *[foreign_id(one) for one in range(number)])
        bench.sent()
        return bench

    @staticmethod
    def ids(bench: Bench, kind: int) -> list[bytes]:
        """The jobs that are told of in messages of this kind."""
        return [job_id for _, message in bench.sent(kind) for job_id in message[-1]]

    @staticmethod
    def beat(bench: Bench) -> None:
        bench.now_ms += 100
        step.beat(bench.node, bench.now_ms)
        bench.tick()

    def test_acknowledgements(self) -> None:
        bench = self.acknowledged()
        bench.link_up(bench.peers[0])
        told = self.ids(bench, SETACK)
        assert len(told) == 5
        bench.tick()
        assert self.ids(bench, SETACK) == []
        for number in (5, 3):
            self.beat(bench)
            some = self.ids(bench, SETACK)
            assert len(some) == number
            told += some
        assert sorted(told) == [foreign_id(one) for one in range(13)]
        self.beat(bench)
        assert self.ids(bench, SETACK) == []
        assert not bench.node.resting
        assert not bench.node.chores

    def test_what_was_confirmed_meanwhile_is_left_out(self) -> None:
        bench = self.acknowledged()
        bench.link_up(bench.peers[0])
        told = self.ids(bench, SETACK)
        rest = sorted({foreign_id(one) for one in range(13)} - {*told})
        bench.hear(bench.peers[0], (GOTACK, 1, (), tuple(rest[:6])))
        self.beat(bench)
        assert sorted(self.ids(bench, SETACK)) == rest[6:]

    @pytest.mark.parametrize("how", ["link_up", "called"])
    def test_over_another_link_it_begins_anew_and_once(self, how: str) -> None:
        bench = self.acknowledged()
        bench.link_up(bench.peers[0])
        bench.sent()
        if how == "link_up":
            bench.link_down(bench.peers[0])
        getattr(bench, how)(bench.peers[0])
        told = self.ids(bench, SETACK)
        for _ in range(4):
            self.beat(bench)
            told += self.ids(bench, SETACK)
        assert sorted(told) == [foreign_id(one) for one in range(13)]

    def test_reminders(self) -> None:
        bench = self.acknowledged()
        bench.link_up(bench.peers[0])
        for _ in range(4):
            self.beat(bench)
        bench.sent()
        for _ in range(30):
            self.beat(bench)
            assert len(self.ids(bench, SETACK)) <= 5
        for _ in range(200):
            self.beat(bench)
        assert {*self.ids(bench, SETACK)} == {foreign_id(one) for one in range(13)}

    @pytest.mark.parametrize(("queue", "result"), [(b"q", b"x" * 2048), (b"q" * 2048, b"x")])
    def test_how_jobs_have_ended_by_the_size_of_that(self, queue: bytes, result: bytes) -> None:
        bench = Bench(peers=1)
        bench.hear(bench.peers[0], *[repljob(B0, job_id=foreign_id(one), queue=queue) for one in range(5)])
        bench.link_down(bench.peers[0])
        for one in range(5):
            assert bench.client()("ACKJOB", foreign_id(one), "RESULT", result) == 1
        bench.sent()
        bench.link_up(bench.peers[0])
        for number in (2, 2, 1, 0):
            assert len(bench.sent(ENDED)) == number
            self.beat(bench)

    def test_copies_by_their_size_too(self) -> None:
        bench = Bench(peers=1)
        client = bench.client()
        for number in range(9):
            client.send("ADDJOB", "q", "b" * (4096 if number == 8 else 1), 0, "REPLICATE", 2)
        bench.link_down(bench.peers[0])
        bench.sent()
        bench.link_up(bench.peers[0])
        counts = [len(bench.sent(REPLJOB))]
        for _ in range(3):
            self.beat(bench)
            counts.append(len(bench.sent(REPLJOB)))
        assert counts == [5, 4, 0, 0]

    def test_that_jobs_are_in_the_queue(self) -> None:
        bench = Bench(peers=1)
        job_ids = [b"D-b0b0b0b0-%02d%022d-003d" % (one, one) for one in range(13)]  # of as many shards
        bench.hear(bench.peers[0], *[repljob(B0, job_id=job_ids[one]) for one in range(13)])
        for one in range(13):
            bench.hear(bench.peers[0], (ENQUEUE, job_ids[one], 0))
        bench.link_down(bench.peers[0])
        bench.sent()
        bench.link_up(bench.peers[0])
        told = self.ids(bench, QUEUED)
        assert 5 <= len(told) < 13
        for _ in range(3):
            self.beat(bench)
            told += self.ids(bench, QUEUED)
        assert sorted(told) == job_ids

    def test_pauses(self) -> None:
        bench = Bench(peers=2)
        for number in range(13):
            bench.hear(bench.peers[1], pause_everywhere(b"q%02d" % number, 1, 5, B0))
        bench.link_down(bench.peers[0])
        bench.sent()
        bench.link_up(bench.peers[0])
        bench.hear(bench.peers[0], (DIGEST, 1, b""))
        counts = [len(bench.sent(ENTRIES))]
        for _ in range(3):
            self.beat(bench)
            counts.append(len(bench.sent(ENTRIES)))
        assert counts == [5, 5, 3, 0]
