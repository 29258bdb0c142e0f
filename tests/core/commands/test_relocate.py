import pytest

from disque.core.model.memory import QUEUE_BYTES
from tests.core.support import UNKNOWN_ID, Bench, Client


def dead_letter(client: Client, *options: str | int) -> bytes:
    job = client.add("q", "body", "TRIES", 1, *options)
    assert client.get("q") == [job]
    assert client("NACK", job) == 1
    assert client("QLEN", "q:dead") == 1
    return job


def test_a_job_goes_to_another_queue_whatever_it_waits_for(bench: Bench, client: Client) -> None:
    queued, out, delayed = client.add("q", "a"), client.add("r", "b"), client.add("q", "c", "DELAY", 60)
    assert client.get("r") == [out]
    assert client("MOVE", "z", queued, out, delayed, UNKNOWN_ID) == 3
    assert client.get("z", count=9) == [queued, out, delayed]
    assert client("ACKJOB", queued, out, delayed) == 3
    assert bench.node.used == sum(queue_cost(bench))


def queue_cost(bench: Bench) -> list[int]:
    return [QUEUE_BYTES + len(name) for name in bench.node.queues]


def test_one_of_the_middle_of_a_line_leaves_it(client: Client) -> None:
    jobs = [client.add("q", str(number)) for number in range(5)]
    assert client("MOVE", "r", jobs[2]) == 1
    assert client("MOVE", "q", jobs[2]) == 1
    assert client("MOVE", "r", jobs[2], jobs[3]) == 2
    assert client.get("q", count=9) == [jobs[0], jobs[1], jobs[4]]
    assert client.get("r", count=9) == [jobs[2], jobs[3]]


def test_it_can_be_delayed(bench: Bench, client: Client) -> None:
    job = client.add("q")
    assert client("MOVE", "r", job, "DELAY", "0.5") == 1
    assert client.get("q", "r") == []
    bench.advance(500)
    assert client.get("q", "r") == [job]


def test_its_life_goes_on(bench: Bench, client: Client) -> None:
    job = client.add("q", "body", "TTL", 10, "RETRY", 60)
    bench.advance(9000)
    assert client("MOVE", "r", job) == 1
    bench.advance(1001)
    assert client.show(job) == {}


def test_what_was_delivered_at_most_once_stays(client: Client) -> None:
    queued = client.add("q", "body", "RETRY", 0, "REPLICATE", 1)
    assert client("MOVE", "r", queued) == 1
    assert client.get("r") == [queued]
    assert client("MOVE", "q", queued) == 0


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("r", UNKNOWN_ID, "DELAY", "x"), "ERR DELAY time must be a non negative number"),
        (("r", UNKNOWN_ID, "DELAY", "-1"), "ERR DELAY time must be a non negative number"),
        (("r", UNKNOWN_ID, "DELAY", 2**32), "ERR DELAY must be at most 4294967295 seconds"),
        (("r", "x"), "BADID Invalid Job ID format."),
        (("r",), "ERR wrong number of arguments for 'move' command"),
    ],
)
def test_wrong_words(client: Client, words: tuple[str | bytes | int, ...], text: str) -> None:
    assert client.error("MOVE", *words) == text


def test_a_dead_letter_goes_back_as_it_was_at_first(bench: Bench, client: Client) -> None:
    job = dead_letter(client, "TTL", 100, "RETRY", 7)
    bench.advance(1_000_000)
    assert client.show(job)["ttl"] == 30 * 86_400 - 1000
    assert client("REVIVEJOB", job) == 1
    shown = client.show(job)
    assert (shown["queue"], shown["ttl"], shown["retry"], shown["tries"], shown["tries-left"]) == (b"q", 100, 7, 0, 1)
    assert (shown["origin"], shown["died"]) == (None, None)
    assert client("REVIVEJOB", job, UNKNOWN_ID) == 0
    assert client.get("q") == [job]


def test_nodes_of_before_are_named() -> None:
    bench = Bench(peers=1)
    bench.membership.set_capabilities(bench.peers[0].id, 0)
    client = bench.client()
    for words in (("MOVE", "q", UNKNOWN_ID), ("REVIVEJOB", UNKNOWN_ID), ("NACK", UNKNOWN_ID, "DEAD")):
        assert client.error(*words).endswith(f"node {bench.peers[0].id.decode()} runs an older version")


def test_a_job_that_comes_back_does_not_take_its_key_back(client: Client) -> None:
    first = client.add("q", "body", "TRIES", 1, "UNIQUE", "k", 0)
    assert client("FIND", "q", "k") == first
    assert client.get("q") == [first]
    assert client("NACK", first) == 1
    assert client("FIND", "q", "k") is None
    second = client.add("q", "body", "UNIQUE", "k", 0)
    assert second != first
    assert client("REVIVEJOB", first) == 1
    assert client("FIND", "q", "k") == second
    assert client("ACKJOB", first) == 1
    assert client("FIND", "q", "k") == second
