"""WAITJOB asks all nodes, and believes the first that is sure."""

from typing import Any

import pytest

from cluster.membership import Member
from cluster.messages import BY_HOLDER, ENDED, IS_SURE, NO_MORE, TELL_ME, WATCH
from disque.core import step
from disque.core.jobs import sessions
from disque.core.model.ends import CANCELLED, DONE, EXPIRED, GONE, UNKNOWN
from disque.core.replication import waits
from tests.core.support import UNKNOWN_ID, Bench, Client, foreign_id

ID, OTHER_ID = foreign_id(), UNKNOWN_ID


@pytest.fixture
def bench() -> Bench:
    return Bench(peers=2)


@pytest.fixture
def client(bench: Bench) -> Client:
    return bench.client()


def tell(bench: Bench, peer: Member, status: int, text: bytes = b"", *, what: int = IS_SURE) -> None:
    """A node that was asked knows how the job has ended."""
    bench.hear(peer, (ENDED, what, status, peer.id, 0, 0, text, (ID,), 0, b"", b""))


def test_all_nodes_are_asked_once(bench: Bench, client: Client) -> None:
    client.send("WAITJOB", 0, ID, OTHER_ID, ID)
    bench.client().send("WAITJOB", 0, ID)
    bench.live(1)
    asked = [(peer_id, said) for peer_id, said in bench.sent(WATCH)]
    assert sorted(asked) == sorted((peer.id, (WATCH, TELL_ME, (ID, OTHER_ID))) for peer in bench.peers)


def test_the_first_that_is_sure_counts(bench: Bench, client: Client) -> None:
    one, two = bench.peers
    client.send("WAITJOB", 0, ID)
    bench.sent()
    tell(bench, one, DONE, b"no", what=BY_HOLDER)
    assert client.waiting
    tell(bench, one, DONE, b"value")
    assert client.read() == [[b"done", b"value"]]
    tell(bench, two, CANCELLED)
    assert client.read_all() == []
    assert {said for _, said in bench.sent(WATCH)} == {(WATCH, NO_MORE, (ID,))}


def test_nobody_is_asked_any_more_when_all_jobs_are_forgotten(bench: Bench, client: Client) -> None:
    client.send("WAITJOB", 0, ID)
    bench.sent()
    bench.client()("DEBUG", "FLUSHALL")
    assert client.read() == [None]
    assert bench.sent(WATCH) == [(peer.id, (WATCH, NO_MORE, (ID,))) for peer in bench.peers]
    assert bench.node.ends.saying == {}


def test_nobody_is_asked_any_more_when_the_last_client_leaves(bench: Bench, client: Client) -> None:
    other = bench.client()
    client.send("WAITJOB", 0, ID)
    other.send("WAITJOB", 0, ID)
    bench.sent()
    client.disconnect()
    bench.live(1)
    assert not bench.sent(WATCH)
    other.disconnect()
    bench.live(1)
    assert {said for _, said in bench.sent(WATCH)} == {(WATCH, NO_MORE, (ID,))}
    assert not bench.node.ends.wanted


def test_one_without_a_link_is_told_too_that_nobody_waits_any_more(bench: Bench, client: Client) -> None:
    """A WATCH that waited for the journal went out over the next link, and nothing took it back (seed 940032)."""
    one, two = bench.peers
    client.send("WAITJOB", 0, ID)
    bench.sent()
    bench.link_down(one)
    client.disconnect()
    bench.live(1)
    said = dict(bench.sent(WATCH))
    assert said == dict.fromkeys((one.id, two.id), (WATCH, NO_MORE, (ID,)))


def test_who_asks_again_in_the_turn_in_which_he_did_not_want_to_any_more_is_told(bench: Bench, client: Client) -> None:
    other = bench.client()
    client.send("WAITJOB", 0, ID)
    bench.sent()
    other.send("WAITJOB", 0, OTHER_ID)
    sessions.disconnect(bench.node, client.session, bench.now_ms)
    bench.clients.remove(client)
    third = bench.client()
    third.send("WAITJOB", 0, ID)
    bench.live(1)
    said = {said for _, said in bench.sent(WATCH)}
    assert said == {(WATCH, TELL_ME, (OTHER_ID, ID))}


def test_who_asks_and_is_gone_in_one_turn_is_not_told(bench: Bench, client: Client) -> None:
    other = bench.client()
    other.send("WAITJOB", 0, OTHER_ID)
    bench.sent()
    sessions.disconnect(bench.node, other.session, bench.now_ms)
    bench.clients.remove(other)
    client.send("WAITJOB", 0, ID)
    sessions.disconnect(bench.node, client.session, bench.now_ms)
    bench.clients.remove(client)
    bench.live(1)
    assert {said for _, said in bench.sent(WATCH)} == {(WATCH, NO_MORE, (OTHER_ID, ID))}


