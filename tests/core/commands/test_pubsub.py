"""SUBSCRIBE, PSUBSCRIBE, their opposites, PUBLISH and PUBSUB, as connections see them."""

from typing import Any

import pytest

from disque.core import pubsub, step
from disque.core.commands import scan
from tests.core.support import NOTHING, Bench, Client


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def client(bench: Bench) -> Client:
    return bench.client()


def told(client: Client, *request: Any) -> list[Any]:
    """All that comes after a request."""
    client.send(*request)
    return client.read_all()


class TestSubscribe:
    def test_each_channel_is_confirmed_with_how_many_there_are(self, client: Client) -> None:
        assert told(client, "SUBSCRIBE", "a", "b", "a") == [
            [b"subscribe", b"a", 1],
            [b"subscribe", b"b", 2],
            [b"subscribe", b"a", 2],
        ]
        assert told(client, "PSUBSCRIBE", "a*") == [[b"psubscribe", b"a*", 3]]

    def test_messages_come_as_in_redis(self, bench: Bench, client: Client) -> None:
        told(client, "SUBSCRIBE", "news")
        told(client, "PSUBSCRIBE", "n?ws", "other*")
        assert bench.client()("PUBLISH", "news", "hi") == 2
        assert client.read_all() == [[b"message", b"news", b"hi"], [b"pmessage", b"n?ws", b"news", b"hi"]]

    def test_a_client_of_resp3_gets_pushes_and_may_go_on_with_commands(self, bench: Bench, client: Client) -> None:
        client("HELLO", 3)
        assert client.raw("SUBSCRIBE", "news") == b">3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n"
        bench.client()("PUBLISH", "news", "hi")
        assert client.read_raw() == b">3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$2\r\nhi\r\n"
        assert client.add("q")
        assert client.raw("PING") == b"+PONG\r\n"

    def test_both_protocols_can_listen_to_the_same_channel(self, bench: Bench, client: Client) -> None:
        other = bench.client()
        other("HELLO", 3)
        told(client, "SUBSCRIBE", "c")
        told(other, "SUBSCRIBE", "c")
        assert bench.client()("PUBLISH", "c", "x") == 2
        assert (client.read_raw()[:2], other.read_raw()[:2]) == (b"*3", b">3")

    def test_a_client_of_resp2_may_do_nothing_else(self, client: Client) -> None:
        told(client, "SUBSCRIBE", "news")
        assert "Can't execute 'getjob': only (P)SUBSCRIBE" in client.error("GETJOB", "FROM", "q")
        assert told(client, "PING") == [[b"pong", b""]]
        assert told(client, "PING", "x") == [[b"pong", b"x"]]
        assert told(client, "UNSUBSCRIBE") == [[b"unsubscribe", b"news", 0]]
        assert client("PING") is not None
        assert client.add("q")

    def test_what_was_said_before_is_not_for_who_comes_now(self, bench: Bench, client: Client) -> None:
        other = bench.client()
        told(other, "SUBSCRIBE", "news")
        client.send("PUBLISH", "news", "old")
        client.send("SUBSCRIBE", "news")
        assert client.read_all() == [1, [b"subscribe", b"news", 1]]
        assert other.read_all() == [[b"message", b"news", b"old"]]

    def test_names_and_their_number_are_bounded(self, client: Client) -> None:
        assert "4096 bytes" in client.error("SUBSCRIBE", "x" * (pubsub.NAME_MOST + 1))
        for at in range(0, pubsub.SUBSCRIPTIONS_MOST - 1, 1000):
            told(client, "SUBSCRIBE", *range(at, min(at + 1000, pubsub.SUBSCRIPTIONS_MOST - 1)))
        assert "at most" in client.error("PSUBSCRIBE", "c", "d")
        assert told(client, "SUBSCRIBE", 0, 1, "a")[-1] == [b"subscribe", b"a", pubsub.SUBSCRIPTIONS_MOST]
        assert "at most" in client.error("SUBSCRIBE", "b")

    def test_beyond_the_limit_of_memory_nobody_new_may_listen(self, bench: Bench, client: Client) -> None:
        bench.client().add("q", "x" * 1000)
        bench.set("maxmemory", bench.node.used)
        assert client.error("SUBSCRIBE", "a").startswith("OOM")


