"""One queue for a job that several nodes hold: asking before a job is queued again, and answering those who ask."""

from collections.abc import Callable
from typing import Any

import pytest

from cluster.membership import FAIL, PFAIL, Member
from cluster.messages import (
    ANSWER,
    ANSWER_NO,
    ANSWER_QUEUED,
    BY_ENQUEUE,
    BY_HOLDER,
    BY_NACK,
    BY_TIMER,
    DELJOB,
    ENDED,
    ENQUEUE,
    HANDED_ON,
    HOLD,
    IN_MY_STEAD,
    MORE,
    NEEDJOBS,
    OUT_IN_MY_STEAD,
    QUEUED,
    SETACK,
    STILL,
    WILLQUEUE,
    WORKING,
)
from disque.core import handover
from disque.core.jobs.census import is_out
from disque.core.jobs.orders import is_delayed_here
from disque.core.jobs.results import RUNS, state
from disque.core.journal.schema import REQUEUE
from disque.core.model.ends import GONE, NOBODY
from disque.core.model.job import ACTIVE, DEFERRED, DELIVERED, LEASE_OWNER, LEASE_RELAYED, SHELL, is_in_flight
from disque.core.replication import arbitration
from disque.core.replication.arbitration import (
    AGAIN_MOST_MS,
    AGAIN_MS,
    CONTEST_MS,
    FRESH_MS,
    YIELD_MS,
    wins,
)
from tests.core.support import MYSELF, UNKNOWN_ID, Bench, Client, foreign_id, repljob

RETRY_MS = 60_000


@pytest.fixture
def pair() -> Bench:
    """One node with one other beside it."""
    return Bench(peers=1)


def add(bench: Bench, *options: str | int, copies: int = 2) -> bytes:
    """A job with so many copies, in the queue q here: the ID."""
    client = bench.client()
    client.send("ADDJOB", "q", "body", 0, "REPLICATE", copies, "RETRY", 60, *options)
    bench.settle()
    (job_id,) = bench.node.copies.wanted
    bench.confirm(job_id, *bench.peers)
    assert client.read() == job_id
    bench.sent()
    return job_id


def out(bench: Bench, *options: str | int, copies: int = 2) -> bytes:
    """Such a job that a consumer has."""
    job_id = add(bench, *options, copies=copies)
    assert bench.client().get("q") == [job_id]
    bench.sent()
    return job_id


def backup(bench: Bench, number: int = 1) -> bytes:
    """A copy for the first peer."""
    job_id = foreign_id(number)
    bench.hear(bench.peers[0], repljob(bench.peers[0].id, job_id=job_id))
    bench.sent()
    return job_id


def put_off(bench: Bench) -> bytes:
    """A copy of a job that is delayed, as another node knows."""
    job_id = backup(bench)
    bench.job(job_id).flags |= DEFERRED
    return job_id


def contested(bench: Bench, *, won: bool) -> bytes:
    """A copy about which this node wins or loses against the first peer."""
    numbers = [n for n in range(100) if wins(MYSELF, bench.peers[0].id, foreign_id(n)) == won]
    return backup(bench, numbers[0])


def asked(bench: Bench) -> dict[bytes, tuple[int, tuple[bytes, ...]]]:
    """Who was asked: the number of the question and the holders that it named."""
    return {peer_id: (message[1], message[2]) for peer_id, message in bench.sent(WILLQUEUE)}


def say_no(bench: Bench) -> int:
    """All who were asked have nothing against it; how many that were."""
    questions = bench.sent(WILLQUEUE)
    for peer_id, (_, number, _, ids) in questions:
        bench.hear(bench.membership.nodes[peer_id], (ANSWER, number, ANSWER_NO, (), ids))
    return len(questions)


