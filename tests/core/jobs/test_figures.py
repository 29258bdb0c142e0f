from typing import Any

import hiredis
import pytest

from cluster.messages import SURVEY, SURVEYED
from disque.core.jobs import figures
from tests.core.support import NOTHING, Bench, Client, foreign_id, repljob


@pytest.mark.parametrize(("word", "number"), [(b"0", 0), (b"7", 7), (b"9" * 18, 10**18 - 1)])
def test_numbers_of_other_nodes(word: bytes, number: int) -> None:
    assert figures.number(word) == number


@pytest.mark.parametrize("word", [b"", b"-1", b"+1", b"x", b"1 ", b"1.5", b"9" * 19, "²".encode()])
def test_what_is_no_number(word: bytes) -> None:
    assert figures.number(word) == -1


class TestLengths:
    def test_they_add_up(self) -> None:
        lengths = figures.Lengths(b"q")
        assert lengths.reply() == b":0\r\n"
        assert lengths.take(b"a", (b"7",))
        assert lengths.take(b"b", (b"5", b"of a later version"))
        assert not lengths.take(b"c", (b"-1",))
        assert lengths.reply() == b":12\r\n"

    def test_of_a_queue_that_is_not_there(self) -> None:
        bench = Bench()
        assert figures.length(bench.node, b"q") == 0
        assert bench.node.queues == {}


def named(reply: Any) -> dict[bytes, Any]:
    return dict(zip(reply[::2], reply[1::2], strict=True))


def word(**given: int) -> bytes:
    """The numbers that a node tells; those that are not given are 1."""
    names = {field.name.decode().replace("-", "_"): 1 for field in figures.FIELDS}
    assert given.keys() <= names.keys()
    return figures.words_of(list({**names, **given}.values()))


class TestCounters:
    def test_each_is_counted_where_it_happens(self, bench: Bench, client: Client) -> None:
        ids = [client.add("q", "body", "RETRY", 5, "TTL", 60) for _ in range(5)]
        client.get("q", count=5)
        client("NACK", ids[0])
        client("NACK", ids[1], "NOCOUNT")
        client("ACKJOB", ids[2])
        client("ACKJOB", ids[2])
        client("FASTACK", ids[3])
        bench.advance(6000)
        shown = named(client("QSTAT", "q"))
        wanted = {b"added": 5, b"delivered": 5, b"acked": 2, b"nacked": 1, b"retried": 1, b"expired": 0}
        assert {name: shown[name] for name in wanted} == wanted
        bench.advance(60_000)
        assert named(client("QSTAT", "q"))[b"expired"] == 3

    def test_one_queue_is_not_another(self, client: Client) -> None:
        client("ACKJOB", client.add("r", "body", "TTL", 5))
        client.add("q", "body", "DELAY", 1)
        client.add("q", "body", "TTL", 7)
        assert named(client("QSTAT", "r"))[b"acked"] == 1
        shown = named(client("QSTAT", "q"))
        assert (shown[b"added"], shown[b"acked"]) == (2, 0)

    def test_a_copy_that_expires_is_counted_where_the_job_is_queued(self) -> None:
        bench = Bench(peers=1)
        client = bench.client()
        client.add("q", "body", "REPLICATE", 1)
        bench.hear(bench.peers[0], repljob(bench.peers[0].id, ttl=60))
        bench.advance(70_000)
        assert bench.node.stats.jobs_expired == 1
        assert named(client("QSTAT", "q"))[b"expired"] == 0

    def test_a_node_with_copies_only_tells_the_others_what_it_counted(self) -> None:
        """It has no queue, so QSTAT of this node alone shows none."""
        bench = Bench(peers=1)
        (peer,) = bench.peers
        client = bench.client()
        job_id, other = foreign_id(), foreign_id(2)
        bench.hear(peer, *[repljob(peer.id, job_id=one) for one in (job_id, other)])
        assert client("ACKJOB", job_id) == 1
        bench.sent()
        assert client("QSTAT", "q") is None
        bench.hear(peer, (SURVEY, 7, figures.FIGURES, (b"q",)))
        ((_, (_, _, words)),) = bench.sent(SURVEYED)
        told = dict(zip([field.name for field in figures.FIELDS], words[0].split(), strict=True))
        assert (told[b"acked"], told[b"added"], told[b"in-flight"]) == (b"1", b"0", b"0")
        (text,) = [line for line in client("METRICS").splitlines() if line.startswith(b"disque_jobs_acked_total")]
        assert text.endswith(b"1")

    def test_a_queue_that_was_made_by_waiting_has_none(self, bench: Bench, client: Client) -> None:
        bench.client().send("GETJOB", "FROM", "q")
        shown = named(client("QSTAT", "q"))
        assert {shown[field.name] for field in figures.FIELDS[figures.DELAYED :]} == {0}
        assert bench.node.queues[b"q"].specs is None

    def test_a_job_that_comes_to_a_new_queue_brings_them_along(self, bench: Bench, client: Client) -> None:
        client.add("q", "body", "DELAY", 1)
        bench.node.specs.absent.clear()
        bench.advance(1000)
        client.get("q")
        assert named(client("QSTAT", "q"))[b"added"] == 1


