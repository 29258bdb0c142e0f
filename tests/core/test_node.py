"""The state of a node: its table of jobs, its clock of creation, its queues, and forgetting."""

from itertools import pairwise
from sys import getrefcount

import pytest

from cluster.messages import NAMED_MOST, SETACK
from disque.core import step
from disque.core.base.timers import NEVER
from disque.core.commands import ROWS
from disque.core.jobs import sessions
from disque.core.journal.schema import JOBS, JOBS_IDS, SPEND
from disque.core.model.job import ACTIVE, DEFERRED, SPENT
from disque.core.model.queue import QUEUE_IDLE_MS
from disque.core.node import Node
from tests.core.support import START_MS, Bench, foreign_id


def test_jobs_of_one_millisecond_are_ordered_as_they_came(bench: Bench) -> None:
    ctimes = [bench.node.next_ctime(START_MS) for _ in range(3)]
    assert ctimes == [START_MS * 10**6 + extra for extra in range(3)]


def test_creation_times_never_go_back_with_the_clock(bench: Bench) -> None:
    late = bench.node.next_ctime(START_MS + 1000)
    assert bench.node.next_ctime(START_MS) == late + 1


def test_a_job_is_found_by_its_id_until_it_is_removed(bench: Bench) -> None:
    job_id = bench.client().add("q")
    job = bench.job(job_id)
    assert bench.node.find(job_id) is job
    assert bench.node.jobs_registered() == 1
    bench.node.remove(job)
    assert bench.node.find(job_id) is None
    assert (bench.node.jobs_registered(), bench.node.queues[b"q"].length, job.body) == (0, 0, b"")


def test_a_queue_is_made_once_and_watched_for_idleness(bench: Bench) -> None:
    queue = bench.node.queue(b"q", START_MS)
    assert bench.node.queue(b"q", START_MS + 5) is queue
    assert queue.due_ms == START_MS + QUEUE_IDLE_MS[0]


def test_a_delivery_starts_the_retry(bench: Bench) -> None:
    job = bench.job(bench.client().add("q", "b", "RETRY", 7))
    bench.client().get("q")
    assert (job.state, job.requeue_ms, job.due_ms) == (ACTIVE, START_MS + 7000, START_MS + 7000)


def test_a_retry_beyond_the_end_of_the_job_waits_for_that_end(bench: Bench) -> None:
    job = bench.job(bench.client().add("q", "b", "RETRY", 70, "TTL", 60))
    bench.client().get("q")
    assert job.due_ms == job.expires_ms


def test_a_delivery_spends_an_at_most_once_job_in_the_journal() -> None:
    bench = Bench(journaling=True)
    job_id = bench.client().add("q", "b", "RETRY", 0)
    bench.records()
    client = bench.client()
    client.send("GETJOB", "FROM", "q")
    assert (SPEND, job_id) in bench.node.outbox.records
    assert bench.job(job_id).flags & SPENT


def test_a_delayed_job_is_held_until_its_time(bench: Bench) -> None:
    job = bench.job(bench.client().add("q", "b", "DELAY", 3))
    assert (job.flags & DEFERRED, job.requeue_ms) == (DEFERRED, START_MS + 3000)


def test_a_record_counts_for_the_newest_segment_only() -> None:
    bench = Bench(journaling=True)
    bench.node.segment = 3
    job = bench.job(bench.client().add("q"))
    assert (job.segment, bench.node.live[3]) == (3, 1)
    bench.node.segment = 4
    bench.node.file(job)
    assert (job.segment, bench.node.live[3], bench.node.live[4]) == (4, 0, 1)
    assert [record[JOBS_IDS] for record in bench.records() if record[0] == JOBS] == [(job.id, job.id)], "told once more"
    bench.node.remove(job)
    assert bench.node.live[4] == 0


def test_forgetting_everything_leaves_the_freeing_to_the_ticks(bench: Bench) -> None:
    client = bench.client()
    for _ in range(5):
        client.add("q")
    sessions.forget_everything(bench.node)
    assert (bench.node.jobs_registered(), bench.node.used, bench.node.queues) == (0, 0, {})
    assert bench.node.next_due_ms == 0, "there is something left to free"
    while bench.node.trash:
        bench.advance(1)
    assert bench.node.next_due_ms == NEVER


def weight(node: Node) -> float:
    """What is left to free, in things; entries of lists are only counted down."""
    return sum(len(some) / (1 if isinstance(some, dict) else step.LOOKS) for some in node.trash)


def test_many_queues_that_are_forgotten_are_freed_in_slices(bench: Bench) -> None:
    for number in range(2500):
        bench.node.queue(b"%d" % number, bench.now_ms)
    sessions.forget_everything(bench.node)
    ticks = 0
    while bench.node.trash:
        before = weight(bench.node)
        step.tick(bench.node, bench.now_ms)
        assert before - weight(bench.node) <= step.FREE_MOST
        ticks += 1
    assert ticks >= 3


def test_the_jobs_of_long_queues_are_freed_in_slices_wherever_they_stand(bench: Bench) -> None:
    node = bench.node
    client = bench.client()
    for number in range(3000):
        client.add("q" if number % 2 else "d", "body", "DELAY", "0" if number % 2 else "60")
    ids = [job_id for shard in node.shards for job_id in shard]
    unused = getrefcount(b"".join([b"D-", b"nobody"])) + 1  # one more for the list
    sessions.forget_everything(node)
    alive = [len(ids)]
    while node.trash:
        step.tick(node, bench.now_ms)
        alive.append(sum(getrefcount(ids[at]) > unused for at in range(len(ids))))
    assert alive[-1] == 0
    assert max(before - after for before, after in pairwise(alive)) <= step.FREE_MOST


def test_nothing_is_due_on_a_node_that_has_nothing(bench: Bench) -> None:
    assert bench.node.next_due_ms == NEVER


@pytest.mark.parametrize("name", [b"ADDJOB", b"addjob", b"GetJob"])
def test_commands_are_found_in_any_spelling(bench: Bench, name: bytes) -> None:
    assert "wrong number" in bench.client().error(name)


def test_a_renamed_command_answers_to_its_new_name_only(bench: Bench) -> None:
    bench.node.config.put("rename-command", ("debug", "d-e-b-u-g"))
    bench.node.config.put("rename-command", ("shutdown", ""))
    bench.node.table = ROWS
    bench.node.name_commands()
    client = bench.client()
    assert client("D-E-B-U-G", "FLUSHALL") == b"OK"
    assert client.error("DEBUG", "FLUSHALL") == "ERR unknown command 'DEBUG'"
    assert client.error("SHUTDOWN") == "ERR unknown command 'SHUTDOWN'"
    assert client("COMMAND", "COUNT") == len(ROWS) - 1


def test_the_default_of_replicate_follows_the_size_of_the_cluster() -> None:
    bench = Bench(peers=4)
    bench.node.count_nodes()
    assert bench.node.default_replicate == 3


def test_many_holders_of_many_jobs_are_named_in_several_messages() -> None:
    bench = Bench(peers=1)
    peer = bench.peers[0]
    bench.sent()
    holders = tuple([b"%040x" % number for number in range(300)])
    ids = [foreign_id(number) for number in range(1000)]
    bench.node.send_ids(peer.id, (SETACK, holders), ids)
    told = bench.told(peer, SETACK)
    assert [job_id for message in told for job_id in message[2]] == ids
    assert {message[1] for message in told} == {holders}
    assert max(len(message[2]) for message in told) == NAMED_MOST // 300
