"""Jobs that are known elsewhere only: the nodes that know them say whether a user may name them."""

from typing import Any

import pytest

from cluster.messages import SETACK, SURVEY, SURVEYED, YOURJOBS
from disque.core.auth import permits
from tests.core.support import NOTHING, UNKNOWN_ID, Bench, Client, foreign_id
from tests.support.formats import yourjobs_row

JOB = foreign_id(1)


@pytest.fixture
def user(cluster: Bench) -> Client:
    client = cluster.client()
    client("ACL", "SETUSER", "u", "on", "nopass", "%R~mine*", "%W~in", "+@all")
    client("AUTH", "u", "x")
    return client


def asked(bench: Bench) -> list[tuple[bytes, Any]]:
    """The questions that left, by node."""
    found = [(peer, message) for peer, message in bench.node.early + bench.node.messages if message[0] == SURVEY]
    bench.node.early.clear()
    bench.node.messages.clear()
    return found


def answer(bench: Bench, *digits: bytes) -> None:
    questions = {peer: message[1] for peer, message in asked(bench)}
    for peer, said in zip(bench.peers, digits, strict=False):
        bench.hear(peer, (SURVEYED, questions[peer.id], (said,) if said else ()))


def test_the_question_names_the_user_and_his_rights(cluster: Bench, user: Client) -> None:
    assert user("ACKJOB", JOB, UNKNOWN_ID, JOB) is NOTHING
    questions = asked(cluster)
    assert len(questions) == 4
    assert questions[0][1][2:] == (permits.PERMITS, (b"u", b"%R~mine* %W~in", b"1", JOB, UNKNOWN_ID))
    user.disconnect()


def test_one_who_knows_better_is_enough(cluster: Bench, user: Client) -> None:
    assert user("ACKJOB", JOB) is NOTHING
    answer(cluster, b"0", b"2")
    assert str(user.read()) == "NOPERM this user has no permissions to access one of the keys used as arguments"
    assert not any(message[0] == SETACK for _, message in cluster.node.messages)


def test_a_foreign_job_that_arrives_meanwhile_is_left_alone(cluster: Bench, user: Client) -> None:
    assert user("RESULT", JOB) is NOTHING
    questions = {peer: message[1] for peer, message in asked(cluster)}
    cluster.hear(cluster.peers[0], (YOURJOBS, b"other", (yourjobs_row(JOB, holders=(cluster.peers[0].id,)),)))
    for peer in cluster.peers:
        cluster.hear(peer, (SURVEYED, questions[peer.id], (b"0",)))
    assert str(user.read()).startswith("NOPERM")
    assert asked(cluster) == []


def test_what_is_allowed_is_done(cluster: Bench, user: Client) -> None:
    assert user("ACKJOB", JOB) is NOTHING
    answer(cluster, b"0", b"1")
    assert user.read() == 0  # not known here, as for anybody: the others are told
    assert sum(message[0] == SETACK for _, message in cluster.node.messages) == 4


def test_what_nobody_knows_is_unknown(cluster: Bench, user: Client) -> None:
    assert user("ACKJOB", JOB) is NOTHING
    answer(cluster, b"0", b"0", b"0", b"0")
    assert user.read() == 0


def test_while_a_node_is_silent_what_nobody_knows_is_left_out(cluster: Bench, user: Client) -> None:
    for words in (("ACKJOB", JOB), ("ACKJOB", JOB, "RESULT", "x"), ("CANCEL", JOB, "WAITING"), ("FASTACK", JOB)):
        assert user(*words) is NOTHING
        answer(cluster, b"0", b"0", b"0")
        cluster.now_ms += 5000
        cluster.tick()
        assert user.read() == 0
        assert not any(message[0] == SETACK for _, message in cluster.node.messages)
    for more in (("RESULT", JOB), ("WAITJOB", "0", JOB), ("SHOW", JOB)):
        assert user(*more) is NOTHING
        answer(cluster, b"0", b"0", b"0", b"")
        assert str(user.read()).startswith("NOJOB")


