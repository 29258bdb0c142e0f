"""What entries of the registry mean, what is taken from other nodes, and how much."""

import pytest

from cluster.messages import DIGEST, ENTRIES
from disque.core import entries
from disque.core.model.queue import PAUSED_OUT
from disque.core.model.registry import DIGEST_BYTES, PAUSED_QUEUE
from disque.core.node import Node
from tests.core.journal.test_replay import replayed
from tests.core.support import MYSELF, NOTHING, START_MS, Bench
from tests.support.formats import pauses_everywhere

B0 = b"b0" * 20
NEWER = 99  # a kind that this version does not know


@pytest.fixture
def bench() -> Bench:
    return Bench(peers=2, journaling=True)


def test_what_is_set_is_told_to_all_and_above_whatever_was_seen(bench: Bench) -> None:
    bench.hear(bench.peers[0], (ENTRIES, ((NEWER, b"n", b"f", b"v", bench.now_ms + 500, B0, 0),)))
    assert entries.set_value(bench.node, (NEWER, b"other", b""), b"v", bench.now_ms) == b""
    row = (NEWER, b"other", b"", b"v", bench.now_ms + 501, MYSELF, 0)
    assert bench.sent(ENTRIES) == [(peer.id, (ENTRIES, (row,))) for peer in bench.peers]


def test_a_kind_that_is_not_known_is_kept_and_passed_on(bench: Bench) -> None:
    bench.hear(bench.peers[0], (ENTRIES, ((NEWER, b"n", b"f", b"\0\xff", 5, B0, 0),)))
    found = bench.node.registry.get((NEWER, b"n", b"f"))
    assert found is not None
    assert found.value == b"\0\xff"
    assert found.segment == 1, "it is in the journal"


@pytest.mark.parametrize(
    "row",
    [
        (PAUSED_QUEUE, b"q", b"", b"9", 5, B0, 0),
        (PAUSED_QUEUE, b"q", b"", b"0", 5, B0, 0),
        (PAUSED_QUEUE, b"q", b"", b"", 5, B0, 0),
        (PAUSED_QUEUE, b"q", b"field", b"1", 5, B0, 0),
        (PAUSED_QUEUE, b"q", b"", b"1", 5, B0, 1),
        (PAUSED_QUEUE, b"q", b"", b"", 5, B0, 2),
        (PAUSED_QUEUE, b"q", b"", b"1", 2**62 - 1, B0, 0),
        (NEWER, b"q", b"", b"x" * (entries.VALUE_MOST + 1), 5, B0, 0),
    ],
    ids=lambda row: repr(row)[:60],
)
def test_nonsense_is_skipped_and_counted(bench: Bench, row: tuple[object, ...]) -> None:
    bench.hear(bench.peers[0], (ENTRIES, (row,)))
    assert bench.node.registry.count == 0
    assert bench.node.messages_skipped == 1


def test_beyond_the_bound_nothing_more_can_be_set_but_deleted(bench: Bench) -> None:
    client = bench.client()
    bench.node.registry_most = 2000
    names = [f"q{number}" for number in range(10)]
    replies = [client.raw("PAUSE", name, "in", "bcast") for name in names]
    assert replies[0] == b"+in\r\n"
    assert replies[-1] == b"-ERR the nodes of this cluster share too many settings already: see registry-max-bytes\r\n"
    assert bench.node.registry.size <= 2000
    assert b"q9" not in bench.node.queues, "what is refused is not done here either"
    assert client("PAUSE", "q0", "out", "bcast") == b"out", "as long as before"
    assert client("PAUSE", "q0", "none", "bcast") == b"none"


def test_of_what_others_have_set_twice_as_much_is_taken(bench: Bench) -> None:
    bench.node.registry_most = 2000
    for number in range(100):
        bench.hear(bench.peers[0], (ENTRIES, ((PAUSED_QUEUE, b"q%d" % number, b"", b"1", 5, B0, 0),)))
    assert 2000 < bench.node.registry.size <= 4000
    assert bench.node.messages_skipped > 80


def test_of_two_at_the_same_place_in_the_order_the_deletion_wins(bench: Bench) -> None:
    for deleted in (0, 1, 0):
        value = b"" if deleted else b"1"
        bench.hear(bench.peers[0], (ENTRIES, ((PAUSED_QUEUE, b"q", b"", value, 5, B0, deleted),)))
    assert pauses_everywhere(bench.node) == {b"q": (0, 5, B0)}
    assert bench.client()("PAUSE", "q", "state") == b"none"


