import pytest

from disque.core.model.job import COUNTER_MAX
from tests.core.support import NOTHING, Bench, Client, assert_delivered


def taken(client: Client, *options: str | int) -> bytes:
    """A job that a consumer has."""
    job = client.add("q", "b", *options)
    assert client.get("q") == [job]
    return job


# -- RETRY ------------------------------------------------------------------------------------------------------------


def test_retry_counts_from_the_delivery_to_the_millisecond(bench: Bench, client: Client) -> None:
    job = client.add("q", "b", "RETRY", 3)
    bench.advance(2200)
    client.get("q")
    bench.advance(2999)
    assert bench.state(job) == "active"
    bench.advance(1)
    assert bench.state(job) == "queued"
    assert client.show(job)["additional-deliveries"] == 1


def test_a_job_that_nobody_takes_stays_in_its_queue(bench: Bench, client: Client) -> None:
    job = client.add("q", "b", "RETRY", 1)
    bench.advance(60_000)
    assert bench.state(job) == "queued"
    assert client.show(job)["additional-deliveries"] == 0


def test_each_delivery_starts_retry_again(bench: Bench, client: Client) -> None:
    job = taken(client, "RETRY", 1)
    for times in range(1, 6):
        bench.advance(1000)
        assert client.get("q") == [job]
        assert client.show(job)["additional-deliveries"] == times


def test_a_job_comes_back_to_its_old_place(bench: Bench, client: Client) -> None:
    old = taken(client, "RETRY", 1)
    new = client.add("q")
    bench.advance(1000)
    assert client.get("q", count=2) == [old, new]


def test_a_job_comes_back_to_a_consumer_that_waits(bench: Bench, client: Client) -> None:
    job = taken(client, "RETRY", 2)
    waiting = bench.client()
    waiting("GETJOB", "WITHCOUNTERS", "FROM", "q")
    bench.advance(2000)
    assert waiting.read() == [[b"q", job, b"b", b"nacks", 0, b"additional-deliveries", 1]]


def test_while_the_queue_takes_nothing_in_a_retry_is_put_off(bench: Bench, client: Client) -> None:
    job = taken(client, "RETRY", 2)
    client("PAUSE", "q", "in")
    bench.advance(3999)
    client("PAUSE", "q", "none")
    assert bench.state(job) == "active"
    bench.advance(1)
    assert bench.state(job) == "queued"


def test_a_delayed_at_most_once_job_goes_into_a_paused_queue(bench: Bench, client: Client) -> None:
    job = client.add("q", "b", "RETRY", 0, "DELAY", 2)
    client("PAUSE", "q", "in")
    bench.advance(2000)
    assert bench.state(job) == "queued"


def test_counters_stop_at_their_end(bench: Bench, client: Client) -> None:
    job = taken(client, "RETRY", 1)
    bench.job(job).deliveries = bench.job(job).nacks = COUNTER_MAX
    client("NACK", job)
    client.get("q")
    bench.advance(1000)
    shown = client.show(job)
    assert shown["nacks"] == shown["additional-deliveries"] == COUNTER_MAX


# -- TTL --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["queued", "active", "delayed"])
def test_a_job_expires_to_the_millisecond_whatever_its_state(bench: Bench, client: Client, state: str) -> None:
    job = client.add("q", "b", "TTL", 5, *(("DELAY", 4) if state == "delayed" else ()))
    if state == "active":
        client.get("q")
    bench.advance(4999)
    assert bench.state(job) != "gone"
    bench.advance(1)
    assert bench.state(job) == "gone"
    assert client("QLEN", "q") == 0


def test_a_retry_that_ends_with_the_ttl_delivers_nothing(bench: Bench, client: Client) -> None:
    taken(client, "TTL", 2, "RETRY", 2)
    bench.advance(2000)
    assert client.get("q") == []


# -- DELAY ------------------------------------------------------------------------------------------------------------


def test_a_delayed_job_is_queued_to_the_millisecond(bench: Bench, client: Client) -> None:
    job = client.add("q", "b", "DELAY", 2)
    assert bench.state(job) == "active"
    assert client.raw("QSTAT", "q") == b"*-1\r\n", "no queue yet"
    bench.advance(1999)
    assert client.get("q") == []
    bench.advance(1)
    assert client.get("q") == [job]
    assert client.show(job)["additional-deliveries"] == 0


def test_a_delayed_at_most_once_job_is_delivered_once(bench: Bench, client: Client) -> None:
    job = client.add("q", "b", "DELAY", 1, "RETRY", 0)
    bench.advance(1000)
    assert client.get("q") == [job]
    bench.advance(100_000)
    assert client.get("q") == []


@pytest.mark.parametrize("command", ["ENQUEUE", "NACK"])
def test_a_delay_can_be_cut_short(client: Client, command: str) -> None:
    job = client.add("q", "b", "DELAY", 100)
    assert client(command, job) == 1
    assert client.get("q") == [job]


# -- NACK -------------------------------------------------------------------------------------------------------------


def test_a_nacked_job_is_back_at_once_at_the_head_and_counted(client: Client) -> None:
    job, other = client.add("q"), client.add("q")
    client.get("q")
    assert client.raw("NACK", job) == b":1\r\n"
    shown = client.show(job)
    assert (shown["state"], shown["nacks"], shown["additional-deliveries"]) == (b"queued", 1, 0)
    assert client.get("q", count=2) == [job, other]


