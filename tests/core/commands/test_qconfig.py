"""QCONFIG: options of queues, which count where ADDJOB says nothing."""

import pytest

from cluster.messages import ENTRIES
from disque.core.model.registry import QUEUE_OPTION
from disque.core.replication import queue_options
from tests.core.journal.test_replay import replayed
from tests.core.support import Bench, Client


@pytest.fixture
def bench() -> Bench:
    return Bench(journaling=True)


@pytest.fixture
def client(bench: Bench) -> Client:
    return bench.client()


def shown(client: Client, name: str) -> dict[str, tuple[str, str]]:
    """What GET says: by option its value, and where it was set."""
    words = client("QCONFIG", "GET", name)
    rows = zip(words[::2], words[1::2], strict=True)
    return {option.decode(): (value.decode(), source.decode()) for option, (value, source) in rows}


def added(client: Client, queue: str, *options: object) -> dict[str, object]:
    """What SHOW says of a job that was just added."""
    job_id = client.add(queue, "body", *[str(option) for option in options])
    words = client("SHOW", job_id)
    return {name.decode(): value for name, value in zip(words[::2], words[1::2], strict=True)}


class TestJobs:
    def test_what_is_set_counts_where_nothing_is_written(self, client: Client) -> None:
        client("QCONFIG", "SET", "mails", "ttl", 600, "RETRY", 7, "tries", 3, "priority", 9)
        job = added(client, "mails")
        assert (job["ttl"], job["retry"], job["tries-left"], job["priority"]) == (600, 7, 3, 9)
        job = added(client, "mails", "RETRY", 8, "TRIES", 0, "PRIORITY", 1)
        assert (job["ttl"], job["retry"], job["priority"]) == (600, 8, 1)
        assert job.get("tries-left") is None
        assert added(client, "other")["retry"] == 300

    def test_the_name_counts_before_its_beginnings_and_of_these_the_longest(self, client: Client) -> None:
        client("QCONFIG", "SET", "*", "priority", 1, "ttl", 1000)
        client("QCONFIG", "SET", "mails*", "priority", 2, "retry", 50)
        client("QCONFIG", "SET", "mails-fast", "retry", 5)
        job = added(client, "mails-fast")
        assert (job["priority"], job["retry"], job["ttl"]) == (2, 5, 1000)
        assert added(client, "x")["priority"] == 1

    def test_a_job_keeps_what_it_was_added_with(self, client: Client) -> None:
        client("QCONFIG", "SET", "q", "retry", 7)
        job_id = client.add("q")
        client("QCONFIG", "SET", "q", "retry", 8)
        words = client("SHOW", job_id)
        assert words[words.index(b"retry") + 1] == 7

    def test_what_contradicts_a_written_option_is_left_out(self, client: Client) -> None:
        client("QCONFIG", "SET", "q", "tries", 3, "backoff", "fixed:1", "replicate", 2, "ttl", 5)
        job = added(client, "q", "RETRY", 0)
        assert (job["retry"], job["repl"]) == (0, 1)
        assert added(client, "q", "DELAY", 100, "REPLICATE", 1)["ttl"] == 86400
        client("QCONFIG", "UNSET", "q")
        client("QCONFIG", "SET", "q", "retry", 0, "replicate", 2)
        assert added(client, "q")["repl"] == 1
        assert added(client, "q", "TRIES", 2, "REPLICATE", 1)["retry"] == 300

    def test_so_many_jobs_at_most(self, client: Client) -> None:
        client("QCONFIG", "SET", "q", "maxlen", 1)
        client.add("q")
        assert client.error("ADDJOB", "q", "body", 0).startswith("MAXLEN")
        client.add("q", "body", "MAXLEN", "5")
        client("QCONFIG", "SET", "q", "maxlen", 0)
        client.add("q")

    def test_an_end_is_kept_for_so_long(self, client: Client) -> None:
        client("QCONFIG", "SET", "q", "retain", 60)
        job_id = client.add("q")
        client("ACKJOB", job_id, "RESULT", "value")
        words = client("RESULT", job_id)
        assert words[words.index(b"result") + 1] == b"value"

    def test_dead_letters_live_as_long_as_their_queue_says(self, client: Client) -> None:
        client("QCONFIG", "SET", "q", "deadletter", "sick")
        client("QCONFIG", "SET", "sick", "dead-ttl", 77)
        job_id = client.add("q")
        client.get("q")
        client("NACK", job_id, "DEAD")
        words = client("SHOW", job_id)
        assert (words[words.index(b"queue") + 1], words[words.index(b"ttl") + 1]) == (b"sick", 77)

    def test_it_is_there_after_a_start(self, client: Client, bench: Bench) -> None:
        client("QCONFIG", "SET", "q", "retry", 7, "tries", 3)
        client("QCONFIG", "UNSET", "q", "tries")
        found = queue_options.of(replayed(bench.records())[0], b"q")
        assert found is not None
        assert found.words == {b"retry": b"7"}


