import msgpack
import pytest

from cluster.messages import MOVED, NEEDJOBS, YOURJOBS, yourjobs_row
from disque.core.model import extra, spec
from disque.core.model.extra import ORIGIN_MOST
from disque.core.model.job import DELIVERED
from tests.core.support import MYSELF, Bench, Client


def fail(client: Client, job: bytes, *words: str | int) -> None:
    assert client.get("q") == [job]
    assert client("NACK", job, *words) == 1


def test_a_job_is_tried_so_often_and_then_it_is_a_dead_letter(bench: Bench, client: Client) -> None:
    job = client.add("q", "body", "TRIES", 3, "RETRY", 5)
    fail(client, job)
    assert client.get("q") == [job]
    bench.advance(5000)
    fail(client, job, "ERROR", "why")
    assert client.get("q") == []
    shown = client.show(job)
    assert (shown["queue"], shown["state"], shown["nacks"], shown["additional-deliveries"]) == (
        b"q:dead",
        b"queued",
        0,
        0,
    )
    assert (shown["origin"], shown["died"], shown["error"], shown["tries-left"]) == (b"q", b"tries", b"why", None)
    assert client.get("q:dead") == [job]
    assert client("ACKJOB", job) == 1


def test_what_is_no_failure_uses_no_try(bench: Bench, client: Client) -> None:
    job = client.add("q", "body", "TRIES", 1, "RETRY", 5)
    for _ in range(3):
        fail(client, job, "NOCOUNT")
    assert client.get("q") == [job]
    assert client("ENQUEUE", job) == 1
    assert client.get("q") == [job]
    bench.advance(5000)
    assert client("QLEN", "q:dead") == 1


def test_a_failure_is_reported_once(bench: Bench, client: Client) -> None:
    job = client.add("q", "body", "TRIES", 2, "BACKOFF", "fixed:10:10:0")
    fail(client, job)
    assert client("NACK", job) == 1
    assert client("NACK", job, "DEAD") == 1
    assert (client.show(job)["tries"], client.show(job)["queue"]) == (1, b"q")
    bench.advance(9999)
    assert client.get("q") == []
    bench.advance(1)
    assert client.get("q") == [job]


def test_a_delay_that_is_said_counts_and_the_end_of_a_retry_queues_at_once(bench: Bench, client: Client) -> None:
    job = client.add("q", "body", "BACKOFF", "exponential:10:100:0", "RETRY", 3)
    fail(client, job, "DELAY", "0.5")
    bench.advance(500)
    assert client.get("q") == [job]
    bench.advance(3000)
    fail(client, job)
    bench.advance(39_999)
    assert client.get("q") == []
    bench.advance(1)
    assert client.get("q") == [job]


@pytest.mark.parametrize(("option", "queue"), [((), "q:dead"), (("DEADLETTER", "graves"), "graves")])
def test_no_more_tries_now(client: Client, option: tuple[str, ...], queue: str) -> None:
    job = client.add("q", "body", "TRIES", 9, *option)
    fail(client, job, "DEAD", "ERROR", "x" * 5000)
    shown = client.show(job)
    assert (shown["queue"], shown["died"], shown["error"]) == (queue.encode(), b"nack", b"x" * 4096)
    assert client.get(queue) == [job]
    assert client("NACK", job, "DEAD") == 1
    assert client.show(job)["queue"] == queue.encode()
    assert client.get(queue) == [job]


def test_without_a_queue_for_dead_letters_it_ends(bench: Bench, client: Client) -> None:
    job = client.add("q", "body", "TRIES", 1, "DEADLETTER", "")
    fail(client, job)
    assert client.show(job) == {}
    once = client.add("q", "body", "RETRY", 0, "REPLICATE", 1)
    fail(client, once, "DEAD")
    assert client.show(once) == {}
    assert client("NACK", once, "DEAD") == 0
    assert bench.node.stats.jobs_died == 2


def test_priority_and_headers_stay_and_tries_do_not_come_again(client: Client) -> None:
    job = client.add("q", "body", "TRIES", 1, "PRIORITY", 9, "HEADER", "a", "b")
    fail(client, job)
    shown = client.show(job)
    assert (shown["priority"], shown["headers"], shown["tries-left"]) == (9, [b"a", b"b"], None)


@pytest.mark.parametrize(
    "words", [("NOCOUNT", "DEAD"), ("NOCOUNT", "ERROR", "x"), ("DEAD", "DELAY", 1), ("ERROR", "a", "NOCOUNT")]
)
def test_what_contradicts_itself(client: Client, words: tuple[str | int, ...]) -> None:
    job = client.add("q")
    text = "ERR NACK: NOCOUNT cannot be said with ERROR or DEAD, nor DEAD with DELAY"
    assert client.error("NACK", job, *words) == text
    assert client.error("NACK", job, "DEAD", "DEAD") == "ERR DEAD can be said once"
    assert client.error("NACK", job, "ERROR", "a", "ERROR", "b") == "ERR ERROR can be said once"