class TestUnsubscribe:
    def test_one_or_all(self, bench: Bench, client: Client) -> None:
        told(client, "SUBSCRIBE", "a", "b", "c")
        assert told(client, "UNSUBSCRIBE", "b", "x") == [[b"unsubscribe", b"b", 2], [b"unsubscribe", b"x", 2]]
        assert told(client, "UNSUBSCRIBE") == [[b"unsubscribe", b"a", 1], [b"unsubscribe", b"c", 0]]
        assert told(client, "UNSUBSCRIBE") == [[b"unsubscribe", None, 0]]
        assert told(client, "PUNSUBSCRIBE") == [[b"punsubscribe", None, 0]]
        assert bench.client()("PUBLISH", "a", "x") == 0

    def test_patterns_and_channels_are_apart(self, client: Client) -> None:
        told(client, "SUBSCRIBE", "a")
        told(client, "PSUBSCRIBE", "a")
        assert told(client, "PUNSUBSCRIBE", "a") == [[b"punsubscribe", b"a", 1]]

    def test_what_was_said_before_still_comes(self, bench: Bench, client: Client) -> None:
        told(client, "SUBSCRIBE", "a")
        bench.client().send("PUBLISH", "a", "x")
        assert told(client, "UNSUBSCRIBE") == [[b"message", b"a", b"x"], [b"unsubscribe", b"a", 0]]

    def test_all_channels_are_heard_in_the_order_in_which_they_were_said(self, bench: Bench, client: Client) -> None:
        other = bench.client()
        for one in (client, other):
            told(one, "SUBSCRIBE", "a", "b")
        speaker = bench.client()
        for channel, text in (("a", "1"), ("b", "2"), ("a", "3"), ("c", "4"), ("b", "5")):
            speaker.send("PUBLISH", channel, text)
        said = [[b"message", b"a", b"1"], [b"message", b"b", b"2"], [b"message", b"a", b"3"], [b"message", b"b", b"5"]]
        bench.settle()
        assert client.read_all() == other.read_all() == said

    def test_who_wants_no_replies_gets_confirmations_and_messages(self, bench: Bench, client: Client) -> None:
        client("CLIENT", "REPLY", "OFF")
        assert told(client, "SUBSCRIBE", "a") == [[b"subscribe", b"a", 1]]
        assert told(client, "PING") == []
        bench.client().send("PUBLISH", "a", "x")
        assert told(client, "UNSUBSCRIBE") == [[b"message", b"a", b"x"], [b"unsubscribe", b"a", 0]]
        assert told(client, "PING") == []

    def test_a_reply_that_is_skipped_is_not_a_confirmation(self, client: Client) -> None:
        client("CLIENT", "REPLY", "SKIP")
        assert told(client, "SUBSCRIBE", "a") == [[b"subscribe", b"a", 1]]
        assert told(client, "PING") == [[b"pong", b""]]

    def test_reset_ends_all_subscriptions(self, bench: Bench, client: Client) -> None:
        told(client, "SUBSCRIBE", "a")
        assert told(client, "RESET") == [b"RESET"]
        assert client.add("q")
        assert bench.node.pubsub.channels == {}


class TestPublish:
    def test_the_servers_own_channels_are_not_for_clients(self, client: Client) -> None:
        assert "the server's own" in client.error("PUBLISH", "job:added:q", "x")

    def test_names_and_messages_are_bounded(self, client: Client) -> None:
        assert "4096 bytes" in client.error("PUBLISH", "x" * (pubsub.NAME_MOST + 1), "m")
        assert "1048576 bytes" in client.error("PUBLISH", "x", b"m" * (pubsub.MESSAGE_MOST + 1))

    def test_any_bytes_travel(self, bench: Bench, client: Client) -> None:
        told(client, "SUBSCRIBE", b"\x00\r\n\xff")
        bench.client()("PUBLISH", b"\x00\r\n\xff", b"\r\n\x00")
        assert client.read_all() == [[b"message", b"\x00\r\n\xff", b"\r\n\x00"]]


