"""How holders agree how a job has ended, and whom they tell."""

from typing import Any

import pytest

from cluster.membership import Member
from cluster.messages import (
    BY_HOLDER,
    BY_STRANGER,
    DELJOB,
    ENDED,
    GOTACK,
    GOTJOB,
    HAVE,
    IS_SURE,
    NO_MORE,
    SETACK,
    SURVEY,
    SURVEYED,
    TELL_ME,
    WAS_SURE,
    WATCH,
)
from disque.core.jobs import figures
from disque.core.jobs.results import RESULT, WAITS
from disque.core.journal.codec import encode
from disque.core.journal.replay import Replay
from disque.core.journal.schema import ENDED as ENDED_RECORD
from disque.core.journal.schema import KEPTBY
from disque.core.model.ends import CANCELLED, DEAD, DEAD_LETTER, DONE, DROPPED, EXPIRED, GONE, NOBODY, UNKNOWN
from disque.core.model.spec import RETAIN
from disque.core.replication.ends import NOT_KNOWN
from tests.core.support import MYSELF, UNKNOWN_ID, Bench, Client, foreign_id
from tests.support.formats import repljob

ID = foreign_id()
OTHER = foreign_id(2)
KEPT_MS = 60_000
#: Nodes whose IDs come before and behind all others, and one that has no copy.
FIRST, LAST, STRANGER = b"00" * 20, b"f0" * 20, b"50" * 20


@pytest.fixture
def bench() -> Bench:
    """A node with a copy of a job with RETAIN that two other nodes have, too."""
    return bench_with_copy(3600)


