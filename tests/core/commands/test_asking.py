"""What a node asks the others for MOVE, REVIVEJOB, QMOVE, REVIVE and QFLUSH, and what it makes of their answers."""

from typing import Any

import pytest

from cluster.messages import SURVEY, SURVEYED
from disque.core.commands import asking
from disque.core.jobs import bulk, orders
from disque.core.model.jobid import SHARDS
from tests.core.support import NOTHING, Bench, Client, assert_still_waiting, foreign_id

END = b"0 %d 0" % SHARDS


@pytest.fixture
def bench() -> Bench:
    """Three nodes."""
    return Bench(peers=2)


@pytest.fixture
def client(bench: Bench) -> Client:
    return bench.client()


class Others:
    """The other nodes: what they were asked, and what they say."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.ids = [peer.id for peer in bench.peers]

    def asked(self) -> dict[int, tuple[Any, ...]]:
        """By the number of the node, the kind of question and its words, since the last call."""
        found = {}
        for peer_id, message in self.bench.sent(SURVEY):
            self.number = message[1]
            found[self.ids.index(peer_id)] = message[2:]
        return found

    def say(self, peer: int, *words: bytes) -> None:
        self.bench.hear(self.bench.peers[peer], (SURVEYED, self.number, words))


@pytest.fixture
def others(bench: Bench) -> Others:
    return Others(bench)


ONE, TWO, THREE = foreign_id(1), foreign_id(2), foreign_id(3)
FLUSH = (b"QFLUSH", b"q", b"", b"0")


class TestById:
    def test_the_others_are_asked_and_one_of_them_does_it(self, client: Client, others: Others) -> None:
        mine = client.add("q", "body", "REPLICATE", 1)
        assert client("MOVE", "r", mine, ONE, ONE, mine, TWO, THREE, "DELAY", "0.5") is NOTHING
        assert others.asked() == dict.fromkeys(range(2), (orders.WHERE, (ONE, TWO, THREE)))
        others.say(0, b"120")
        others.say(1, b"310")
        asked = others.asked()
        assert asked == {
            0: (orders.THESE, (b"MOVE", b"", b"r", b"500", TWO)),
            1: (orders.THESE, (b"MOVE", b"", b"r", b"500", ONE)),
        }
        others.say(0, b"1")
        assert_still_waiting(client)
        others.say(1, b"1")
        assert client.read() == 3

    def test_of_two_that_know_it_equally_well_one_does_it(self, client: Client, others: Others) -> None:
        assert client("REVIVEJOB", ONE) is NOTHING
        others.asked()
        others.say(1, b"1")
        others.say(0, b"1")
        assert others.asked() == {1: (orders.THESE, (b"REVIVEJOB", b"", b"", b"0", ONE))}
        others.say(1, b"1")
        assert client.read() == 1

    def test_when_all_have_an_owner_nobody_is_waited_for(self, client: Client, others: Others) -> None:
        assert client("MOVE", "r", ONE, TWO) is NOTHING
        others.asked()
        others.say(0, b"32")
        assert set(others.asked()) == {0}

    def test_what_nobody_knows_does_not_count(self, client: Client, others: Others) -> None:
        assert client("MOVE", "r", ONE) is NOTHING
        others.asked()
        others.say(0, b"0")
        others.say(1, b"0")
        assert client.read() == 0
        assert others.asked() == {}

    def test_nobody_is_asked_for_what_is_known(self, client: Client, others: Others) -> None:
        mine = client.add("q", "body", "REPLICATE", 1)
        assert client("MOVE", "r", mine) == 1
        assert others.asked() == {}

    def test_both_questions_take_five_seconds_together(self, bench: Bench, client: Client, others: Others) -> None:
        assert client("MOVE", "r", ONE, TWO) is NOTHING
        others.asked()
        others.say(0, b"30")
        assert others.asked() == {}
        bench.advance(2500)
        assert set(others.asked()) == {0}
        bench.advance(2499)
        assert_still_waiting(client)
        bench.advance(1)
        assert client.read() == 0

    @pytest.mark.parametrize("words", [(), (b"",), (b"3",), (b"333",), (b"34",), (b"3x",), (b"-1",)])
    def test_nonsense_names_nobody(self, client: Client, others: Others, words: tuple[bytes, ...]) -> None:
        assert client("MOVE", "r", ONE, TWO) is NOTHING
        others.asked()
        others.say(0, *words)
        others.say(1, b"00")
        assert client.read() == 0

    @pytest.mark.parametrize("words", [(), (b"2",), (b"-1",), (b"x",)])
    def test_nobody_can_count_more_than_it_was_asked(
        self, client: Client, others: Others, words: tuple[bytes, ...]
    ) -> None:
        assert client("MOVE", "r", ONE) is NOTHING
        others.asked()
        others.say(0, b"3")
        others.asked()
        others.say(0, *words)
        assert client.read() == 0

    def test_a_client_that_goes_before_moves_nothing(self, client: Client, others: Others) -> None:
        assert client("MOVE", "r", ONE) is NOTHING
        others.asked()
        client.disconnect()
        others.say(0, b"3")
        assert others.asked() == {}

    def test_when_everything_is_forgotten_nothing_more_is_asked(
        self, bench: Bench, client: Client, others: Others
    ) -> None:
        assert client("MOVE", "r", ONE, TWO) is NOTHING
        others.asked()
        others.say(0, b"30")
        assert bench.client()("DEBUG", "FLUSHALL") == b"OK"
        assert client.read() == 0
        assert others.asked() == {}

    def test_very_many_are_done_in_slices(
        self, bench: Bench, client: Client, others: Others, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(bulk, "MOST", 3)
        monkeypatch.setattr(bulk, "SLICE", 2)
        monkeypatch.setattr(asking, "AT_ONCE", 2)
        mine = client.add("q", "body", "REPLICATE", 1)
        assert client("MOVE", "r", ONE, mine, TWO, mine, THREE, ONE) is NOTHING
        bench.advance(10)
        assert others.asked()[0] == (orders.WHERE, (ONE, TWO))
        others.say(0, b"33")
        others.asked()
        others.say(0, b"2")
        assert others.asked()[0] == (orders.WHERE, (THREE,))
        others.say(0, b"0")
        others.say(1, b"0")
        assert client.read() == 3
        assert client("PING") == b"PONG"

    def test_very_many_that_are_known(self, bench: Bench, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(bulk, "MOST", 1)
        jobs = [client.add("q", "body", "REPLICATE", 1) for _ in range(3)]
        assert client("MOVE", "r", *jobs, jobs[0]) is NOTHING
        bench.advance(10)
        assert client.read() == 3
        assert client("MOVE", "r", *jobs, "x") is NOTHING
        bench.advance(10)
        assert str(client.read()).startswith("BADID")


class TestQueues:
    def test_all_are_asked_and_those_again_that_have_more(self, bench: Bench, client: Client, others: Others) -> None:
        client.add("q", "body", "REPLICATE", 1)
        bench.sent()
        assert client("QFLUSH", "q") is NOTHING
        assert others.asked() == dict.fromkeys(range(2), (orders.ALL, (*FLUSH, b"")))
        others.say(0, b"20000 0", b"70 0 0")
        others.say(1, b"5 0", END)
        assert others.asked() == {0: (orders.ALL, (*FLUSH, b"70 0 0"))}
        others.say(0, b"70 0", END)
        assert client.read() == [b"count", 20076, b"unreachable", []]

    def test_who_is_silent_is_named(self, bench: Bench, client: Client, others: Others) -> None:
        assert client("REVIVE", "q") is NOTHING
        others.asked()
        others.say(0, b"20000 3", b"70 0 0")
        bench.advance(5000)
        assert set(others.asked()) == {0}
        others.say(0, b"70 2", END)
        assert client.read() == [b"count", 20070, b"without-origin", 5, b"unreachable", [others.ids[1]]]

    def test_with_a_count_the_oldest_are_named(self, bench: Bench, client: Client, others: Others) -> None:
        mine = client.add("q", "body", "REPLICATE", 1)
        bench.sent()
        assert client("QFLUSH", "q", "COUNT", 3) is NOTHING
        assert others.asked()[1] == (orders.OLDEST, (*FLUSH, b"3"))
        others.say(0, b"0", b"5", ONE, b"9", TWO)
        others.say(1, b"0", b"7", THREE)
        assert others.asked() == {0: (orders.THESE, (*FLUSH, ONE, TWO)), 1: (orders.THESE, (*FLUSH, THREE))}
        others.say(0, b"1")
        others.say(1, b"1")
        assert client.read() == [b"count", 2, b"unreachable", []]
        assert client("QFLUSH", "q", "COUNT", 3) is NOTHING
        others.asked()
        others.say(0, b"0")
        others.say(1, b"0")
        assert client.read() == [b"count", 1, b"unreachable", []]
        assert client.show(mine).get("state") in {None, b"acked"}

    def test_many_are_taken_in_rounds(self, client: Client, others: Others, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(orders, "IDS_MOST", 2)
        assert client("QFLUSH", "q", "COUNT", 3) is NOTHING
        assert others.asked()[0] == (orders.OLDEST, (*FLUSH, b"2"))
        others.say(0, b"0", b"5", ONE, b"9", TWO)
        others.say(1, b"0")
        others.asked()
        others.say(0, b"2")
        assert others.asked()[0] == (orders.OLDEST, (*FLUSH, b"1"))
        others.say(0, b"0", b"10", THREE)
        others.say(1, b"0")
        others.asked()
        others.say(0, b"1")
        assert client.read() == [b"count", 3, b"unreachable", []]

    @pytest.mark.parametrize(
        "words",
        [
            *[(), (b"",), (b"1 0",), (b"1", END), (b"1 0 0", END), (b"x", END), (b"1 0", b""), (b"1 0", b"1 2")],
            *[(b"1 0", b"0 1025 0"), (b"1 0", b"-1 0 0"), (b"1 0", END, b"1")],
        ],
    )
    def test_nonsense_of_all(self, client: Client, others: Others, words: tuple[bytes, ...]) -> None:
        assert client("QFLUSH", "q") is NOTHING
        others.asked()
        others.say(0, *words)
        others.say(1, b"3 0", END)
        assert client.read() == [b"count", 3, b"unreachable", [others.ids[0]]]

    @pytest.mark.parametrize(
        "words",
        [(), (b"x",), (b"-1",), (b"0", b"1"), (b"0", b"x", ONE), (b"0", b"1", b"x"), (b"0", *(b"1", ONE) * 3)],
    )
    def test_nonsense_of_the_oldest(self, client: Client, others: Others, words: tuple[bytes, ...]) -> None:
        assert client("QFLUSH", "q", "COUNT", 2) is NOTHING
        others.asked()
        others.say(0, *words)
        others.say(1, b"0")
        assert client.read() == [b"count", 0, b"unreachable", [others.ids[0]]]

    def test_one_that_always_has_more_is_not_believed_for_ever(
        self, client: Client, others: Others, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(asking, "ROUNDS_MOST", 3)
        assert client("QFLUSH", "q") is NOTHING
        for _ in range(3):
            asked = others.asked()
            assert asked
            others.say(0, b"1 0", b"1 0 0")
            if 1 in asked:
                others.say(1, b"0 0", END)
        assert client.read() == [b"count", 3, b"unreachable", []]

    def test_one_that_is_lost_between_two_rounds_is_named(self, bench: Bench, client: Client, others: Others) -> None:
        assert client("QFLUSH", "q") is NOTHING
        others.asked()
        others.say(0, b"20000 0", b"70 0 0")
        others.say(1, b"0 0", END)
        bench.link_down(bench.peers[0])
        assert client.read() == [b"count", 20000, b"unreachable", [others.ids[0]]]