def test_of_all_that_is_said_in_one_turn_the_last_counts_without_a_search(bench: Bench) -> None:
    """A hundred clients who left with 1,000 jobs each, while others came, made a node stand still for seconds."""

    class Unsearched(list[bytes]):
        def __contains__(self, one: object) -> bool:
            raise AssertionError("this is searched for each job")

        def remove(self, one: bytes) -> None:
            raise AssertionError(f"{one!r} is taken out by a search")

    one, two = bench.peers
    for peer in bench.peers:
        bench.node.batches[peer.id, waits.HEAD] = Unsearched()
    for what in (NO_MORE, TELL_ME, NO_MORE):
        waits.say(bench.node, one.id, what, ID)
        waits.say(bench.node, two.id, TELL_ME, OTHER_ID)
    bench.live(1)
    assert bench.sent(WATCH) == [(one.id, (WATCH, NO_MORE, (ID,))), (two.id, (WATCH, TELL_ME, (OTHER_ID,)))]
    assert not bench.node.ends.saying


def test_over_a_new_link_it_is_said_again(bench: Bench, client: Client) -> None:
    one, _ = bench.peers
    client.send("WAITJOB", 0, ID)
    bench.sent()
    bench.link_down(one)
    bench.link_up(one)
    bench.live(100)
    assert bench.told(one, WATCH) == [(WATCH, TELL_ME, (ID,))]


def test_all_have_to_say_twice_that_they_do_not_know_it(bench: Bench, client: Client) -> None:
    one, two = bench.peers
    client.send("WAITJOB", 0, ID)
    bench.sent()
    tell(bench, one, UNKNOWN)
    bench.live(2000)
    assert not bench.sent(WATCH)
    tell(bench, two, UNKNOWN)
    bench.live(999)
    assert not bench.sent(WATCH)
    bench.live(1)
    assert {peer_id for peer_id, _ in bench.sent(WATCH)} == {one.id, two.id}
    tell(bench, one, UNKNOWN)
    assert client.waiting
    tell(bench, two, UNKNOWN)
    assert client.read() == [[b"unknown", None]]


def test_one_that_remembers_it_is_enough(bench: Bench, client: Client) -> None:
    one, two = bench.peers
    client.send("WAITJOB", 0, ID)
    tell(bench, one, GONE)
    assert client.waiting
    tell(bench, two, UNKNOWN)
    assert client.read() == [[b"gone", None]]


def test_that_it_has_expired_counts_when_nobody_knows_better(bench: Bench, client: Client) -> None:
    one, two = bench.peers
    client.send("WAITJOB", 0, ID)
    tell(bench, one, EXPIRED)
    assert client.waiting
    tell(bench, two, GONE)
    assert client.read() == [[b"expired", None]]
    client.send("WAITJOB", 0, ID)
    tell(bench, one, EXPIRED)
    tell(bench, two, DONE, b"value")
    assert client.read() == [[b"done", b"value"]]


def test_while_one_cannot_be_asked_the_client_waits(bench: Bench, client: Client) -> None:
    one, two = bench.peers
    bench.link_down(two)
    client.send("WAITJOB", 3000, ID)
    for _ in range(2):
        tell(bench, one, UNKNOWN)
        bench.advance(1000)
    assert client.waiting
    bench.advance(1000)
    assert client.read() == [None]


def test_one_that_fails_meanwhile_is_not_waited_for(bench: Bench, client: Client) -> None:
    one, two = bench.peers
    client.send("WAITJOB", 0, ID)
    tell(bench, one, GONE)
    assert client.waiting
    bench.fail(two)
    bench.link_down(two)
    assert client.read() == [[b"gone", None]]


def test_many_are_looked_at_some_at_a_time(bench: Bench) -> None:
    """A node fails that might know 5,000 jobs for which clients wait."""
    one, two = bench.peers
    clients = [bench.client() for _ in range(5)]
    for number, client in enumerate(clients):
        ids = tuple([foreign_id(1000 * number + at) for at in range(1000)])
        client.send("WAITJOB", 0, *ids)
        bench.hear(one, (ENDED, IS_SURE, GONE, one.id, 0, 0, b"", ids, 0, b"", b""))
    assert all(client.waiting for client in clients)
    bench.fail(two)
    bench.link_down(two)
    assert 0 < len(bench.node.ends.wanted) < 5000
    bench.live(1000)
    assert all(client.read() == [[b"gone", None]] * 1000 for client in clients)
    assert not bench.node.chores


def test_the_timeout_and_the_end_of_the_job_can_come_in_one_moment() -> None:
    bench = Bench()
    client = bench.client()
    job_id = client.add("q", "body", "TTL", 5, "RETRY", 1)
    client.send("WAITJOB", 7500, job_id)
    bench.live(6000)
    bench.now_ms += 60_000  # the process stands still
    bench.live(1)
    assert client.read() == [[b"expired", None]]
    assert not bench.node.ends.by_session