class TestAsking:
    """Rule 14: WILLQUEUE is a claim; the asker waits for all holders that do not fail."""

    def test_half_a_second_before_a_retry_ends_all_other_holders_are_asked(self, cluster: Bench) -> None:
        job_id = out(cluster, copies=3)
        holders = cluster.job(job_id).holders
        cluster.advance(RETRY_MS - arbitration.AGAIN_MS - 1)
        assert asked(cluster) == {}
        cluster.advance(1)
        assert asked(cluster) == {holder: (cluster.now_ms, holders) for holder in holders if holder != MYSELF}

    def test_jobs_due_together_are_asked_about_together(self, pair: Bench) -> None:
        ids = {out(pair) for _ in range(3)}
        pair.advance(RETRY_MS - 500)
        ((_, _, _, named),) = pair.told(pair.peers[0], WILLQUEUE)
        assert set(named) == ids

    def test_when_all_have_said_no_it_is_queued_on_time_and_they_are_told(self, pair: Bench) -> None:
        job_id = out(pair)
        pair.advance(RETRY_MS - 500)
        assert say_no(pair) == 1
        pair.advance(499)
        assert pair.state(job_id) == "active"
        pair.advance(1)
        assert pair.state(job_id) == "queued"
        assert pair.told(pair.peers[0], QUEUED) == [(QUEUED, BY_TIMER, (job_id,))]

    def test_one_no_of_two_is_not_enough(self, cluster: Bench) -> None:
        job_id = out(cluster, copies=3)
        cluster.advance(RETRY_MS - 500)
        (first, number), _ = ((peer, told[0]) for peer, told in asked(cluster).items())
        cluster.hear(cluster.membership.nodes[first], (ANSWER, number, ANSWER_NO, (), (job_id,)))
        cluster.advance(2000)
        assert cluster.state(job_id) == "active"

    def test_who_does_not_answer_is_asked_again_less_and_less_often(self, pair: Bench) -> None:
        job_id = out(pair)
        pair.advance(RETRY_MS - 500)
        for pause_ms in (AGAIN_MS, 2 * AGAIN_MS, AGAIN_MOST_MS, AGAIN_MOST_MS):
            assert list(asked(pair)) == [pair.peers[0].id]
            pair.advance(pause_ms - 1)
            assert not asked(pair)
            pair.advance(1)
        assert pair.state(job_id) == "active"

    def test_a_no_counts_for_a_while_only(self, cluster: Bench) -> None:
        job_id = out(cluster, copies=3)
        cluster.advance(RETRY_MS - 500)
        (one, number), (other, _) = ((peer, told[0]) for peer, told in asked(cluster).items())
        cluster.hear(cluster.membership.nodes[one], (ANSWER, number, ANSWER_NO, (), (job_id,)))
        cluster.advance(FRESH_MS + 1)
        number = asked(cluster)[other][0]
        cluster.hear(cluster.membership.nodes[other], (ANSWER, number, ANSWER_NO, (), (job_id,)))
        assert cluster.state(job_id) == "active"

    @pytest.mark.parametrize("late_ms", [FRESH_MS + 1, -1])
    def test_an_answer_to_another_question_counts_nothing(self, pair: Bench, late_ms: int) -> None:
        job_id = out(pair)
        pair.advance(RETRY_MS)
        pair.hear(pair.peers[0], (ANSWER, pair.now_ms - late_ms, ANSWER_NO, (), (job_id,)))
        assert pair.state(job_id) == "active"

    @pytest.mark.parametrize("flag", [PFAIL, FAIL])
    def test_a_node_that_fails_is_not_waited_for(self, pair: Bench, flag: int) -> None:
        job_id = out(pair)
        pair.fail(pair.peers[0], flag)
        pair.advance(RETRY_MS - 1)
        assert pair.state(job_id) == "active"
        pair.advance(1)
        assert pair.state(job_id) == "queued"

    def test_a_node_without_a_link_is_waited_for_until_it_fails(self, pair: Bench) -> None:
        job_id = out(pair)
        pair.link_down(pair.peers[0])
        pair.advance(RETRY_MS + 5000)
        assert asked(pair) == {}
        assert pair.state(job_id) == "active"
        pair.fail(pair.peers[0])
        pair.advance(AGAIN_MS)
        assert pair.state(job_id) == "queued"

    def test_a_node_to_which_no_connection_can_be_made_fails_at_once(self, pair: Bench) -> None:
        job_id = out(pair)
        pair.link_down(pair.peers[0], refused=True)
        pair.advance(RETRY_MS)
        assert pair.state(job_id) == "queued"

    def test_answers_bring_holders_that_are_asked_too(self, cluster: Bench) -> None:
        job_id = out(cluster)
        (first,) = [cluster.membership.nodes[one] for one in cluster.job(job_id).holders if one != MYSELF]
        new = next(peer for peer in cluster.peers if peer is not first)
        cluster.advance(RETRY_MS - 500)
        number = asked(cluster)[first.id][0]
        holders = tuple(sorted([MYSELF, first.id, new.id]))
        cluster.hear(first, (ANSWER, number, ANSWER_NO, holders, (job_id,)))
        assert asked(cluster)[new.id] == (cluster.now_ms, holders)
        cluster.advance(1000)
        assert cluster.state(job_id) == "active", "the new one has not said anything"
        say_no(cluster)
        assert cluster.state(job_id) == "queued"

    def test_a_job_in_the_queue_of_another_node_stays_there_for_a_retry(self, pair: Bench) -> None:
        job_id = out(pair)
        pair.advance(RETRY_MS)
        pair.hear(pair.peers[0], (ANSWER, pair.now_ms, ANSWER_QUEUED, (), (job_id,)))
        pair.sent()
        pair.advance(RETRY_MS - 501)
        assert asked(pair) == {}
        pair.advance(1001)
        assert list(asked(pair)) == [pair.peers[0].id]

    def test_hold_puts_it_off_for_so_long_and_never_shorter(self, pair: Bench) -> None:
        job_id = out(pair)
        pair.advance(RETRY_MS)
        pair.hear(pair.peers[0], (HOLD, pair.now_ms, (), (job_id,), (30_000,)))
        pair.hear(pair.peers[0], (HOLD, pair.now_ms, (), (job_id,), (5_000,)))
        pair.sent()
        pair.advance(29_499)
        assert asked(pair) == {}
        pair.advance(700)
        assert list(asked(pair)) == [pair.peers[0].id]
        assert pair.state(job_id) == "active"

    def test_a_job_that_is_done_elsewhere_is_not_queued(self, pair: Bench) -> None:
        job_id = out(pair)
        pair.advance(RETRY_MS)
        pair.hear(pair.peers[0], (SETACK, pair.job(job_id).holders, (job_id,)))
        assert pair.state(job_id) == "gone"
        pair.advance(RETRY_MS)
        assert pair.client().get("q") == []

    def test_a_delay_asks_too(self, pair: Bench) -> None:
        job_id = add(pair, "DELAY", 5)
        pair.advance(4500)
        assert say_no(pair) == 1
        pair.advance(500)
        assert pair.client().get("q") == [job_id]

    def test_a_job_of_this_node_alone_asks_nobody(self, pair: Bench) -> None:
        client = pair.client()
        job_id = client.add("q", "b", "REPLICATE", 1, "RETRY", 1)
        client.get("q")
        pair.advance(1000)
        assert pair.sent() == []
        assert pair.state(job_id) == "queued"

    def test_a_claim_ends_with_its_job_even_in_the_same_moment(self, pair: Bench) -> None:
        out(pair, "TTL", 61)
        pair.advance(RETRY_MS + 500)
        assert pair.node.votes.by_id
        pair.advance(500)
        assert not pair.node.votes.by_id

    def test_a_consumer_that_hears_nothing_ends_a_claim_by_giving_back(self, pair: Bench) -> None:
        job_id = add(pair)
        client = pair.client()
        client.choked = True
        client.send("GETJOB", "FROM", "q")
        pair.advance(RETRY_MS - 100)
        assert job_id in pair.node.votes.by_id
        client.disconnect()
        assert pair.state(job_id) == "queued"
        assert not pair.node.votes.by_id


