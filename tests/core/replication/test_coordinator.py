from typing import Any

import pytest

from cluster.membership import LEAVING, PFAIL
from cluster.messages import (
    ABORT,
    ANSWER,
    ANSWER_NO,
    ENQUEUE,
    GOTJOB,
    NEEDJOBS,
    REFUSED,
    REFUSED_PAUSED,
    REPLJOB,
    REPLJOB_BODIES,
    REPLJOB_CTIMES,
    REPLJOB_DELAY_MS,
    REPLJOB_IDS,
    SETACK,
    WILLQUEUE,
    YOURJOBS,
)
from disque.core import step
from disque.core.journal.schema import JOBS, JOBS_IDS
from disque.core.model.session import ADDS_BYTES_MAX, ADDS_MAX
from disque.core.replication import coordinator
from tests.core.support import MYSELF, NOTHING, UNKNOWN_ID, Bench, Client, assert_delivered, assert_still_waiting
from tests.support.formats import repljob

TIMED_OUT = b"-NOREPL Timeout reached before replicating to the requested number of nodes\r\n"
REMOVED = b"-NOREPL job removed (expired?) before the requested replication level was achieved\r\n"
TOO_FEW = b"-NOREPL Not enough reachable nodes for the requested replication level\r\n"


def asked(cluster: Bench) -> dict[bytes, list[Any]]:
    """The REPLJOBs sent: the nodes asked, by job."""
    nodes: dict[bytes, list[Any]] = {}
    for peer_id, message in cluster.sent(REPLJOB):
        for job_id in message[REPLJOB_IDS]:
            nodes.setdefault(job_id, []).append(cluster.membership.nodes[peer_id])
    return nodes


def begin(client: Client, *options: str, timeout: int = 0) -> tuple[bytes, list[Any]]:
    """ADDJOB with three copies: the ID and the two nodes that were asked."""
    assert client("ADDJOB", "q", "body", timeout, "REPLICATE", 3, *options) is NOTHING
    ((job_id, nodes),) = asked(client.bench).items()
    return job_id, nodes


def test_the_reply_comes_with_the_last_copy(cluster: Bench) -> None:
    client = cluster.client()
    job_id, (first, second) = begin(client)
    assert cluster.state(job_id) == "wait-repl"
    cluster.confirm(job_id, first)
    assert_still_waiting(client)
    cluster.confirm(job_id, second)
    assert client.read_raw() == b"+%b\r\n" % job_id
    assert cluster.state(job_id) == "queued"


def test_other_nodes_are_told_everything_that_they_need(cluster: Bench) -> None:
    client = cluster.client()
    client("ADDJOB", "q", "body", 0, "REPLICATE", 2, "TTL", 100, "DELAY", 5, "RETRY", 7)
    ((peer, message),) = cluster.sent(REPLJOB)
    job = next(iter(cluster.node.copies.wanted.values())).job
    holders = (MYSELF, peer)
    assert message == repljob(job.id, ttl=100, retry=7, repl=2, delay_ms=5000, holders=holders, ctimes=(job.ctime,))
    assert job.holders == holders


def test_the_default_is_three_copies_or_one_on_each_node() -> None:
    for peers, copies in ((0, 1), (1, 2), (2, 3), (6, 3)):
        bench = Bench(peers=peers)
        bench.client().send("ADDJOB", "q", "b", 0)
        assert len(bench.sent(REPLJOB)) == copies - 1


def test_only_nodes_that_were_asked_count_and_each_once(cluster: Bench) -> None:
    client = cluster.client()
    job_id, (first, second) = begin(client)
    strangers = [peer for peer in cluster.peers if peer not in (first, second)]
    cluster.confirm(job_id, first, first, *strangers)
    assert_still_waiting(client)
    assert client.bench.node.copies.wanted[job_id].confirmed == (first.id,)
    cluster.confirm(job_id, second)
    assert client.read() == job_id


