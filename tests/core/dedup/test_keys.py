from typing import Any

import pytest

from cluster.messages import REPLJOB, REPLJOB_IDS
from disque.core.dedup import keys as unique
from disque.core.dedup.keys import digest_of
from disque.core.jobs import add
from disque.core.journal import codec
from disque.core.journal import replay as journal
from disque.core.journal.schema import JOBS_IDS, KEYS
from disque.core.model import memory
from disque.core.model.key import PENDING
from disque.core.model.session import PendingAdd
from disque.core.node import Node
from tests.core.support import NOTHING, Bench, Client, assert_still_waiting, words
from tests.support.keys import keys, keys_record

BAD_WINDOW = b"-ERR UNIQUE needs a key of 1 to 512 bytes and a window of 0 to 604800 seconds\r\n"


def held(client: Client, key: str = "k", window: int = 0, **more: Any) -> bytes:
    return client.add("q", "body", "UNIQUE", key, window, **more)


def ask(client: Client, *options: str, timeout: int = 0) -> None:
    """An ADDJOB with the key k that needs another node's copy."""
    client.send("ADDJOB", "q", "body", timeout, "REPLICATE", 2, "UNIQUE", "k", 0, *options)
    client.bench.settle()


def asked(cluster: Bench) -> list[tuple[bytes, Any]]:
    """The jobs for which copies were asked: the ID and the node."""
    return [(message[REPLJOB_IDS][0], cluster.membership.nodes[peer]) for peer, message in cluster.sent(REPLJOB)]


def test_the_second_job_with_a_key_is_the_first(client: Client) -> None:
    first = held(client)
    assert client.raw("ADDJOB", "q", "other", 0, "UNIQUE", "k", 0) == b"+%b\r\n" % first
    assert client("QLEN", "q") == 1
    assert client("GETJOB", "FROM", "q") == [[b"q", first, b"body"]]


def test_keys_belong_to_a_queue(client: Client) -> None:
    first = client.add("a", "b", "UNIQUE", "k", 0)
    assert client.add("b", "b", "UNIQUE", "k", 0) != first
    assert client.add("a", "b", "UNIQUE", "other", 0) != first
    assert client.add("a", "b") != first


def test_a_key_without_a_window_lasts_as_long_as_its_job(bench: Bench, client: Client) -> None:
    first = held(client)
    client.get("q")
    assert held(client) == first, "delivered, but alive"
    client("ACKJOB", first)
    second = held(client)
    assert second != first
    assert bench.state(second) == "queued"


@pytest.mark.parametrize("end", ["ACKJOB", "FASTACK", "DELJOB"])
@pytest.mark.parametrize("window", [0, 10])
def test_a_key_with_a_window_outlives_its_job_and_one_without_does_not(client: Client, end: str, window: int) -> None:
    first = held(client, window=window)
    client(end, first)
    assert (held(client, window=window) == first) == bool(window)


def test_a_key_of_a_job_that_expires_is_free(bench: Bench, client: Client) -> None:
    first = client.add("q", "b", "UNIQUE", "k", 0, "TTL", 5)
    bench.advance(4999)
    assert held(client) == first
    bench.advance(1)
    assert held(client) != first


def test_a_window_ends_to_the_millisecond(bench: Bench, client: Client) -> None:
    first = held(client, window=10)
    bench.advance(9999)
    assert held(client, window=10) == first
    bench.advance(1)
    assert keys(bench.node, bench.now_ms) == {}
    assert held(client, window=10) != first


def test_a_window_counts_from_the_first_job_and_is_not_moved_by_hits(bench: Bench, client: Client) -> None:
    first = held(client, window=10)
    bench.advance(6000)
    assert held(client, window=100) == first
    bench.advance(4000)
    assert held(client, window=10) != first


def test_a_window_may_end_before_its_job(bench: Bench, client: Client) -> None:
    first = held(client, window=1)
    bench.advance(1000)
    second = held(client, window=1)
    assert second != first
    assert client.get("q", count=2) == [first, second]


