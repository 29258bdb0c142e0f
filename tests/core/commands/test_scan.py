from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from disque.core import step
from disque.core.commands import scan
from disque.core.model import memory
from tests.conftest import examples
from tests.core.support import NOTHING, Bench, Client, repljob


def first_walk(bench: Bench) -> scan.Walk:
    """The walk whose turn it is."""
    walk = bench.node.walks[0]
    assert isinstance(walk, scan.Walk)
    return walk


def waited(bench: Bench, client: Client, *words: Any) -> Any:
    """The reply to a request, which may take some ticks; without one, to that which was sent before."""
    if words:
        client.send(*words)
    while (reply := client.read()) is NOTHING:
        step.tick(bench.node, bench.now_ms)
    return reply


def walk_jobs(client: Client, count: int, between: list[list[tuple[str, int]]]) -> list[bytes]:
    """A whole JSCAN with something happening between its calls."""
    cursor, found = b"0", []
    while True:
        cursor, some = client("JSCAN", cursor, "COUNT", count)
        found += some
        if cursor == b"0":
            return found
        for action, number in between.pop() if between else []:
            act(client, action, number)


def act(client: Client, action: str, number: int) -> None:
    if action == "add":
        for _ in range(number):
            client.add(f"extra{number}")
    elif action == "get":
        client.get("q", f"extra{number}", count=number)
    else:
        client("DELJOB", *client.get(f"extra{number}", count=number))


CHANGES = st.lists(
    st.lists(st.tuples(st.sampled_from(["add", "get", "drop"]), st.integers(1, 5)), max_size=4), max_size=12
)


@settings(max_examples=examples(30))
@given(CHANGES, st.integers(1, 20))
def test_jscan_meets_every_job_that_is_there_throughout_once(changes: list[list[tuple[str, int]]], count: int) -> None:
    bench = Bench(checked=False)
    client = bench.client()
    jobs = [client.add("q") for _ in range(30)]
    found = walk_jobs(client, count, changes)
    assert set(jobs) <= set(found)
    assert len(found) == len(set(found))


@settings(max_examples=examples(50))
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 300)), max_size=15))
def test_qscan_meets_every_queue_that_is_there_throughout_once(changes: list[tuple[bool, int]]) -> None:
    bench = Bench(checked=False)
    client = bench.client()
    node = bench.node
    names = [b"stays%d" % number for number in range(250)]
    for number, name in enumerate(names):
        node.queue(name, bench.now_ms)
        node.queue(b"goes%d" % number, bench.now_ms)
    cursor, found = b"0", []
    while True:
        cursor, some = client("QSCAN", cursor, "COUNT", 1)
        found += some
        if cursor == b"0":
            break
        for makes, number in changes[:3]:
            queue = node.queues.get(b"goes%d" % number)
            if makes:
                node.queue(b"new%d" % number, bench.now_ms)
            elif queue is not None:
                node.drop_queue(queue)
        del changes[:3]
    assert set(names) <= set(found)
    assert len(found) == len(set(found))


def test_a_walk_through_many_jobs_ends_after_calls_of_bounded_size(bench: Bench) -> None:
    bench.checked = False
    client = bench.client()
    jobs = [client.add("q") for _ in range(3000)]
    cursor, found, calls = b"0", [], 0
    while calls == 0 or cursor != b"0":
        cursor, some = client("JSCAN", cursor)
        assert len(some) <= 150, "COUNT is 100, and one dict more"
        found += some
        calls += 1
    assert sorted(found) == sorted(jobs)
    assert 20 <= calls <= 31


def test_a_scan_that_finds_little_looks_at_ten_times_count_and_goes_on(bench: Bench) -> None:
    bench.checked = False
    client = bench.client()
    for _ in range(3000):
        client.add("q")
    cursor, some = client("JSCAN", "COUNT", 10, "QUEUE", "other")
    assert some == []
    assert 0 < int(cursor) < 1024


def test_count_0_looks_at_something_and_a_negative_count_at_everything(bench: Bench) -> None:
    bench.checked = False
    client = bench.client()
    jobs = [client.add("q") for _ in range(500)]
    cursor, _ = client("JSCAN", "COUNT", 0)
    assert cursor == b"1"
    cursor, found = client("JSCAN", "COUNT", -1)
    assert cursor == b"0"
    assert sorted(found) == sorted(jobs)
    cursor, found = client("JSCAN", "BUSYLOOP", "COUNT", 1)
    assert cursor == b"0"
    assert sorted(found) == sorted(jobs)


def test_qscan_goes_on_where_it_stopped(bench: Bench, client: Client) -> None:
    bench.checked = False
    for number in range(350):
        bench.node.queue(b"%d" % number, bench.now_ms)
    sizes: list[int] = []
    cursor = b"0"
    while not sizes or cursor != b"0":
        cursor, some = client("QSCAN", cursor)
        sizes.append(len(some))
    assert sizes == [100, 100, 100, 50]
    assert [len(client("QSCAN", *words)[1]) for words in (("BUSYLOOP",), ("COUNT", -1), ("COUNT", 0))] == [
        350,
        350,
        100,
    ]


