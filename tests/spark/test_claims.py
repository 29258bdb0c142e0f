from typing import Any

import pytest

from disque.client import DisqueError, NoJobError, TooLateError
from disque.spark.claims import Claims, ReadError, claimed, is_full, is_settled, is_shown, say_working, show, spread
from disque.spark.options import DRAIN
from tests.end_to_end.cluster import Cluster
from tests.end_to_end.node import Node, until
from tests.spark.support import client_of, hosts_of, options


def claims_of(hosts: str, **given: Any) -> Claims:
    return Claims(options(DRAIN, hosts=hosts, maxJobs=1, **{"pollTimeoutMs": 200, **given}))


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

    def test_how_many_are_queued(self, node: Node, hosts: str) -> None:
        fill(node, 3)
        claims = claims_of(hosts)
        assert claims.queued() == 3
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


class TestFetching:
    def test_by_id_whatever_became_of_the_claim(self, node: Node, hosts: str) -> None:
        fill(node, 3)
        before = claims_of(hosts)
        jobs = before.take(3)
        before.close()
        node.ask("NACK", jobs[0].id)
        node.ask("ACKJOB", jobs[1].id)
        claims = claims_of(hosts)
        assert [job.body for job in claims.fetch([job.id for job in jobs])] == [b"0", b"2"]
        claims.close()

    def test_at_most_once_jobs_are_left_out(self, node: Node, hosts: str, caplog: pytest.LogCaptureFixture) -> None:
        fill(node, 1)
        fill(node, 2, "RETRY", 0)
        claims = claims_of(hosts)
        jobs = claims.take(3)
        assert [job.body for job in claims.fetch([job.id for job in jobs])] == [b"0"]
        claims.close()
        [told] = [one.getMessage() for one in caplog.records if "RETRY 0" in one.getMessage()]
        assert told.startswith("queue 'mails': 2 of 3 jobs of the last batch are at-most-once")

    def test_after_a_flush_nothing_is_left(self, node: Node, hosts: str) -> None:
        fill(node, 3)
        claims = claims_of(hosts)
        ids = [job.id for job in claims.take(3)]
        node.ask("DEBUG", "FLUSHALL")
        assert claims.fetch(ids) == []
        claims.close()

    def test_jobs_of_a_node_that_is_away_are_not_taken_for_done(self, cluster: Cluster) -> None:
        first, second, _ = cluster.members
        fill(second, 2, "REPLICATE", 1)
        claims = claims_of(f"127.0.0.1:{first.port}")
        ids = [job.id for job in claims.take(2)]
        cluster.kill(second)
        with pytest.raises(ReadError, match=rf"2 of 2 jobs .* do not answer: 127.0.0.1:{second.port}"):
            claims.fetch(ids)
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

    def test_of_show(self, node: Node) -> None:
        job_id = node.ask("ADDJOB", "mails", "a", 0).decode()
        with client_of(node) as client:
            [reply, nothing] = show(client, [job_id, job_id[:12] + "0" + job_id[13:]])
            with pytest.raises(DisqueError):
                show(client, ["nonsense"])
        assert is_shown(reply)
        assert not is_shown(nothing)
        assert claimed(nothing) is None
        assert claimed(reply) == ("mails", job_id, b"a", 0, 0)

    def test_full(self) -> None:
        assert is_full({}, 0)
        assert not is_full({}, None)
