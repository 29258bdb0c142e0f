from typing import Any

import pytest

from disque.client import DisqueError, NoJobError, TooLateError
from disque.spark.claims import Claims, ReadError, Taken, delivered, is_settled, named, say_working, spread
from disque.spark.nodes import Nodes
from disque.spark.options import DRAIN, parse_options
from disque.spark.partitions import Claimed
from tests.end_to_end.cluster import Cluster
from tests.end_to_end.node import Node, until
from tests.spark.support import client_of, hosts_of, limited


def claims_of(hosts: str, *, bodies: bool = True, **given: Any) -> Claims:
    words = {"hosts": hosts, "maxJobs": 1, "queue": "mails", "pollTimeoutMs": 200, **given}
    if "queues" in given:
        del words["queue"]
    return Claims(parse_options({name: str(value) for name, value in words.items()}, DRAIN), bodies=bodies)


def fill(node: Node, count: int, *words: str | int) -> None:
    for number in range(count):
        node.ask("ADDJOB", "mails", number, 0, *words)


class TestTaking:
    def test_what_is_there_up_to_the_limit(self, node: Node, hosts: str) -> None:
        fill(node, 25)
        claims = claims_of(hosts, fetchSize=10)
        assert [job.body for job in claims.take(15)] == [b"%d" % number for number in range(15)]
        assert len(claims.take(None)) == 10
        assert claims.take(5) == []
        claims.close()

    def test_without_bodies_each_has_only_its_size(self, node: Node, hosts: str) -> None:
        fill(node, 12)
        claims = claims_of(hosts, bodies=False)
        assert {job.body for job in claims.take(None)} == {b""}
        claims.close()

    def test_bytes_bound_what_is_taken(self, node: Node, hosts: str) -> None:
        for _ in range(9):
            node.ask("ADDJOB", "mails", "x" * 100, 0)
        for bodies in (True, False):
            claims = claims_of(hosts, bodies=bodies, fetchSize=2)
            assert len(claims.take(None, 350)) == 4
            claims.close()

    def test_several_queues(self, node: Node, hosts: str) -> None:
        for queue in ("a", "b", "b", "c"):
            node.ask("ADDJOB", queue, "x", 0)
        claims = claims_of(hosts, queues="b, a")
        assert claims.what == "queues 'a', 'b'"
        assert claims.queued() == 3
        assert sorted(job.queue for job in claims.take(9)) == ["a", "b", "b"]
        claims.close()

    def test_how_much_is_left_and_for_how_long(self, node: Node, hosts: str) -> None:
        claims = claims_of(hosts)
        assert claims.lag() == {"queued": 0, "oldestMs": 0}
        fill(node, 3)
        until(lambda: claims.lag()["oldestMs"] > 0, "a job that gets older")
        assert claims.lag()["queued"] == 3
        claims.close()

    def test_how_many_are_queued(self, node: Node, hosts: str) -> None:
        fill(node, 3)
        claims = claims_of(hosts)
        assert claims.queued() == 3
        claims.close()

    def test_without_the_right_to_know_there_is_an_error(self, node: Node, hosts: str) -> None:
        claims = claims_of(hosts, queue="others", **limited(node))
        with pytest.raises(ReadError, match="how many jobs there are is not known: NOPERM"):
            claims.queued()
        claims.close()

    def test_without_any_node_too(self, hosts: str, monkeypatch: pytest.MonkeyPatch) -> None:
        claims = claims_of(hosts)
        monkeypatch.setattr(Nodes, "ask_all", lambda *_: {})
        with pytest.raises(ReadError, match="is not known: no node answers"):
            claims.queued()
        claims.close()

    def test_of_all_nodes_without_a_journey_between_them(self, cluster: Cluster) -> None:
        for node in cluster.members:
            fill(node, 10, "REPLICATE", 1)
        claims = claims_of(f"127.0.0.1:{cluster.members[0].port}")
        assert claims.queued() == 30
        assert len(claims.take(30)) == 30
        assert {node.ask("QLEN", "mails") for node in cluster.members} == {0}
        claims.close()

    def test_without_any_node_the_queue_is_named(self) -> None:
        claims = claims_of("127.0.0.1:1", timeoutMs=100)
        with pytest.raises(DisqueError, match="no node"):
            claims.take(1)
        claims.close()