class TestShown:
    def test_each_option_with_the_name_for_which_it_was_set(self, client: Client) -> None:
        client("QCONFIG", "SET", "ma*", "retry", "1.5", "backoff", "exponential:1:60")
        client("QCONFIG", "SET", "mails", "retry", 7)
        found = shown(client, "mails")
        assert found["retry"] == ("7", "mails")
        assert found["backoff"] == ("exponential:1:60", "ma*")
        assert found["ttl"] == ("86400", "default")
        assert found["replicate"] == ("1", "default")
        client("QCONFIG", "SET", "q", "ttl", 50)
        assert shown(client, "q")["retry"] == ("5", "default")
        assert found["deadletter"] == ("mails:dead", "default")

    def test_taken_back_it_counts_no_more(self, client: Client) -> None:
        client("QCONFIG", "SET", "q", "retry", 7, "tries", 3)
        assert client("QCONFIG", "UNSET", "q", "RETRY", "ttl") == 1
        assert shown(client, "q")["retry"][1] == "default"
        assert client("QCONFIG", "UNSET", "q") == 1
        assert client("QCONFIG", "UNSET", "q") == 0
        assert client("QCONFIG", "LIST") == [b"0", []]

    def test_a_walk_through_all_names(self, client: Client) -> None:
        names = [f"q{number}" for number in range(500)]
        for name in names:
            client("QCONFIG", "SET", name, "tries", 3)
        client("QCONFIG", "SET", "all*", "ttl", 5, "retry", 1)
        cursor, found = client("QCONFIG", "LIST")
        while cursor != b"0":
            cursor, more = client("QCONFIG", "LIST", cursor)
            found += more
        assert sorted(name.decode() for name, _ in found) == sorted([*names, "all*"])
        assert [b"all*", [b"ttl", b"5", b"retry", b"1"]] in found


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("SET", "q"), "ERR syntax error"),
        (("SET", "q", "ttl"), "ERR syntax error"),
        (("SET", "q", "ttl", "1", "retry"), "ERR syntax error"),
        (("GET",), "ERR syntax error"),
        (("NONSENSE",), "ERR syntax error"),
        (("SET", "q", "colour", "1"), "ERR unknown option of queues 'colour'"),
        (("UNSET", "q", "colour"), "ERR unknown option of queues 'colour'"),
        (("SET", "q", "ttl", "0"), "ERR ttl must be a number of seconds above 0"),
        (("SET", "q", "retry", "-1"), "ERR retry must be"),
        (("SET", "q", "replicate", "0"), "ERR replicate must be"),
        (("SET", "q", "tries", "65536"), "ERR tries must be"),
        (("SET", "q", "backoff", "cubic:1"), "ERR backoff must be"),
        (("SET", "q", "priority", "256"), "ERR priority must be"),
        (("SET", "q", "retain", "31536001"), "ERR retain must be"),
        (("SET", "q", "deadletter", "x" * 513), "ERR deadletter must be"),
        (("SET", "q", "dead-ttl", "3888001"), "ERR dead-ttl must be"),
        (("SET", "q", "maxlen", "x"), "ERR maxlen must be"),
        (("SET", "q", "ttl", "1", "TTL", "2"), "ERR ttl can be said once"),
        (("SET", "q" * 513, "ttl", "1"), "ERR the name of a queue that has options"),
        (("LIST", "x"), "ERR invalid cursor"),
    ],
)
def test_wrong_words(client: Client, words: tuple[str, ...], text: str) -> None:
    assert client.error("QCONFIG", *words).startswith(text)
    assert client("QCONFIG", "LIST") == [b"0", []]


def test_all_or_nothing_is_set(client: Client, bench: Bench) -> None:
    bench.node.registry_most = 700
    client("QCONFIG", "SET", "q", "ttl", 5)
    assert "registry-max-bytes" in client.error("QCONFIG", "SET", "q", "retry", 5, "tries", 5)
    assert shown(client, "q")["retry"][1] == "default"


class TestCluster:
    def test_other_nodes_hear_of_it(self) -> None:
        bench = Bench(peers=2, journaling=True)
        bench.client()("QCONFIG", "SET", "q", "retry", 7)
        told = {peer_id for peer_id, _ in bench.sent(ENTRIES)}
        assert told == {peer.id for peer in bench.peers}

    def test_what_another_node_sets_counts_here(self) -> None:
        bench = Bench(peers=1)
        (one,) = bench.peers
        row = (QUEUE_OPTION, b"q", b"retry", b"7", bench.now_ms, one.id, 0)
        bench.hear(one, (ENTRIES, (row,)))
        assert added(bench.client(), "q", "REPLICATE", 1)["retry"] == 7

    def test_what_it_takes_back_counts_no_more(self) -> None:
        bench = Bench(peers=1)
        (one,) = bench.peers
        client = bench.client()
        client("QCONFIG", "SET", "q", "retry", 7)
        assert added(client, "q", "REPLICATE", 1)["retry"] == 7
        bench.hear(one, (ENTRIES, ((QUEUE_OPTION, b"q", b"retry", b"", bench.now_ms + 1, one.id, 1),)))
        assert added(client, "q", "REPLICATE", 1)["retry"] == 300

    @pytest.mark.parametrize(
        ("name", "field", "value"), [(b"q" * 600, b"retry", b"7"), (b"q", b"", b"7"), (b"q", b"retry", b"seven")]
    )
    def test_nonsense_is_skipped(self, name: bytes, field: bytes, value: bytes) -> None:
        bench = Bench(peers=1)
        (one,) = bench.peers
        bench.hear(one, (ENTRIES, ((QUEUE_OPTION, name, field, value, bench.now_ms, one.id, 0),)))
        assert bench.node.messages_skipped == 1

    def test_an_option_of_a_later_version_is_kept_and_means_nothing(self) -> None:
        bench = Bench(peers=1)
        (one,) = bench.peers
        bench.hear(one, (ENTRIES, ((QUEUE_OPTION, b"q", b"colour", b"red", bench.now_ms, one.id, 0),)))
        assert bench.node.registry.count == 1
        assert added(bench.client(), "q", "REPLICATE", 1)["retry"] == 300

    def test_nodes_of_before_are_named(self) -> None:
        bench = Bench(peers=1)
        (one,) = bench.peers
        bench.membership.set_capabilities(one.id, 7)
        assert one.id.decode() in bench.client().error("QCONFIG", "SET", "q", "retry", 7)
