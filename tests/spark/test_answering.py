import pytest

from disque.client import Config, Disque, UnavailableError
from disque.spark import answering
from disque.spark.adding import WriteError
from disque.spark.answering import answer_rows, delays_of, give_back, ids_of, is_answer, nack
from disque.spark.nodes import Nodes
from disque.spark.options import ANSWER
from disque.spark.rows import RowError
from tests.end_to_end.cluster import Cluster
from tests.end_to_end.node import Node
from tests.spark.support import batch, client_of, limited, options

ACK = options(ANSWER, action="ack")
NACK = options(ANSWER, action="nack", pipelineSize=2)


def claimed(node: Node, count: int = 5) -> list[str]:
    """Add so many jobs and take them."""
    for number in range(count):
        node.ask("ADDJOB", "mails", number, 0)
    return [job_id.decode() for _, job_id, _ in node.ask("GETJOB", "COUNT", count, "FROM", "mails")]


def test_jobs_are_acknowledged(node: Node) -> None:
    ids = claimed(node)
    with client_of(node) as client:
        assert answer_rows(client, [batch(id=ids)], ACK, {"id": 0}) == 5
        assert answer_rows(client, [batch(id=ids)], ACK, {"id": 0}) == 5, "again, by an attempt that follows"
    assert node.info("registered_jobs") == "0"


def test_jobs_are_given_back_now_or_later(node: Node) -> None:
    ids = claimed(node)
    with client_of(node) as client:
        answer_rows(client, [batch(id=ids, delay=[None, 0, 100, 100, 0])], NACK, {"id": 0, "delay": 1})
    assert node.ask("QLEN", "mails") == 3


def test_dead_letters_are_revived_and_jobs_cancelled(node: Node) -> None:
    ids = claimed(node)
    for one in ids[:3]:
        node.ask("NACK", one, "DEAD")
    with client_of(node) as client:
        for _ in range(2):
            answer_rows(client, [batch(id=ids)], options(ANSWER, action="revive"), {"id": 0})
        assert (node.ask("QLEN", "mails"), node.ask("QLEN", "mails:dead")) == (3, 0)
        for _ in range(2):
            answer_rows(client, [batch(id=ids[1:])], options(ANSWER, action="cancel"), {"id": 0})
    assert node.info("registered_jobs") == "1"


def test_with_no_node_left_jobs_are_not_given_back_without_a_word(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = claimed(node, 2)
    with client_of(node) as client:
        nodes = Nodes(client)
        give_back(nodes, ids[:1], [0])

        def nobody_answers(*_: object) -> None:
            raise UnavailableError("no node could be used")

        monkeypatch.setattr(answering, "send", nobody_answers)
        with pytest.raises(UnavailableError):
            give_back(nodes, ids[1:], [0])
        nodes.close()


@pytest.mark.parametrize("action", ["cancel", "nack", "revive"])
def test_the_log_says_how_many_were_reached(node: Node, caplog: pytest.LogCaptureFixture, action: str) -> None:
    ids = claimed(node, 3)
    if action == "revive":
        node.ask("NACK", *ids, "DEAD")
    node.ask("DELJOB", ids[0])
    with client_of(node) as client:
        answer_rows(client, [batch(id=ids)], options(ANSWER, action=action), {"id": 0})
    assert f"action={action} reached 2 of 3 jobs" in caplog.text


@pytest.mark.parametrize("action", ["ack", "cancel", "nack"])
def test_of_jobs_that_are_out_of_reach_only_these_are_refused(node: Node, action: str) -> None:
    ids = claimed(node)
    node.ask("MOVE", "other", ids[1])
    with client_of(node, **limited(node)) as client, pytest.raises(WriteError, match="NOPERM"):
        answer_rows(client, [batch(id=ids)], options(ANSWER, action=action), {"id": 0})
    left = node.info("registered_jobs") if action != "nack" else str(5 - node.ask("QLEN", "mails"))
    assert left == "1"


def test_jobs_are_given_back_at_the_node_that_knows_them(cluster: Cluster) -> None:
    first, second, _ = cluster.members
    for number in range(30):
        second.ask("ADDJOB", "mails", number, 0, "REPLICATE", 1)
    ids = [job_id.decode() for _, job_id, _ in second.ask("GETJOB", "COUNT", 30, "FROM", "mails")]
    nodes = Nodes(Disque(Config(nodes=(("127.0.0.1", first.port),))))  # the others are learnt
    give_back(nodes, ids, [0] * 30)
    nodes.close()
    assert second.ask("QLEN", "mails") == 30


def test_what_is_no_id_fails_the_task(node: Node) -> None:
    with client_of(node) as client:
        for given in (ACK, NACK, options(ANSWER, action="revive"), options(ANSWER, action="cancel")):
            with pytest.raises(WriteError, match="BADID"):
                answer_rows(client, [batch(id=["nonsense"])], given, {"id": 0})


def test_ids_and_delays_that_cannot_be() -> None:
    with pytest.raises(RowError, match="row 8: the id is NULL"):
        ids_of(batch(id=["a", None]), 0, 7)
    with pytest.raises(RowError, match="row 7: the delay must be"):
        delays_of(batch(id=["a"], delay=[-1]), {"id": 0, "delay": 1}, NACK, 7)


def test_words() -> None:
    assert nack("D-1", 0) == (b"NACK", b"D-1")
    assert nack("D-1", 5) == (b"NACK", b"D-1", b"DELAY", b"5")
    assert is_answer(1)
    assert not is_answer(0)
