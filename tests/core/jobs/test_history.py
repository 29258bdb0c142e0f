from typing import Any

import pytest

from cluster.messages import SURVEY, SURVEYED
from disque.core.jobs import history
from disque.core.journal.replay import clean_list
from disque.core.journal.schema import HISTORY
from disque.core.model.history import MINUTE_MS, ROW
from tests.core.support import NOTHING, START_MS, Bench, Client

HOUR_MS = 60 * MINUTE_MS


def named(reply: Any) -> dict[bytes, Any]:
    return dict(zip(reply[::2], reply[1::2], strict=True))


def newest(client: Client, unit: str = "minute", queue: str = "q") -> dict[bytes, list[int]]:
    """The last two counts of each list."""
    return {
        name: value[-2:] for name, value in named(client("QHISTORY", queue, unit)).items() if isinstance(value, list)
    }


class TestCounts:
    def test_what_happened_is_counted_where_and_when(self, bench: Bench, client: Client) -> None:
        ids = [client.add("q") for _ in range(5)]
        client.get("q", count=4)
        client("ACKJOB", ids[0])
        client("NACK", ids[1])
        bench.live(MINUTE_MS)
        client("NACK", ids[2], "DEAD")
        client("FASTACK", ids[3])
        client("FASTACK", ids[4])
        shown = newest(client)
        assert shown[b"added"] == [5, 0]
        assert shown[b"delivered"] == [4, 0]
        assert shown[b"acked"] == [1, 2]
        assert shown[b"nacked"] == [1, 1]
        assert shown[b"died"] == [0, 1]
        assert newest(client, "hour")[b"added"][-1] == newest(client, "day")[b"added"][-1] == 5

    def test_who_asks_counts_nothing_twice(self, bench: Bench, client: Client) -> None:
        for _ in range(3):
            client.add("q")
            newest(client)
        bench.live(2 * MINUTE_MS)
        assert sum(named(client("QHISTORY", "q", "minute"))[b"added"]) == 3

    def test_times_have_their_place(self, bench: Bench, client: Client) -> None:
        client.add("q")
        bench.live(59 * MINUTE_MS)
        shown = named(client("QHISTORY", "q", "minute"))
        assert shown[b"begin"] * 1000 == START_MS // MINUTE_MS * MINUTE_MS
        assert (shown[b"seconds"], shown[b"added"]) == (60, [1] + [0] * 59)
        bench.live(MINUTE_MS)
        assert named(client("QHISTORY", "q", "minute"))[b"added"] == [0] * 60

    @pytest.mark.parametrize(("unit", "count"), [("minute", 60), ("hour", 168), ("day", 90)])
    def test_each_unit_has_its_length(self, client: Client, unit: str, count: int) -> None:
        client.add("q")
        assert {len(value) for value in named(client("QHISTORY", "q", unit)).values() if isinstance(value, list)} == {
            count
        }

    def test_delayed_jobs_of_a_queue_that_is_not_there_are_counted(self, bench: Bench, client: Client) -> None:
        client.add("q", "body", "DELAY", 1000)
        assert b"q" not in bench.node.queues
        bench.live(MINUTE_MS)
        assert newest(client)[b"added"] == [1, 0]

    def test_a_queue_that_was_forgotten_keeps_it_and_begins_again(self, bench: Bench, client: Client) -> None:
        for _ in range(2):
            job_id = client.add("q")
            client.get("q")
            client("ACKJOB", job_id)
            bench.live(15 * MINUTE_MS)
            assert b"q" not in bench.node.queues
        shown = named(client("QHISTORY", "q", "minute"))
        assert [sum(shown[name]) for name in (b"added", b"delivered", b"acked")] == [2, 2, 2]

    def test_a_flush_of_jobs_is_no_acknowledgement(self, client: Client) -> None:
        client.add("q")
        client("QFLUSH", "q")
        assert newest(client)[b"acked"] == [0, 0]

    def test_debug_flushall_forgets_it_while_it_is_walked(
        self, bench: Bench, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(history, "STEP", 1)
        for number in range(20):
            client.add(f"q{number}")
        bench.live(100)
        history.beat(bench.node, bench.now_ms + MINUTE_MS)
        assert bench.node.histories.running
        client("DEBUG", "FLUSHALL")
        assert bench.node.histories.by_queue == {}
        client.add("q")
        bench.live(3 * MINUTE_MS)
        assert sum(named(client("QHISTORY", "q", "minute"))[b"added"]) == 1


class TestBounds:
    def test_no_more_queues_than_are_wanted(self, bench: Bench, client: Client) -> None:
        client("CONFIG", "SET", "history-queues", 2)
        for name in ("a", "b", "c"):
            client.add(name)
            bench.live(MINUTE_MS)
        assert list(bench.node.histories.by_queue) == [b"a", b"b"]
        assert client("QHISTORY", "c", "minute") is None

    def test_one_that_was_quiet_for_an_hour_makes_room(self, bench: Bench, client: Client) -> None:
        client("CONFIG", "SET", "history-queues", 2)
        client.add("a")
        client.add("b")
        client.add("c")
        bench.live(MINUTE_MS)
        client.add("a")
        bench.live(61 * MINUTE_MS)
        client.add("c")
        bench.live(MINUTE_MS)
        assert sorted(bench.node.histories.by_queue) == [b"a", b"c"]
        shown = named(client("QHISTORY", "c", "minute"))
        assert sum(shown[b"added"]) == 1  # what happened while there was no place does not count now

    def test_fewer_are_wanted(self, bench: Bench, client: Client) -> None:
        for name in ("a", "b", "c"):
            client.add(name)
            bench.live(MINUTE_MS)
        client("CONFIG", "SET", "history-queues", 1)
        bench.live(MINUTE_MS)
        assert list(bench.node.histories.by_queue) == [b"c"]
        client("CONFIG", "SET", "history-queues", 0)
        client.add("c")
        bench.live(MINUTE_MS)
        assert bench.node.histories.by_queue == {}

    def test_none_begins_where_memory_is_short(self, bench: Bench, client: Client) -> None:
        client.add("q", "x" * 1000)
        client("CONFIG", "SET", "maxmemory", bench.node.used * 10 // 8)
        assert client("QHISTORY", "q", "minute") is None

    def test_after_ninety_days_nothing_is_left(self, bench: Bench, client: Client) -> None:
        client.add("q", "body", "TTL", 60)
        bench.live(MINUTE_MS)
        bench.now_ms += 91 * 24 * HOUR_MS
        bench.live(2 * MINUTE_MS)
        assert bench.node.histories.by_queue == {}


class TestJournal:
    def test_only_queues_with_traffic_are_written(self) -> None:
        bench = Bench(journaling=True)
        client = bench.client()
        client.add("a")
        client.add("b")
        bench.live(MINUTE_MS)
        client.add("a")
        written = [record for record in bench.records() if record[0] == HISTORY]
        assert sorted((record[1], record[2]) for record in written) == [(b"a", 1), (b"b", 1)]
        bench.live(MINUTE_MS)
        assert [record[1:3] for record in bench.records() if record[0] == HISTORY] == [(b"a", 0)]

    def test_a_clean_stop_leaves_out_nothing(self) -> None:
        bench = Bench(journaling=True)
        client = bench.client()
        bench.live(1000)
        client.add("q")
        bench.records()
        list(clean_list(bench.node))
        (record,) = [record for record in bench.records() if record[0] == HISTORY]
        assert record[1:3] == (b"q", 1)
        assert ROW.unpack(record[3])[1:] == (1, 0, 0, 0, 0)


class TestCluster:
    @pytest.fixture
    def bench(self) -> Bench:
        return Bench(peers=2)

    def ask(self, bench: Bench, client: Client, unit: str = "hour") -> int:
        bench.sent()
        assert client("QHISTORY", "q", unit, "CLUSTER") is NOTHING
        asked = bench.sent(SURVEY)
        assert [message[2:] for _, message in asked] == [(history.PAST, (b"q", unit.encode()))] * 2
        return int(asked[0][1][1])

    def test_counts_of_all_are_added_up(self, bench: Bench, client: Client) -> None:
        client.add("q", "body", "REPLICATE", 1)
        number = self.ask(bench, client)
        hour = bench.now_ms // HOUR_MS
        # An hour that is gone, one of a clock that is ahead, and two that count.
        rows = [
            (hour - 168, 9, 9, 9, 9, 9),
            (hour - 1, 1, 2, 3, 4, 5),
            (hour, 10, 0, 0, 0, 10**18 - 1),
            (hour + 1, 9, 9, 9, 9, 9),
        ]
        told = b" ".join(b"%d" % one for row in rows for one in row)
        bench.hear(bench.peers[0], (SURVEYED, number, (b"1", told, b"of a later version")))
        bench.hear(bench.peers[1], (SURVEYED, number, (b"",)))
        shown = named(client.read())
        assert shown[b"added"][-2:] == [1, 11]
        assert [sum(shown[name]) for name in (b"added", b"delivered", b"acked", b"nacked")] == [12, 2, 3, 4]
        assert (shown[b"nodes"], shown[b"unreachable"]) == (3, [])

    def test_a_queue_that_no_node_knows(self, bench: Bench, client: Client) -> None:
        number = self.ask(bench, client)
        for peer in bench.peers:
            bench.hear(peer, (SURVEYED, number, (b"",)))
        assert client.read() is None

    @pytest.mark.parametrize(
        "words",
        [
            (b"1",),
            (b"1", b"x"),
            (b"1", b"1 2 3 4 5"),
            (b"1", b"-1 0 0 0 0 0"),
            (b"1", b"9" * 19 + b" 0 0 0 0 0"),
            (b"1", b"4294967296 0 0 0 0 0"),
            (b"1", b" ".join([b"1"] * 6 * 169)),
        ],
        ids=lambda words: repr(words)[:40],
    )
    def test_nonsense_counts_as_no_answer(self, bench: Bench, client: Client, words: tuple[bytes, ...]) -> None:
        client.add("q", "body", "REPLICATE", 1)
        number = self.ask(bench, client)
        bench.hear(bench.peers[0], (SURVEYED, number, words))
        bench.hear(bench.peers[1], (SURVEYED, number, (b"1", b"")))
        shown = named(client.read())
        assert (sum(shown[b"added"]), shown[b"nodes"], shown[b"unreachable"]) == (1, 2, [bench.peers[0].id])

    @pytest.mark.parametrize("words", [(), (b"q",), (b"q", b"week"), (b"q", b"day", b"more")])
    def test_questions_that_make_no_sense(self, bench: Bench, words: tuple[bytes, ...]) -> None:
        bench.hear(bench.peers[0], (SURVEY, 1, history.PAST, words))
        assert [message for _, message in bench.sent(SURVEYED)] == [(SURVEYED, 1, ())]

    def test_what_a_node_tells(self, bench: Bench, client: Client) -> None:
        client.add("q", "body", "REPLICATE", 1)
        for number, name in enumerate((b"q", b"r"), 1):
            bench.hear(bench.peers[0], (SURVEY, number, history.PAST, (name, b"day")))
        (_, first), (_, second) = bench.sent(SURVEYED)
        assert first[2] == (b"1", b"%d 1 0 0 0 0" % (bench.now_ms // (24 * HOUR_MS)))
        assert second[2] == (b"",)