@pytest.mark.parametrize("ids", [(), (UNKNOWN_ID,), (b"x" * 40,), (UNKNOWN_ID, UNKNOWN_ID)])
def test_a_gotjob_that_makes_no_sense_changes_nothing(cluster: Bench, ids: tuple[bytes, ...]) -> None:
    client = cluster.client()
    begin(client)
    for peer in cluster.peers:
        cluster.hear(peer, (GOTJOB, ids))
    assert_still_waiting(client)


def test_one_gotjob_may_confirm_many_jobs_and_one_of_them_twice(cluster: Bench) -> None:
    client = cluster.client()
    waiting = [begin(client) for _ in range(3)]
    ids = tuple([job_id for job_id, _ in waiting])
    cluster.hear(cluster.peers[0], (GOTJOB, (*ids, *ids)))
    assert_still_waiting(client)
    for peer in cluster.peers[1:]:
        cluster.hear(peer, (GOTJOB, ids))
    assert client.read_all() == list(ids)


def test_a_gotjob_that_comes_too_late_changes_nothing(cluster: Bench) -> None:
    client = cluster.client()
    job_id, nodes = begin(client)
    cluster.confirm(job_id, *nodes, *nodes)
    assert client.read() == job_id
    assert client.get("q") == [job_id]
    cluster.confirm(job_id, *nodes)
    assert cluster.state(job_id) == "active"


@pytest.mark.parametrize("message", [(999, b"x"), (98,), (-1, 5), (2**40, b"x", ((),))])
def test_unknown_messages_are_skipped_and_counted(cluster: Bench, message: tuple[Any, ...]) -> None:
    cluster.hear(cluster.peers[0], message)
    assert cluster.node.messages_skipped == 1


def test_messages_of_nodes_that_are_not_known_are_skipped_and_counted(cluster: Bench) -> None:
    client = cluster.client()
    job_id, _ = begin(client)
    step.message(cluster.node, b"c" * 40, (GOTJOB, (job_id,)), cluster.now_ms)
    assert_still_waiting(client)
    assert cluster.node.messages_skipped == 1


def test_a_delayed_job_is_confirmed_first_and_delayed_from_then(cluster: Bench) -> None:
    client = cluster.client()
    job_id, nodes = begin(client, "DELAY", "2")
    cluster.advance(500)
    cluster.confirm(job_id, *nodes)
    assert client.read() == job_id
    assert cluster.state(job_id) == "active"
    cluster.advance(1999)
    assert cluster.state(job_id) == "active"
    for peer_id, (_, number, _, ids) in cluster.sent(WILLQUEUE):
        cluster.hear(cluster.membership.nodes[peer_id], (ANSWER, number, ANSWER_NO, (), ids))
    cluster.advance(1)
    assert cluster.state(job_id) == "queued"