def test_the_answer_to_one_client_takes_along_what_nobody_else_waits_for(bench: Bench, client: Client) -> None:
    one, two = bench.peers
    client.send("WAITJOB", 0, ID, OTHER_ID, "ANY")
    bench.hear(one, (ENDED, IS_SURE, GONE, one.id, 0, 0, b"", (ID, OTHER_ID), 0, b"", b""))
    bench.fail(two)
    bench.link_down(two)
    assert client.read() == [[b"gone", None], None]
    assert not bench.node.ends.wanted


def test_clients_with_many_jobs_are_answered_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """800 clients that waited for the same 1,000 jobs held up a node for 1.4 s when these ended."""
    monkeypatch.setattr(waits, "SLICE_JOBS", 250)
    bench = Bench(peers=1)
    ids = [foreign_id(number) for number in range(1, 102)]
    clients = [bench.client() for _ in range(7)]
    for client in clients:
        client.send("WAITJOB", 0, *ids)
    few = bench.client()
    few.send("WAITJOB", 0, ids[0])
    step.message(
        bench.node, bench.peers[0].id, (ENDED, IS_SURE, DONE, ID, 0, 0, b"value", tuple(ids), 0, b"", b""), bench.now_ms
    )
    assert [bool(client.session.out) for client in clients] == [False] * 7
    assert few.session.out
    sessions.disconnect(bench.node, clients[0].session, bench.now_ms)
    answered = []
    while bench.node.ends.over:
        assert bench.node.next_due_ms == 0
        step.tick(bench.node, bench.now_ms)
        answered.append(sum(bool(client.session.out) for client in clients))
    assert answered == [3, 6]
    del bench.clients[0]
    for client in clients[1:]:
        assert client.read() == [[b"done", b"value"]] * 101


def test_long_results_are_shared_by_all_replies_and_places(bench: Bench, client: Client) -> None:
    """One result of 1 MB, named 1,000 times in 47 KB, was a reply of 1 GB in one piece."""
    other, result = bench.client(), b"x" * waits.LONG_TEXT
    client.send("WAITJOB", 0, ID, OTHER_ID, ID, "ANY")
    other.send("WAITJOB", 0, ID)
    step.message(
        bench.node, bench.peers[0].id, (ENDED, IS_SURE, DONE, ID, 0, 0, result, (ID,), 0, b"", b""), bench.now_ms
    )
    for one, count in ((client, 2), (other, 1)):
        assert one.session.large
        assert [piece is result for piece in one.session.out].count(True) == count
        assert sum(len(piece) for piece in one.session.out if piece is not result) < 200
    assert client.read() == [[b"done", result], None, [b"done", result]]
    assert other.read() == [[b"done", result]]


def test_short_results_leave_in_one_piece(bench: Bench, client: Client) -> None:
    client.send("WAITJOB", 0, ID, OTHER_ID, "ANY")
    result = b"x" * (waits.LONG_TEXT - 1)
    step.message(
        bench.node, bench.peers[0].id, (ENDED, IS_SURE, DONE, ID, 0, 0, result, (ID,), 0, b"", b""), bench.now_ms
    )
    assert len(client.session.out) == 1
    assert not client.session.large
    assert client.read() == [[b"done", result], None]


def test_a_long_result_that_nobody_wants_to_read_is_dropped(bench: Bench, client: Client) -> None:
    client.send("CLIENT", "REPLY", "SKIP")
    client.send("WAITJOB", 0, ID)
    tell(bench, bench.peers[0], DONE, b"x" * waits.LONG_TEXT)
    assert not client.session.large
    assert client.read_all() == []


def test_a_client_that_leaves_is_not_searched_for_among_the_others(bench: Bench, client: Client) -> None:
    """When 300 clients who waited for the same 1,000 jobs were cut, a node stood still for half a second."""
    client.send("WAITJOB", 0, ID, OTHER_ID)
    bench.client().send("WAITJOB", 0, ID, OTHER_ID)
    assert all(isinstance(wanted.waits, dict) for wanted in bench.node.ends.wanted.values())
    client.disconnect()
    assert {len(wanted.waits) for wanted in bench.node.ends.wanted.values()} == {1}


@pytest.mark.parametrize("status", [0, 9, 2**43 - 1])
def test_nonsense_is_no_answer(bench: Bench, client: Client, status: int) -> None:
    client.send("WAITJOB", 0, ID)
    tell(bench, bench.peers[0], status)
    assert client.waiting
    assert bench.node.messages_skipped == 1


def test_what_nobody_asked_is_nothing(bench: Bench) -> None:
    tell(bench, bench.peers[0], DONE, b"value")
    assert not bench.node.ends.by_id


@pytest.mark.parametrize("size", [1000, waits.LONG_TEXT])
def test_memory_comes_back(bench: Bench, client: Client, size: int) -> None:
    before: Any = bench.node.used
    client.send("WAITJOB", 0, ID, OTHER_ID)
    tell(bench, bench.peers[0], DONE, b"x" * size)
    assert bench.node.used > before + size
    client.disconnect()
    assert bench.node.used == before
