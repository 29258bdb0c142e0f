"""How many jobs are delayed and in flight: each at the node that speaks for it."""

import pytest

from cluster.messages import NEEDJOBS, SURVEY, SURVEYED
from disque.core.jobs import census, figures
from tests.core.support import NOTHING, PROCESS, Bench, Client, assert_still_waiting, repljob


def counted(client: Client, queue: str = "q") -> tuple[int, int]:
    """Delayed and in flight."""
    flat = client("QSTAT", queue)
    named = dict(zip(flat[::2], flat[1::2], strict=True))
    return named[b"delayed"], named[b"in-flight"]


class TestWhatCounts:
    def test_deliveries_and_delays(self, bench: Bench, client: Client) -> None:
        first, second = [client.add("q", "body", "RETRY", 5) for _ in range(2)]
        client.add("q", "body", "DELAY", 10)
        client.add("other", "body", "DELAY", 10)
        assert counted(client) == (1, 0)
        client.get("q", count=2)
        assert counted(client) == (1, 2)
        client("NACK", first, "DELAY", 3)
        assert counted(client) == (2, 1)
        client("ACKJOB", second)
        assert counted(client) == (2, 0)
        bench.advance(3000)
        assert counted(client) == (1, 0)

    def test_what_is_delivered_at_most_once_is_in_flight_until_it_is_acknowledged(self, client: Client) -> None:
        job_id = client.add("q", "body", "RETRY", 0)
        client.get("q")
        assert counted(client) == (0, 1)
        client("ACKJOB", job_id)
        assert counted(client) == (0, 0)

    def test_what_was_dequeued_is_held_back(self, client: Client) -> None:
        client("DEQUEUE", client.add("q"))
        assert counted(client) == (1, 0)

    def test_copies_for_others_do_not_count(self) -> None:
        bench = Bench(peers=1)
        client = bench.client()
        client.add("q", "body", "REPLICATE", 1)
        bench.hear(bench.peers[0], repljob(bench.peers[0].id, retry=5))
        bench.hear(bench.peers[0], repljob(bench.peers[0].id, job_id=b"D-b0b0b0b0-%024d-003d" % 2, delay_ms=5000))
        assert counted(client) == (0, 0)

    def test_nor_what_another_node_was_given(self) -> None:
        bench = Bench(peers=1)
        client = bench.client()
        for _ in range(2):
            client.add("q", "body", "REPLICATE", 1, "RETRY", 60)
        bench.hear(bench.peers[0], (NEEDJOBS, b"q", 1))
        client.get("q")
        assert counted(client) == (0, 1)
        flat = client("QSTAT", "q")
        named = dict(zip(flat[::2], flat[1::2], strict=True))
        assert (named[b"jobs-out"], named[b"delivered"]) == (2, 1)


class TestManyJobs:
    @pytest.fixture(autouse=True)
    def few_are_many(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(census, "AT_ONCE", 5)

    @pytest.fixture
    def bench(self) -> Bench:
        bench = Bench()
        client = bench.client()
        for number in range(20):
            client.add("q" if number % 2 else "r")
        client.get("q", count=3)
        client.get("r", count=2)
        client.add("gone", "body", "DELAY", 100)
        return bench

    def ask(self, bench: Bench, client: Client, queue: str) -> tuple[int, int]:
        if client("QSTAT", queue) is NOTHING:
            bench.tick()
        return counted(client, queue)

    def test_they_are_counted_in_slices(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(census, "STEP", 100)
        client = bench.client()
        assert client("QSTAT", "q") is NOTHING
        assert_still_waiting(client)
        other = bench.client()
        assert other("QSTAT", "r") is NOTHING
        bench.tick()
        assert client.read()[25] == 3
        assert other.read()[25] == 2
        assert not bench.node.census.running

    def test_a_count_is_good_for_a_second(self, bench: Bench) -> None:
        client = bench.client()
        assert self.ask(bench, client, "q") == (0, 3)
        bench.client().get("q")
        bench.live(census.FRESH_MS - 200)
        assert counted(client) == (0, 3)
        bench.live(400)
        assert self.ask(bench, client, "q") == (0, 4)

    def test_when_all_is_forgotten_nobody_waits(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(census, "STEP", 100)
        client = bench.client()
        assert client("QSTAT", "q") is NOTHING
        assert bench.client()("DEBUG", "FLUSHALL") == b"OK"
        assert client.read() is None
        assert not bench.node.census.running
        client.add("q")
        assert counted(client) == (0, 0)

    def test_who_has_gone_is_not_answered(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(census, "STEP", 100)
        client = bench.client()
        assert client("QSTAT", "q") is NOTHING
        client.disconnect()
        bench.tick()
        assert bench.node.surveys.cost() == 0

    def test_of_very_many_queues_those_are_counted_that_are_asked_for(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(census, "QUEUES_MOST", 1)
        client = bench.client()
        for _ in range(2):
            for queue in "qr":
                assert self.ask(bench, client, queue) == ((0, 3) if queue == "q" else (0, 2))
        assert len(bench.node.census.in_flight) <= 2

    def test_another_node_asks(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(census, "STEP", 100)
        peer = bench.meet(0)
        bench.hear(peer, (SURVEY, 7, figures.FIGURES, (b"q",)))
        assert bench.sent(SURVEYED) == []
        bench.tick()
        ((_, (_, number, words)),) = bench.sent(SURVEYED)
        assert number == 7
        assert words[0].split()[figures.IN_FLIGHT] == b"3"
        bench.called(peer, PROCESS + 1)