def answer(bench: Bench, job_id: bytes, holders: tuple[bytes, ...] | None = None) -> tuple[Any, ...]:
    """What the first peer is told when it asks about a job."""
    job = bench.node.find(job_id)
    named = holders if holders is not None else job.holders if job is not None else ()
    bench.hear(bench.peers[0], (WILLQUEUE, 5, named, (job_id,)))
    *how, message = bench.told(bench.peers[0])
    assert [one[:4] for one in how] in ([], [(ENDED, BY_HOLDER, GONE, NOBODY)])
    return message


class TestBeingAsked:
    """Rule 14: a question is always answered."""

    def test_queued_here(self, pair: Bench) -> None:
        job_id = add(pair)
        assert answer(pair, job_id) == (ANSWER, 5, ANSWER_QUEUED, (), (job_id,))

    def test_out_with_a_consumer(self, pair: Bench) -> None:
        job_id = out(pair)
        pair.advance(20_000)
        assert answer(pair, job_id) == (HOLD, 5, (), (job_id,), (40_000,))

    def test_delayed(self, pair: Bench) -> None:
        job_id = add(pair, "DELAY", 60)
        assert answer(pair, job_id) == (HOLD, 5, (), (job_id,), (60_000,))

    def test_given_back_with_a_delay(self, pair: Bench) -> None:
        job_id = out(pair)
        pair.client()("NACK", job_id, "DELAY", 7)
        pair.sent()
        assert answer(pair, job_id) == (HOLD, 5, (), (job_id,), (7_000,))

    def test_worked_on(self, pair: Bench) -> None:
        job_id = out(pair)
        pair.advance(50_000)
        pair.client()("WORKING", job_id)
        pair.sent()
        assert answer(pair, job_id) == (HOLD, 5, (), (job_id,), (60_000,))

    def test_taken_out_of_the_queue(self, pair: Bench) -> None:
        job_id = add(pair)
        pair.client()("DEQUEUE", job_id)
        assert answer(pair, job_id) == (HOLD, 5, (), (job_id,), (60_000,))

    def test_waiting_for_copies(self, pair: Bench) -> None:
        pair.client().send("ADDJOB", "q", "body", 0, "REPLICATE", 2, "RETRY", 60)
        (job_id,) = pair.node.copies.wanted
        pair.sent()
        assert answer(pair, job_id) == (HOLD, 5, (), (job_id,), (60_000,))

    def test_acknowledged(self, pair: Bench) -> None:
        job_id = add(pair)
        pair.client()("ACKJOB", job_id)
        pair.sent()
        assert answer(pair, job_id) == (SETACK, tuple(sorted([MYSELF, pair.peers[0].id])), (job_id,))

    def test_acknowledged_though_it_was_never_here(self, pair: Bench) -> None:
        pair.client()("ACKJOB", UNKNOWN_ID)
        pair.sent()
        assert answer(pair, UNKNOWN_ID) == (SETACK, (), (UNKNOWN_ID,))

    def test_deleted_everywhere(self, pair: Bench) -> None:
        pair.hear(pair.peers[0], (DELJOB, (UNKNOWN_ID,)))
        assert answer(pair, UNKNOWN_ID) == (SETACK, (), (UNKNOWN_ID,))

    @pytest.mark.parametrize("job_id", [UNKNOWN_ID, b"x" * 40])
    def test_never_seen(self, pair: Bench, job_id: bytes) -> None:
        assert answer(pair, job_id) == (ANSWER, 5, ANSWER_NO, (), (job_id,))

    def test_a_backup_is_left_to_the_asker_for_a_while(self, pair: Bench) -> None:
        job_id = backup(pair)
        pair.advance(RETRY_MS - 2000)
        assert answer(pair, job_id) == (ANSWER, 5, ANSWER_NO, (), (job_id,))
        pair.advance(YIELD_MS - 501)
        assert asked(pair) == {}, "longer than the NO counts, nothing is asked"
        pair.advance(501)
        assert list(asked(pair)) == [pair.peers[0].id]

    def test_a_no_never_shortens_a_wait(self, pair: Bench) -> None:
        job_id = backup(pair)
        due_ms = pair.job(job_id).requeue_ms
        answer(pair, job_id)
        assert pair.job(job_id).requeue_ms == due_ms

    def test_holders_that_were_not_named_are_told_and_those_that_are_new_are_noted(self, cluster: Bench) -> None:
        job_id = out(cluster)
        mine = cluster.job(job_id).holders
        new = next(peer for peer in cluster.peers if peer.id not in mine)
        cluster.hear(new, (WILLQUEUE, 5, (new.id,), (job_id,)))
        everybody = tuple(sorted([*mine, new.id]))
        assert cluster.told(new) == [(HOLD, 5, everybody, (job_id,), (RETRY_MS,))]
        assert cluster.job(job_id).holders == everybody

    def test_one_question_about_many_is_answered_at_once(self, pair: Bench) -> None:
        ids = tuple([backup(pair, number) for number in range(3)])
        pair.hear(pair.peers[0], (WILLQUEUE, 5, pair.job(ids[0]).holders, (*ids, ids[0])))
        assert pair.sent() == [(pair.peers[0].id, (ANSWER, 5, ANSWER_NO, (), (*ids, ids[0])))]


