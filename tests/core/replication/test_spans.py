"""How long jobs wait and run, as their queue counts it."""

import pytest

from disque.core.model import census
from disque.core.model.figures import Figures, Histogram
from disque.core.replication.spans import SAMPLE_MS
from tests.core.support import Bench, Client


def figures(bench: Bench, queue: bytes = b"q") -> Figures:
    specs = bench.node.queues[queue].specs
    assert specs is not None
    return specs.last.figures


def times(histogram: Histogram | None) -> list[int]:
    """The times that were counted: the least of each place is exact below 8."""
    if histogram is None:
        return []
    return [at for at, count in enumerate(histogram.counts) for _ in range(count)]


def waits(bench: Bench) -> list[int]:
    return times(figures(bench).waits)


def runs(bench: Bench) -> list[int]:
    return times(figures(bench).runs)


class TestWaits:
    def test_from_the_addition_to_the_delivery(self, bench: Bench, client: Client) -> None:
        client.add("q")
        bench.advance(5)
        client.get("q")
        assert waits(bench) == [5]

    def test_a_delay_is_no_wait(self, bench: Bench, client: Client) -> None:
        client.add("q", "body", "DELAY", 3)
        bench.advance(3006)
        client.get("q")
        assert waits(bench) == [6]

    @pytest.mark.parametrize("how", ["retry", "nack", "given back"])
    def test_only_first_deliveries_count(self, bench: Bench, client: Client, how: str) -> None:
        job_id = client.add("q", "body", "RETRY", 1)
        client.get("q")
        if how == "nack":
            client("NACK", job_id)
        if how == "given back":
            client("NACK", job_id, "NOCOUNT")
        bench.advance(1000)
        assert client.get("q") == [job_id]
        assert waits(bench) == [0]

    def test_who_waits_for_a_job_gets_it_at_once(self, bench: Bench, client: Client) -> None:
        bench.client().send("GETJOB", "FROM", "q")
        client.add("q")
        assert waits(bench) == [0]

    def test_one_in_so_many_ms_is_looked_at(self, bench: Bench, client: Client) -> None:
        for _ in range(10):
            client.add("q")
        client.get("q", count=3)
        client.get("q")
        bench.advance(SAMPLE_MS - 1)
        client.get("q", count=3)
        assert waits(bench) == [0]
        bench.advance(1)
        client.get("q", count=3)
        assert len(waits(bench)) == 2


class TestRuns:
    def test_from_the_delivery_to_the_acknowledgement(self, bench: Bench, client: Client) -> None:
        job_id = client.add("q")
        bench.advance(100)
        client.get("q")
        bench.advance(7)
        client("ACKJOB", job_id)
        assert runs(bench) == [7]
        assert figures(bench).acked == 1

    @pytest.mark.parametrize("command", ["ACKJOB", "FASTACK"])
    def test_what_is_not_in_flight_did_not_run(self, bench: Bench, client: Client, command: str) -> None:
        ids = [client.add("q"), client.add("q", "body", "DELAY", 5)]
        client("NACK", client.add("q"), "DELAY", 5)
        for job_id in ids:
            bench.advance(SAMPLE_MS)
            client(command, job_id)
        assert runs(bench) == []
        assert figures(bench).acked == 2

    def test_at_most_once_is_not_known(self, bench: Bench, client: Client) -> None:
        job_id = client.add("q", "body", "RETRY", 0)
        client.get("q")
        bench.advance(7)
        client("FASTACK", job_id)
        assert runs(bench) == []

    @pytest.mark.parametrize("times_said", [1, 3])
    def test_working_does_not_make_it_shorter(self, bench: Bench, client: Client, times_said: int) -> None:
        job_id = client.add("q", "body", "RETRY", 60)
        client.get("q")
        for _ in range(times_said):
            bench.advance(1)
            assert client("WORKING", job_id) == 60
        bench.advance(2)
        assert len(bench.node.census.began) == 1
        client("ACKJOB", job_id)
        assert runs(bench) == [2 + times_said]
        assert bench.node.census.began == {}

    def test_a_later_delivery_begins_anew(self, bench: Bench, client: Client) -> None:
        job_id = client.add("q", "body", "RETRY", 60)
        client.get("q")
        client("WORKING", job_id)
        bench.advance(5)
        client("NACK", job_id)
        client.get("q")
        bench.advance(3)
        client("WORKING", job_id)
        bench.advance(1)
        client("ACKJOB", job_id)
        assert runs(bench) == [4]

    def test_of_jobs_that_said_working_only_so_many_are_remembered(
        self, bench: Bench, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(census, "BEGAN_MOST", 3)
        ids = [client.add("q") for _ in range(5)]
        client.get("q", count=5)
        for job_id in ids:
            client("WORKING", job_id)
        assert list(bench.node.census.began) == ids[2:]

    def test_working_on_what_nobody_has_is_not_remembered(self, bench: Bench, client: Client) -> None:
        client("WORKING", client.add("q"))
        client("WORKING", client.add("q", "body", "DELAY", 5))
        assert bench.node.census.began == {}
