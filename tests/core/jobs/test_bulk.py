from collections.abc import Iterator

import pytest

from cluster.messages import SETACK
from disque.core import step
from disque.core.jobs import bulk
from tests.core.support import NOTHING, Bench, Client, foreign_id

WORDS = ("ACKJOB", "FASTACK", "DELJOB", "NACK", "WORKING", "ENQUEUE", "DEQUEUE")


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "MOST", 10)
    monkeypatch.setattr(bulk, "SLICE", 10)


def turns(bench: Bench) -> Iterator[int]:
    """The ticks that commands with many IDs take."""
    number = 0
    while bench.node.bulks.line:
        step.tick(bench.node, bench.now_ms)
        number += 1
        yield number
    bench.settle()


@pytest.mark.parametrize("word", WORDS)
def test_others_are_served_while_it_goes_on(word: str) -> None:
    bench = Bench(peers=1)
    client, other = bench.client(), bench.client()
    jobs = [client.add("q", "b", "RETRY", 60, "REPLICATE", 1) for _ in range(100)]
    if word in {"NACK", "ENQUEUE"}:
        client.get("q", count=100)
    client.send(word, *jobs)
    assert client.read() is NOTHING
    assert bench.node.next_due_ms == 0, "there is something to be done"
    for _ in turns(bench):
        assert other("PING") == b"PONG"
    assert client.read() == ([60] * 100 if word == "WORKING" else 100)
    assert client("PING") == b"PONG"


def test_each_tick_does_one_slice(cluster: Bench) -> None:
    client = cluster.client()
    client.send("ACKJOB", *[foreign_id(number) for number in range(105)])
    grown = [len(cluster.node.acks.dummies) for _ in turns(cluster)]
    checks = -(-105 // (10 * bulk.CHECKS))
    assert grown == [0] * checks + [10 * number for number in range(1, 11)] + [105]
    assert client.read() == 0
    told = cluster.told(cluster.peers[0], SETACK)
    assert [job_id for message in told for job_id in message[2]] == [foreign_id(number) for number in range(105)]


def test_of_several_each_has_its_turn(cluster: Bench) -> None:
    large, small = cluster.client(), cluster.client()
    large.send("ACKJOB", *[foreign_id(number) for number in range(1000)])
    small.send("ACKJOB", *[foreign_id(number) for number in range(2000, 2020)])
    for number in turns(cluster):
        cluster.settle()
        if number == 8:
            assert small.read() == 0
            assert large.waiting
    assert large.read() == 0


def test_nothing_is_done_when_one_is_no_id(cluster: Bench) -> None:
    client = cluster.client()
    job = client.add("q", "b", "REPLICATE", 1)
    client.send("ACKJOB", job, *[foreign_id(number) for number in range(200)], "nonsense")
    cluster.tick()
    assert str(client.read()).startswith("BADID")
    assert cluster.state(job) == "queued"
    assert not cluster.node.acks.dummies
    assert not cluster.node.trash, "the words are freed by and by"


def test_requests_behind_it_wait_for_it(cluster: Bench) -> None:
    client = cluster.client()
    client.send("ACKJOB", *[foreign_id(number) for number in range(50)])
    assert client.waiting
    cluster.tick()
    assert not client.waiting


def test_it_is_done_although_its_client_is_gone(bench: Bench, client: Client) -> None:
    jobs = [client.add("q") for _ in range(50)]
    other = bench.client()
    other.send("ACKJOB", *jobs)
    step.tick(bench.node, bench.now_ms)
    other.disconnect()
    bench.tick()
    assert bench.node.jobs_registered() == 0
    assert bench.node.bulks.orphans == 0


def test_what_clients_have_left_behind_is_bounded(
    bench: Bench, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "ORPHANS_MOST", 90)
    jobs = [client.add("q") for _ in range(100)]
    for some in (jobs[:50], jobs[50:]):
        other = bench.client()
        other.send("ACKJOB", *some)
        other.disconnect()
    bench.tick()
    assert bench.node.jobs_registered() == 50
    assert bench.node.bulks.orphans == 0
    assert not bench.node.bulks.line


def test_a_nack_counts_once_whatever_happens_between(bench: Bench, client: Client) -> None:
    first, *others = [client.add("q") for _ in range(30)]
    client.get("q", count=30)
    client.send("NACK", first, *others, first)
    for number in turns(bench):
        if number == 2:
            assert bench.client().get("q") == [first]
    assert client.read() == 30
    assert bench.job(first).nacks == 1


def test_a_nack_of_many_may_have_a_delay(bench: Bench, client: Client) -> None:
    jobs = [client.add("q") for _ in range(30)]
    client.get("q", count=30)
    client.send("NACK", *jobs, "DELAY", 5)
    bench.tick()
    assert [client.read(), client("QLEN", "q")] == [30, 0]
    bench.advance(5000)
    assert client("QLEN", "q") == 30


def test_one_that_fails_is_answered_and_its_client_closed(bench: Bench, client: Client) -> None:
    client.send("ACKJOB", *[foreign_id(number) for number in range(30)])
    command = bench.node.bulks.line[0]
    assert isinstance(command, bulk.Bulk)
    command.ids[:] = [None] * 30  # type: ignore[list-item]  # a fault of ours, whatever it be
    with pytest.raises(TypeError):
        step.tick(bench.node, bench.now_ms)
    assert client.session.closing
    assert client.session.out == [b"-ERR internal error, see the log of the server\r\n"]
    assert not bench.node.bulks.line


def test_who_wants_no_reply_gets_none(bench: Bench, client: Client) -> None:
    client.send("CLIENT", "REPLY", "SKIP")
    client.send("ACKJOB", *[foreign_id(number) for number in range(30)])
    bench.tick()
    assert client("PING") == b"PONG"


def test_its_reply_waits_for_all_its_records() -> None:
    bench = Bench(journaling=True)
    client = bench.client()
    jobs = [client.add("q") for _ in range(30)]
    client.session.unsettled = False
    client.send("ACKJOB", *jobs)
    while bench.node.bulks.line:
        step.tick(bench.node, bench.now_ms)
    assert client.session.unsettled


def test_it_goes_on_though_everything_is_dropped(bench: Bench, client: Client) -> None:
    jobs = [client.add("q") for _ in range(30)]
    client.send("ACKJOB", *jobs)
    bench.client()("DEBUG", "FLUSHALL")
    bench.tick()
    assert client.read() == 0
