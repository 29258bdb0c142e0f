"""Queues that are too long: what is refused, what is dropped, and how that ends at all nodes."""

import pytest

from cluster.capabilities import MINE, OVERFLOW
from cluster.messages import ENDED, MOVED, REPLJOB, REPLJOB_IDS, SETACK
from disque.core.jobs import overflow
from disque.core.model.ends import DONE, DROPPED
from disque.core.model.job import Job
from disque.core.model.lane import Lane
from tests.core.journal.test_replay import replayed
from tests.core.support import MYSELF, NOTHING, Bench, Client, foreign_id, repljob


@pytest.fixture
def bench() -> Bench:
    return Bench(journaling=True)


@pytest.fixture
def client(bench: Bench) -> Client:
    client = bench.client()
    client("QCONFIG", "SET", "q*", "maxlen", 3, "overflow", "drop-oldest")
    return client


def stat(client: Client, queue: str, field: bytes) -> int:
    words = client("QSTAT", queue)
    return int(words[words.index(field) + 1])


def queued(bench: Bench, name: bytes = b"q") -> list[bytes]:
    return [job.id for job in bench.node.queues[name].jobs()]


def status(client: Client, job_id: bytes) -> bytes | None:
    words = client("RESULT", job_id)
    return None if words is None else words[words.index(b"status") + 1]