class TestTwoAtOnce:
    """Rule 14: of two claims within half a second the winner of the compare holds off the other."""

    def test_exactly_one_of_two_wins(self, pair: Bench) -> None:
        other = pair.peers[0].id
        results = [(wins(MYSELF, other, foreign_id(n)), wins(other, MYSELF, foreign_id(n))) for n in range(200)]
        assert set(results) == {(True, False), (False, True)}
        assert 50 < results.count((True, False)) < 150

    def test_the_winner_holds_off_the_loser_and_goes_on(self, pair: Bench) -> None:
        job_id = contested(pair, won=True)
        pair.advance(RETRY_MS + 500)
        pair.sent()
        assert answer(pair, job_id) == (HOLD, 5, (), (job_id,), (CONTEST_MS,))
        assert job_id in pair.node.votes.by_id

    def test_the_loser_says_no_and_steps_back(self, pair: Bench) -> None:
        job_id = contested(pair, won=False)
        pair.advance(RETRY_MS + 500)
        pair.sent()
        assert answer(pair, job_id) == (ANSWER, 5, ANSWER_NO, (), (job_id,))
        assert not pair.node.votes.by_id
        pair.advance(YIELD_MS - 501)
        assert asked(pair) == {}


class TestTries:
    """Rule 43: who has delivered a job counts the try, and the others know that before they may queue it."""

    @pytest.fixture
    def asked_about(self, monkeypatch: pytest.MonkeyPatch) -> tuple[Bench, bytes]:
        """A job whose RETRY is over, of which the first peer has just said that it will queue it."""
        monkeypatch.setattr(arbitration, "wins", lambda *_: False)
        bench = Bench(peers=2, journaling=True)
        job_id = out(bench, "TRIES", 3, copies=3)
        bench.advance(RETRY_MS)
        bench.sent()
        self.ask(bench, bench.peers[0], job_id)
        return bench, job_id

    def ask(self, bench: Bench, peer: Member, job_id: bytes) -> None:
        bench.hear(peer, (WILLQUEUE, 5, bench.job(job_id).holders, (job_id,)))

    def test_no_answer_overtakes_the_count(self, asked_about: tuple[Bench, bytes]) -> None:
        bench, job_id = asked_about
        one, other = bench.peers
        self.ask(bench, other, job_id)
        bench.settle()
        assert bench.client().show(job_id)["tries"] == 1
        assert {peer for peer, message in bench.node.messages if message[0] == MORE} == {one.id, other.id}
        assert bench.node.early == []
        said = (HOLD, 5, (), (job_id,), (CONTEST_MS,))
        assert bench.sent(HOLD) == [(one.id, said), (other.id, said)]

    def test_not_if_the_disk_is_so_slow_that_it_is_asked_again_either(self, asked_about: tuple[Bench, bytes]) -> None:
        bench, job_id = asked_about
        bench.now_ms += AGAIN_MS + 100
        self.ask(bench, bench.peers[0], job_id)
        bench.settle()
        assert bench.node.early == []

    def test_a_moment_later_there_is_nothing_against_it(self, asked_about: tuple[Bench, bytes]) -> None:
        bench, job_id = asked_about
        bench.advance(CONTEST_MS)
        bench.sent()
        for peer in bench.peers:
            self.ask(bench, peer, job_id)
            assert bench.told(peer) == [(ANSWER, 5, ANSWER_NO, (), (job_id,))]
        assert bench.client().show(job_id)["tries"] == 1

    def test_a_nack_that_comes_late_does_not_count_it_once_more(self, asked_about: tuple[Bench, bytes]) -> None:
        bench, job_id = asked_about
        client = bench.client()
        assert client("NACK", job_id) == 1
        assert client.show(job_id)["tries"] == 1
        assert client.show(job_id)["state"] == b"active"

    def test_a_job_whose_tries_are_not_counted_is_not_held(self, monkeypatch: pytest.MonkeyPatch, pair: Bench) -> None:
        monkeypatch.setattr(arbitration, "wins", lambda *_: False)
        job_id = out(pair)
        pair.advance(RETRY_MS)
        pair.sent()
        self.ask(pair, pair.peers[0], job_id)
        assert pair.told(pair.peers[0]) == [(ANSWER, 5, ANSWER_NO, (), (job_id,))]