class TestPubsub:
    def test_it_says_who_listens(self, bench: Bench, client: Client) -> None:
        for names in (("SUBSCRIBE", "aa", "b"), ("SUBSCRIBE", "aa"), ("PSUBSCRIBE", "a*", "b*"), ("PSUBSCRIBE", "a*")):
            told(bench.client(), *names)
        assert sorted(client("PUBSUB", "CHANNELS")) == [b"aa", b"b"]
        assert client("PUBSUB", "CHANNELS", "a*") == [b"aa"]
        assert client("PUBSUB", "NUMSUB", "aa", "x") == [b"aa", 2, b"x", 0]
        assert client("PUBSUB", "NUMSUB") == []
        assert client("PUBSUB", "NUMPAT") == 2

    def test_where_there_are_many_channels_others_are_served_between(
        self, bench: Bench, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(scan, "LOOK_MOST", 200)
        monkeypatch.setattr(scan, "TICK_LOOK_MOST", 100)
        listener = bench.client()
        told(listener, "SUBSCRIBE", *range(1000))
        names = [b"%d" % number for number in range(1000)]
        client.send("PUBSUB", "CHANNELS")
        assert client.read() is NOTHING
        told(listener, "UNSUBSCRIBE", *range(600, 1000))
        told(listener, "SUBSCRIBE", "new")
        ticks = 0
        while (reply := client.read()) is NOTHING:
            assert bench.client()("PING") == b"PONG"
            step.tick(bench.node, bench.now_ms)
            ticks += 1
        assert reply == [*names[:600], b"new"]
        assert 3 <= ticks <= 10

    def test_long_names_that_a_pattern_is_compared_with_count_for_more(
        self, bench: Bench, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(scan, "LOOK_MOST", 1000)
        told(bench.client(), "SUBSCRIBE", *[f"{number:0500}" for number in range(200)])
        assert len(client("PUBSUB", "CHANNELS")) == 200
        client.send("PUBSUB", "CHANNELS", "*7*x")
        assert client.read() is NOTHING
        while (reply := client.read()) is NOTHING:
            step.tick(bench.node, bench.now_ms)
        assert reply == []

    def test_a_long_reply_leaves_in_pieces(self, bench: Bench, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(scan, "BYTES_MOST", 100_000)
        names = [b"%04000d" % number for number in range(400)]
        told(bench.client(), "SUBSCRIBE", *names)
        client.send("PUBSUB", "CHANNELS")
        assert 100_000 <= bench.node.walks[0].size <= 300_000, "a turn ends when it has added so much"
        while bench.node.walks:
            step.tick(bench.node, bench.now_ms)
        assert max(map(len, client.session.out)) <= 300_000
        assert client.read() == names

    def test_help_and_nonsense(self, client: Client) -> None:
        assert any(b"NUMSUB" in line for line in client("PUBSUB", "HELP"))
        assert "syntax" in client.error("PUBSUB", "SHARDS")

    def test_client_list_shows_it(self, bench: Bench, client: Client) -> None:
        told(client, "SUBSCRIBE", "a")
        lines = bench.client()("CLIENT", "LIST").split(b"\n")
        assert b"flags=P " in next(line for line in lines if b"cmd=subscribe" in line)


class TestCostOfPatterns:
    def test_a_pattern_has_at_most_256_bytes(self, client: Client) -> None:
        assert "256 bytes" in client.error("PSUBSCRIBE", "ok", "*" + "a" * 256)
        assert client("PUBSUB", "NUMPAT") == 0

    def test_a_node_has_at_most_so_many_different_patterns(
        self, bench: Bench, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(pubsub, "PATTERNS_MOST", 2)
        told(client, "PSUBSCRIBE", "a*", "b*")
        other = bench.client()
        assert "different patterns" in other.error("PSUBSCRIBE", "a*", "c*")
        assert told(other, "PSUBSCRIBE", "a*") == [[b"psubscribe", b"a*", 1]]
        told(client, "PUNSUBSCRIBE", "b*")
        assert told(other, "PSUBSCRIBE", "c*") == [[b"psubscribe", b"c*", 2]]

    def test_a_very_long_channel_fits_only_patterns_whose_star_is_at_the_end(
        self, bench: Bench, client: Client
    ) -> None:
        told(client, "PSUBSCRIBE", "x*", "*x")
        assert bench.client()("PUBLISH", "x" * 512, "m") == 2
        assert bench.client()("PUBLISH", "x" * 513, "m") == 1