def test_an_acknowledgement_that_came_meanwhile_is_not_shown(cluster: Bench, user: Client) -> None:
    admin = cluster.client()
    assert user("SHOW", JOB) is NOTHING
    questions = {peer: message[1] for peer, message in asked(cluster)}
    assert admin("ACKJOB", JOB) == 0
    assert admin.show(JOB)["state"] == b"acked"
    for peer in cluster.peers:
        cluster.hear(peer, (SURVEYED, questions[peer.id], (b"0",)))
    assert user.read() is None


def test_of_several_the_known_ones_are_taken(cluster: Bench, user: Client) -> None:
    mine = cluster.client().add("mine", "b", "REPLICATE", 1)
    assert user.get("mine") == [mine]
    assert user("ACKJOB", mine, JOB) is NOTHING
    answer(cluster, b"0", b"0", b"0", b"")
    assert user.read() == 1


def test_nonsense_is_no_answer(cluster: Bench, user: Client) -> None:
    assert user("SHOW", JOB) is NOTHING
    answer(cluster, b"3", b"11", b"x", b"0")
    assert str(user.read()).startswith("NOJOB")


@pytest.mark.parametrize(("words", "waits"), [("SHOW", False), ("ACKJOB", True)])
def test_only_what_writes_waits_for_the_journal(words: str, waits: bool) -> None:
    cluster = Bench(peers=4, journaling=True)
    user = cluster.client()
    user("ACL", "SETUSER", "u", "on", "nopass", "%R~mine*", "%W~in", "+@all")
    user("AUTH", "u", "x")
    assert user(words, JOB) is NOTHING
    user.session.unsettled = False
    answer(cluster, b"0", b"1")
    assert user.session.unsettled == waits


def test_who_goes_meanwhile_is_not_missed(cluster: Bench, user: Client) -> None:
    assert user("ACKJOB", JOB) is NOTHING
    user.disconnect()
    answer(cluster, b"0", b"1")
    assert not any(message[0] == SETACK for _, message in cluster.node.messages)


def test_a_silent_request_stays_silent(cluster: Bench, user: Client) -> None:
    user.send("CLIENT", "REPLY", "OFF")
    user.send("ACKJOB", JOB)
    answer(cluster, b"1")
    assert user.read() is NOTHING
    assert sum(message[0] == SETACK for _, message in cluster.node.messages) == 4
    user.send("CLIENT", "REPLY", "ON")
    assert user.read() == b"OK"
    user.send("CLIENT", "REPLY", "SKIP")
    user.send("ACKJOB", JOB)
    answer(cluster, b"2")
    assert user.read() is NOTHING
    assert user("PING") == b"PONG"


def test_a_node_that_forgets_everything_meanwhile(cluster: Bench, user: Client) -> None:
    assert user("ACKJOB", JOB) is NOTHING
    cluster.client()("DEBUG", "FLUSHALL")
    assert str(user.read()).startswith("NOJOB")


@pytest.mark.parametrize(
    "words",
    [
        (),
        (b"u", b"~*", b"1"),
        (b"u", b"~*", b"3", JOB),
        (b"u", b"~*", b"", JOB),
        (b"u", b"nonsense", b"1", JOB),
        (b"u", b"~*", b"1", b"no job"),
        (b"u", b"~*", b"1", *[JOB] * 1001),
    ],
)
def test_lies_are_not_answered(cluster: Bench, words: tuple[bytes, ...]) -> None:
    cluster.hear(cluster.peers[0], (SURVEY, 7, permits.PERMITS, words))
    assert [message for _, message in cluster.node.messages if message[0] == SURVEYED] == [(SURVEYED, 7, ())]


def test_a_node_answers_for_jobs_that_it_knows(cluster: Bench) -> None:
    client = cluster.client()
    mine, other = (client.add(queue, "b", "REPLICATE", 1, "RETAIN", 60) for queue in ("mine1", "other"))
    client("CANCEL", other)
    cluster.node.messages.clear()
    words = (b"stranger", b"%R~mine*", b"1", mine, other, UNKNOWN_ID)
    cluster.hear(cluster.peers[0], (SURVEY, 7, permits.PERMITS, words))
    assert [message for _, message in cluster.node.messages if message[0] == SURVEYED] == [(SURVEYED, 7, (b"120",))]
