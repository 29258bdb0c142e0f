"""RESULT: the best of what all nodes know, and nonsense of peers."""

from typing import Any

import pytest

from cluster.messages import GOTACK, SURVEY, SURVEYED
from disque.core.jobs import results
from disque.core.jobs.results import DELAYED, RUNS, WAITS, Result
from disque.core.model.ends import CANCELLED, DEAD_LETTER, DONE, ENDINGS, EXPIRED
from disque.core.model.spec import RETAIN
from tests.core.support import MYSELF, NOTHING, UNKNOWN_ID, Bench, foreign_id
from tests.support.formats import repljob

MOST = 1000


def words(status: int, rank: int = 0, text: bytes = b"", taker: bytes = b"a" * 40) -> tuple[bytes, ...]:
    return (b"%d %d 1 5" % (status, rank), b"q", text, b"", b"", taker if status in ENDINGS else b"")


def asked(*answers: tuple[bytes, ...]) -> bytes:
    """What is replied after these answers."""
    bench = Bench()
    result = Result(bench.node, bench.node.users.default, UNKNOWN_ID, 2, MOST)
    for answer in answers:
        assert result.take(b"a" * 40, answer)
    return result.reply()


def test_nobody_knows_it() -> None:
    nothing = (b"0 0 0 0", b"", b"", b"", b"", b"")
    assert asked(nothing, nothing) == b"$-1\r\n"


@pytest.mark.parametrize(
    ("answers", "status"),
    [
        ([words(WAITS), words(DONE)], b"done"),
        ([words(CANCELLED), words(DONE), words(EXPIRED)], b"done"),
        ([words(EXPIRED), words(CANCELLED)], b"cancelled"),
        ([words(RUNS, 1), words(WAITS, 2), words(DELAYED, 0)], b"queued"),
        ([words(WAITS, 3), words(DEAD_LETTER, 5)], b"dead-letter"),
        ([words(WAITS, 3), words(DONE, text=b"one", taker=b"b" * 40), words(DONE, text=b"two")], b"done"),
    ],
)
def test_the_best_answer_counts_in_any_order(answers: list[Any], status: bytes) -> None:
    assert asked(*answers) == asked(*answers[::-1])
    assert b"status\r\n$%d\r\n%b\r\n" % (len(status), status) in asked(*answers)


def test_of_two_results_that_counts_of_which_the_others_say_so_too() -> None:
    """Which one wins where holders hear of both, wins here: that of the node with the smaller ID."""
    answers = [words(DONE, text=b"two", taker=b"b" * 40), words(DONE, text=b"one")]
    for order in (answers, answers[::-1]):
        assert b"$3\r\none\r\n" in asked(*order)


def test_an_end_that_is_not_sure_for_long_is_not_waited_for() -> None:
    """A holder whose disk fails confirms nothing."""
    bench = Bench(peers=1)
    (one,) = bench.peers
    job_id = foreign_id()
    bench.hear(one, repljob(job_id, retry=300, rows={RETAIN.number: 60}, holders=(MYSELF, one.id)))
    client = bench.client()
    assert client("ACKJOB", job_id, "RESULT", "value") == 1
    bench.sent()
    client.send("RESULT", job_id)
    ((_, (_, number, *_)),) = bench.sent(SURVEY)
    bench.hear(one, (SURVEYED, number, words(RUNS)))
    bench.live(4000)
    assert client.read() is NOTHING
    bench.live(1100)
    assert client.read()[5] == b"in-flight"
    bench.hear(one, (GOTACK, 1, (), (job_id,)))
    assert client("RESULT", job_id) is NOTHING  # it asks the others, too


@pytest.mark.parametrize(
    "answer",
    [
        (b"1 0 0 0",),
        (b"1 0 0", b"", b"", b"", b"", b"a" * 40),
        (b"x 0 0 0", b"", b"", b"", b"", b"a" * 40),
        (b"6 0 0 0", b"", b"", b"", b"", b"a" * 40),
        (b"99 0 0 0", b"", b"", b"", b"", b"a" * 40),
        (b"1 -1 0 0", b"", b"", b"", b"", b"a" * 40),
        (b"1 0 0 0", b"", b"", b"", b""),
        (b"1 0 0 0", b"", b"", b"", b"", b"a" * 39),
        (b"1 0 0 0", b"", b"", b"", b"", b"a" * 40, b""),
    ],
)
def test_nonsense_is_no_answer(answer: tuple[bytes, ...]) -> None:
    bench = Bench()
    assert not Result(bench.node, bench.node.users.default, UNKNOWN_ID, 2, MOST).take(b"a" * 40, answer)


def test_a_job_that_was_on_its_way_when_rights_were_asked_is_not_shown() -> None:
    bench = Bench()
    bench.client()("ACL", "SETUSER", "u", "on", "nopass", "~mine", "+@all")
    result = Result(bench.node, bench.node.users.by_name[b"u"], UNKNOWN_ID, 2, MOST)
    assert result.take(b"a" * 40, words(WAITS))
    assert result.reply().startswith(b"-NOPERM")


def test_who_asks_for_none_or_several_gets_no_answer() -> None:
    bench = Bench(peers=1)
    for number, given in enumerate([(), (UNKNOWN_ID, UNKNOWN_ID)], 7):
        bench.hear(bench.peers[0], (SURVEY, number, results.RESULT, given))
        assert [message[2] for message in bench.told(bench.peers[0], SURVEYED)] == [()]


def test_it_is_asked_of_all_nodes() -> None:
    bench = Bench(peers=1)
    client = bench.client()
    client.send("RESULT", UNKNOWN_ID)
    ((_, number, what, given),) = bench.told(bench.peers[0], SURVEY)
    assert (what, given) == (results.RESULT, (UNKNOWN_ID,))
    bench.hear(bench.peers[0], (SURVEYED, number, words(DONE, 0, b"value")))
    reply = client.read()
    assert reply[reply.index(b"result") + 1] == b"value"