class TestQueuedElsewhere:
    """Rule 16: QUEUED says why."""

    def test_a_node_that_gave_it_to_a_consumer_objects_to_a_timer(self, pair: Bench) -> None:
        job_id = out(pair)
        pair.hear(pair.peers[0], (QUEUED, BY_TIMER, (job_id,)))
        assert pair.told(pair.peers[0]) == [(HOLD, 0, (), (job_id,), (RETRY_MS,))]
        assert pair.client().show(job_id)["additional-deliveries"] == 0

    @pytest.mark.parametrize(("why", "counter"), [(BY_NACK, "nacks"), (BY_ENQUEUE, "additional-deliveries")])
    def test_after_nack_or_enqueue_the_delivery_is_forgotten(self, why: int, counter: str) -> None:
        pair = Bench(peers=1, journaling=True)
        job_id = out(pair)
        pair.advance(30_000)
        pair.hear(pair.peers[0], (QUEUED, why, (job_id,)))
        assert pair.sent() == []
        assert pair.client().show(job_id)[counter] == 1
        assert pair.job(job_id).requeue_ms >= pair.now_ms + RETRY_MS
        assert answer(pair, job_id)[:3] == (ANSWER, 5, ANSWER_NO)

    def test_a_backup_waits_a_retry_from_then(self, pair: Bench) -> None:
        job_id = backup(pair)
        pair.advance(50_000)
        pair.hear(pair.peers[0], (QUEUED, BY_TIMER, (job_id,)))
        pair.advance(RETRY_MS - 501)
        assert asked(pair) == {}

    def test_a_node_that_is_back_hears_of_a_job_that_was_handed_back(self, pair: Bench) -> None:
        (one,) = pair.peers
        at_once, later, _out_here = out(pair), out(pair), out(pair)
        pair.link_down(one)
        pair.client()("NACK", at_once)
        pair.client()("NACK", later, "DELAY", 30)
        pair.link_up(one)
        pair.live(100)
        told = [message for message in pair.told(one, QUEUED) if message[1] == STILL]
        assert sorted(job_id for message in told for job_id in message[2]) == sorted([at_once, later])

    def test_but_not_of_one_for_which_this_node_only_speaks(self, pair: Bench) -> None:
        """A node has stopped with the job out, and is back: it would take it for one that is queued here."""
        (one,) = pair.peers
        job_id = out(pair)
        client = pair.client()
        client("NACK", job_id)
        assert client.get("q") == [job_id]
        pair.hear(one, (HOLD, IN_MY_STEAD, (), (job_id,), (70_000,)))
        pair.link_down(one)
        pair.sent()
        pair.link_up(one)
        pair.live(100)
        assert pair.told(one, QUEUED) == []

    def test_a_node_that_is_back_says_what_consumers_have_from_it(self, pair: Bench) -> None:
        (one,) = pair.peers
        job_id, put_off = out(pair), out(pair)
        pair.client()("NACK", put_off, "DELAY", 30)
        for job in (pair.job(job_id), pair.job(put_off)):  # as after a clean stop and a start
            job.flags = job.flags & ~LEASE_OWNER | LEASE_RELAYED
        pair.link_down(one)
        pair.link_up(one)
        pair.live(100)
        left_ms = pair.job(job_id).requeue_ms - pair.now_ms
        [(_, number, _, ids, [told_ms])] = pair.told(one, HOLD)
        assert (number, ids) == (HANDED_ON, (job_id,))
        assert left_ms <= told_ms <= left_ms + 100

    def test_of_two_queues_one_keeps_it(self, pair: Bench) -> None:
        won, lost = contested(pair, won=True), contested(pair, won=False)
        pair.client()("ENQUEUE", won, lost)
        pair.sent()
        pair.hear(pair.peers[0], (QUEUED, BY_TIMER, (won, lost)))
        assert pair.told(pair.peers[0]) == [(QUEUED, STILL, (won,))]
        assert [pair.state(won), pair.state(lost)] == ["queued", "active"]

    def test_who_gave_way_asks_soon_since_what_it_heard_may_be_old(self, pair: Bench) -> None:
        job_id = contested(pair, won=False)
        pair.client()("ENQUEUE", job_id)
        pair.sent()
        pair.hear(pair.peers[0], (QUEUED, BY_TIMER, (job_id,)))
        pair.live(YIELD_MS)
        assert say_no(pair)
        assert pair.state(job_id) == "queued", "the other one had handed it on, and by that way it came here"

    def test_a_claim_ends(self, pair: Bench) -> None:
        job_id = out(pair)
        pair.advance(RETRY_MS)
        pair.hear(pair.peers[0], (QUEUED, BY_TIMER, (job_id,)))
        assert not pair.node.votes.by_id
        assert pair.state(job_id) == "active"

    def test_whoever_says_so_is_a_holder(self, cluster: Bench) -> None:
        job_id = out(cluster)
        new = next(peer for peer in cluster.peers if peer.id not in cluster.job(job_id).holders)
        cluster.hear(new, (QUEUED, BY_NACK, (job_id,)))
        assert new.id in cluster.job(job_id).holders
        assert cluster.told(new) == [(ANSWER, 0, ANSWER_NO, cluster.job(job_id).holders, (job_id,))]

    def test_who_learns_of_a_holder_tells_it_that_the_job_is_queued_here(self, cluster: Bench) -> None:
        job_id = add(cluster)
        known = cluster.job(job_id).holders
        (old,) = [peer for peer in cluster.peers if peer.id in known]
        new = next(peer for peer in cluster.peers if peer.id not in known)
        cluster.hear(old, (ANSWER, 0, ANSWER_NO, tuple(sorted([*known, new.id])), (job_id,)))
        assert cluster.sent() == [(new.id, (QUEUED, STILL, (job_id,)))]

    def test_who_queues_a_job_that_is_done_is_told(self, pair: Bench) -> None:
        job_id = add(pair)
        pair.client()("ACKJOB", job_id)
        pair.sent()
        pair.hear(pair.peers[0], (QUEUED, BY_TIMER, (job_id,)))
        assert pair.told(pair.peers[0]) == [(SETACK, tuple(sorted([MYSELF, pair.peers[0].id])), (job_id,))]

    @pytest.mark.parametrize(
        ("command", "why"), [(("NACK",), BY_NACK), (("ENQUEUE",), BY_ENQUEUE)], ids=["nack", "enqueue"]
    )
    def test_the_others_are_told_of_nack_and_enqueue(self, pair: Bench, command: tuple[str], why: int) -> None:
        job_id = out(pair)
        pair.client()(*command, job_id)
        assert pair.told(pair.peers[0]) == [(QUEUED, why, (job_id,))]

    def test_a_job_that_waits_for_copies_is_not_queued_here_as_well(self, pair: Bench) -> None:
        client = pair.client()
        client.send("ADDJOB", "q", "body", 0, "REPLICATE", 2, "RETRY", 60)
        (job_id,) = pair.node.copies.wanted
        pair.hear(pair.peers[0], (QUEUED, BY_TIMER, (job_id,)))
        pair.confirm(job_id, pair.peers[0])
        assert client.read() == job_id
        assert pair.state(job_id) == "active"