def test_an_error_can_be_any_word(client: Client) -> None:
    job = client.add("q")
    client.get("q")
    assert client("NACK", job, "ERROR", "DEAD") == 1
    assert client.show(job)["error"] == b"DEAD"


def test_what_was_given_back_and_handed_on_is_no_try_here() -> None:
    bench = Bench(peers=1)
    (one,) = bench.peers
    client = bench.client()
    job = client.add("q", "body", "TRIES", 2, "RETRY", 5, "REPLICATE", 1)
    fail(client, job, "NOCOUNT")
    bench.advance(10_000)
    bench.hear(one, (NEEDJOBS, b"q", 1))
    assert client("QLEN", "q") == 0
    assert not bench.job(job).flags & DELIVERED  # else it would be one as soon as another node wants to queue it


def test_a_job_of_retry_0_is_moved_at_its_node_alone() -> None:
    bench = Bench(peers=2)
    client = bench.client()
    client.send("ADDJOB", "q", "body", 0, "RETRY", 0, "REPLICATE", 1, "UNIQUE", "k", 0)
    bench.settle()
    (job,) = client.read_all()
    bench.sent()
    assert client("MOVE", "r", job) == 1
    assert MOVED not in {message[0] for _, message in bench.sent()}
    assert not bench.node.moves.by_id


def test_a_dead_letter_is_a_job_like_any_other(bench: Bench, client: Client) -> None:
    listener = bench.client()
    listener("SUBSCRIBE", "job:delivered:q:dead")
    jobs = [client.add("q", str(number), "TRIES", 1) for number in range(3)]
    assert client.get("q", count=3) == jobs
    assert client("NACK", *jobs) == 3
    assert client("QLEN", "q:dead") == 3
    assert [entry[1] for entry in client("QPEEK", "q:dead", 2)] == jobs[:2]
    assert b"q:dead" in client("QSCAN", "BUSYLOOP")[1]
    assert client("JSCAN", "BUSYLOOP", "QUEUE", "q:dead", "STATE", "queued")[1] != []
    client("PAUSE", "q:dead", "out")
    assert client.get("q:dead") == []
    client("PAUSE", "q:dead", "none")
    assert client.get("q:dead") == jobs[:1]
    assert listener.read() == [b"message", b"job:delivered:q:dead", jobs[0]]
    assert client("ACKJOB", jobs[0]) == 1
    assert client("QSTAT", "q:dead")[3] == 2


def test_an_error_is_cut_and_the_last_one_counts(bench: Bench, client: Client) -> None:
    job = client.add("q", "body", "RETRY", 60)
    fail(client, job, "ERROR", "first")
    bench.advance(1000)
    fail(client, job, "ERROR", "x" * 5000)
    bench.advance(2000)
    shown = client.show(job)
    assert (shown["error"], shown["error-ms-ago"]) == (b"x" * 4096, 2000)


def test_a_dead_letter_of_a_queue_with_a_very_long_name_has_no_origin_and_its_records_can_be_read() -> None:
    bench = Bench(journaling=True)
    client = bench.client()
    for size in (ORIGIN_MOST, ORIGIN_MOST + 1):
        name = b"n" * size
        job = client("ADDJOB", name, "body", 0, "TRIES", 1, "DEADLETTER", "dead")
        assert client("GETJOB", "FROM", name)
        assert client("NACK", job, "ERROR", "x" * 5000) == 1
        bench.records()  # checked, as a start would
        is_known = size <= ORIGIN_MOST
        assert client.show(job)["origin"] == (name if is_known else None)
        assert client("REVIVEJOB", job) == is_known
        assert client("NACK", job, "ERROR", "x" * 5000) == 0
        client("DELJOB", job)


def test_a_job_with_as_much_as_newer_nodes_may_say_of_it_dies_and_comes_back() -> None:
    bench = Bench(peers=2, journaling=True)
    client = bench.client()
    rows = {60_000 + number: 2**64 - 1 for number in range(spec.NEWER_MOST)}
    said = spec.encode(86_400, 300, 1, {spec.TRIES.number: 1, **rows})
    more = msgpack.packb({60_000: bytes(extra.NEWER_BYTES - spec.VALUE_BYTES)})
    job = b"D-00000000-AAAAAAAAAAAAAAAAAAAAAAAA-05a1"
    row = yourjobs_row(
        job, b"body", said, left_ms=86_400_000, ctime=1, nacks=0, deliveries=0, holders=(MYSELF,), more=more
    )
    bench.hear(bench.peers[0], (YOURJOBS, b"q", (row,)))
    assert client.get("q") == [job]
    assert client("WORKING", job, "PROGRESS", "half") == 300
    assert client("NACK", job, "ERROR", "x" * 5000) == 1
    assert client.show(job)["queue"] == b"q:dead"
    assert client("REVIVEJOB", job) == 1
    assert client.show(job)["queue"] == b"q"