def test_a_cursor_from_beyond_the_end_finds_nothing(client: Client) -> None:
    client.add("q")
    assert client("JSCAN", 5000) == [b"0", []]
    assert client("QSCAN", 5000) == [b"0", []]


def test_no_count_makes_one_call_look_at_everything_there_is(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "LOOK_MOST", 300)
    bench.checked = False
    client = bench.client()
    jobs = [client.add(f"queue{number}") for number in range(1000)]
    for count in (-1, 10**18):
        assert 300 <= len(client("JSCAN", "COUNT", count)[1]) < 400
        assert len(client("QSCAN", "COUNT", count)[1]) == 300
        assert sorted(walk_jobs(client, count, [])) == sorted(jobs)
    for command, all_of_them in (("JSCAN", jobs), ("QSCAN", [b"queue%d" % number for number in range(1000)])):
        cursor, found = waited(bench, client, command, "BUSYLOOP")
        assert (cursor, sorted(found)) == (b"0", sorted(all_of_them))


def test_one_call_ends_when_its_reply_is_long(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "BYTES_MOST", 20_000)
    bench.checked = False
    client = bench.client()
    for number in range(300):
        client.add(f"{number}{'n' * 100}", "x" * 1000)
    assert 10 <= len(client("JSCAN", "COUNT", 300, "REPLY", "ALL")[1]) < 25
    assert len(client("JSCAN", "COUNT", 300)[1]) == 300, "IDs alone are short"
    assert len(client("QSCAN", "COUNT", 300)[1]) == 200
    assert len(waited(bench, client, "JSCAN", "BUSYLOOP", "REPLY", "ALL")[1]) == 300


def test_so_it_does_when_bodies_of_ended_jobs_are_long(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "BYTES_MOST", 20_000)
    client = bench.client()
    client("ACKJOB", *[client.add("q", "x" * 1000, "RETAIN", 60) for _ in range(50)])
    cursor, found = client("JSCAN", "STATE", "done", "COUNT", 300, "REPLY", "ALL")
    assert 10 <= len(found) < 25
    assert len(client("JSCAN", cursor, "STATE", "done", "COUNT", 300, "REPLY", "ALL")[1]) < 25
    assert len(client("JSCAN", "STATE", "done", "COUNT", 300)[1]) == 50, "IDs alone are short"