class TestAllNodes:
    @pytest.fixture
    def bench(self) -> Bench:
        return Bench(peers=2)

    @pytest.fixture
    def client(self, bench: Bench) -> Client:
        return bench.client()

    def ask(self, bench: Bench, client: Client) -> int:
        bench.sent()
        assert client("QSTAT", "q", "CLUSTER") is NOTHING
        asked = bench.sent(SURVEY)
        assert [message[2:] for _, message in asked] == [(figures.FIGURES, (b"q",))] * 2
        return int(asked[0][1][1])

    def test_the_figures_of_all_are_one(self, bench: Bench, client: Client) -> None:
        client.add("q", "body", "REPLICATE", 1)
        client.add("q", "body", "REPLICATE", 1, "DELAY", 10)
        bench.advance(3000)
        client.get("q")
        number = self.ask(bench, client)
        told = word(len=10, age=100, idle=2, pause=1, oldest_ms=9, delayed=5, in_flight=7, added=3, acked=4)
        other = b"c" * 40
        bench.hear(bench.peers[0], (SURVEYED, number, (told, b"0 0 0 2", b"5", other, bench.peers[1].id)))
        more = word(len=1, age=7, idle=30, pause=2) + b" 99 98"
        bench.hear(bench.peers[1], (SURVEYED, number, (more, b"", b"", other)))
        shown = named(client.read())
        assert shown[b"name"] == b"q"
        sums = {b"len": 11, b"jobs-in": 3, b"jobs-out": 3, b"delayed": 7, b"in-flight": 9, b"added": 6, b"acked": 5}
        assert {name: shown[name] for name in sums} == sums
        assert (shown[b"age"], shown[b"idle"], shown[b"oldest-ms"], shown[b"pause"]) == (100, 0, 9, b"all")
        assert shown[b"import-from"] == [other, bench.peers[1].id]
        assert (shown[b"wait-p50-ms"], shown[b"wait-p99-ms"], shown[b"run-p99-ms"]) == (3, 2816, 0)
        assert (shown[b"nodes"], shown[b"unreachable"]) == (3, [])

    def test_the_old_fields_come_first_as_ever(self, bench: Bench, client: Client) -> None:
        client.add("q", "body", "REPLICATE", 1)
        alone = client("QSTAT", "q")
        for peer in bench.peers:
            bench.link_down(peer)
        whole = client("QSTAT", "q", "CLUSTER")
        assert whole[: len(alone)] == alone
        assert whole[len(alone) :] == [b"nodes", 1, b"unreachable", sorted(peer.id for peer in bench.peers)]

    def test_who_did_not_answer_is_named(self, bench: Bench, client: Client) -> None:
        number = self.ask(bench, client)
        bench.hear(bench.peers[1], (SURVEYED, number, (word(), b"", b"")))
        bench.advance(5000)
        shown = named(client.read())
        assert (shown[b"nodes"], shown[b"unreachable"]) == (2, [bench.peers[0].id])

    def test_a_queue_that_no_node_knows(self, bench: Bench, client: Client) -> None:
        number = self.ask(bench, client)
        for peer in bench.peers:
            bench.hear(peer, (SURVEYED, number, (b"",)))
        assert client.read() is None

    def test_a_node_tells_of_its_jobs_though_the_queue_is_forgotten(self, bench: Bench, client: Client) -> None:
        client.add("q", "body", "REPLICATE", 1, "DELAY", 10)
        assert b"q" not in bench.node.queues
        for number, name in ((1, b"q"), (2, b"nothing")):
            bench.hear(bench.peers[0], (SURVEY, number, figures.FIGURES, (name,)))
        (_, first), (_, second) = bench.sent(SURVEYED)
        assert first[2][0].split()[figures.DELAYED] == b"1"
        assert len(first[2][0].split()) == len(figures.FIELDS)
        assert second[2] == (b"",)

    def test_what_a_node_tells_is_understood(self, bench: Bench, client: Client) -> None:
        job_id = client.add("q", "body", "REPLICATE", 1)
        client.get("q")
        client("ACKJOB", job_id)
        bench.hear(bench.peers[0], (SURVEY, 1, figures.FIGURES, (b"q",)))
        ((_, said),) = bench.sent(SURVEYED)
        totals = figures.Totals(b"q", 2, is_whole=False)
        assert totals.take(b"a", said[2])
        reader = hiredis.Reader()
        reader.feed(totals.reply())
        assert reader.gets() == client("QSTAT", "q")


FULL = word()


@pytest.mark.parametrize(
    "words",
    [
        *((b"1",), (b"", b""), (b"x", b"", b""), (b"1 2 3", b"", b""), (FULL, b""), (FULL, b"-1", b"")),
        *((FULL, b"1  1", b""), (FULL, b"", b"1 x"), (FULL, b"1 " * 200, b""), (FULL, b"", b"", b"short")),
        *((FULL, b"", b"", b"x" * 41), (word(pause=4), b"", b""), (FULL + b" 1" * 100, b"", b"")),
        *((FULL[:-1] + b"9" * 19, b"", b""), (FULL, b"9" * 10, b""), (FULL, b"", b"1" * 100_000)),
    ],
)
def test_lies_about_figures(words: tuple[bytes, ...]) -> None:
    totals = figures.Totals(b"q", 2, is_whole=True)
    assert not totals.take(b"a", words)
    assert totals.reply() == b"*-1\r\n"


def test_sums_of_what_is_told_are_numbers() -> None:
    totals = figures.Totals(b"q", 2, is_whole=True)
    most = figures.words_of([10**18 - 1 if field.name != b"pause" else 3 for field in figures.FIELDS])
    for _ in range(20):
        assert totals.take(b"a", (most, b"999999999", b""))
    assert b":9223372036854775807\r\n" in totals.reply()
