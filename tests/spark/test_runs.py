import json
from dataclasses import replace
from typing import Any

import pytest

from disque.client import DisqueError
from disque.spark.adding import WriteError
from disque.spark.commits import Written
from disque.spark.options import Options
from disque.spark.runs import QUEUE, Look, Run, advice, compare, key_of, known, note, noted, read
from disque.spark.tasks import finish_run, note_run
from tests.end_to_end.cluster import Cluster
from tests.end_to_end.node import Node
from tests.spark.support import client_of, limited, options


def named(node: Node | None = None, **given: Any) -> Options:
    hosts: dict[str, Any] = {} if node is None else {"hosts": f"127.0.0.1:{node.port}"}
    return options(runId="monday", **hosts, **given)


class TestNotes:
    def test_the_first_note_counts(self, node: Node) -> None:
        with client_of(node) as client:
            assert noted(client, "s", named()) is None
            assert note(client, "s", Run(4, frozenset({0, 2})), named()) == Run(4, frozenset({0, 2}))
            assert note(client, "s", Run(5, None), named()) == Run(4, frozenset({0, 2}))
            assert noted(client, "s", named()) == Run(4, frozenset({0, 2}))
            assert noted(client, "other", named()) is None

    def test_a_run_that_ends_well_at_last_is_finished(self, node: Node) -> None:
        first = Run(4, frozenset({0, 2}))
        with client_of(node) as client:
            note(client, "s", first, named())
            note(client, "s", Run(4, frozenset({0, 1, 2})), named())
            assert noted(client, "s", named()) == first
            assert note(client, "s", Run(4, None), named()) == first
            assert noted(client, "s", named()) == Run(4, None)
            assert note(client, "s", Run(5, None), named()) == first

    def test_nobody_gets_a_note_and_it_lives_as_long_as_the_keys(self, node: Node) -> None:
        with client_of(node) as client:
            note(client, "s", Run(4, None), named(dedupWindow=60))
            assert client.get(QUEUE, nohang=True) == []
            [job_id] = known(client, [(QUEUE, key_of("s"))], named())
            assert job_id is not None
            shown = client.show(job_id.decode())
        assert shown is not None
        assert shown["ttl"] == 60
        assert json.loads(bytes(shown["body"])) == {"run": "s", "partitions": 4, "finished": None}  # type: ignore[arg-type]  # bytes

    def test_without_a_window_it_lives_like_a_job(self, node: Node) -> None:
        with client_of(node) as client:
            assert note(client, "s", Run(4, None), named(dedupWindow=0)) == Run(4, None)

    def test_one_that_was_deleted_is_none(self, node: Node) -> None:
        with client_of(node) as client:
            note(client, "s", Run(4, None), named())
            [job_id] = known(client, [(QUEUE, key_of("s"))], named())
            assert job_id is not None
            client.delete(job_id.decode())
            assert read(client, job_id) is None

    def test_a_node_that_refuses_says_why(self, node: Node) -> None:
        with client_of(node) as client, pytest.raises(DisqueError, match="NOREPL"):
            note(client, "s", Run(4, None), replace(named(), replicate=2))

    def test_every_node_of_a_cluster_knows_it(self, cluster: Cluster) -> None:
        one, other, _ = cluster.members
        with client_of(one) as client, client_of(other) as second:
            note(client, "s", Run(4, None), named(replicate=2))
            [job_id, nothing] = known(second, [(QUEUE, key_of("s")), (QUEUE, b"free")], named())
        assert job_id is not None
        assert nothing is None


class TestLook:
    def jobs(self, *bodies: bytes) -> list[tuple[bytes, ...]]:
        return [(b"ADDJOB", b"mails", body, b"0", b"UNIQUE", b"key " + body, b"600") for body in bodies]

    def add(self, node: Node, *bodies: bytes) -> None:
        for words in self.jobs(*bodies):
            node.ask(*words)

    def test_a_run_that_nobody_wrote_adds_all(self, node: Node) -> None:
        with client_of(node) as client:
            assert Look(client, "s", 0, named())(self.jobs(b"a")) == self.jobs(b"a")

    def test_a_finished_partition_has_nothing_to_add(self, node: Node) -> None:
        self.add(node, b"a", b"b")
        with client_of(node) as client:
            note(client, "s", Run(4, frozenset({1})), named())
            look = Look(client, "s", 1, named())
            assert look(self.jobs(b"a")) == look(self.jobs(b"b")) == []
            with pytest.raises(WriteError, match="run 'monday' did not have these rows in partition 1") as caught:
                look(self.jobs(b"a", b"c"))
            assert "repartition(4)" in str(caught.value)
        assert node.ask("QLEN", "mails") == 2

    def test_one_that_was_not_finished_is_added(self, node: Node) -> None:
        with client_of(node) as client:
            note(client, "s", Run(4, frozenset({1})), named())
            assert Look(client, "s", 2, named())(self.jobs(b"c")) == self.jobs(b"c")

    def test_one_that_there_was_not_is_refused(self, node: Node) -> None:
        with client_of(node) as client:
            note(client, "s", Run(4, None), named())
            with pytest.raises(WriteError, match="run 'monday' has no partition 4: it was written in 4 partitions"):
                Look(client, "s", 4, named())(self.jobs(b"c"))

    def test_a_user_without_rights_to_the_notes_is_told_so(self, node: Node) -> None:
        with (
            client_of(node, **limited(node)) as client,
            pytest.raises(WriteError, match="queue 'disque:spark:runs', to which"),
        ):
            Look(client, "s", 0, named())(self.jobs(b"a"))


class TestEnd:
    def test_another_number_fails_the_save(self) -> None:
        compare(Run(4, None), 4, named())
        with pytest.raises(WriteError, match=r"now written in 5 partitions, .* in 4 partitions first"):
            compare(Run(4, None), 5, named())
        assert "repartition(7)" in advice(7)

    def test_what_was_finished_is_noted(self, node: Node) -> None:
        assert note_run(named(node), [Written(1), None, Written(2)], None) == Run(3, frozenset({0, 2}))
        assert note_run(named(node), [Written(1)], None) == Run(3, frozenset({0, 2}))
        assert note_run(named(node), [Written(1)], 7) == Run(1, None)
        finish_run(named(node), [Written(1)] * 3, None)
        with pytest.raises(WriteError, match="now written in 1 partitions"):
            finish_run(named(node), [Written(1)], None)

    def test_a_save_that_is_over_does_not_fail_for_want_of_a_note(self, caplog: pytest.LogCaptureFixture) -> None:
        finish_run(options(runId="monday", hosts="127.0.0.1:1", timeoutMs="100"), [Written(1)], None)
        assert "could not be noted" in caplog.text
