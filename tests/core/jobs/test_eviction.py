from collections import OrderedDict

import pytest

from cluster.messages import GOES_WITH_JOB, KEEPKEY
from disque.core.jobs import eviction
from disque.core.journal.schema import DELETE
from disque.core.model import memory
from disque.core.model.memory import JOB_BYTES, QUEUE_BYTES
from disque.core.replication import acks
from tests.core.support import Bench, Client, foreign_id, repljob
from tests.support.keys import K, keys

MANY = 2**62


def test_jobs_and_queues_count_while_they_live(bench: Bench, client: Client) -> None:
    job = client.add("queue", "x" * 100)
    assert bench.node.used == JOB_BYTES + 100 + QUEUE_BYTES + 5
    client.get("queue")
    assert bench.node.used == JOB_BYTES + 100 + QUEUE_BYTES + 5
    client("ACKJOB", job)
    assert bench.node.used == QUEUE_BYTES + 5
    bench.advance(600_000)
    assert bench.node.used == 0


def spent(client: Client, number: int) -> list[bytes]:
    """At-most-once jobs that were delivered: the only ones that are no loss."""
    jobs = [client.add("q", "b", "RETRY", 0) for _ in range(number)]
    assert client.get("q", count=number) == jobs
    return jobs


def test_a_full_node_evicts_what_is_no_loss_oldest_delivery_first(bench: Bench, client: Client) -> None:
    kept = client.add("other")
    jobs = spent(client, 10)
    used = bench.node.used
    bench.set("maxmemory", (used - 3 * JOB_BYTES) * 100 // 95)
    # ADDJOB makes room below 95 %; above 75 % the node keeps no new job all the same.
    assert client.error("ADDJOB", "q", "b", 0).startswith("NOREPL")
    assert [bench.state(job) for job in jobs[:3]] == ["gone"] * 3
    assert bench.state(jobs[-1]) == "active"
    assert bench.state(kept) == "queued"
    assert bench.node.evicted in {3, 4}
    assert bench.node.used <= bench.node.limits.full


def test_a_node_full_of_jobs_that_matter_refuses(bench: Bench, client: Client) -> None:
    jobs = [client.add("q") for _ in range(5)]
    bench.set("maxmemory", bench.node.used)
    assert client.raw("ADDJOB", "q", "b", 0) == b"-OOM command not allowed when used memory > 'maxmemory'.\r\n"
    assert client.get("q", count=5) == jobs


def test_noeviction_evicts_nothing(bench: Bench, client: Client) -> None:
    jobs = spent(client, 5)
    bench.set("maxmemory-policy", "noeviction")
    bench.set("maxmemory", bench.node.used)
    assert client.error("ADDJOB", "q", "b", 0).startswith("OOM")
    assert {bench.state(job) for job in jobs} == {"active"}
    assert bench.node.evicted == 0


def test_one_command_evicts_only_so_many(bench: Bench, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eviction, "EVICT_MOST", 4)
    spent(client, 10)
    bench.set("maxmemory", QUEUE_BYTES + 100)
    assert not eviction.make_room(bench.node)
    assert bench.node.evicted == 4
    assert not eviction.make_room(bench.node)
    assert bench.node.evicted == 8


def test_commands_that_need_no_memory_evict_nothing(bench: Bench, client: Client) -> None:
    jobs = spent(client, 3)
    bench.set("maxmemory", 1)
    client("PING")
    client("QLEN", "q")
    assert {bench.state(job) for job in jobs} == {"active"}


def test_an_evicted_job_is_not_delivered_again(bench: Bench, client: Client) -> None:
    (job,) = spent(client, 1)
    bench.set("maxmemory", 1)
    client.error("ADDJOB", "q", "b", 0)
    bench.set("maxmemory", 0)
    assert client("ENQUEUE", job) == 0
    assert client.get("q") == []


def test_without_a_limit_all_is_kept(bench: Bench, client: Client) -> None:
    bench.set("maxmemory", 0)
    assert client.add("q", "x" * 1_000_000)
    assert bench.node.limits.full >= MANY


def test_beyond_the_limit_no_queue_is_made_for_those_who_wait_or_pause(bench: Bench) -> None:
    consumer, other = bench.client(), bench.client()
    consumer.send("GETJOB", "FROM", "there")
    bench.settle()
    bench.set("maxmemory", bench.node.used + memory.PLACE_BYTES)
    other.send("GETJOB", "FROM", "there")
    bench.settle()
    assert bench.client().raw("PAUSE", "last", "in") == b"+in\r\n", "up to the limit there is room"
    for words in (("GETJOB", "FROM", "there", "another"), ("PAUSE", "another", "in")):
        assert bench.client().error(*words).startswith("OOM")
    assert bench.client().raw("PAUSE", "another", "none") == b"+none\r\n"
    assert bench.client().raw("PAUSE", "there", "in") == b"+in\r\n"
    assert bench.client()("GETJOB", "NOHANG", "FROM", "another") is None
    assert other.waiting
    assert b"another" not in bench.node.queues


def test_an_eviction_is_in_the_journal_since_it_frees_the_key_of_its_job() -> None:
    bench = Bench(journaling=True)
    client = bench.client()
    job_id = client.add("q", "b", "RETRY", 0, "UNIQUE", "k", 0)
    client.get("q")
    bench.records()
    bench.set("maxmemory", 1)
    eviction.make_room(bench.node)
    assert bench.records() == [(DELETE, job_id)]
    assert keys(bench.node) == {}


def test_a_key_without_a_window_goes_with_the_acknowledgement_of_its_job_in_memory_as_in_the_journal() -> None:
    bench = Bench(peers=2, journaling=True)
    job_id = foreign_id()
    bench.hear(bench.peers[0], (KEEPKEY, GOES_WITH_JOB, 2, 60_000, (job_id,), (K,)))
    bench.client()("ACKJOB", job_id)
    assert keys(bench.node).keys() == {K}
    bench.records()
    bench.set("maxmemory", 1)
    eviction.make_room(bench.node)
    assert bench.records() == [(DELETE, job_id)]
    assert keys(bench.node) == {}


def test_copies_that_are_made_after_the_answer_count_until_they_are_there() -> None:
    bench = Bench(peers=2)
    before = bench.node.used
    job = bench.client().add("q", "body", "REPLICATE", 3, "ASYNC")
    alone = memory.JOB_BYTES + 4 + QUEUE_BYTES + 1
    assert bench.node.used - before == alone + memory.SPREAD_BYTES
    bench.confirm(job, *bench.peers)
    assert bench.node.used - before == alone


def test_questions_about_a_job_count_until_they_are_answered() -> None:
    bench = Bench(peers=1)
    bench.hear(bench.peers[0], repljob(bench.peers[0].id, retry=5))
    before = bench.node.used
    bench.advance(5500)
    assert bench.node.votes.by_id
    assert bench.node.used == before + memory.VOTE_BYTES
    bench.client()("ACKJOB", foreign_id(1, 5))
    assert not bench.node.votes.by_id
    assert bench.node.used == before - 4 + memory.ACK_BYTES


def test_acknowledgements_are_evicted_oldest_first_and_looked_up_some_at_a_time(
    cluster: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eviction, "OLDEST_MOST", 4)
    ids = [foreign_id(number) for number in range(20)]
    cluster.client()("ACKJOB", *ids)
    node = cluster.node
    evicted = []
    for number in range(12):
        if number == 5:
            acks.drop(node, ids.pop(6))  # one that is noted already has ended by itself
        evicted.append(eviction.oldest_ack(node))
        eviction.evict_ack(node, evicted[-1])
        assert len(node.acks.oldest) < 4, "the next ones are known, and only they"
    assert evicted == ids[:12]


def test_to_find_the_oldest_acknowledgement_takes_no_longer_when_many_went_before(cluster: Bench) -> None:
    """Entries that were taken away from the front of a dict are looked at again each time: that took minutes."""
    assert isinstance(cluster.node.acks.dummies, OrderedDict)
