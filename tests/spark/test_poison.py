"""Batches that fail again and again: what is noted with their jobs, and what becomes of these."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from disque.client import Disque, DisqueError, NoJobError, TooLateError
from disque.client.delivery import Reply
from disque.spark import nodes
from disque.spark.claims import ReadError
from disque.spark.columns import SOURCE
from disque.spark.nodes import Answers, Nodes
from disque.spark.offsets import first
from disque.spark.options import STREAM
from disque.spark.partitions import IdsPartition
from disque.spark.poison import NOTE, Poison, failures_of, is_done, is_in, kill, note
from disque.spark.stream import StreamReader
from tests.end_to_end.node import Node
from tests.spark.support import limited, options
from tests.spark.test_stream import Account, fill, start

ID = "D-00000000-000000000000000000000000-05a1"


@pytest.fixture
def poison(node: Node) -> Iterator[Poison]:
    made = Poison(options(STREAM, hosts=f"127.0.0.1:{node.port}", poisonTries=2))
    yield made
    made.close()


def taken(node: Node, count: int, *words: str | int) -> list[str]:
    """Add jobs and take them; their IDs."""
    fill(node, count, *words)
    return [job_id.decode() for _, job_id, _ in node.ask("GETJOB", "COUNT", count, "FROM", "mails")]


def progress(node: Node, job_id: str) -> Any:
    reply = node.ask("SHOW", job_id)
    return dict(zip(reply[::2], reply[1::2], strict=True)).get(b"progress")


class TestFailed:
    def test_it_is_noted_and_then_they_are_dead_letters(self, node: Node, poison: Poison) -> None:
        ids = taken(node, 3)
        assert poison.failed(ids) == ids
        assert progress(node, ids[0]) == NOTE + b"1"
        assert poison.ours(ids, claimed=True) == ids
        assert poison.failed(ids) == []
        assert node.ask("QLEN", "mails:dead") == 3
        assert poison.ours(ids, claimed=True) == []

    def test_also_those_that_came_back_into_their_queue(self, node: Node, poison: Poison) -> None:
        ids = taken(node, 2)
        poison.failed(ids)
        node.ask("ENQUEUE", *ids)
        assert poison.failed(ids) == []
        assert (node.ask("QLEN", "mails"), node.ask("QLEN", "mails:dead")) == (0, 2)

    def test_what_is_done_or_elsewhere_is_left_out(self, node: Node, poison: Poison) -> None:
        ids = taken(node, 3)
        node.ask("ACKJOB", ids[0])
        node.ask("MOVE", "other", ids[1])
        assert poison.failed(ids) == ids[2:]
        assert poison.ours(ids, claimed=True) == ids[2:]

    def test_what_is_out_of_reach_is_left_out(self, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
        ids = taken(node, 3)
        node.ask("NACK", ids[0], "DEAD")
        poison = Poison(options(STREAM, hosts=f"127.0.0.1:{node.port}", poisonTries=2, **limited(node)))
        assert poison.failed(ids) == ids[1:]
        send = nodes.send

        def moved_before(client: Disque, commands: Any) -> Any:
            node.ask("MOVE", "other", ids[1])
            return send(client, commands)

        monkeypatch.setattr("disque.spark.poison.send", moved_before)
        assert poison.failed(ids) == ids[1:2], "fetching leaves it out"
        assert poison.ours(ids, claimed=False) == []
        assert node.ask("QLEN", "mails:dead") == 2
        poison.close()

    def test_what_was_put_back_is_not_acknowledged_with_the_batch(self, node: Node, poison: Poison) -> None:
        ids = taken(node, 1)
        for _ in range(2):
            poison.failed(ids)
        assert node.ask("REVIVEJOB", ids[0]) == 1
        assert poison.ours(ids, claimed=True) == []

    def test_one_that_was_put_back_begins_again(self, node: Node, poison: Poison) -> None:
        ids = taken(node, 1)
        for _ in range(2):
            poison.failed(ids)
        node.ask("REVIVEJOB", ids[0])
        node.ask("GETJOB", "FROM", "mails")
        assert poison.failed(ids) == ids
        assert poison.failed(ids) == []
        assert node.ask("QLEN", "mails:dead") == 1

    def test_fewer_tries_than_there_were_failures_are_enough(self, node: Node, poison: Poison) -> None:
        """The option was 5, and is 2 now."""
        ids = taken(node, 1)
        node.ask("WORKING", ids[0], "PROGRESS", NOTE + b"4")
        assert poison.failed(ids) == []
        assert node.ask("QLEN", "mails:dead") == 1
        node.ask("REVIVEJOB", ids[0])
        node.ask("GETJOB", "FROM", "mails")
        assert poison.failed(ids) == ids

    def test_past_half_of_their_ttl_they_are_counted_too(
        self, node: Node, poison: Poison, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def send(client: Disque, some: list[tuple[bytes, ...]]) -> list[Reply]:
            late = TooLateError("TOOLATE Half of job TTL already elapsed")
            return [late for _ in some] if some[0][0] == b"WORKING" else nodes.send(client, some)

        monkeypatch.setattr("disque.spark.poison.send", send)
        ids = taken(node, 2, "RETRY", 600)
        assert poison.failed(ids) == ids
        assert (progress(node, ids[0]), node.ask("QLEN", "mails")) == (None, 0)
        assert poison.failed(ids) == []
        assert node.ask("QLEN", "mails:dead") == 2

    def test_a_refusal_ends_the_query(self, node: Node, poison: Poison, monkeypatch: pytest.MonkeyPatch) -> None:
        ids = taken(node, 1)
        refusal = DisqueError("ERR WORKING PROGRESS needs all nodes to know it")
        monkeypatch.setattr("disque.spark.poison.send", lambda _client, some: [refusal for _ in some])
        with pytest.raises(ReadError, match=r"job .* needs all nodes"):
            poison.failed(ids)


class TestAway:
    """Some jobs of the batch are only at a node that does not answer."""

    @pytest.fixture
    def away(self, poison: Poison, monkeypatch: pytest.MonkeyPatch) -> set[str]:
        """The jobs that only the node has which is away."""
        hidden: set[str] = set()
        about = Nodes.about

        def partly(self: Nodes, ids: Iterable[str], *words: Any) -> Answers:
            found = about(self, [one for one in ids if one not in hidden], *words)
            return Answers(found.known, [("away", 1)]) if hidden else found

        monkeypatch.setattr(Nodes, "about", partly)
        monkeypatch.setattr(poison, "_patience_s", 0.0)
        return hidden

    def test_the_batch_is_not_begun_again_and_has_not_failed(self, node: Node, poison: Poison, away: set[str]) -> None:
        ids = taken(node, 3)
        away.add(ids[2])
        with pytest.raises(ReadError, match=r"1 of 3 jobs .* do not answer: away:1"):
            poison.failed(ids)
        assert progress(node, ids[0]) is None
        away.clear()
        assert poison.failed(ids) == ids

    @pytest.mark.parametrize("claimed", [True, False])
    def test_what_was_claimed_is_acknowledged(self, node: Node, poison: Poison, away: set[str], claimed: bool) -> None:
        ids = taken(node, 3)
        away.add(ids[2])
        assert poison.ours(ids, claimed=claimed) == (ids if claimed else ids[:2])

    def test_what_was_in_its_queue_is_acknowledged_and_nothing_else(
        self, node: Node, poison: Poison, away: set[str]
    ) -> None:
        ids = taken(node, 3)
        node.ask("NACK", ids[0], "DEAD")
        assert poison.failed(ids) == ids[1:]
        away.update({ids[0], ids[2]})
        assert poison.ours(ids, claimed=False) == ids[1:]


def test_the_jobs_that_stay_are_in_the_same_partitions(node: Node, hosts: str) -> None:
    ids = taken(node, 4)
    words = options(STREAM, hosts=hosts, poisonTries=5, partitions=2)
    start = first("mails")
    end = start.next(ids)
    node.ask("CANCEL", ids[0])
    reader = StreamReader(SOURCE, words)
    for _ in range(2):
        parts = reader.partitions(start.as_json(), end.as_json())
        assert [part.ids for part in parts if isinstance(part, IdsPartition)] == [(ids[1],), (ids[2], ids[3])]
    reader.stop()


@pytest.mark.slow
def test_a_batch_that_fails_too_often_goes_on_without_its_jobs(
    spark: SparkSession, node: Node, hosts: str, tmp_path: Path
) -> None:
    fill(node, 5)
    account = Account()

    def failing(frame: Any, number: int) -> None:
        account(frame, number)
        if number == 0 and account.batches[0]:
            raise OSError("poison")

    words: dict[str, Any] = {"available": True, "maxJobsPerTrigger": 2, "poisonTries": 2}
    for _ in range(2):
        with pytest.raises(StreamingQueryException, match="poison"):
            start(spark, hosts, tmp_path, failing, **words).awaitTermination()
    start(spark, hosts, tmp_path, failing, **words).awaitTermination()
    assert account.attempts[0] == 3
    assert account.batches[0] == []
    assert sorted(body for batch in account.batches.values() for body in batch) == [b"2", b"3", b"4"]
    assert node.ask("QLEN", "mails:dead") == 2
    assert node.info("registered_jobs") == "2"


def test_what_progress_says() -> None:
    assert failures_of([b"id", b"x"]) == 0
    for said, count in ((None, 0), (b"", 0), (b"page 9", 0), (b"7", 0), (NOTE + b"x", 0), (NOTE + b"12", 12)):
        assert failures_of([b"progress", said]) == count
    assert note(ID, 3) == (b"WORKING", ID.encode(), b"PROGRESS", NOTE + b"3")
    assert kill(ID, 3) == (b"NACK", ID.encode(), b"DEAD", b"ERROR", b"a batch with it failed 3 times")
    assert is_in([b"queue", b"q\xff"], {"q\udcff"})
    assert not is_in(None, {"q"})
    assert [is_done(reply) for reply in (0, 1, 300, NoJobError("x"), DisqueError("x"))] == [
        *(False, True, True, False, True)
    ]