class TestHeldElsewhere:
    def test_a_job_that_is_queued_here_is_taken_out(self, pair: Bench) -> None:
        job_id = add(pair)
        pair.hear(pair.peers[0], (HOLD, 0, (), (job_id,), (10_000,)))
        assert pair.client().get("q") == []
        assert pair.job(job_id).requeue_ms >= pair.now_ms + 10_000

    def test_a_backup_is_none_any_more(self, pair: Bench) -> None:
        job_id = backup(pair)
        pair.hear(pair.peers[0], (HOLD, 0, (), (job_id,), (1,)))
        assert pair.job(job_id).flags == 0

    @pytest.mark.parametrize("maker", [add, out, backup])
    def test_who_hears_it_from_a_node_that_stops_speaks_for_it(self, maker: Callable[[Bench], bytes]) -> None:
        bench = Bench(peers=2, journaling=True)
        one, other = bench.peers
        job_id = maker(bench)
        bench.records()
        bench.hear(one, (HOLD, IN_MY_STEAD, (), (job_id,), (70_000,)))
        job = bench.job(job_id)
        until_ms = job.requeue_ms
        assert until_ms >= bench.now_ms + 70_000
        assert bench.records() == [(REQUEUE, job_id, job.nacks, job.deliveries, until_ms)], (
            "a crash does not shorten it"
        )
        bench.hear(other, (WILLQUEUE, 7000, job.holders, (job_id,)))
        assert bench.told(other, HOLD) == [(HOLD, 7000, (), (job_id,), (until_ms - bench.now_ms,))]
        bench.hear(one, (QUEUED, BY_NACK, (job_id,)))
        bench.hear(other, (WILLQUEUE, 8000, job.holders, (job_id,)))
        assert bench.told(other) == [(ANSWER, 8000, 0, (), (job_id,))], "a NACK ends it"

    @pytest.mark.parametrize("maker", [add, backup, put_off])
    def test_what_a_consumer_has_from_it_is_in_flight_and_not_delayed(self, maker: Callable[[Bench], bytes]) -> None:
        bench = Bench(peers=2, journaling=True)
        one, other = bench.peers
        job_id = maker(bench)
        job = bench.job(job_id)
        bench.hear(one, (HOLD, IN_MY_STEAD, (), (job_id,), (70_000,)))
        assert is_delayed_here(job)
        bench.hear(one, (HOLD, OUT_IN_MY_STEAD, (), (job_id,), (80_000,)))
        assert not is_delayed_here(job)
        assert (is_out(job), is_in_flight(job), state(job, is_dead=False)) == (True, True, RUNS)
        assert bench.records()[-1] == (REQUEUE, job_id, job.nacks, job.deliveries, job.requeue_ms)
        assert handover.what_to_say(bench.node.peers[other.id], job) == OUT_IN_MY_STEAD
        bench.hear(other, (WILLQUEUE, 7000, job.holders, (job_id,)))
        assert bench.told(other, HOLD) == [(HOLD, 7000, (), (job_id,), (job.requeue_ms - bench.now_ms,))]
        bench.hear(one, (HOLD, HANDED_ON, (), (job_id,), (79_900,)))
        assert (is_out(job), job.flags) == (False, 0), "it is back"

    def test_what_was_taken_out_of_the_middle_of_its_queue_leaves_its_place_there(self, pair: Bench) -> None:
        first, middle, last = [add(pair) for _ in range(3)]
        for number in (0, OUT_IN_MY_STEAD):
            pair.hear(pair.peers[0], (HOLD, number, (), (middle,), (70_000,)))
        assert pair.job(middle).place == SHELL
        assert pair.client().get("q", count=3) == [first, last]

    def test_what_this_node_put_off_itself_stays_so(self, pair: Bench) -> None:
        job_id = put_off(pair)
        job = pair.job(job_id)
        job.flags |= LEASE_OWNER
        pair.hear(pair.peers[0], (HOLD, OUT_IN_MY_STEAD, (), (job_id,), (70_000,)))
        assert is_delayed_here(job)

    def test_what_it_was_told_itself_does_not_put_off_a_job_that_is_out(self, pair: Bench) -> None:
        """A stops, so B speaks for its job; A is back, and B stops. The consumer still has it from A."""
        job_id = out(pair)
        job = pair.job(job_id)
        pair.hear(pair.peers[0], (HOLD, IN_MY_STEAD, (), (job_id,), (job.requeue_ms - pair.now_ms,)))
        assert job.flags & (DELIVERED | DEFERRED) == DELIVERED

    def test_who_is_back_says_what_consumers_have_from_it(self) -> None:
        """Else both would count the job, and here as one that is delayed: QMOVE and CANCEL WAITING would take it."""
        bench = Bench(peers=2, journaling=True)
        one = bench.peers[0]
        job_id = backup(bench)
        bench.hear(one, (HOLD, IN_MY_STEAD, (), (job_id,), (70_000,)))
        job = bench.job(job_id)
        assert is_delayed_here(job)
        bench.records()
        bench.hear(one, (HOLD, HANDED_ON, (), (job_id,), (69_900,)))
        assert not is_delayed_here(job)
        assert job.flags == 0
        assert job.requeue_ms >= bench.now_ms + 69_900, "it is not asked about before its time"
        assert bench.records() == [(REQUEUE, job_id, job.nacks, job.deliveries, 0)]

    def test_but_who_has_queued_the_job_is_believed(self, pair: Bench) -> None:
        """It was handed back while the two did not hear each other."""
        job_id = backup(pair)
        pair.hear(pair.peers[0], (HOLD, IN_MY_STEAD, (), (job_id,), (70_000,)))
        pair.hear(pair.peers[0], (QUEUED, STILL, (job_id,)))
        assert pair.sent(HOLD) == []
        assert pair.job(job_id).flags == 0

    def test_and_it_takes_its_turn_when_the_job_is_handed_over(self, pair: Bench) -> None:
        job_id = backup(pair)
        pair.hear(pair.peers[0], (HOLD, IN_MY_STEAD, (), (job_id,), (70_000,)))
        pair.hear(pair.peers[0], (ENQUEUE, job_id, 0))
        assert pair.state(job_id) == "queued"

    def test_the_longest_time_that_a_message_can_tell_is_beyond_the_life_of_the_job(self, pair: Bench) -> None:
        job_id = add(pair)
        pair.hear(pair.peers[0], (HOLD, 0, (), (job_id,), (2**43 - 1,)))
        pair.advance(86_400_000)
        assert pair.state(job_id) == "gone"


