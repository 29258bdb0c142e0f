from collections.abc import Callable
from typing import Any

import pytest

from disque.client import Disque, DisqueError
from disque.client.config import Address
from disque.client.delivery import Reply
from disque.spark.claims import ReadError
from disque.spark.fetching import CHUNK_BYTES, Fetcher, at_most_once, claimed, fetch, fields, is_shown, show
from disque.spark.nodes import Answers, Nodes, nobody
from disque.spark.options import STREAM, Options
from disque.spark.partitions import Claimed, IdsPartition
from tests.end_to_end.cluster import Cluster
from tests.end_to_end.node import Node
from tests.spark.support import client_of, limited, options


def words(node: Node, **given: str) -> Options:
    return options(STREAM, hosts=f"127.0.0.1:{node.port}", **given)


def fill(node: Node, count: int, *words: str | int) -> list[str]:
    """Add some jobs and take all that there are; their IDs."""
    for number in range(count):
        node.ask("ADDJOB", "mails", number, 0, *words)
    return [job_id.decode() for _, job_id, _ in node.ask("GETJOB", "NOHANG", "COUNT", 9999, "FROM", "mails")]


def fetched(node: Node, ids: list[str], *, again: bool = False, **given: str) -> list[bytes]:
    return [job.body for some in fetch(IdsPartition(ids, again=again), words(node, **given)) for job in some]


def test_by_id_whatever_became_of_the_claim(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    ids = fill(node, 3)
    node.ask("NACK", ids[0])
    node.ask("ACKJOB", ids[1])
    assert fetched(node, ids) == [b"0", b"2"]
    assert caplog.messages == [
        (
            "queue 'mails': 1 of 3 jobs of the batch are acknowledged, expired, deleted or in another queue, "
            "and are left out"
        )
    ]


def test_what_is_out_of_reach_is_left_out(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    ids = fill(node, 3)
    node.ask("NACK", ids[1], "DEAD")
    assert fetched(node, ids, **limited(node)) == [b"0", b"2"]
    assert "1 of 3 jobs of the batch are acknowledged, expired, deleted or in another queue" in caplog.text


def test_who_may_show_nothing_is_told(node: Node) -> None:
    ids = fill(node, 2)
    user = limited(node)
    node.ask("ACL", "SETUSER", "worker", "-show")
    with pytest.raises(ReadError, match="permissions to run the 'show' command"):
        fetched(node, ids, **user)


def test_at_most_once_jobs_are_left_out_of_a_batch_that_comes_again(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    ids = [*fill(node, 1), *fill(node, 2, "RETRY", 0)]
    assert fetched(node, ids) == [b"0", b"0", b"1"]
    assert fetched(node, ids) == [b"0", b"0", b"1"], "a task that is started again"
    assert fetched(node, ids, again=True) == [b"0"]
    [told] = caplog.messages
    assert told.startswith("queue 'mails': 2 of 3 jobs of the batch are at-most-once (RETRY 0)")


def test_what_is_known_of_few_jobs(node: Node) -> None:
    job_id = node.ask("ADDJOB", "mails", "a", 0, "TRIES", 2, "HEADER", "a", b"\xff").decode()
    node.ask("GETJOB", "FROM", "mails")
    node.ask("NACK", job_id, "ERROR", "why \u00e4".encode()[:-1])
    [job] = [job for some in fetch(IdsPartition([job_id], again=False), words(node)) for job in some]
    assert (job.tries, job.headers, job.error, job.origin) == (1, (("a", "\ufffd"),), "why \ufffd", None)
    node.ask("GETJOB", "FROM", "mails")
    node.ask("NACK", job_id, "DEAD")
    [job] = [job for some in fetch(IdsPartition([job_id], again=False), words(node)) for job in some]
    assert (job.queue, job.tries, job.origin) == ("mails:dead", 0, "mails")


def test_after_a_flush_nothing_is_left(node: Node) -> None:
    ids = fill(node, 3)
    node.ask("DEBUG", "FLUSHALL")
    assert fetched(node, ids) == []


def test_jobs_of_a_node_that_is_away_are_not_taken_for_done(cluster: Cluster) -> None:
    first, second, _ = cluster.members
    ids = fill(second, 2, "REPLICATE", 1)
    copied = fill(second, 2, "REPLICATE", 3)
    cluster.kill(second)
    assert fetched(first, copied) == [b"0", b"1"]
    with pytest.raises(ReadError, match=rf"2 of 2 jobs .* do not answer: 127.0.0.1:{second.port}"):
        fetched(first, ids, backoffMs="100")


class Returning(Nodes):
    """Nodes of which one is away at first."""

    def __init__(self, job_id: str, shown: Reply) -> None:
        super().__init__(Disque())
        self.rounds = [Answers({}, [("away", 1)]), Answers({job_id: shown}, [])]

    def maker(self) -> Callable[[str], Address | None]:
        return nobody

    def about(self, *args: Any) -> Answers:
        del args
        return self.rounds.pop(0)


def test_a_node_that_comes_back_is_waited_for(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("disque.spark.fetching.PAUSE_S", 0.0)
    [job_id] = fill(node, 1)
    with client_of(node) as client:
        [shown] = show(client, [job_id])
    fetcher = Fetcher(Returning(job_id, shown), words(node, backoffMs="60000"), "q")
    assert [job.body for some in fetcher.jobs(IdsPartition([job_id], again=False)) for job in some] == [b"0"]


def test_few_at_first_and_then_as_many_as_their_size_allows(node: Node) -> None:
    ids = fill(node, 400)
    with client_of(node) as client:
        nodes = Nodes(client)
        found = Fetcher(nodes, words(node), "q").jobs(IdsPartition(ids, again=False))
        assert [len(some) for some in found] == [16, 128, 256]
        heavy = [node.ask("ADDJOB", "mails", "x" * (CHUNK_BYTES // 2), 0).decode() for _ in range(20)]
        found = Fetcher(nodes, words(node), "q").jobs(IdsPartition(heavy, again=False))
        assert [len(some) for some in found] == [16, 2, 2]
        nodes.close()


def test_replies_of_show(node: Node) -> None:
    job_id = node.ask("ADDJOB", "mails", "a", 0).decode()
    with client_of(node) as client:
        [reply, nothing] = show(client, [job_id, job_id[:12] + ("1" if job_id[12] == "0" else "0") + job_id[13:]])
        with pytest.raises(DisqueError):
            show(client, ["nonsense"])
    assert is_shown(reply)
    assert not is_shown(nothing)
    assert not at_most_once(reply)
    assert claimed(nothing) is None
    assert isinstance(reply, list)
    assert claimed(reply) == Claimed("mails", job_id, b"a", 0, 0, fields(reply)[b"ctime"] // 1000, 0, ())