class TestAStart:
    """A node that has just started does not know how new the settings of the others are."""

    @pytest.fixture
    def bench(self) -> Bench:
        bench = Bench(peers=2, journaling=True)
        bench.node.registry.is_met = False
        return bench

    @pytest.mark.parametrize("words", ["PAUSE q in bcast", "QCONFIG SET q tries 3", "QCONFIG UNSET q"])
    def test_who_sets_something_waits_until_another_node_has_said_it(self, bench: Bench, words: str) -> None:
        client = bench.client()
        client.send(*words.split())
        bench.live(1000)
        assert client.read() is NOTHING
        assert not bench.sent(ENTRIES)
        ahead_ms = bench.now_ms + 60_000
        bench.hear(bench.peers[1], (DIGEST, 0, bytes(DIGEST_BYTES), ahead_ms))
        bench.live(200)
        assert client.read() in {b"in", b"OK", 0}
        told = [row for _, message in bench.sent(ENTRIES) for row in message[1]]
        assert all(row[4] == ahead_ms + 1 for row in told), "it is newer than all that the other one knows"

    def test_the_reply_waits_for_the_journal_as_that_of_a_client_who_need_not_wait(self, bench: Bench) -> None:
        client = bench.client()
        client.send("QCONFIG", "SET", "q", "tries", 3)
        client.session.unsettled = False
        bench.live(bench.membership.timeout_ms + 200)
        assert client.read() == b"OK"
        assert client.session.unsettled

    def test_nobody_waits_for_longer_than_the_node_timeout(self, bench: Bench) -> None:
        client = bench.client()
        client.send("PAUSE", "q", "in", "bcast")
        bench.live(bench.membership.timeout_ms)
        assert client.read() is NOTHING
        bench.live(200)
        assert client.read() == b"in"
        assert bench.client()("PAUSE", "q", "out", "bcast") == b"out"

    def test_a_node_alone_and_what_is_for_one_node_do_not_wait(self, bench: Bench) -> None:
        assert bench.client()("PAUSE", "q", "in") == b"in"
        assert bench.client()("QCONFIG", "GET", "q")
        alone = Bench()
        alone.node.registry.is_met = False
        assert alone.client()("PAUSE", "q", "in", "bcast") == b"in"

    def test_a_client_that_goes_away_sets_nothing(self, bench: Bench) -> None:
        client = bench.client()
        client.send("PAUSE", "q", "in", "bcast")
        client.disconnect()
        bench.live(bench.membership.timeout_ms + 200)
        assert bench.node.registry.count == 0
        assert not bench.node.registry.held

    def test_a_client_that_wants_no_reply_gets_none(self, bench: Bench) -> None:
        client = bench.client()
        client.send("CLIENT", "REPLY", "SKIP")
        client.send("PAUSE", "q", "in", "bcast")
        bench.live(bench.membership.timeout_ms + 200)
        assert client.read() is NOTHING
        assert client("PAUSE", "q", "state") == b"in"

    def test_not_very_many_wait(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(entries, "HELD_MOST", 1)
        bench.client().send("PAUSE", "q", "in", "bcast")
        assert bench.client()("PAUSE", "r", "in", "bcast") == b"in"
        assert str(bench.client()("QCONFIG", "SET", "q", "deadletter", "x" * entries.VALUE_MOST)).startswith("ERR")

    def test_a_reset_node_has_to_ask_again(self, bench: Bench) -> None:
        bench.node.registry.is_met = True
        assert bench.client()("CLUSTER", "RESET") == b"OK"
        bench.meet(3)
        client = bench.client()
        client.send("PAUSE", "q", "in", "bcast")
        assert client.read() is NOTHING


class TestAnUpgrade:
    """What the version before did not know takes effect when a version starts that does."""

    NEW_PAUSE = (PAUSED_QUEUE, b"q", b"", b"2", 5, B0, 0)

    def upgraded(self, monkeypatch: pytest.MonkeyPatch, row: tuple[object, ...]) -> tuple[Node, Bench]:
        """A node that has read what one wrote that did not know pauses."""
        old = Bench(peers=2, journaling=True)
        with monkeypatch.context() as patch:
            patch.delitem(entries.TABLE, PAUSED_QUEUE)
            old.hear(old.peers[0], (ENTRIES, (row,)))
        assert not old.node.queues
        return replayed(old.records())[0], old

    def test_it_takes_effect(self, monkeypatch: pytest.MonkeyPatch) -> None:
        node, _ = self.upgraded(monkeypatch, self.NEW_PAUSE)
        assert node.registry.count == 1
        node.journaling, node.segment = True, 2
        entries.beat(node, START_MS)
        assert node.queues[b"q"].paused == PAUSED_OUT
        again = replayed([*node.outbox.records])[0]
        assert not again.registry.waiting, "once"
        assert again.queues[b"q"].paused == PAUSED_OUT

    def test_what_is_still_not_known_is_kept_and_not_written_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        node, _ = self.upgraded(monkeypatch, (NEWER, b"n", b"f", b"v", 5, B0, 0))
        node.journaling, node.segment = True, 2
        entries.beat(node, START_MS)
        assert node.outbox.records == []
        assert node.registry.count == 1

    def test_what_no_node_of_this_version_can_mean_goes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        node, _ = self.upgraded(monkeypatch, (PAUSED_QUEUE, b"q", b"", b"9", 5, B0, 0))
        entries.beat(node, START_MS)
        assert (node.registry.count, node.messages_skipped) == (0, 1)