class TestWorkingElsewhere:
    @pytest.mark.parametrize("maker", [add, backup])
    def test_a_retry_begins_anew(self, pair: Bench, maker: Callable[[Bench], bytes]) -> None:
        job_id = maker(pair)
        pair.advance(40_000)
        pair.hear(pair.peers[0], (WORKING, (job_id,)))
        assert pair.state(job_id) == "active"
        pair.advance(RETRY_MS - 501)
        assert asked(pair) == {}

    def test_the_others_are_told(self, pair: Bench) -> None:
        job_id = out(pair)
        assert pair.client()("WORKING", job_id) == 60
        assert pair.told(pair.peers[0]) == [(WORKING, (job_id,))]

    def test_it_never_shortens_a_wait(self, pair: Bench) -> None:
        job_id = add(pair, "DELAY", 3600)
        due_ms = pair.job(job_id).requeue_ms
        pair.hear(pair.peers[0], (WORKING, (job_id,)))
        assert pair.job(job_id).requeue_ms == due_ms

    def test_it_ends_a_claim(self, pair: Bench) -> None:
        job_id = out(pair)
        pair.advance(RETRY_MS)
        pair.hear(pair.peers[0], (WORKING, (job_id,)))
        assert not pair.node.votes.by_id


def test_a_job_that_is_delivered_at_most_once_is_nobody_elses_business(pair: Bench) -> None:
    client = pair.client()
    job_id = client.add("q", "b", "RETRY", 0, "REPLICATE", 1)
    every = [
        (QUEUED, BY_NACK, (job_id,)),
        (HOLD, 0, (), (job_id,), (5,)),
        (WORKING, (job_id,)),
        (ANSWER, 1, ANSWER_QUEUED, (pair.peers[0].id,), (job_id,)),
    ]
    for times in range(2):
        pair.hear(pair.peers[0], *every)
        assert pair.job(job_id).holders == (MYSELF,)
        assert client.get("q") == ([job_id] if not times else [])
        pair.advance(10_000)