class TestBusyLoop:
    """A walk that one client waits for, and others do not."""

    @pytest.fixture
    def scene(self, monkeypatch: pytest.MonkeyPatch) -> tuple[Bench, Client, list[bytes]]:
        monkeypatch.setattr(scan, "LOOK_MOST", 100)
        monkeypatch.setattr(scan, "TICK_LOOK_MOST", 50)
        bench = Bench(checked=False)
        client = bench.client()
        return bench, client, [client.add("q") for _ in range(600)]

    def test_others_are_served_between_its_parts(self, scene: tuple[Bench, Client, list[bytes]]) -> None:
        bench, client, jobs = scene
        client.send("JSCAN", "BUSYLOOP")
        assert client.read() is NOTHING
        assert bench.node.next_due_ms == 0, "there is something to be done"
        ticks = 0
        while bench.node.walks:
            assert bench.client()("PING") == b"PONG"
            step.tick(bench.node, bench.now_ms)
            ticks += 1
        assert 5 <= ticks <= 15
        cursor, found = client.read()
        assert (cursor, sorted(found)) == (b"0", sorted(jobs))

    def test_of_several_one_is_done_after_the_other(self, scene: tuple[Bench, Client, list[bytes]]) -> None:
        bench, first, jobs = scene
        second = bench.client()
        first.send("JSCAN", "BUSYLOOP")
        second.send("JSCAN", "BUSYLOOP")
        while len(bench.node.walks) == 2:
            step.tick(bench.node, bench.now_ms)
        assert first_walk(bench).found < len(jobs) // 2, "only one at a time fills memory"
        assert [len(waited(bench, one)[1]) for one in (first, second)] == [len(jobs)] * 2

    def test_others_stand_still_while_a_client_does_not_read(
        self, scene: tuple[Bench, Client, list[bytes]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bench, first, jobs = scene
        monkeypatch.setattr(memory, "UNREAD_MOST", 100)
        second, third = bench.client(), bench.client()
        first.choked = True
        for one in (first, second, third):
            one.send("JSCAN", "BUSYLOOP")
        bench.advance(0)
        assert (bench.node.unread, len(bench.node.walks)) == (len(first.session.out[0]), 2)
        assert first_walk(bench).found < len(jobs)
        assert bench.node.next_due_ms > 0
        step.tick(bench.node, bench.now_ms)
        assert len(bench.node.walks) == 2
        first.choked = False
        assert len(first.read()[1]) == len(jobs)
        assert [len(waited(bench, one)[1]) for one in (second, third)] == [len(jobs)] * 2
        assert bench.node.unread == 0

    def test_others_go_on_when_a_client_that_does_not_read_is_gone(
        self, scene: tuple[Bench, Client, list[bytes]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bench, first, jobs = scene
        monkeypatch.setattr(memory, "UNREAD_MOST", 100)
        second = bench.client()
        first.choked = True
        first.send("JSCAN", "BUSYLOOP")
        second.send("JSCAN", "BUSYLOOP")
        bench.advance(0)
        assert bench.node.walks
        first.disconnect()
        assert len(waited(bench, second)[1]) == len(jobs)

    def test_one_that_fails_is_answered_and_its_client_closed(self, scene: tuple[Bench, Client, list[bytes]]) -> None:
        bench, client, _ = scene
        client.send("JSCAN", "BUSYLOOP")
        first_walk(bench).cursor = -(10**6)  # there is no such dict
        with pytest.raises(IndexError):
            step.tick(bench.node, bench.now_ms)
        assert client.session.closing
        assert client.session.out == [b"-ERR internal error, see the log of the server\r\n"]
        assert not bench.node.walks

    def test_what_comes_and_goes_meanwhile_does_no_harm(self, scene: tuple[Bench, Client, list[bytes]]) -> None:
        bench, client, jobs = scene
        other = bench.client()
        client.send("JSCAN", "BUSYLOOP")
        gone = other.get("q", count=300)
        other("DELJOB", *gone)
        new = [other.add("q") for _ in range(50)]
        cursor, found = waited(bench, client)
        assert cursor == b"0"
        assert {*jobs} - {*gone} <= {*found} <= {*jobs, *new}

    def test_it_is_answered_though_everything_is_dropped(self, scene: tuple[Bench, Client, list[bytes]]) -> None:
        bench, client, _ = scene
        client.send("JSCAN", "BUSYLOOP")
        bench.client()("DEBUG", "FLUSHALL")
        assert waited(bench, client)[0] == b"0"

    def test_it_ends_when_its_client_is_gone(self, scene: tuple[Bench, Client, list[bytes]]) -> None:
        bench, client, _ = scene
        client.send("JSCAN", "BUSYLOOP")
        client.disconnect()
        step.tick(bench.node, bench.now_ms)
        assert not bench.node.walks

    def test_who_wants_no_reply_gets_none(self, scene: tuple[Bench, Client, list[bytes]]) -> None:
        bench, client, _ = scene
        client.send("CLIENT", "REPLY", "SKIP")
        client.send("JSCAN", "BUSYLOOP")
        while bench.node.walks:
            step.tick(bench.node, bench.now_ms)
        assert client("PING") == b"PONG"


def test_qscan_keeps_queues_to_which_jobs_come_quickly(bench: Bench, client: Client) -> None:
    client.add("home")
    client.add("imported")
    flow = bench.node.federation.flow(b"imported")
    bench.node.queues[b"imported"].flow = flow
    flow.imported(b"b" * 40, 10, bench.now_ms)
    assert client("QSCAN", "IMPORTRATE", 200)[1] == [b"imported"]
    assert client("QSCAN", "IMPORTRATE", 201)[1] == []
    assert client("QSCAN", "IMPORTRATE", -5)[1] == [b"home", b"imported"]


class TestWhatQstatCounts:
    def found(self, client: Client, *states: str) -> set[bytes]:
        words = [word for state in states for word in ("STATE", state)]
        return set(client("JSCAN", "BUSYLOOP", *words)[1])

    def test_delayed_and_in_flight(self, client: Client) -> None:
        waits = client.add("q", "body", "DELAY", 10)
        ids = [client.add("q") for _ in range(4)]
        client.get("q", count=3)
        client("NACK", ids[0], "DELAY", 10)
        client("ACKJOB", ids[1])
        assert self.found(client, "delayed") == {waits, ids[0]}
        assert self.found(client, "in-flight") == {ids[2]}
        assert self.found(client, "In-Flight", "queued") == {ids[2], ids[3]}
        assert self.found(client, "active") == self.found(client, "delayed", "in-flight") == {waits, ids[0], ids[2]}

    @pytest.mark.parametrize("ending", ["done", "cancelled", "dead", "expired", "dropped"])
    def test_jobs_that_live_beside_those_that_have_ended(self, client: Client, ending: str) -> None:
        job_id = client.add("q")
        assert self.found(client, "queued", ending) == {job_id}
        assert self.found(client, "active", ending) == set()

    def test_only_where_a_node_speaks_for_the_job(self) -> None:
        bench = Bench(peers=1)
        client = bench.client()
        bench.hear(bench.peers[0], repljob(bench.peers[0].id))
        assert len(self.found(client, "active")) == 1
        assert self.found(client, "delayed", "in-flight") == set()

    def test_a_state_that_is_none(self, client: Client) -> None:
        for state in ("", "inflight", "dead-letter"):
            assert str(client("JSCAN", "STATE", state)) == "ERR Invalid job state name"