def test_a_flush_frees_all_keys(bench: Bench, client: Client) -> None:
    first, windowed = held(client), held(client, "w", 100)
    client("DEBUG", "FLUSHALL")
    assert bench.node.used == 0
    assert held(client) != first
    assert held(client, "w", 100) != windowed


@pytest.mark.parametrize("key", ["", "x" * 513])
def test_a_key_has_1_to_512_bytes(client: Client, key: str) -> None:
    assert client.raw("ADDJOB", "q", "b", 0, "UNIQUE", key, 0) == BAD_WINDOW
    assert held(client, "x" * 512)
    assert held(client, "x")


@pytest.mark.parametrize("window", ["-1", "604801", "x", "604800.1", "0.0", "-0.5", "99999999999999999999"])
def test_a_window_has_0_to_604800_seconds(client: Client, window: str) -> None:
    assert client.raw("ADDJOB", "q", "b", 0, "UNIQUE", "k", window) == BAD_WINDOW
    assert held(client, window=604800)


@pytest.mark.parametrize("options", [("UNIQUE",), ("UNIQUE", "k"), ("TTL", "5", "UNIQUE", "k")])
def test_unique_needs_two_words(client: Client, options: tuple[str, ...]) -> None:
    assert client.raw("ADDJOB", "q", "b", 0, *options) == b"-ERR syntax error\r\n"


@pytest.mark.parametrize("options", [("UNIQUE", "k", "0", "ASYNC"), ("ASYNC", "UNIQUE", "k", "0")])
def test_unique_and_async_exclude_each_other(client: Client, options: tuple[str, ...]) -> None:
    reply = client.raw("ADDJOB", "q", "b", 0, *options)
    assert reply == b"-ERR UNIQUE cannot be used with ASYNC: the reply must wait until the key is known to be new\r\n"


def test_a_key_counts_as_memory(bench: Bench, client: Client) -> None:
    client.add("q", "b", "REPLICATE", 1)
    before = bench.node.used
    client.add("q", "b", "UNIQUE", "12345", 0)
    assert bench.node.used - before == memory.JOB_BYTES + 1 + memory.KEY_BYTES


# -- a hit comes before everything else -------------------------------------------------------------------------------


def test_a_hit_is_answered_before_maxlen(client: Client) -> None:
    first = held(client)
    assert held(client) == client("ADDJOB", "q", "b", 0, "MAXLEN", 1, "UNIQUE", "k", 0) == first
    assert client.error("ADDJOB", "q", "b", 0, "MAXLEN", 1, "UNIQUE", "new", 0).startswith("MAXLEN")


def test_a_hit_is_answered_by_a_queue_that_is_paused(client: Client) -> None:
    first = held(client)
    client("PAUSE", "q", "all")
    assert held(client) == first
    assert client.error("ADDJOB", "q", "b", 0, "UNIQUE", "new", 0).startswith("PAUSED")


def test_a_hit_is_answered_by_a_node_that_is_full(bench: Bench, client: Client) -> None:
    first = held(client)
    bench.set("maxmemory", bench.node.used)
    assert held(client) == first
    assert client.error("ADDJOB", "q", "b", 0, "UNIQUE", "new", 0).startswith("OOM")
    assert client.error("ADDJOB", "q", "b", 0, "unique", "new", 0).startswith("OOM")
    assert client.error("ADDJOB", "q", "b", 0).startswith("OOM")


def test_a_hit_is_answered_by_a_node_that_leaves(bench: Bench, client: Client) -> None:
    first = held(client)
    bench.membership.leaving = True
    assert held(client) == first


# -- holders that are undecided ---------------------------------------------------------------------------------------


def test_the_second_waits_until_the_first_is_decided(cluster: Bench) -> None:
    one, two = cluster.client(), cluster.client()
    ask(one)
    ((job_id, node),) = asked(cluster)
    ask(two)
    assert asked(cluster) == []
    assert_still_waiting(one, two)
    cluster.confirm(job_id, node)
    assert one.read() == two.read() == job_id
    assert cluster.node.jobs_registered() == 1