class TestAtOneNode:
    def test_the_oldest_jobs_are_dropped(self, bench: Bench, client: Client) -> None:
        ids = [client.add("q") for _ in range(5)]
        assert queued(bench) == ids[2:]
        assert stat(client, "q", b"dropped") == 2
        assert b"\r\ntotal_jobs_dropped:2\r\n" in client("INFO", "stats")
        assert client("SHOW", ids[0]) is None

    def test_without_overflow_they_are_refused(self, client: Client) -> None:
        client("QCONFIG", "SET", "q", "overflow", "refuse")
        for _ in range(3):
            client.add("q")
        assert client.error("ADDJOB", "q", "b", 0).startswith("MAXLEN")
        client("QCONFIG", "UNSET", "q")
        client.add("q")
        assert client("QLEN", "q") == 3

    def test_what_addjob_says_itself_refuses(self, bench: Bench, client: Client) -> None:
        ids = [client.add("q", "b", "MAXLEN", 2) for _ in range(2)]
        assert client.error("ADDJOB", "q", "b", 0, "MAXLEN", 2).startswith("MAXLEN")
        ids += [client.add("q", "b", "MAXLEN", 9) for _ in range(3)]
        assert len(queued(bench)) == 3, "but the bound of the queue holds for it, too"
        assert queued(bench) == ids[2:]

    def test_the_oldest_whatever_its_priority(self, bench: Bench, client: Client) -> None:
        urgent = client.add("q", "b", "PRIORITY", 9)
        ids = [client.add("q") for _ in range(3)]
        assert queued(bench) == ids
        assert client("SHOW", urgent) is None

    def test_consumers_that_wait_come_first(self, bench: Bench, client: Client) -> None:
        client("QCONFIG", "SET", "q", "maxlen", 1)
        worker = bench.client()
        worker.send("GETJOB", "COUNT", 2, "FROM", "q")
        assert worker.read() is NOTHING
        client.send("ADDJOB", "q", "1", 0)
        client.send("ADDJOB", "q", "2", 0)
        assert len(worker.read()) == 2
        client.read_all()
        assert stat(client, "q", b"dropped") == 0

    def test_what_comes_back_is_not_dropped_and_drops_nothing(self, bench: Bench, client: Client) -> None:
        first = client.add("q")
        client.get("q")
        ids = [client.add("q") for _ in range(3)]
        client("NACK", first)
        assert queued(bench) == [first, *ids]
        client("MOVE", "q", client.add("other"))
        assert client("QLEN", "q") == 5, "a move is no ADDJOB"
        client.add("q")
        assert client("QLEN", "q") == 3

    def test_a_delayed_job_counts_when_it_is_there(self, bench: Bench, client: Client) -> None:
        client.add("q", "b", "DELAY", 1)
        ids = [client.add("q") for _ in range(3)]
        assert queued(bench) == ids
        bench.live(2000)
        assert client("QLEN", "q") == 4
        client.add("q")
        assert client("QLEN", "q") == 3

    def test_a_smaller_bound_counts_with_the_next_job_and_many_are_dropped_one_after_the_other(
        self, bench: Bench, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        client("QCONFIG", "SET", "q", "maxlen", 50)
        for _ in range(50):
            client.add("q")
        client("QCONFIG", "SET", "q", "maxlen", 3)
        assert client("QLEN", "q") == 50
        monkeypatch.setattr(overflow, "DROPS_MOST", 10)
        client.add("q")
        assert client("QLEN", "q") < 50
        assert bench.node.next_due_ms == 0
        bench.live(100)
        assert client("QLEN", "q") == 3

    @pytest.mark.plain_only("it counts calls of a function of the core")
    def test_with_many_priorities_each_is_looked_at_once_and_then_that_of_each_job(
        self, bench: Bench, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lanes, jobs = 200, 600
        client("QCONFIG", "SET", "q", "maxlen", jobs)
        for number in range(jobs):
            client.add("q", "b", "PRIORITY", number % lanes)
        client("QCONFIG", "SET", "q", "maxlen", 1)
        bench.node.overflowing[b"q"] = None
        looks = 0
        own_head = Lane.own_head

        def counted(lane: Lane) -> Job | None:
            nonlocal looks
            looks += 1
            return own_head(lane)

        monkeypatch.setattr(Lane, "own_head", counted)
        overflow.trim(bench.node, bench.now_ms)
        assert client("QLEN", "q") == 1
        assert jobs <= looks <= lanes + 2 * jobs

    def test_a_look_at_many_priorities_counts_as_drops(
        self, bench: Bench, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        client("QCONFIG", "SET", "q*", "maxlen", 100)
        for name in ("q1", "q2", "q3"):
            for number in range(64):
                client.add(name, "b", "PRIORITY", number)
        client("QCONFIG", "SET", "q*", "maxlen", 62)
        monkeypatch.setattr(overflow, "DROPS_MOST", 6)
        bench.node.overflowing = dict.fromkeys([b"q1", b"q2", b"q3"])
        left = []
        while bench.node.overflowing:
            overflow.trim(bench.node, bench.now_ms)
            left.append([bench.node.queues[name].length for name in (b"q1", b"q2", b"q3")])
        assert left == [[62, 63, 64], [62, 62, 63], [62, 62, 62]]

    def test_nothing_is_dropped_that_could_not_be_written(self, bench: Bench, client: Client) -> None:
        ids = [client.add("q", "b", "TRIES", 1, "DEADLETTER", "q:dead") for _ in range(3)]
        client("QCONFIG", "SET", "q:dead", "maxlen", 1)
        client.get("q", count=3)
        bench.node.misconf = b"MISCONF"
        bench.node.overflowing[b"q"] = None
        bench.settle()
        assert bench.node.overflowing
        bench.node.misconf = b""
        client("NACK", *ids)
        assert client("QLEN", "q:dead") == 1
        assert not bench.node.overflowing

    def test_flushall_forgets_which_queues_are_too_long(self, bench: Bench, client: Client) -> None:
        bench.node.overflowing[b"q"] = None
        client.send("DEBUG", "FLUSHALL")
        assert not bench.node.overflowing


class TestDeadLetters:
    def test_they_are_bounded_and_never_refused(self, bench: Bench, client: Client) -> None:
        client("QCONFIG", "SET", "jobs:dead", "maxlen", 2, "overflow", "refuse")
        ids = [client.add("jobs", "b", "TRIES", 1) for _ in range(5)]
        client.get("jobs", count=5)
        client("NACK", *ids[:3])
        assert client("QLEN", "jobs:dead") == 3, "refuse never refuses a move"
        client("QCONFIG", "SET", "jobs:dead", "overflow", "drop-oldest")
        client("NACK", *ids[3:])
        assert queued(bench, b"jobs:dead") == ids[3:]
        assert stat(client, "jobs:dead", b"dropped") == 3
        assert client("REVIVEJOB", ids[3]) == 1

    def test_the_end_of_a_retry_drops_too(self, bench: Bench, client: Client) -> None:
        client("QCONFIG", "SET", "jobs:dead", "maxlen", 1, "overflow", "drop-oldest")
        for _ in range(3):
            client.add("jobs", "b", "TRIES", 1, "RETRY", 1)
        client.get("jobs", count=3)
        bench.live(3000)
        assert client("QLEN", "jobs:dead") == 1


class TestEnds:
    def test_retain_keeps_it(self, client: Client) -> None:
        first = client.add("q", "body", "RETAIN", 60)
        for _ in range(3):
            client.add("q")
        assert status(client, first) == b"dropped"
        assert client("JSCAN", 0, "BUSYLOOP", "STATE", "dropped")[1] == [first]
        assert client("JSCAN", 0, "BUSYLOOP", "STATE", "expired", "STATE", "done")[1] == []
        assert client("WAITJOB", 10, first) == [[b"dropped", None]]

    def test_it_is_there_after_a_start(self, bench: Bench, client: Client) -> None:
        first = client.add("q", "body", "RETAIN", 60)
        ids = [client.add("q") for _ in range(3)]
        node = replayed(bench.records())[0]
        assert node.ends.by_id[first].status == DROPPED
        assert [node.find(job_id) is not None for job_id in (first, *ids)] == [False, True, True, True]

    def test_who_waits_hears_of_it(self, bench: Bench, client: Client) -> None:
        first = client.add("q")
        waiter = bench.client()
        waiter.send("WAITJOB", 0, first)
        assert waiter.read() is NOTHING
        for _ in range(3):
            client.add("q")
        assert waiter.read() == [[b"dropped", None]]

    def test_its_key_is_free_again(self, client: Client) -> None:
        first = client.add("q", "b", "UNIQUE", "key", 0)
        for _ in range(3):
            client.add("q")
        assert client.add("q", "b", "UNIQUE", "key", 0) != first

    def test_who_listens_hears_of_it(self, bench: Bench, client: Client) -> None:
        listener = bench.client()
        listener.send("PSUBSCRIBE", "job:dropped:*", "job:acked:*", "job:cancelled:*")
        listener.read_all()
        first = client.add("q")
        for _ in range(3):
            client.add("q")
        assert [words[2:] for words in listener.read_all()] == [[b"job:dropped:q", first]]


class TestOtherNodes:
    def test_all_holders_hear_that_it_is_over_and_how(self) -> None:
        bench = Bench(peers=1)
        (peer,) = bench.peers
        client = bench.client()
        client("QCONFIG", "SET", "q", "maxlen", 1, "overflow", "drop-oldest")
        ids = []
        for _ in range(2):
            client.send("ADDJOB", "q", "body", 5000, "REPLICATE", 2, "RETAIN", 60)
            (message,) = bench.told(peer, REPLJOB)
            bench.confirm(message[REPLJOB_IDS][0], peer)
            ids += client.read_all()
        sent = [message for _, message in bench.sent(ENDED, SETACK)]
        assert [message[0] for message in sent] == [ENDED, SETACK]
        assert sent[0][2:4] == (DROPPED, MYSELF)
        assert sent[1][2] == (ids[0],)
        assert queued(bench) == ids[1:]

    def test_a_holder_takes_such_an_end_and_any_other_one_wins(self) -> None:
        bench = Bench(peers=2)
        one, two = bench.peers
        client = bench.client()
        job_id = foreign_id(1)
        holders = tuple(sorted((MYSELF, one.id, two.id)))
        bench.hear(one, repljob(one.id, two.id, job_id=job_id))
        bench.hear(
            one, (ENDED, 0, DROPPED, one.id, 0, 60_000, b"", (job_id,), 0, b"", b""), (SETACK, holders, (job_id,))
        )
        assert bench.node.ends.by_id[job_id].status == DROPPED
        bench.hear(two, (ENDED, 0, DONE, two.id, 0, 60_000, b"result", (job_id,), 0, b"", b""))
        assert bench.node.ends.by_id[job_id].status == DONE
        bench.hear(one, (ENDED, 0, DROPPED, one.id, 0, 60_000, b"", (job_id,), 0, b"", b""))
        assert bench.node.ends.by_id[job_id].status == DONE
        assert client("PING") == b"PONG"

    def test_nothing_is_dropped_while_others_may_have_it(self) -> None:
        bench = Bench(peers=1)
        client = bench.client()
        client("QCONFIG", "SET", "q", "maxlen", 1, "overflow", "drop-oldest")
        client.add("q", "b", "REPLICATE", 1)
        bench.node.reconciling = True
        client.add("q", "b", "REPLICATE", 1)
        assert client("QLEN", "q") == 2
        bench.node.reconciling = False
        bench.settle()
        assert client("QLEN", "q") == 1

    def test_nodes_of_before_are_named(self) -> None:
        bench = Bench(peers=1)
        (peer,) = bench.peers
        bench.membership.set_capabilities(peer.id, MINE & ~OVERFLOW)
        client = bench.client()
        bench.link_up(peer)
        wrong = client.error("QCONFIG", "SET", "q", "maxlen", 1, "overflow", "drop-oldest")
        assert wrong.startswith("ERR QCONFIG SET overflow drop-oldest needs all nodes to know it")
        assert peer.id.decode() in wrong
        assert client("QCONFIG", "SET", "q", "maxlen", 1, "overflow", "refuse") == b"OK"


@pytest.mark.parametrize("value", ["drop", "", "drop-newest"])
def test_other_words_are_refused(client: Client, value: str) -> None:
    assert "overflow" in client.error("QCONFIG", "SET", "q", "overflow", value)


def test_a_move_is_told_before_the_end() -> None:
    """A dead letter that is dropped in the turn in which it died: its holders hear both."""
    bench = Bench(peers=1)
    (peer,) = bench.peers
    client = bench.client()
    client("QCONFIG", "SET", "q:dead", "maxlen", 1, "overflow", "drop-oldest")
    for _ in range(2):
        client.send("ADDJOB", "q", "body", 5000, "REPLICATE", 2, "TRIES", 1)
        (message,) = bench.told(peer, REPLJOB)
        bench.confirm(message[REPLJOB_IDS][0], peer)
    ids = client.read_all()
    client.get("q", count=2)
    bench.sent()
    client("NACK", *ids)
    moved, done = [message for _, message in bench.sent(MOVED, SETACK)]
    assert (moved[0], sorted(moved[-1])) == (MOVED, sorted(ids))
    assert (done[0], done[-1]) == (SETACK, tuple(ids[:1]))