@pytest.mark.parametrize("confirmed_ms", [500, 3000])
def test_a_job_with_a_date_is_queued_then_however_long_its_copies_take(cluster: Bench, confirmed_ms: int) -> None:
    client = cluster.client()
    job_id, nodes = begin(client, "AT", str(cluster.host.wall_us() // 1000 + 2500))
    assert cluster.node.copies.wanted[job_id].job.delay == 3
    cluster.advance(confirmed_ms)
    cluster.confirm(job_id, *nodes)
    assert client.read() == job_id
    cluster.advance(max(0, 2499 - confirmed_ms))
    for peer_id, (_, number, _, ids) in cluster.sent(WILLQUEUE):
        cluster.hear(cluster.membership.nodes[peer_id], (ANSWER, number, ANSWER_NO, (), ids))
    assert cluster.state(job_id) == ("active" if confirmed_ms < 2500 else "queued")
    cluster.advance(1)
    assert cluster.state(job_id) == "queued"


@pytest.mark.parametrize("leaving", [False, True])
def test_others_are_told_the_delay_to_the_millisecond(cluster: Bench, leaving: bool) -> None:
    cluster.membership.leaving = leaving
    client = cluster.client()
    client("ADDJOB", "q", "body", 0, "REPLICATE", 2, "DELAY", "0.25", "RETRY", 7)
    sent = cluster.sent(REPLJOB)
    assert [message[REPLJOB_DELAY_MS] for _, message in sent] == [250] * (1 + leaving)
    cluster.advance(100)
    (job_id,) = cluster.node.copies.wanted
    cluster.confirm(job_id, *[cluster.membership.nodes[peer_id] for peer_id, _ in sent])
    assert client.read() == job_id
    if leaving:
        assert [message for _, message in cluster.sent(ENQUEUE)] == [(ENQUEUE, job_id, 150)]
    else:
        assert cluster.job(job_id).requeue_ms == cluster.now_ms + 150


def test_a_job_that_waits_for_copies_is_not_delivered(cluster: Bench) -> None:
    producer, consumer = cluster.client(), cluster.client()
    consumer("GETJOB", "FROM", "q")
    job_id, nodes = begin(producer)
    assert_still_waiting(consumer)
    cluster.confirm(job_id, *nodes)
    assert_delivered(consumer, job_id)


@pytest.mark.parametrize("command", ["NACK", "ENQUEUE", "DEQUEUE"])
def test_a_job_that_waits_for_copies_is_not_moved(cluster: Bench, command: str) -> None:
    client, other = cluster.client(), cluster.client()
    job_id, _ = begin(client)
    assert other(command, job_id) == 0
    assert cluster.state(job_id) == "wait-repl"
    assert_still_waiting(client)


def test_show_tells_who_has_a_copy_and_who_confirmed(cluster: Bench) -> None:
    client, other = cluster.client(), cluster.client()
    job_id, nodes = begin(client)
    cluster.confirm(job_id, nodes[1])
    shown = other.show(job_id)
    assert shown["state"] == b"wait-repl"
    assert shown["nodes-delivered"] == [MYSELF, nodes[0].id, nodes[1].id]
    assert shown["nodes-confirmed"] == [nodes[1].id]
    assert shown["next-requeue-within"] is None


# -- giving up --------------------------------------------------------------------------------------------------------


def test_after_the_timeout_nothing_is_left_anywhere(cluster: Bench) -> None:
    client = cluster.client()
    job_id, nodes = begin(client, timeout=700)
    cluster.confirm(job_id, nodes[0])
    cluster.advance(699)
    assert_still_waiting(client)
    cluster.advance(1)
    assert client.read_raw() == TIMED_OUT
    assert cluster.state(job_id) == "gone"
    assert cluster.sent(ABORT) == [(node.id, (ABORT, (job_id,))) for node in nodes]
    cluster.confirm(job_id, *nodes)
    assert cluster.state(job_id) == "gone"


def test_timeout_0_waits_until_the_job_expires(cluster: Bench) -> None:
    client = cluster.client()
    job_id, nodes = begin(client, "TTL", "60")
    cluster.advance(59_999)
    assert_still_waiting(client)
    cluster.advance(1)
    assert client.read_raw() == REMOVED
    assert cluster.state(job_id) == "gone"
    assert len(cluster.sent(ABORT)) == len(nodes)


@pytest.mark.parametrize("ticked", [False, True])
def test_a_timeout_and_a_ttl_that_end_together_give_one_reply(cluster: Bench, ticked: bool) -> None:
    if ticked:  # timers of the next second are kept elsewhere then
        step.tick(cluster.node, cluster.now_ms)
    client = cluster.client()
    job_id, _ = begin(client, "TTL", "1", timeout=1000)
    cluster.advance(1000)
    assert client.read_raw() in {TIMED_OUT, REMOVED}
    assert cluster.state(job_id) == "gone"


def test_a_client_that_goes_away_takes_its_undecided_jobs_along(cluster: Bench) -> None:
    client = cluster.client()
    job_id, nodes = begin(client)
    cluster.confirm(job_id, nodes[0])
    client.disconnect()
    assert cluster.state(job_id) == "gone"
    assert {peer for peer, _ in cluster.sent(ABORT)} == {node.id for node in nodes}


def test_a_client_that_goes_away_leaves_its_decided_jobs_behind(cluster: Bench) -> None:
    client, other = cluster.client(), cluster.client()
    undecided, nodes = begin(client)
    decided, nodes = begin(client)
    cluster.confirm(decided, *nodes)
    assert_still_waiting(client)
    client.disconnect()
    assert cluster.state(undecided) == "gone"
    assert other.get("q") == [decided]


@pytest.mark.parametrize("command", ["DELJOB", "FASTACK"])
def test_a_job_that_is_ended_while_it_waits_answers_its_producer(cluster: Bench, command: str) -> None:
    client, other = cluster.client(), cluster.client()
    job_id, nodes = begin(client)
    assert other(command, job_id) == 1
    assert client.read_raw() == REMOVED
    assert cluster.state(job_id) == "gone"
    assert len(cluster.sent(ABORT)) == len(nodes)


def test_a_job_that_is_acknowledged_while_it_waits_has_succeeded(cluster: Bench) -> None:
    client, other = cluster.client(), cluster.client()
    job_id, nodes = begin(client)
    assert other("ACKJOB", job_id) == 1
    assert client.read() == job_id
    assert cluster.state(job_id) == "acked"
    assert {peer for peer, _ in cluster.sent(SETACK)} == {node.id for node in nodes}
    cluster.confirm(job_id, *nodes)
    assert cluster.state(job_id) == "acked"


def test_a_flush_answers_all_who_wait(cluster: Bench) -> None:
    client, consumer, admin = cluster.client(), cluster.client(), cluster.client()
    begin(client, timeout=5000)
    begin(client)
    consumer("GETJOB", "TIMEOUT", 5000, "FROM", "other")
    admin("DEBUG", "FLUSHALL")
    assert client.read_raw() == REMOVED * 2
    assert consumer.read_raw() == b"*-1\r\n"
    cluster.advance(10_000)
    assert client.read() is NOTHING


def test_too_few_reachable_nodes_are_an_error_at_once(cluster: Bench) -> None:
    client = cluster.client()
    cluster.set("restart-grace", 0)
    assert client.raw("ADDJOB", "q", "b", 0, "REPLICATE", 6) == TOO_FEW
    for peer, flag in zip(cluster.peers, (PFAIL, LEAVING, PFAIL, LEAVING), strict=True):
        cluster.membership.set_flags(peer, flag)
    assert client.raw("ADDJOB", "q", "b", 0, "REPLICATE", 2) == TOO_FEW
    assert client.raw("ADDJOB", "q", "b", 0) == TOO_FEW, "the default counts failing nodes as well"
    assert cluster.node.jobs_registered() == 0


class TestGrace:
    """A node that was there a moment ago is waited for: see also tests/scenarios/grace_*.txt."""

    def beats(self, cluster: Bench, seconds: int) -> None:
        """Time passes, and the node looks after the others; they say nothing."""
        for _ in range(seconds):
            cluster.advance(1000)
            step.beat(cluster.node, cluster.now_ms)
            cluster.tick()

    def test_above_three_quarters_of_the_memory_nobody_waits_for_nodes_that_are_away(self, cluster: Bench) -> None:
        client = cluster.client()
        for peer in cluster.peers[1:]:
            cluster.fail(peer)
        client.add("q", "x" * 8000, "REPLICATE", 1)
        client.send("ADDJOB", "q", "b", 0, "REPLICATE", 3)
        assert_still_waiting(client)
        cluster.set("maxmemory", cluster.node.used * 100 // 80)
        other = cluster.client()
        assert other.error("ADDJOB", "q", "b", 0, "REPLICATE", 3).startswith("NOREPL Not enough")
        assert_still_waiting(client)
        cluster.set("maxmemory", 0)
        other.send("ADDJOB", "q", "b", 0, "REPLICATE", 3)
        assert_still_waiting(other)

    def test_it_counts_for_a_node_that_leaves_itself(self, cluster: Bench) -> None:
        client = cluster.client()
        cluster.membership.leaving = True
        for peer in cluster.peers[2:]:
            cluster.fail(peer)
        client.send("ADDJOB", "q", "b", 0, "REPLICATE", 3)
        assert_still_waiting(client)
        self.beats(cluster, 80)
        assert client.read_raw().startswith(b"-NOREPL Not enough")

    def test_the_bodies_that_wait_count_as_memory(self, cluster: Bench) -> None:
        used = cluster.node.used
        for peer in cluster.peers:
            cluster.fail(peer)
        clients = [cluster.client() for _ in range(3)]
        for client in clients:
            client.send("ADDJOB", "q", "x" * 5000, 0, "REPLICATE", 2, "UNIQUE", "key", 60)
        assert cluster.node.used > used + 15_000
        for client in clients:
            client.disconnect()
        assert cluster.node.used < used + 5000

    def test_many_that_wait_are_all_told(self, cluster: Bench) -> None:
        for peer in cluster.peers:
            cluster.fail(peer)
        client = cluster.client()
        cluster.checked = False
        count = 3 * coordinator.SLICE
        for _ in range(count):
            client.send("ADDJOB", "q", "b", 0, "REPLICATE", 2)
        assert len(cluster.node.copies.short) == count
        self.beats(cluster, 62)
        assert client.read_raw() == TOO_FEW * count
        assert not cluster.node.copies.short
        assert not cluster.node.copies.walk

    def test_bodies_go_to_a_node_that_is_back_so_much_a_beat(
        self, cluster: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(coordinator, "TOLD_MOST", 30)
        for peer in cluster.peers:
            cluster.fail(peer)
        client = cluster.client()
        for _ in range(10):
            client.send("ADDJOB", "q", "x" * 10_240, 0, "REPLICATE", 2)
        cluster.fail(cluster.peers[0], 0)
        sent = len(cluster.sent(REPLJOB))
        assert sent < 10
        self.beats(cluster, 10)
        assert sent + len(cluster.sent(REPLJOB)) == 10


class TestDefaultReplicate:
    def test_it_counts_where_addjob_says_nothing(self, cluster: Bench) -> None:
        client = cluster.client()
        cluster.set("default-replicate", 2)
        client.send("ADDJOB", "q", "b", 0)
        assert [len(nodes) for nodes in asked(cluster).values()] == [1]
        cluster.set("default-replicate", 6)
        assert cluster.client().raw("ADDJOB", "q", "b", 0) == TOO_FEW
        cluster.set("default-replicate", 0)
        assert cluster.node.default_replicate == 3


def test_the_checks_of_the_queue_come_behind_that_of_the_nodes(cluster: Bench) -> None:
    client = cluster.client()
    client.add("q", "b", "REPLICATE", 1)
    client("PAUSE", "q", "in")
    assert client.raw("ADDJOB", "q", "b", 0, "REPLICATE", 6, "MAXLEN", 1) == TOO_FEW
    assert client.error("ADDJOB", "q", "b", 0, "REPLICATE", 2, "MAXLEN", 1).startswith("MAXLEN")
    assert client.error("ADDJOB", "q", "b", 0, "REPLICATE", 2).startswith("PAUSED")


def test_maxlen_counts_the_jobs_that_wait_for_their_copies(cluster: Bench) -> None:
    client = cluster.client()
    client.add("q", "b", "REPLICATE", 1)
    for _ in range(3):
        client.send("ADDJOB", "q", "b", 0, "REPLICATE", 2, "MAXLEN", 3)
    sent = {job_id: nodes for job_id, nodes in asked(cluster).items() if nodes}
    assert len(sent) == 2, "one is in the queue, two come, the fourth is refused"
    assert cluster.client().error("ADDJOB", "q", "b", 0, "MAXLEN", 3, "REPLICATE", 1).startswith("MAXLEN")
    assert_still_waiting(client)
    for job_id, nodes in sent.items():
        cluster.confirm(job_id, *nodes)
    first, second, refused = client.read_all()
    assert [first, second] == list(sent)
    assert str(refused).startswith("MAXLEN")


def test_a_job_that_does_not_get_its_copies_makes_room_under_maxlen(cluster: Bench) -> None:
    client, other = cluster.client(), cluster.client()
    for words in (("REPLICATE", 2), ("REPLICATE", 2, "DELAY", 5)):
        client.send("ADDJOB", "q", "b", 100, *words)
    assert other.error("ADDJOB", "q", "b", 0, "REPLICATE", 2, "MAXLEN", 1).startswith("MAXLEN")
    other.send("ADDJOB", "elsewhere", "b", 0, "REPLICATE", 2, "MAXLEN", 1)
    other.send("ADDJOB", "q", "b", 0, "REPLICATE", 2, "MAXLEN", 2, "DELAY", 1)
    assert_still_waiting(other)
    cluster.advance(100)
    assert client.read_raw().startswith(b"-NOREPL")
    client.add("q", "b", "MAXLEN", 1, "REPLICATE", 1)


# -- pipelines --------------------------------------------------------------------------------------------------------


def test_pipelined_addjobs_replicate_together_and_are_answered_in_order(cluster: Bench) -> None:
    client = cluster.client()
    waiting = [begin(client) for _ in range(3)]
    for job_id, nodes in (waiting[2], waiting[1]):
        cluster.confirm(job_id, *nodes)
        assert cluster.state(job_id) == "queued", "a job begins its life before its reply's turn comes"
    assert_still_waiting(client)
    cluster.confirm(waiting[0][0], *waiting[0][1])
    assert client.read_all() == [job_id for job_id, _ in waiting]
    assert not client.waiting


def test_jobs_of_one_turn_that_differ_in_little_are_one_message() -> None:
    bench = Bench(peers=4)
    client = bench.client()
    for body in ("one", "two", "three"):
        step.command(bench.node, client.session, [b"ADDJOB", b"q", body.encode(), b"0"], bench.now_ms)
    (first, message), (second, same) = bench.sent(REPLJOB)
    assert first != second
    assert message is same
    jobs = [spread.job for spread in bench.node.copies.wanted.values()]
    assert message[REPLJOB_IDS] == tuple([job.id for job in jobs])
    assert message[REPLJOB_BODIES] == (b"one", b"two", b"three")
    assert message[REPLJOB_CTIMES] == tuple([job.ctime for job in jobs])
    assert {id(job.holders) for job in jobs} == {id(jobs[0].holders)}
    assert jobs[0].holders == tuple(sorted([MYSELF, first, second]))
    for peer in (first, second):
        bench.confirm(jobs[0].id, bench.membership.nodes[peer])
        bench.confirm(jobs[2].id, bench.membership.nodes[peer])
        bench.confirm(jobs[1].id, bench.membership.nodes[peer])
    assert client.read_all() == [job.id for job in jobs]


def test_errors_and_single_copies_wait_for_their_turn(cluster: Bench) -> None:
    client = cluster.client()
    job_id, nodes = begin(client)
    client.send("ADDJOB", "q", "b", "x")
    client.send("ADDJOB", "q", "b", 0, "REPLICATE", 1)
    client.send("ADDJOB", "q", "b", 0, "ASYNC")
    assert_still_waiting(client)
    cluster.confirm(job_id, *nodes)
    first, wrong, second, third = client.read_all()
    assert first == job_id
    assert str(wrong) == "ERR timeout is not an integer or out of range"
    assert cluster.state(second) == cluster.state(third) == "queued"


def test_a_timeout_in_the_middle_of_a_pipeline_waits_for_its_turn(cluster: Bench) -> None:
    client = cluster.client()
    first, first_nodes = begin(client)
    second, _ = begin(client, timeout=100)
    cluster.advance(100)
    assert cluster.state(second) == "gone"
    assert_still_waiting(client)
    cluster.confirm(first, *first_nodes)
    assert client.read_raw() == b"+%b\r\n%b" % (first, TIMED_OUT)


def test_one_connection_is_full_with_1024_unanswered_addjobs_or_a_megabyte(cluster: Bench) -> None:
    cluster.checked = False
    client = cluster.client()
    for number in range(ADDS_MAX):
        assert not client.session.full(), number
        client.send("ADDJOB", "q", "b", 0, "REPLICATE", 2)
    assert client.session.full()
    large = cluster.client()
    large.send("ADDJOB", "q", "x" * ADDS_BYTES_MAX, 0, "REPLICATE", 2)
    assert large.session.full()
    client.disconnect()
    large.disconnect()
    cluster.checked = True
    cluster.settle()
    assert cluster.node.jobs_registered() == 0


def test_the_bounds_are_free_again_when_all_are_answered(cluster: Bench) -> None:
    client = cluster.client()
    job_id, nodes = begin(client)
    assert client.session.adds_bytes > 0
    cluster.confirm(job_id, *nodes)
    assert client.session.adds_bytes == 0


# -- the journal ------------------------------------------------------------------------------------------------------


def test_a_replicated_job_is_filed_when_it_is_achieved_and_its_reply_waits_for_that() -> None:
    bench = Bench(peers=2, journaling=True)
    client = bench.client()
    job_id, nodes = begin(client)
    assert bench.records() == []
    assert not client.session.unsettled
    bench.confirm(job_id, *nodes)
    (record,) = bench.records()
    assert (record[0], record[JOBS_IDS]) == (JOBS, (job_id,))
    assert client.session.unsettled


# -- CLIENT REPLY -----------------------------------------------------------------------------------------------------


def test_an_addjob_that_waits_is_not_answered_when_replies_are_off(cluster: Bench) -> None:
    client = cluster.client()
    client("CLIENT", "REPLY", "OFF")
    job_id, nodes = begin(client)
    cluster.confirm(job_id, *nodes)
    assert client.read() is NOTHING
    assert not client.waiting
    assert cluster.state(job_id) == "queued"
    assert client.raw("CLIENT", "REPLY", "ON") == b"+OK\r\n"


def test_skip_swallows_the_reply_of_one_addjob_that_waits(cluster: Bench) -> None:
    client = cluster.client()
    client("CLIENT", "REPLY", "SKIP")
    first, first_nodes = begin(client)
    second, second_nodes = begin(client)
    cluster.confirm(first, *first_nodes)
    cluster.confirm(second, *second_nodes)
    assert client.read() == second
    assert client("PING") == b"PONG"


def test_who_refuses_a_copy_of_a_job_that_it_has_got_for_its_consumers_hears_that_it_is_done() -> None:
    bench = Bench(peers=1)
    (one,) = bench.peers
    bench.hear(one, (NEEDJOBS, b"q", 1))
    job_id = bench.client()("ADDJOB", "q", "body", 0, "REPLICATE", 2, "RETRY", 60, "ASYNC")
    bench.live(100)
    assert [message[0] for _, message in bench.sent(REPLJOB, YOURJOBS)] == [REPLJOB, YOURJOBS]
    bench.hear(one, (REFUSED, REFUSED_PAUSED, (job_id,)))
    assert bench.client()("ACKJOB", job_id) == 1
    assert bench.sent(SETACK) == [(one.id, (SETACK, tuple(sorted([MYSELF, one.id])), (job_id,)))]


def test_who_refuses_a_copy_of_a_job_that_stays_here_is_no_holder() -> None:
    bench = Bench(peers=1)
    (one,) = bench.peers
    job_id = bench.client()("ADDJOB", "q", "body", 0, "REPLICATE", 2, "RETRY", 60, "ASYNC")
    bench.hear(one, (REFUSED, REFUSED_PAUSED, (job_id,)))
    assert bench.job(job_id).holders == (MYSELF,)