def test_two_in_one_pipeline_share_one_job(cluster: Bench) -> None:
    client = cluster.client()
    for _ in range(3):
        ask(client)
    ((job_id, node),) = asked(cluster)
    cluster.confirm(job_id, node)
    assert client.read_all() == [job_id] * 3


def test_when_the_first_fails_the_second_takes_its_place(cluster: Bench) -> None:
    one, two, three = cluster.client(), cluster.client(), cluster.client()
    ask(one, timeout=100)
    ((failed, _),) = asked(cluster)
    ask(two)
    ask(three)
    cluster.advance(100)
    assert one.error("PING") if one.waiting else str(one.read()).startswith("NOREPL")
    ((job_id, node),) = asked(cluster)
    assert job_id != failed
    assert_still_waiting(two, three)
    cluster.confirm(job_id, node)
    assert two.read() == three.read() == job_id


def test_only_the_next_one_in_line_asks_anew(cluster: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a long line is gone through for each of those that give up."""
    tried: list[PendingAdd] = []
    genuine = add.again

    def again(node: Node, pending: PendingAdd, now_ms: int) -> None:
        tried.append(pending)
        genuine(node, pending, now_ms)

    monkeypatch.setattr(add, "again", again)
    clients = [cluster.client() for _ in range(20)]
    for at, client in enumerate(clients):
        ask(client, timeout=100 + 10 * at)
    cluster.advance(125)
    assert len(tried) < 20
    used = cluster.node.used
    last = clients[-1]
    ask(last)
    cluster.advance(1000)
    assert [str(client.read())[:6] for client in clients] == ["NOREPL"] * 20
    assert_still_waiting(last)
    last.disconnect()
    assert cluster.node.used < used


def test_the_next_one_in_line_asks_for_what_it_wants_itself(cluster: Bench) -> None:
    one, two = cluster.client(), cluster.client()
    ask(one, timeout=100)
    asked(cluster)
    ask(two, "TTL", "99")
    cluster.advance(100)
    ((job_id, node),) = asked(cluster)
    cluster.confirm(job_id, node)
    assert cluster.job(job_id).spec.ttl == 99
    assert two.read() == job_id


def test_when_the_first_goes_away_the_second_takes_its_place(cluster: Bench) -> None:
    one, two = cluster.client(), cluster.client()
    ask(one)
    asked(cluster)
    ask(two)
    one.disconnect()
    ((job_id, node),) = asked(cluster)
    cluster.confirm(job_id, node)
    assert two.read() == job_id


def test_when_all_of_one_connection_go_away_no_job_is_left(cluster: Bench) -> None:
    client = cluster.client()
    ask(client)
    ask(client)
    client.disconnect()
    assert cluster.node.jobs_registered() == 0
    assert keys(cluster.node) == {}


def test_one_that_waits_for_a_key_times_out_by_itself(cluster: Bench) -> None:
    one, two = cluster.client(), cluster.client()
    ask(one)
    ((job_id, node),) = asked(cluster)
    ask(two, timeout=50)
    cluster.advance(50)
    assert str(two.read()).startswith("NOREPL Timeout")
    cluster.confirm(job_id, node)
    assert one.read() == job_id
    assert two.read() is NOTHING


def test_an_heir_whose_time_is_over_in_the_same_moment_makes_no_job(cluster: Bench) -> None:
    one, two = cluster.client(), cluster.client()
    ask(one, timeout=100)
    ask(two, timeout=100)
    cluster.advance(100)
    assert str(one.read()).startswith("NOREPL")
    assert str(two.read()).startswith("NOREPL")
    assert cluster.node.jobs_registered() == 0
    assert keys(cluster.node) == {}


def test_a_flush_ends_the_holder_and_those_who_wait_for_it(cluster: Bench) -> None:
    one, two, admin = cluster.client(), cluster.client(), cluster.client()
    ask(one)
    ask(two)
    admin("DEBUG", "FLUSHALL")
    assert str(one.read()).startswith("NOREPL job removed")
    assert str(two.read()).startswith("NOREPL job removed")
    assert cluster.node.jobs_registered() == 0


def test_an_heir_that_cannot_be_placed_is_told_why(cluster: Bench) -> None:
    one, two, admin = cluster.client(), cluster.client(), cluster.client()
    ask(one)
    ask(two)
    admin("PAUSE", "q", "in")
    one.disconnect()
    assert str(two.read()).startswith("PAUSED")


def test_an_heir_for_whom_the_cluster_has_grown_too_large_is_told_why() -> None:
    bench = Bench(peers=1)
    one, two = bench.client(), bench.client()
    ask(one)
    bench.membership.set_flags(bench.peers[0], 128)
    bench.node.default_replicate = 1
    two.send("ADDJOB", "q", "b", 0, "RETRY", 0, "UNIQUE", "k", 0)
    bench.node.count_nodes()
    one.disconnect()
    assert str(two.read()).startswith("ERR With RETRY set to 0")


def test_a_window_begins_when_its_job_is_decided(cluster: Bench) -> None:
    one, two = cluster.client(), cluster.client()
    one.send("ADDJOB", "q", "b", 5000, "REPLICATE", 2, "UNIQUE", "k", 1)
    ((first, node),) = asked(cluster)
    cluster.advance(2000)
    two.send("ADDJOB", "q", "b", 0, "REPLICATE", 2, "UNIQUE", "k", 60)
    assert_still_waiting(one, two)
    cluster.confirm(first, node)
    assert one.read() == two.read() == first
    cluster.advance(999)
    assert len(keys(cluster.node, cluster.now_ms)) == 1
    cluster.advance(1)
    assert keys(cluster.node, cluster.now_ms) == {}


def test_a_window_that_ends_while_others_wait_for_it_still_answers_them(cluster: Bench) -> None:
    one, two = cluster.client(), cluster.client()
    for client in (one, two):
        client.send("ADDJOB", "q", "b", 0, "REPLICATE", 2, "UNIQUE", "k", 1)
    ((job_id, node),) = asked(cluster)
    cluster.advance(2000)
    assert_still_waiting(one, two)
    cluster.confirm(job_id, node)
    assert one.read() == two.read() == job_id


def test_a_hit_waits_for_its_turn_in_a_pipeline(cluster: Bench) -> None:
    client = cluster.client()
    known = client.add("q", "b", "REPLICATE", 1, "UNIQUE", "known", 0)
    ask(client)
    ((job_id, node),) = asked(cluster)
    client.send("ADDJOB", "q", "b", 0, "UNIQUE", "known", 0)
    assert_still_waiting(client)
    cluster.confirm(job_id, node)
    assert client.read_all() == [job_id, known]


# -- the journal ------------------------------------------------------------------------------------------------------


def test_a_key_is_filed_behind_its_job_and_a_hit_waits_for_the_record() -> None:
    bench = Bench(journaling=True)
    one, two = bench.client(), bench.client()
    one.send("ADDJOB", "q", "b", 0, "UNIQUE", "k", 10)
    (job, key) = bench.records()
    assert key == (KEYS, bench.now_ms + 10_000, 0, 1, (digest_of(b"q", b"k"),), job[JOBS_IDS])
    two.send(*words("ADDJOB", "q", "b", 0, "UNIQUE", "k", 10))
    assert bench.records() == []
    assert two.session.unsettled, "the record that the first wrote may not be on disk yet"


def test_a_replicated_key_is_filed_when_its_job_is_achieved() -> None:
    bench = Bench(peers=1, journaling=True)
    bench.advance(20_000)  # every node has the keys that it must keep
    client = bench.client()
    client.send("ADDJOB", "q", "b", 0, "UNIQUE", "k", 10)
    assert bench.records() == []
    ((job_id, node),) = asked(bench)
    bench.advance(1000)
    bench.confirm(job_id, node)
    job, pending, settled = bench.records()
    assert job[JOBS_IDS] == (job_id,)
    end_ms = bench.now_ms + 10_000
    assert pending == keys_record(digest_of(b"q", b"k"), job_id, end_ms, PENDING, 2)
    assert settled == keys_record(digest_of(b"q", b"k"), job_id, end_ms, 0, 2)


def test_a_key_that_others_say_lasts_longer_outlives_its_job_here_and_in_the_journal() -> None:
    bench = Bench(journaling=True)
    job_id = bench.client().add("q", "b", "TTL", 10, "UNIQUE", "k", 0)
    key = bench.node.unique.by_job[job_id]
    key.life_ms += 60_000  # the job came by a clock that was wrong, and KEEPKEY from a node whose clock is right
    unique.file(bench.node, key)
    written = codec.encode(bench.records(), bench.now_ms)
    bench.live(11_000)
    assert bench.node.find(job_id) is None
    assert bench.node.unique.by_job[job_id] is key
    written += codec.encode(bench.records(), bench.now_ms)
    for payloads in (written[:1], written):
        again = Bench().node
        replay = journal.Replay(again, "boot 1")
        for payload in payloads:
            replay.apply(payload, 1)
        list(replay.finish(bench.now_ms))
        assert again.find(job_id) is None
        assert [kept.job_id for kept in again.unique.table.values()] == [job_id]


# -- keys about which nothing is asked ---------------------------------------------------------------------------------


def test_a_key_with_a_window_is_no_object_once_it_is_settled_and_one_without_is(bench: Bench, client: Client) -> None:
    held(client, "windowed", 10)
    assert (len(bench.node.unique.table), bench.node.unique.store.count) == (0, 1)
    held(client, "other")
    assert (len(bench.node.unique.table), bench.node.unique.store.count) == (1, 1)


def test_a_key_that_others_keep_too_rests_as_soon_as_all_have_it(cluster: Bench) -> None:
    client = cluster.client()
    client.send("ADDJOB", "q", "body", 0, "REPLICATE", 2, "UNIQUE", "k", 60)
    ((job_id, node),) = asked(cluster)
    assert cluster.node.unique.store.count == 0
    cluster.confirm(job_id, node)
    assert client.read() == job_id
    assert (cluster.node.unique.table, cluster.node.unique.store.count) == ({}, 1)


def test_windows_that_end_together_end_some_at_a_time_and_none_of_them_counts(bench: Bench, client: Client) -> None:
    before = bench.node.used
    first = [held(client, f"k{number}", 1) for number in range(30)]
    for job_id in first:
        client("DELJOB", job_id)
    used = bench.node.used - before
    assert used >= 30 * memory.STORED_BYTES
    bench.advance(1000)
    assert held(client, "k7", 60) not in first, "whether it was looked at or not"
    bench.advance(1000)
    assert list(bench.node.unique.store) == [digest_of(b"q", b"k7")]


def test_a_hit_on_a_node_that_takes_no_jobs_is_answered(bench: Bench, client: Client) -> None:
    first = held(client, window=60)
    client("PAUSE", "q", "in")
    bench.set("maxmemory", 1)
    assert held(client, window=60) == first
    assert client.raw("ADDJOB", "q", "b", 0, "UNIQUE", "new", 60).startswith(b"-OOM")


def test_a_key_for_which_there_is_no_room_stays_free(bench: Bench, client: Client) -> None:
    client.add("q", "b")
    reply = client.raw("ADDJOB", "q", "b", 0, "MAXLEN", 1, "UNIQUE", "k", 60)
    assert reply.startswith(b"-MAXLEN")
    assert keys(bench.node) == {}
    assert held(client, window=60)


def test_a_node_that_is_alone_asks_nobody_and_leaves_nothing_waiting(bench: Bench, client: Client) -> None:
    client.send("ADDJOB", "q", "b", 0, "REPLICATE", 1, "UNIQUE", "k", 60)
    assert bench.node.unique.acquisitions == {}
    assert client.read() is not NOTHING
    assert not client.session.adds