def bench_with_copy(ttl: int) -> Bench:
    """The same, of a job that lives for so long, in s."""
    bench = Bench(peers=2, journaling=True)
    holders = tuple(sorted([MYSELF, *[peer.id for peer in bench.peers]]))
    copy = repljob(ID, ttl=ttl, retry=300, rows={RETAIN.number: KEPT_MS // 1000}, holders=holders)
    bench.hear(bench.peers[0], copy)
    bench.sent()
    return bench


def ended(
    status: int,
    node_id: bytes,
    text: bytes = b"",
    *,
    what: int = BY_HOLDER,
    left_ms: int = KEPT_MS,
    beside: tuple[int, bytes, bytes] = (0, b"", b"q"),
) -> Any:
    return (ENDED, what, status, node_id, 0, left_ms, text, (ID,), *beside)


def end_of(bench: Bench) -> tuple[int, bytes, bytes]:
    end = bench.node.ends.by_id[ID]
    return (end.status, end.node_id, end.text)


def gone(job_id: bytes) -> tuple[Any, Any]:
    """A node says that a job is done, and that it does not know how."""
    return (ENDED, BY_HOLDER, GONE, NOBODY, 0, 0, b"", (job_id,), 0, b"", b""), (SETACK, (), (job_id,))


def counted(bench: Bench) -> int:
    """How many results of the queue count at this node, as it says to others."""
    word = figures.told(bench.node, b"q", bench.now_ms)[0]
    return int(dict(zip([field.name for field in figures.FIELDS], word.split(), strict=False)).get(b"done", 0))


def started_again(bench: Bench) -> Bench:
    """The node after a crash."""
    again = Bench(peers=1, journaling=True)
    for number, node_id in enumerate((FIRST, LAST)):
        again.membership.add(Member(node_id, b"127.0.0.1", 7800 + number))
    reader = Replay(again.node, "boot")
    for payload in encode(bench.node.outbox.take(), bench.now_ms):
        reader.apply(payload, 1)
    for _ in reader.finish(bench.now_ms):
        pass
    return again


def say_it_is_done(bench: Bench) -> None:
    """All holders confirm that the job is done."""
    for peer in bench.peers:
        bench.hear(peer, (GOTACK, 1, (), (ID,)))


def test_the_other_holders_hear_how_before_they_hear_that(bench: Bench) -> None:
    assert bench.client()("ACKJOB", ID, "RESULT", "value") == 1
    for peer in bench.peers:
        said = bench.told(peer, ENDED, SETACK) if peer is bench.peers[0] else []
        if said:
            assert [message[0] for message in said] == [ENDED, SETACK]
            assert said[0] == ended(DONE, MYSELF, b"value")


@pytest.mark.parametrize(
    ("status", "beside", "known"),
    [
        (DEAD, (3, b"broken", b"moved"), (3, b"broken", b"moved")),
        (CANCELLED, (2, b"late", b"q"), (2, b"late", b"q")),
        (DEAD, (0, b"", b""), (0, b"broken", b"q")),  # of a version that says no more than the text
        (CANCELLED, (0, b"", b""), (0, b"", b"q")),
    ],
)
@pytest.mark.parametrize("is_known", [False, True])
def test_it_is_as_the_node_says_that_took_it(
    bench: Bench, status: int, beside: tuple[int, bytes, bytes], known: tuple[int, bytes, bytes], is_known: bool
) -> None:
    """A job that died for good had the last error, and all its tries, at the node alone that took the NACK."""
    one, two = bench.peers
    if is_known:
        bench.hear(two, ended(EXPIRED, two.id))
    bench.hear(one, ended(status, one.id, b"broken" if status == DEAD else b"", beside=beside))
    end = bench.node.ends.by_id[ID]
    assert (end.status, end.tries, end.error, end.queue) == (status, *known)
    assert end.text == (b"broken" if status == DEAD else b"")


def test_each_setack_that_is_said_again_comes_with_it(bench: Bench) -> None:
    bench.client()("ACKJOB", ID, "RESULT", "value")
    bench.sent()
    bench.live(20_000)
    kinds = [message[0] for _, message in bench.sent(ENDED, SETACK)]
    assert kinds.count(ENDED) == kinds.count(SETACK) > 0


def test_a_holder_takes_what_it_hears(bench: Bench) -> None:
    one, _ = bench.peers
    bench.hear(one, ended(DONE, one.id, b"value"), (SETACK, (MYSELF, one.id), (ID,)))
    assert end_of(bench) == (DONE, one.id, b"value")
    bench.advance(KEPT_MS)
    assert not bench.node.ends.by_id


@pytest.mark.parametrize(
    ("mine", "theirs", "who", "winner"),
    [
        (("ACKJOB", "RESULT", "mine"), DONE, "smaller", "theirs"),
        (("ACKJOB", "RESULT", "mine"), DONE, "greater", "mine"),
        (("ACKJOB", "RESULT", "mine"), CANCELLED, "smaller", "mine"),
        (("CANCEL",), DONE, "greater", "theirs"),
        (("CANCEL",), DEAD, "smaller", "mine"),
        (("CANCEL",), EXPIRED, "smaller", "mine"),
    ],
)
def test_two_ends_meet(bench: Bench, mine: tuple[str, ...], theirs: int, who: str, winner: str) -> None:
    one, two = bench.peers
    bench.client().send(mine[0], ID, *mine[1:])
    bench.live(100)
    before = end_of(bench)
    other = b"0" * 40 if who == "smaller" else b"e" * 40
    bench.sent()
    bench.hear(one, ended(theirs, other, b"theirs"))
    if winner == "mine":
        assert end_of(bench) == before
        ((_, _, status, node_id, *_),) = bench.told(one, ENDED)
        assert (status, node_id) == before[:2]
    else:
        assert end_of(bench) == (theirs, other, b"theirs")
        assert [peer_id for peer_id, _ in bench.sent(ENDED)] == [two.id], "the third holder may know the other end"


def test_whoever_takes_expired_for_better_than_dropped_gets_no_answer(bench: Bench) -> None:
    """A node of an older version does, and would answer in turn, without end."""
    one = bench.peers[0]
    bench.hear(one, ended(DROPPED, one.id))
    before = end_of(bench)
    bench.sent()
    bench.hear(one, ended(EXPIRED, b"0" * 40))
    assert end_of(bench) == before
    assert bench.told(one, ENDED) == []


@pytest.mark.parametrize(("left_ms", "is_kept"), [(0, False), (300_000, True)])
def test_a_copy_keeps_a_cancelled_job_in_mind_only_if_a_consumer_may_have_it(left_ms: int, is_kept: bool) -> None:
    bench = Bench(peers=1, journaling=True)
    (one,) = bench.peers
    bench.hear(one, repljob(ID, retry=300, holders=(MYSELF, one.id)))
    bench.hear(one, ended(CANCELLED, one.id, left_ms=left_ms), (SETACK, (MYSELF, one.id), (ID,)))
    bench.hear(one, (DELJOB, (ID,)))
    assert (ID in bench.node.ends.by_id) == is_kept
    assert any(record[0] == ENDED_RECORD for record in bench.records()) == is_kept


def test_what_is_said_to_those_who_wait_is_no_news_for_a_holder(bench: Bench) -> None:
    bench.hear(bench.peers[0], ended(DONE, bench.peers[0].id, b"value", what=IS_SURE))
    assert not bench.node.ends.by_id


def test_it_is_told_when_all_holders_know_it(bench: Bench) -> None:
    one, two = bench.peers
    bench.hear(one, (WATCH, TELL_ME, (ID,)))
    assert not bench.sent(ENDED)
    bench.client()("ACKJOB", ID, "RESULT", "value")
    bench.sent()
    bench.hear(one, (GOTACK, 1, (), (ID,)))
    assert not bench.sent(ENDED)
    bench.hear(two, (GOTACK, 1, (), (ID,)))
    assert [message[1:3] + message[6:8] for message in bench.told(one, ENDED)] == [(IS_SURE, DONE, b"value", (ID,))]
    assert not bench.node.ends.watched


def test_a_holder_that_cannot_be_reached_is_not_waited_for(bench: Bench) -> None:
    one, two = bench.peers
    bench.hear(one, (WATCH, TELL_ME, (ID,)))
    bench.client()("ACKJOB", ID, "RESULT", "value")
    bench.hear(one, (GOTACK, 1, (), (ID,)))
    bench.sent()
    bench.link_down(two)
    assert [message[1:3] for message in bench.told(one, ENDED)] == [(IS_SURE, DONE)]


def test_a_question_for_the_result_waits_as_well(bench: Bench) -> None:
    one, _ = bench.peers
    bench.client()("ACKJOB", ID, "RESULT", "value")
    bench.hear(one, (SURVEY, 7, RESULT, (ID,)))
    assert not bench.sent(SURVEYED)
    say_it_is_done(bench)
    ((peer_id, (_, number, words)),) = bench.sent(SURVEYED)
    assert (peer_id, number, words[2]) == (one.id, 7, b"value")


def test_who_asks_late_is_told_at_once(bench: Bench) -> None:
    one, _ = bench.peers
    bench.client()("ACKJOB", ID, "RESULT", "value")
    say_it_is_done(bench)
    bench.sent()
    bench.hear(one, (WATCH, TELL_ME, (ID,)))
    assert [message[1:3] + message[6:8] for message in bench.told(one, ENDED)] == [(IS_SURE, DONE, b"value", (ID,))]


def test_an_acknowledgement_that_comes_late_makes_it_no_less_sure(bench: Bench) -> None:
    bench.client()("ACKJOB", ID, "RESULT", "value")
    say_it_is_done(bench)
    assert bench.client()("ACKJOB", ID) == 0
    bench.sent()
    bench.hear(bench.peers[0], (WATCH, TELL_ME, (ID,)))
    assert [message[2] for message in bench.told(bench.peers[0], ENDED)] == [DONE]


def test_an_expiry_that_another_node_saw_is_told_when_all_must_have_seen_it(bench: Bench) -> None:
    one, _ = bench.peers
    bench.hear(one, repljob(OTHER, ttl=5, retry=300, rows={RETAIN.number: 60}, holders=(MYSELF, one.id)))
    bench.live(5100)
    bench.hear(one, (WATCH, TELL_ME, (OTHER,)))
    bench.hear(one, (ENDED, BY_HOLDER, EXPIRED, b"0" * 40, 0, KEPT_MS, b"", (OTHER,), 0, b"", b""))
    assert not bench.told(one, ENDED)
    bench.live(2100)
    assert [message[1:3] for message in bench.told(one, ENDED)] == [(IS_SURE, EXPIRED)]
    assert not bench.node.ends.unsure


def test_who_asks_about_nothing_is_told_that(bench: Bench) -> None:
    one, _ = bench.peers
    bench.hear(one, (WATCH, TELL_ME, (UNKNOWN_ID,)))
    assert [message[2] for message in bench.told(one, ENDED)] == [UNKNOWN]
    bench.hear(one, (WATCH, NO_MORE, (UNKNOWN_ID,)))
    assert not bench.node.ends.watched


def test_a_job_that_was_done_here_is_gone(bench: Bench) -> None:
    one, _ = bench.peers
    bench.hear(one, (SETACK, (MYSELF, one.id), (ID,)))
    bench.client()("FASTACK", ID)
    bench.live(100)
    bench.sent()
    bench.hear(one, (WATCH, TELL_ME, (ID,)))
    assert [message[2] for message in bench.told(one, ENDED)][-1:] in ([GONE], [DONE])


def test_a_dead_letter_is_told(bench: Bench) -> None:
    one, _ = bench.peers
    bench.hear(one, (WATCH, TELL_ME, (ID,)))
    client = bench.client()
    client.send("ENQUEUE", ID)
    client.send("GETJOB", "FROM", "q")
    client.send("NACK", ID, "DEAD", "ERROR", "broken")
    bench.live(100)
    assert (IS_SURE, DEAD_LETTER, b"broken") in [
        (message[1], message[2], message[6]) for message in bench.told(one, ENDED)
    ]


def test_a_link_that_ends_takes_its_requests_along(bench: Bench) -> None:
    one, _ = bench.peers
    bench.hear(one, (WATCH, TELL_ME, (ID,)))
    bench.link_down(one)
    assert not bench.node.ends.watched


def test_one_node_has_so_many_requests(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("disque.core.replication.ends.WATCHES_MOST", 1)
    one, two = bench.peers
    bench.hear(one, (WATCH, TELL_ME, (ID,)), (WATCH, TELL_ME, (UNKNOWN_ID,)))
    bench.hear(two, (WATCH, TELL_ME, (ID,)))
    assert bench.node.ends.watched == {ID: [one.id, two.id]}
    assert bench.node.messages_skipped == 1


@pytest.mark.parametrize(
    "message",
    [
        (ENDED, BY_HOLDER, 0, b"b" * 40, 0, 0, b"", (ID,), 0, b"", b""),
        (ENDED, BY_HOLDER, 9, b"b" * 40, 0, 0, b"", (ID,), 0, b"", b""),
        (ENDED, BY_HOLDER, DEAD_LETTER, b"b" * 40, 0, 0, b"", (ID,), 0, b"", b""),
        (ENDED, IS_SURE, 2**43 - 1, b"b" * 40, 0, 0, b"", (ID,), 0, b"", b""),
        (ENDED, BY_STRANGER, DONE, b"b" * 40, 0, 2**43 - 1, b"x", (UNKNOWN_ID,), 0, b"", b""),
    ],
)
def test_nonsense_changes_nothing(bench: Bench, message: tuple[Any, ...]) -> None:
    bench.hear(bench.peers[0], message)
    assert not bench.node.ends.by_id
    assert bench.state(ID) == "active"


@pytest.mark.parametrize("at", [6, 9, 10])
def test_a_peer_cannot_say_a_long_text_of_many_jobs(bench: Bench, at: int) -> None:
    one, _ = bench.peers
    ids = tuple([foreign_id(number) for number in range(100)])
    bench.hear(one, repljob(*ids, retry=300, rows={RETAIN.number: 60}, holders=(MYSELF, one.id)))
    message = list(ended(DONE, one.id, b"x"))
    message[7], message[at] = ids, b"t" * 12_000
    bench.hear(one, tuple(message))
    assert not bench.node.ends.by_id
    assert bench.node.messages_skipped == len(ids)
    message[at] = b"t" * 500
    bench.hear(one, tuple(message))
    assert len(bench.node.ends.by_id) == len(ids)


def test_a_peer_cannot_make_an_end_last_for_ever(bench: Bench) -> None:
    one, _ = bench.peers
    bench.hear(one, ended(DONE, one.id, b"value", left_ms=2**43 - 1), (SETACK, (MYSELF, one.id), (ID,)))
    assert bench.node.ends.by_id[ID].until_ms <= bench.now_ms + 31_536_000_000


class TestStrangers:
    """A result for a job that is not known here."""

    def test_the_others_are_told_with_the_acknowledgement(self) -> None:
        bench = Bench(peers=1, journaling=True)
        (one,) = bench.peers
        assert bench.client()("ACKJOB", ID, "RESULT", "value") == 0
        said = bench.told(one, ENDED, SETACK)
        assert [message[0] for message in said] == [ENDED, SETACK]
        assert (said[0][1], said[0][2], said[0][6]) == (BY_STRANGER, DONE, b"value")
        bench.hear(one, (GOTACK, 1, (one.id,), (ID,)))
        assert not bench.node.ends.by_id

    @pytest.mark.parametrize("leaves", [False, True])
    @pytest.mark.parametrize("retry", [0, 60])
    def test_it_is_kept_until_a_holder_is_back(self, retry: int, leaves: bool) -> None:
        """Also of a job that is delivered at most once, and at a node that leaves."""
        bench = Bench(peers=2, journaling=True)
        one, two = bench.peers
        bench.membership.leaving = leaves
        bench.link_down(one)
        job_id = foreign_id(1, retry)
        assert bench.client()("ACKJOB", job_id, "RESULT", "value") == 0
        bench.hear(two, (GOTACK, 0, (), (job_id,)))
        assert list(started_again(bench).node.ends.by_id) == [job_id]
        bench.sent()
        bench.link_up(one)
        bench.live(1000)
        assert [message[6] for message in bench.told(one, ENDED)] == [b"value"]
        bench.hear(one, (GOTACK, 1, (one.id,), (job_id,)))
        assert not bench.node.ends.by_id
        assert not bench.node.acks.by_id

    def test_a_node_that_leaves_says_that_it_has_one(self) -> None:
        bench = Bench(peers=2, journaling=True)
        one, two = bench.peers
        client = bench.client()
        client("ACKJOB", UNKNOWN_ID, "RESULT", "value")
        client("CLUSTER", "LEAVING", "yes")
        bench.live(5000)
        assert b"leaving_jobs:1\r\n" in client("CLUSTER", "INFO")
        bench.hear(one, (GOTACK, 0, (), (UNKNOWN_ID,)))
        bench.hear(two, (GOTACK, 1, (), (UNKNOWN_ID,)))
        bench.live(5000)
        assert b"leaving_jobs:0\r\n" in client("CLUSTER", "INFO")

    def test_it_is_too_late(self, bench: Bench) -> None:
        one, two = bench.peers
        bench.client()("ACKJOB", ID, "RESULT", "value")
        bench.sent()
        bench.hear(one, ended(DONE, one.id, b"late", what=BY_STRANGER, left_ms=0))
        assert end_of(bench)[2] == b"value"
        assert [message[6] for message in bench.told(one, ENDED)] == [b"value"]
        assert two.id


class TestSaidByOneThatDoesNotKnowHow:
    """A node that remembers only the ID says that a job is done: what another holder knows of its end counts."""

    def test_what_a_holder_says_wins(self, bench: Bench) -> None:
        one, two = bench.peers
        bench.hear(two, *gone(ID))
        assert end_of(bench) == (DONE, NOBODY, b"")
        assert (bench.state(ID), bench.told(one, ENDED)[0][3]) == ("acked", NOBODY)
        bench.hear(one, ended(DONE, one.id, b"value"))
        assert end_of(bench) == (DONE, one.id, b"value")

    def test_even_another_end(self, bench: Bench) -> None:
        one, two = bench.peers
        bench.hear(two, gone(ID)[0], (DELJOB, (ID,)))
        assert end_of(bench) == (DONE, NOBODY, b"")
        bench.hear(one, ended(CANCELLED, one.id))
        assert end_of(bench) == (CANCELLED, one.id, b"")

    def test_even_one_by_a_node_without_a_copy(self, bench: Bench) -> None:
        """It took the result while the holder was away, and was away itself when that came back."""
        one, two = bench.peers
        alone = foreign_id(2)
        bench.hear(one, repljob(alone, retry=300, rows={RETAIN.number: KEPT_MS // 1000}, holders=(MYSELF,)))
        bench.hear(two, *gone(alone))
        assert bench.node.find(alone) is None
        said = (ENDED, BY_STRANGER, DONE, one.id, 0, 0, b"value", (alone,), 0, b"", b"")
        bench.hear(one, said, (SETACK, (), (alone,)))
        end = bench.node.ends.by_id[alone]
        assert (end.node_id, end.text, end.queue) == (one.id, b"value", b"q")
        bench.hear(two, (*said[:6], b"late", *said[7:]))
        assert bench.node.ends.by_id[alone].text == b"value"

    def test_even_one_that_is_given_here_later(self, bench: Bench) -> None:
        _, two = bench.peers
        bench.hear(two, gone(ID)[0], (DELJOB, (ID,)))
        assert bench.client()("ACKJOB", ID, "RESULT", "value") == 0
        assert end_of(bench) == (DONE, MYSELF, b"value")
        assert bench.client()("ACKJOB", ID, "RESULT", "late") == 0
        assert end_of(bench) == (DONE, MYSELF, b"value")

    def test_it_says_so_before_it_says_that_it_is_done(self) -> None:
        bench = Bench(peers=1)
        (one,) = bench.peers
        for number in (1, 2):
            bench.node.remember_gone(foreign_id(number))
        bench.client()("ACKJOB", foreign_id(3))  # begins the same batch of SETACK
        bench.sent()
        ids = (foreign_id(3), foreign_id(1), foreign_id(2))
        bench.hear(one, (WATCH, TELL_ME, ids), (HAVE, ids))
        said = bench.told(one)
        for job_id in ids[1:]:
            how = next(at for at, message in enumerate(said) if message[0] == ENDED and job_id in message[7])
            done = next(at for at, message in enumerate(said) if message[0] == SETACK and job_id in message[2])
            assert how < done
            assert said[how] == (*gone(job_id)[0][:7], said[how][7], 0, b"", b"")

    def test_an_acknowledgement_where_there_is_no_copy_is_an_end_as_any(self, bench: Bench) -> None:
        """Without a result. One that comes later is too late, as it was told already."""
        _, two = bench.peers
        bench.hear(two, (SETACK, (), (ID,)))
        assert end_of(bench) == (DONE, MYSELF, b"")
        say_it_is_done(bench)
        bench.client()("ACKJOB", ID, "RESULT", "late")
        assert end_of(bench) == (DONE, MYSELF, b"")

    def test_it_is_not_sure_while_a_holder_is_away(self, bench: Bench) -> None:
        one, two = bench.peers
        client = bench.client()
        client.send("WAITJOB", 0, ID)
        bench.link_down(one)
        bench.hear(two, *gone(ID), (GOTACK, 1, (), (ID,)))
        assert client.waiting
        bench.link_up(one)
        bench.hear(one, ended(DONE, one.id, b"value"), (SETACK, (MYSELF, one.id, two.id), (ID,)))
        assert client.read() == [[b"done", b"value"]]

    def test_unless_that_has_failed(self, bench: Bench) -> None:
        one, two = bench.peers
        client = bench.client()
        client.send("WAITJOB", 0, ID)
        bench.link_down(one)
        bench.hear(two, *gone(ID), (GOTACK, 1, (), (ID,)))
        bench.fail(one)
        assert client.read() == [[b"done", None]]


class TestExpired:
    """Who says that a job has expired speaks for its own copy: its clock may be wrong, or it was away in a REVIVE."""

    @pytest.fixture
    def bench(self) -> Bench:
        """The copy here is over."""
        bench = bench_with_copy(10)
        bench.advance(bench.job(ID).expires_ms - bench.now_ms + 3000)
        assert end_of(bench) == (EXPIRED, MYSELF, b"")
        bench.sent()
        return bench

    def test_a_node_where_it_ended_otherwise_is_believed(self, bench: Bench) -> None:
        one, _ = bench.peers
        bench.hear(one, ended(DONE, one.id, b"value"), (SETACK, (), (ID,)))
        assert not bench.told(one, ENDED)
        assert end_of(bench) == (DONE, one.id, b"value")

    @pytest.mark.parametrize("words", [[], ["RESULT", "value"]])
    def test_who_is_done_with_it_here_is_passed_on(self, bench: Bench, words: list[str]) -> None:
        one, _ = bench.peers
        assert bench.client()("ACKJOB", ID, *words) == 0
        said = bench.told(one, ENDED, SETACK)
        assert [message[:3] + message[6:8] for message in said if message[0] == ENDED] == [
            (ENDED, BY_STRANGER, DONE, b"value", (ID,))
        ][: len(words)]
        assert said[-1] == (SETACK, (), (ID,))
        bench.hear(one, ended(EXPIRED, LAST), (GOTACK, 1, (one.id,), (ID,)))
        assert end_of(bench) == (EXPIRED, MYSELF, b""), "it has expired there as well"

    def test_a_node_that_was_away_hears_of_the_result_when_it_is_back(self, bench: Bench) -> None:
        """Seed 1550397: it may still have the job."""
        one, _ = bench.peers
        bench.link_down(one)
        assert bench.client()("ACKJOB", ID, "RESULT", "value") == 0
        bench.hear(bench.peers[1], ended(EXPIRED, FIRST), ended(EXPIRED, LAST))
        bench.sent()
        bench.link_up(one)
        said = [message[0:1] + message[6:8] for message in bench.told(one, ENDED, SETACK)]
        assert said[0] == (ENDED, b"value", (ID,))
        assert said[1][0] == SETACK
        assert end_of(bench)[0] == EXPIRED

    def test_what_an_older_version_says_of_its_copy_does_not_count(self, bench: Bench) -> None:
        one, _ = bench.peers
        bench.hear(one, ended(DONE, one.id, b"value"), (SETACK, (), (ID,)), ended(EXPIRED, FIRST, what=WAS_SURE))
        assert end_of(bench) == (DONE, one.id, b"value")

    def test_an_own_job_is_over_where_nobody_else_has_it(self) -> None:
        bench = Bench(peers=1)
        job_id = bench.client().add("q", "b", "RETAIN", 60, "TTL", 5, "REPLICATE", 1)
        bench.advance(8000)
        assert bench.client()("ACKJOB", job_id, "RESULT", "late") == 0
        assert [end.status for end in bench.node.ends.by_id.values()] == [EXPIRED]

    def test_a_copy_that_lives_is_what_is_told(self, bench: Bench) -> None:
        one, two = bench.peers
        client = bench.client()
        client.send("RESULT", ID)
        number = bench.told(one, SURVEY)[0][1]
        bench.hear(one, (SURVEYED, number, (b"%d 1 0 0" % WAITS, b"q", b"", b"", b"", b"")))
        bench.hear(two, (SURVEYED, number, NOT_KNOWN))
        reply = client.read()
        assert dict(zip(reply[::2], reply[1::2], strict=True))[b"status"] == b"queued"


def test_an_acknowledgement_just_after_the_ttl_changes_nothing() -> None:
    bench = bench_with_copy(10)
    bench.advance(bench.job(ID).expires_ms - bench.now_ms + 100)
    waiting = bench.client()
    waiting.send("WAITJOB", 9000, ID)
    bench.client()("ACKJOB", ID)
    bench.live(200)
    assert end_of(bench) == (EXPIRED, MYSELF, b"")
    assert waiting.waiting, "nobody is told that it is done"


class TestWhereItCounts:
    """A kept result counts at one node: at that which took it, or at the first holder if that one had no copy."""

    @pytest.mark.parametrize(
        ("other", "taker", "count"),
        [
            (LAST, MYSELF, 1),
            (LAST, LAST, 0),
            (FIRST, FIRST, 0),
            (LAST, STRANGER, 1),
            (FIRST, STRANGER, 0),
        ],
    )
    def test_once(self, other: bytes, taker: bytes, count: int) -> None:
        bench = Bench(peers=1, journaling=True)
        holders = tuple(sorted([MYSELF, other]))
        bench.hear(bench.peers[0], repljob(ID, retry=300, rows={RETAIN.number: 60}, holders=holders))
        bench.hear(bench.peers[0], ended(DONE, taker, b"value"), (SETACK, holders, (ID,)))
        assert counted(bench) == counted(started_again(bench)) == count
        bench.advance(KEPT_MS + 1)
        assert not bench.node.ends.by_id
        assert counted(bench) == 0

    def test_elsewhere_when_other_nodes_keep_it(self, bench: Bench) -> None:
        one, _ = bench.peers
        bench.hear(one, ended(DONE, one.id, b"value"), (SETACK, (MYSELF, one.id), (ID,)))
        assert counted(bench) == 0
        bench.membership.forget(one.id, bench.now_ms)
        bench.peers.remove(one)
        bench.live(1000)
        assert counted(bench) == 1
        bench.node.ends.hold(bench.node.ends.by_id[ID], (FIRST, MYSELF))
        assert counted(bench) == 0


class TestEviction:
    def test_the_oldest_that_all_know_go_first(self) -> None:
        bench = Bench(journaling=True)
        client = bench.client()
        jobs = [client.add("q", "b", "RETAIN", 600) for _ in range(5)]
        for job in jobs:
            client("ACKJOB", job, "RESULT", "x" * 10_000)
        bench.set("maxmemory", bench.node.used + 100)
        bench.live(1000)
        assert list(bench.node.ends.by_id) == jobs[-len(bench.node.ends.by_id) :]
        assert 0 < len(bench.node.ends.by_id) < 5
        assert bench.node.stats.ends_evicted == 5 - len(bench.node.ends.by_id)

    def test_they_make_room_for_the_next_job_at_once(self) -> None:
        bench = Bench(journaling=True)
        client = bench.client()
        for _ in range(5):
            client("ACKJOB", client.add("q", "b", "RETAIN", 600), "RESULT", "x" * 10_000)
        bench.set("maxmemory", bench.node.used)
        assert client.add("q", "b", "RETAIN", 600), "it was NOREPL until the next beat, a tenth of a second later"
        assert bench.node.stats.ends_evicted == 2

    def test_they_make_room_for_a_copy_at_once(self, bench: Bench) -> None:
        one, _ = bench.peers
        bench.client()("ACKJOB", ID, "RESULT", "x" * 10_000)
        say_it_is_done(bench)
        bench.set("maxmemory", bench.node.used)
        bench.sent()
        bench.hear(one, repljob(foreign_id(9)))
        assert [message[0] for _, message in bench.sent()] == [GOTJOB]

    def test_what_some_do_not_know_stays(self, bench: Bench) -> None:
        bench.client()("ACKJOB", ID, "RESULT", "x" * 100_000)
        bench.set("maxmemory", 110_000)
        bench.live(1000)
        assert list(bench.node.ends.by_id) == [ID]


class TestAsked:
    """RESULT finds several ends of one job."""

    @pytest.mark.parametrize(
        ("status", "result", "taker", "is_told"),
        [
            (DONE, b"value", b"0" * 40, False),
            (DONE, b"value", b"e" * 40, False),
            (DONE, b"other", b"e" * 40, True),
            (CANCELLED, b"", b"0" * 40, True),
            (EXPIRED, b"", b"0" * 40, True),
        ],
    )
    def test_who_keeps_another_one_is_told(
        self, bench: Bench, status: int, result: bytes, taker: bytes, is_told: bool
    ) -> None:
        one, _ = bench.peers
        bench.client()("ACKJOB", ID, "RESULT", "value")
        say_it_is_done(bench)
        self.ask(bench, (b"%d 0 0 9" % status, b"q", result, b"", b"", taker), NOT_KNOWN)
        assert bench.sent(ENDED) == [(one.id, ended(DONE, MYSELF, b"value", what=WAS_SURE, left_ms=0))] * is_told
        assert end_of(bench) == (DONE, MYSELF, b"value")

    def test_of_two_that_know_one_end_who_has_heard_of_more_tries_is_right(self, bench: Bench) -> None:
        one, two = bench.peers
        bench.hear(two, ended(DONE, two.id, beside=(1, b"", b"q")), (SETACK, (), (ID,)))
        say_it_is_done(bench)
        answers = [(b"%d 0 %d 9" % (DONE, tries), b"q", b"", b"", b"", two.id) for tries in (0, 2)]
        client = self.ask(bench, *answers)
        reply = client.read()
        assert reply[reply.index(b"tries") + 1] == 2
        assert [(peer, message[8]) for peer, message in bench.sent(ENDED)] == [(one.id, 2)]
        assert bench.node.ends.by_id[ID].tries == 2

    def test_why_a_job_died_is_told(self, bench: Bench) -> None:
        one, two = bench.peers
        died = (b"%d 0 0 9" % DEAD, b"q", b"", b"broken", b"", one.id)
        self.ask(bench, died, (b"%d 0 0 9" % EXPIRED, b"q", b"", b"", b"", two.id))
        assert bench.sent(ENDED) == [
            (two.id, (ENDED, WAS_SURE, DEAD, one.id, 9, 0, b"broken", (ID,), 0, b"broken", b"q"))
        ]

    def test_so_is_the_node_that_asks(self, bench: Bench) -> None:
        bench.client()("CANCEL", ID)
        say_it_is_done(bench)
        self.ask(bench, NOT_KNOWN, (b"%d 0 0 9" % DONE, b"q", b"value", b"", b"", b"e" * 40))
        assert not bench.sent(ENDED)
        assert end_of(bench) == (DONE, b"e" * 40, b"value")
        assert bench.client()("WAITJOB", 0, ID) == [[b"done", b"value"]]

    def test_who_is_gone_by_then_is_not(self, bench: Bench) -> None:
        one, two = bench.peers
        bench.client().send("RESULT", ID)
        number = bench.told(one, SURVEY)[0][1]
        bench.hear(one, (SURVEYED, number, (b"%d 0 0 9" % CANCELLED, b"q", b"", b"", b"", one.id)))
        bench.link_down(one)
        bench.hear(two, (SURVEYED, number, (b"%d 0 0 9" % DONE, b"q", b"value", b"", b"", two.id)))
        assert not bench.sent(ENDED)

    def test_an_age_that_cannot_be_is_not_passed_on(self, bench: Bench) -> None:
        one, two = bench.peers
        done = (b"%d 0 0 %d" % (DONE, 10**18 - 1), b"q", b"value", b"", b"", one.id)
        self.ask(bench, done, (b"%d 0 0 9" % CANCELLED, b"q", b"", b"", b"", two.id))
        assert [message[4] for message in bench.told(two, ENDED)] == [RETAIN.most * 1000]

    def ask(self, bench: Bench, *answers: tuple[bytes, ...]) -> Client:
        """RESULT at this node, which the others answer so."""
        bench.sent()
        client = bench.client()
        client.send("RESULT", ID)
        number = bench.told(bench.peers[0], SURVEY)[0][1]
        for peer, answer in zip(bench.peers, answers, strict=True):
            bench.hear(peer, (SURVEYED, number, answer))
        return client


class TestForgotten:
    """An end that all holders knew, and that one of them has lost: it may have been told."""

    def test_who_keeps_it_says_so(self, bench: Bench) -> None:
        one, _ = bench.peers
        bench.client()("ACKJOB", ID, "RESULT", "value")
        say_it_is_done(bench)
        bench.sent()
        for node_id in (b"0" * 40, MYSELF, one.id):
            bench.hear(one, ended(DONE, node_id, b"other"))
            assert [message[1:4] + message[6:8] for message in bench.told(one, ENDED)] == [
                (WAS_SURE, DONE, MYSELF, b"value", (ID,))
            ]
        assert end_of(bench) == (DONE, MYSELF, b"value")

    def test_who_has_lost_it_believes_that(self, bench: Bench) -> None:
        one, _ = bench.peers
        bench.client()("ACKJOB", ID, "RESULT", "again")
        bench.hear(one, ended(CANCELLED, b"e" * 40, what=WAS_SURE))
        assert end_of(bench) == (CANCELLED, b"e" * 40, b"")

    def test_who_has_lost_nothing_does_not(self, bench: Bench) -> None:
        one, _ = bench.peers
        bench.hear(one, ended(DONE, one.id, b"value", what=WAS_SURE))
        assert not bench.node.ends.by_id
        bench.client()("ACKJOB", ID, "RESULT", "value")
        say_it_is_done(bench)
        bench.hear(one, ended(DONE, b"e" * 40, b"other", what=WAS_SURE))
        assert end_of(bench) == (DONE, MYSELF, b"value")

    def test_of_two_that_all_knew_the_better_one_counts(self, bench: Bench) -> None:
        one, _ = bench.peers
        bench.client()("CANCEL", ID)
        say_it_is_done(bench)
        bench.records()
        until_ms = bench.node.ends.by_id[ID].until_ms
        for _ in range(2):
            bench.hear(one, ended(DONE, b"e" * 40, b"value", what=WAS_SURE, left_ms=0))
        assert end_of(bench) == (DONE, b"e" * 40, b"value")
        first, second = bench.records()  # once
        assert first[:5] == (ENDED_RECORD, ID, b"q", DONE, b"e" * 40)
        assert second[:2] == (KEPTBY, ID)
        assert bench.node.ends.by_id[ID].until_ms == until_ms

    def test_of_two_that_one_node_has_taken_the_greater_result_wins(self, bench: Bench) -> None:
        one, _ = bench.peers
        bench.client()("ACKJOB", ID, "RESULT", "b")
        bench.sent()
        bench.hear(one, ended(DONE, MYSELF, b"a"))
        assert [message[6] for message in bench.told(one, ENDED)] == [b"b"]
        bench.hear(one, ended(DONE, MYSELF, b"c"))
        assert end_of(bench) == (DONE, MYSELF, b"c")


def test_a_late_result_at_a_node_that_keeps_the_end_changes_nothing(bench: Bench) -> None:
    client = bench.client()
    assert client("ACKJOB", ID, "RESULT", "value") == 1
    for peer in bench.peers:
        bench.hear(peer, (GOTACK, 1, (), (ID,)))
    assert bench.node.find(ID) is None
    bench.live(50_000)
    assert ID not in bench.node.tombstones
    assert client("ACKJOB", ID, "RESULT", "late") == 0
    assert end_of(bench) == (DONE, MYSELF, b"value")


def test_a_result_that_no_holder_took_gives_way_to_any_end_that_a_holder_knows(bench: Bench) -> None:
    one, two = bench.peers
    client = bench.client()
    assert client("ACKJOB", OTHER, "RESULT", "mine") == 0
    bench.sent()
    about = (ENDED, BY_HOLDER, CANCELLED, two.id, 0, KEPT_MS, b"", (OTHER,), 0, b"", b"")
    bench.hear(one, about)
    assert OTHER not in bench.node.ends.by_id
    assert not bench.sent(ENDED), "no answer, or both would answer each other for ever"