class TestWhoeverSpeaksForAJob:
    """A node that gave a job to a consumer knows best how long that lasts."""

    def test_keeps_its_word_while_another_one_objects(self) -> None:
        bench = Bench(peers=1)
        client = bench.client()
        job_id = add_to_both(client, 5)
        client.get("q")
        bench.advance(4600)
        bench.hear(bench.peers[0], (HOLD, bench.now_ms, (), (job_id,), (1000,)))
        job = bench.job(job_id)
        assert job.flags & LEASE_OWNER
        bench.sent(HOLD)
        bench.hear(bench.peers[0], (WILLQUEUE, 7, job.holders, (job_id,)))
        assert [message[4] for _, message in bench.sent(HOLD)] == [(400,)], "until its own RETRY is over"

    def test_lets_go_when_the_node_that_it_was_handed_to_has_it(self) -> None:
        bench = Bench(peers=1)
        client = bench.client()
        (peer,) = bench.peers
        job_id = client.add("q", "body", "REPLICATE", 1, "RETRY", 5)
        bench.hear(peer, (NEEDJOBS, b"q", 1))
        bench.settle()
        assert bench.job(job_id).flags & LEASE_OWNER
        bench.sent(HOLD)
        bench.hear(peer, (QUEUED, 3, (job_id,)))
        assert bench.sent(HOLD) == []
        assert not bench.job(job_id).flags & LEASE_OWNER

    def test_does_not_object_when_the_node_asks_that_it_was_handed_to(self) -> None:
        """Seed 1540443: that one gave way to a node that gave way to this one, which had it no more."""
        bench = Bench(peers=2)
        one, two = bench.peers
        job_id = bench.client().add("q", "body", "REPLICATE", 1, "RETRY", 300)
        bench.hear(one, (NEEDJOBS, b"q", 1))
        bench.settle()
        bench.sent()
        holders = bench.job(job_id).holders
        bench.hear(two, (WILLQUEUE, 5, holders, (job_id,)))
        assert [message[0] for message in bench.told(two)] == [HOLD]
        bench.hear(one, (WILLQUEUE, 6, holders, (job_id,)))
        assert [message[:3] for message in bench.told(one)] == [(ANSWER, 6, ANSWER_NO)]
        bench.hear(two, (WILLQUEUE, 7, holders, (job_id,)))
        assert [message[0] for message in bench.told(two)] == [HOLD]

    def test_a_hold_that_is_nearly_over_is_waited_for_and_not_asked_about_at_once(self) -> None:
        bench = Bench(peers=1)
        job_id = add_to_both(bench.client(), 5)
        (peer,) = bench.peers
        bench.hear(peer, (QUEUED, 1, (job_id,)))
        bench.hear(peer, (HOLD, 0, (), (job_id,), (300,)))
        job = bench.job(job_id)
        assert job.state == ACTIVE
        assert job.due_ms >= bench.now_ms + 300


def add_to_both(client: Client, retry: int) -> bytes:
    """A job with a copy here and on the first peer."""
    bench = client.bench
    client.send("ADDJOB", "q", "body", 0, "RETRY", retry, "REPLICATE", 2)
    (job_id,) = bench.node.copies.wanted
    bench.confirm(job_id, bench.peers[0])
    client.read()
    return job_id