def test_nack_counts_only_jobs_that_it_moves(client: Client) -> None:
    job, queued = client.add("q"), client.add("q")
    client.get("q")
    assert client("NACK", queued, job, job) == 1
    assert client.show(job)["nacks"] == 1


def test_nack_with_a_delay_waits_first(bench: Bench, client: Client) -> None:
    job = taken(client, "RETRY", 1)
    assert client("NACK", job, "DELAY", 5) == 1
    assert client.show(job)["nacks"] == 1
    assert client.show(job)["next-requeue-within"] == 5000
    bench.advance(4999)
    assert bench.state(job) == "active"
    bench.advance(1)
    assert bench.state(job) == "queued"
    assert client.show(job)["additional-deliveries"] == 0


def test_nack_with_a_delay_counts_a_job_once(client: Client) -> None:
    job = taken(client)
    assert client("NACK", job, job, "DELAY", 5) == 1
    assert client.show(job)["nacks"] == 1


def test_nack_with_delay_0_is_a_nack(bench: Bench, client: Client) -> None:
    job = taken(client)
    assert client("NACK", job, "delay", 0) == 1
    assert bench.state(job) == "queued"


def test_nack_goes_into_a_queue_that_takes_nothing_in(bench: Bench, client: Client) -> None:
    job = taken(client)
    client("PAUSE", "q", "in")
    assert client("NACK", job) == 1
    assert bench.state(job) == "queued"


def test_a_nacked_job_goes_to_who_waits(bench: Bench, client: Client) -> None:
    job = taken(client)
    waiting = bench.client()
    waiting("GETJOB", "FROM", "q")
    client("NACK", job)
    assert_delivered(waiting, job)


def test_nack_is_filed_with_its_delay() -> None:
    bench = Bench(journaling=True)
    client = bench.client()
    job = taken(client)
    bench.records()
    client("NACK", job, "DELAY", 2)
    assert bench.records() == [(6, job, 1, 0, bench.now_ms + 2000)]
    client("NACK", job)
    assert bench.records() == [(6, job, 2, 0, 0)]


# -- ENQUEUE and DEQUEUE ----------------------------------------------------------------------------------------------


def test_enqueue_brings_back_and_counts_a_further_delivery(client: Client) -> None:
    job = taken(client)
    assert client("ENQUEUE", job) == 1
    assert client("ENQUEUE", job) == 0
    shown = client.show(job)
    assert (shown["state"], shown["nacks"], shown["additional-deliveries"]) == (b"queued", 0, 1)


def test_enqueue_of_a_job_that_nobody_had_counts_nothing(client: Client) -> None:
    job = client.add("q", "b", "DELAY", 100)
    client("ENQUEUE", job)
    assert client.show(job)["additional-deliveries"] == 0


def test_a_dequeued_job_comes_back_after_its_retry(bench: Bench, client: Client) -> None:
    job = client.add("q", "b", "RETRY", 2)
    assert client("DEQUEUE", job) == 1
    assert client("DEQUEUE", job) == 0
    assert client.get("q") == []
    bench.advance(2000)
    assert client.get("q") == [job]
    assert client.show(job)["additional-deliveries"] == 0


def test_a_dequeued_at_most_once_job_is_not_lost(client: Client) -> None:
    job = client.add("q", "b", "RETRY", 0)
    assert client("DEQUEUE", job) == 1
    assert client("ENQUEUE", job) == 1
    assert client.get("q") == [job]
    assert client("ENQUEUE", job) == 0


# -- WORKING ----------------------------------------------------------------------------------------------------------


def test_working_postpones_the_next_delivery_by_retry(bench: Bench, client: Client) -> None:
    job = taken(client, "RETRY", 10)
    bench.advance(9999)
    assert client.raw("WORKING", job) == b":10\r\n"
    bench.advance(9999)
    assert bench.state(job) == "active"
    bench.advance(1)
    assert bench.state(job) == "queued"


def test_working_takes_a_queued_job_back(bench: Bench, client: Client) -> None:
    job = client.add("q", "b", "RETRY", 10)
    assert client("WORKING", job) == 10
    assert client.get("q") == []
    bench.advance(10_000)
    assert client.get("q") == [job]


def test_working_leaves_an_at_most_once_job_where_it_is(bench: Bench, client: Client) -> None:
    job = client.add("q", "b", "RETRY", 0)
    assert client("WORKING", job) == 0
    assert bench.state(job) == "queued"
    assert client.get("q") == [job]


def test_working_is_refused_past_half_of_the_ttl(bench: Bench, client: Client) -> None:
    job = taken(client, "TTL", 20, "RETRY", 5)
    bench.advance(5000)
    client.get("q")
    bench.advance(5000)
    client.get("q")
    assert client("WORKING", job) == 5, "exactly half is still fine"
    bench.advance(1)
    late = b"-TOOLATE Half of job TTL already elapsed, you are no longer allowed to postpone the next delivery.\r\n"
    assert client.raw("WORKING", job) == late


def test_a_client_that_waits_is_not_disturbed_by_jobs_of_other_queues(bench: Bench, client: Client) -> None:
    waiting = bench.client()
    waiting("GETJOB", "FROM", "other")
    job = taken(client)
    client("NACK", job)
    assert waiting.read() is NOTHING