class TestHolding:
    def test_working_says_retry_none_for_what_is_gone(self, node: Node, hosts: str) -> None:
        fill(node, 2, "RETRY", 9)
        claims = claims_of(hosts)
        one, other = (job.id for job in claims.take(2))
        claims.acknowledge([other])
        assert claims.working([one, other]) == {one: 9, other: None}
        claims.close()

    def test_a_job_that_is_out_of_reach_spoils_nothing(
        self, node: Node, hosts: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        fill(node, 3, "RETRY", 9)
        claims = claims_of(hosts, **limited(node))
        one, dead, other = (job.id for job in claims.take(3))
        node.ask("NACK", dead, "DEAD")
        assert claims.working([one, dead, other]) == {one: 9, dead: None, other: 9}
        claims.acknowledge([one, dead, other])
        assert node.info("registered_jobs") == "1"
        assert "queue 'mails': jobs that are in another queue by now are not acknowledged" in caplog.text
        claims.close()

    def test_who_may_acknowledge_nothing_is_told(self, node: Node, hosts: str) -> None:
        fill(node, 2)
        claims = claims_of(hosts, **limited(node))
        ids = [job.id for job in claims.take(2)]
        node.ask("ACL", "SETUSER", "worker", "-ackjob")
        with pytest.raises(ReadError, match="permissions to run the 'ackjob' command"):
            claims.acknowledge(ids)
        claims.close()

    def test_a_node_that_is_away_leaves_it_open(self, cluster: Cluster) -> None:
        first, second, _ = cluster.members
        fill(second, 1, "REPLICATE", 1)
        claims = claims_of(f"127.0.0.1:{first.port}")
        [job] = claims.take(1)
        assert claims.working([job.id]).keys() == {job.id}
        cluster.kill(second)
        assert claims.working([job.id]) == {}
        claims.close()

    def test_an_acknowledgement_reaches_all(self, cluster: Cluster) -> None:
        fill(cluster.members[1], 5, "REPLICATE", 2)
        claims = claims_of(hosts_of(cluster))
        claims.acknowledge([job.id for job in claims.take(5)])
        until(lambda: all(node.info("registered_jobs") == "0" for node in cluster.members), "no jobs")
        claims.close()


class TestReplies:
    def test_of_working(self, node: Node) -> None:
        fill(node, 2, "RETRY", 5)
        ids = [job_id.decode() for _, job_id, _ in node.ask("GETJOB", "COUNT", 2, "FROM", "mails")]
        with client_of(node) as client:
            assert say_working(client, ids) == [5, 5]
            assert say_working(client, ids[:1]) == [5]
        assert spread(7, 1) == [7]
        assert spread([7, 8], 2) == [7, 8]

    def test_what_settles_a_job(self) -> None:
        assert is_settled(5)
        assert is_settled(TooLateError("TOOLATE half of the TTL"))
        assert not is_settled(NoJobError("NOJOB not known"))

    def test_of_getjob(self) -> None:
        row = [b"q", b"D-1", b"abc", b"nacks", 1, b"additional-deliveries", 2]
        assert delivered(row) == (Claimed("q", "D-1", b"abc", 1, 2), 4)
        assert delivered([*row[:2], 3, *row[3:]]) == (Claimed("q", "D-1", b"", 1, 2), 4)

    def test_full(self) -> None:
        job = Claimed("q", "D-1", b"", 0, 0)
        taken = Taken(3, 10)
        assert taken.bounds(5) == (b"COUNT", b"3", b"BYTES", b"10")
        taken.add([(job, 7)])
        assert not taken.is_full()
        assert taken.bounds(1) == (b"COUNT", b"1", b"BYTES", b"3")
        taken.add([(job._replace(id="D-2"), 7)])
        assert taken.is_full()
        assert Taken(0).is_full()
        assert Taken(None).bounds(20_000) == (b"COUNT", b"10000")
        assert not Taken(None).is_full()

    def test_names(self) -> None:
        assert named(["a"]) == "queue 'a'"
