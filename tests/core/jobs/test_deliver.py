import pytest

from disque.core import step
from disque.core.base.timers import NEVER
from disque.core.jobs import deliver, sessions
from disque.core.journal.schema import JOBS, JOBS_FLAGS, JOBS_IDS, KEYS, SPEND
from disque.core.model.memory import JOB_BYTES, PLACE_BYTES, QUEUE_BYTES
from disque.core.model.session import NOT_WAITING, WAIT_LINES
from tests.core.support import (
    NOTHING,
    START_MS,
    Bench,
    Client,
    all_jobs,
    assert_counters_are_true,
    assert_delivered,
    assert_still_waiting,
    words,
)


def test_a_getjob_takes_the_oldest_job(client: Client) -> None:
    first, second = client.add("q", "one"), client.add("q", "two")
    assert client("GETJOB", "FROM", "q") == [[b"q", first, b"one"]]
    assert client("GETJOB", "FROM", "q") == [[b"q", second, b"two"]]


def test_count_takes_one_job_from_each_queue_in_turn(client: Client) -> None:
    a0, a1, a2 = [client.add("a") for _ in range(3)]
    b0 = client.add("b")
    assert client.get("a", "b", count=3) == [a0, b0, a1]
    assert client.get("a", "b", count=9) == [a2]


def test_queues_are_served_in_the_order_they_are_named(client: Client) -> None:
    a, b = client.add("a"), client.add("b")
    assert client.get("b", "a", count=2) == [b, a]


def names(entries: list[list[bytes]]) -> list[bytes]:
    """The queues from which jobs came."""
    return [entry[0] for entry in entries]


def test_strict_empties_the_queues_in_the_order_in_which_they_are_named(client: Client) -> None:
    for queue in "abcabc":
        client.add(queue)
    assert names(client("GETJOB", "STRICT", "COUNT", 3, "FROM", "b", "a", "c")) == [b"b", b"b", b"a"]
    assert names(client("GETJOB", "COUNT", 9, "strict", "STRICT", "FROM", "c", "a")) == [b"c", b"c", b"a"]


def test_strict_is_a_queue_behind_from(client: Client) -> None:
    job = client.add("STRICT")
    assert client("GETJOB", "NOHANG", "FROM", "a", "STRICT") == [[b"STRICT", job, client.bench.job(job).body]]


def test_a_strict_reply_has_the_same_bounds(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    client = bench.client()
    for queue in "aabb":
        client.add(queue, "x" * 99)
    words = ("GETJOB", "STRICT", "COUNT", 9, "FROM", "b", "none", "a")
    monkeypatch.setattr("disque.core.jobs.deliver.JOBS_MOST", 3)
    assert names(client(*words)) == [b"b", b"b", b"a"]
    client.add("b", "x" * 99)
    assert names(client("GETJOB", "STRICT", "COUNT", 9, "BYTES", 100, "FROM", "b", "a")) == [b"b"]
    assert client("GETJOB", "STRICT", "COUNT", 9, "BYTES", 1, "FROM", "b", "a")[0][0] == b"a"


def test_what_is_known_of_jobs_is_told_of_fewer_at_a_time(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes longer than their bodies: others would wait."""
    monkeypatch.setattr("disque.core.jobs.deliver.META_JOBS_MOST", 2)
    client = bench.client()
    for _ in range(3):
        client.add("q", "x")
    assert len(client("GETJOB", "COUNT", 9, "WITHMETA", "FROM", "q")) == 2
    assert len(client("GETJOB", "COUNT", 9, "FROM", "q")) == 1


def test_who_waits_strictly_is_served_so(bench: Bench) -> None:
    producer, waiting = bench.client(), bench.client()
    waiting("GETJOB", "STRICT", "COUNT", 3, "FROM", "b", "a")
    for queue in "aaabb":
        producer.send("ADDJOB", queue, "x", 0)
    bench.settle()
    assert names(waiting.read()) == [b"b", b"b", b"a"]


def test_a_queue_named_twice_gives_each_job_once(client: Client) -> None:
    jobs = [client.add("q") for _ in range(3)]
    assert client.get("q", "q", count=5) == jobs


def test_a_queue_that_is_paused_out_gives_nothing_but_the_others_do(client: Client) -> None:
    client.add("a")
    b = client.add("b")
    client("PAUSE", "a", "out")
    assert client.get("a", "b", count=5) == [b]


def test_a_reply_is_bounded_in_jobs(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliver, "JOBS_MOST", 3)
    client = bench.client()
    jobs = [client.add("q") for _ in range(5)]
    assert client.get("q", count=10**18) == jobs[:3]


def test_a_reply_is_bounded_in_bytes(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliver, "BYTES_MOST", 250)
    client = bench.client()
    jobs = [client.add("q", "x" * 100) for _ in range(5)]
    assert client.get("q", count=10) == jobs[:3]


@pytest.mark.parametrize("words", [("WITHMETA",), ("STRICT", "WITHMETA")])
def test_headers_count_in_a_reply(bench: Bench, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]) -> None:
    monkeypatch.setattr(deliver, "BYTES_MOST", 3000)
    client = bench.client()
    for _ in range(5):
        client("ADDJOB", "q", "x", 0, "HEADER", "name", "v" * 1000)
    assert len(client("GETJOB", *words, "COUNT", 10, "FROM", "q")) == 3


# -- lines ------------------------------------------------------------------------------------------------------------


def test_the_name_of_the_queue_counts_for_each_job_of_a_reply(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliver, "BYTES_MOST", 250)
    client = bench.client()
    jobs = [client.add("q" * 99, "x") for _ in range(5)]
    assert client.get("q" * 99, count=10) == jobs[:3]


def test_a_getjob_without_jobs_waits_and_is_served_by_the_next_job(bench: Bench) -> None:
    consumer, producer = bench.client(), bench.client()
    assert consumer("GETJOB", "FROM", "q") is NOTHING
    assert_still_waiting(consumer)
    job = producer.add("q")
    assert_delivered(consumer, job)
    assert not consumer.waiting


def test_a_blocked_getjob_is_served_as_many_jobs_as_one_flush_brought_up_to_count(bench: Bench) -> None:
    consumer, producer = bench.client(), bench.client()
    consumer("GETJOB", "COUNT", 3, "FROM", "q")
    for _ in range(5):
        producer.send("ADDJOB", "q", "b", 0)
    ids = producer.read_all()
    assert_delivered(consumer, *ids[:3])
    assert producer.get("q", count=9) == ids[3:]


def test_a_blocked_getjob_takes_from_each_of_its_queues_in_turn(bench: Bench) -> None:
    consumer, producer = bench.client(), bench.client()
    consumer("GETJOB", "COUNT", 3, "FROM", "a", "b")
    for queue in ("b", "b", "a", "a"):
        producer.send("ADDJOB", queue, "b", 0)
    b0, _, a0, a1 = producer.read_all()
    assert_delivered(consumer, a0, b0, a1)


def test_a_line_is_first_come_first_served(bench: Bench) -> None:
    first, second, producer = bench.client(), bench.client(), bench.client()
    first("GETJOB", "FROM", "q")
    second("GETJOB", "FROM", "q")
    one = producer.add("q")
    assert_delivered(first, one)
    assert_still_waiting(second)
    two = producer.add("q")
    assert_delivered(second, two)


def test_nobody_overtakes_a_line_with_a_request_that_arrives_before_the_flush(bench: Bench) -> None:
    patient, newcomer, producer = bench.client(), bench.client(), bench.client()
    patient("GETJOB", "FROM", "q")
    producer.send("ADDJOB", "q", "b", 0)
    newcomer.send("GETJOB", "FROM", "q")
    (job,) = producer.read_all()
    assert_delivered(patient, job)
    assert_still_waiting(newcomer)


def test_who_was_served_from_one_queue_leaves_the_lines_of_the_others(bench: Bench) -> None:
    consumer, producer = bench.client(), bench.client()
    consumer("GETJOB", "FROM", "a", "b", "a")
    assert_delivered(consumer, producer.add("b"))
    producer.add("a")
    assert consumer.read() is NOTHING
    assert producer("QLEN", "a") == 1


def test_who_is_served_takes_only_from_queues_where_nobody_stands_before_it(bench: Bench) -> None:
    first, second, producer = bench.client(), bench.client(), bench.client()
    first("GETJOB", "FROM", "a")
    second("GETJOB", "COUNT", 5, "FROM", "b", "a")
    for queue in ("b", "a"):
        producer.send("ADDJOB", queue, "b", 0)
    b, a = producer.read_all()
    assert_delivered(first, a)
    assert_delivered(second, b)


def test_who_is_alone_in_its_lines_is_served_from_all_of_them(bench: Bench) -> None:
    consumer, producer = bench.client(), bench.client()
    consumer("GETJOB", "COUNT", 5, "FROM", "b", "a")
    for queue in ("a", "b"):
        producer.send("ADDJOB", queue, "b", 0)
    a, b = producer.read_all()
    assert_delivered(consumer, b, a)


def test_a_client_that_is_gone_gets_nothing(bench: Bench) -> None:
    gone, next_one, producer = bench.client(), bench.client(), bench.client()
    gone("GETJOB", "TIMEOUT", 1000, "FROM", "q")
    next_one("GETJOB", "FROM", "q")
    gone.disconnect()
    assert_delivered(next_one, producer.add("q"))


def test_jobs_added_while_output_is_paused_are_served_when_it_goes_on(bench: Bench) -> None:
    consumer, producer = bench.client(), bench.client()
    producer("PAUSE", "q", "out")
    job = producer.add("q")
    consumer("GETJOB", "FROM", "q")
    assert_still_waiting(consumer)
    producer("PAUSE", "q", "none")
    assert_delivered(consumer, job)


def test_a_pause_that_comes_before_the_flush_holds_back_the_line(bench: Bench) -> None:
    consumer, producer = bench.client(), bench.client()
    consumer("GETJOB", "FROM", "q")
    producer.send("ADDJOB", "q", "b", 0)
    producer.send("PAUSE", "q", "out")
    (job, _) = producer.read_all()
    assert_still_waiting(consumer)
    producer("PAUSE", "q", "in")
    assert_delivered(consumer, job)


def test_a_long_line_is_served_in_slices(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliver, "SERVE_MOST", 2)
    consumers = [bench.client() for _ in range(5)]
    producer = bench.client()
    for consumer in consumers:
        consumer("GETJOB", "FROM", "q")
    for _ in consumers:
        producer.send("ADDJOB", "q", "b", 0)
    bench.settle()
    assert [consumer.waiting for consumer in consumers] == [False, False, True, True, True]
    assert bench.node.next_due_ms == 0, "the node asks to be called again"
    bench.settle()
    bench.settle()
    assert not any(consumer.waiting for consumer in consumers)
    assert bench.node.next_due_ms > START_MS


def test_those_who_want_very_many_jobs_at_once_are_served_in_slices_too(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliver, "SERVE_MOST", 4)
    consumers = [bench.client() for _ in range(3)]
    producer = bench.client()
    for consumer in consumers:
        consumer("GETJOB", "COUNT", 3, "FROM", "q")
    for _ in range(9):
        producer.send("ADDJOB", "q", "b", 0)
    bench.settle()
    assert [consumer.waiting for consumer in consumers] == [False, False, True]
    assert bench.node.next_due_ms == 0, "the node asks to be called again"
    bench.settle()
    assert not any(consumer.waiting for consumer in consumers)


# -- timeouts ---------------------------------------------------------------------------------------------------------


def test_a_timeout_is_exact_to_the_millisecond(bench: Bench) -> None:
    consumer = bench.client()
    consumer("GETJOB", "TIMEOUT", 1234, "FROM", "q")
    bench.advance(1233)
    assert_still_waiting(consumer)
    bench.advance(1)
    assert consumer.read_raw() == b"*-1\r\n"
    assert not consumer.waiting


def test_a_timeout_in_resp3_is_null(bench: Bench) -> None:
    consumer = bench.client()
    consumer("HELLO", 3)
    consumer("GETJOB", "TIMEOUT", 5, "FROM", "q")
    bench.advance(5)
    assert consumer.read_raw() == b"_\r\n"


def test_timeouts_of_many_clients_are_exact(bench: Bench) -> None:
    consumers = [bench.client() for _ in range(60)]
    for number, consumer in enumerate(consumers):
        consumer("GETJOB", "TIMEOUT", 100 + number, "FROM", "q")
    for consumer in consumers:
        assert consumer.waiting
        bench.advance_to(100 + consumers.index(consumer))
        assert not consumer.waiting


def test_timeout_0_waits_for_ever(bench: Bench) -> None:
    consumer = bench.client()
    consumer("GETJOB", "TIMEOUT", 0, "FROM", "q")
    bench.advance(10 * 86_400_000)
    assert_still_waiting(consumer)


def test_a_served_client_has_no_timer_left(bench: Bench) -> None:
    consumer, producer = bench.client(), bench.client()
    consumer("GETJOB", "TIMEOUT", 100, "FROM", "q")
    assert_delivered(consumer, producer.add("q"))
    bench.advance(1000)
    assert consumer.read() is NOTHING


# -- replies that never began to leave ---------------------------------------------------------------------------------


def test_jobs_of_a_reply_that_never_left_go_back_at_once_to_their_place(bench: Bench) -> None:
    dead, alive = bench.client(), bench.client()
    jobs = [alive.add("q") for _ in range(3)]
    dead.choked = True
    dead.send("GETJOB", "COUNT", 2, "FROM", "q")
    bench.settle()
    assert [bench.state(job) for job in jobs] == ["active", "active", "queued"]
    dead.disconnect()
    assert alive.get("q", count=9) == jobs


def test_an_at_most_once_job_of_a_reply_that_never_left_goes_back_and_is_filed_again() -> None:
    bench = Bench(journaling=True)
    dead, alive = bench.client(), bench.client()
    job = alive.add("q", "b", "RETRY", 0)
    bench.records()
    dead.choked = True
    dead.send("GETJOB", "FROM", "q")
    bench.settle()
    dead.disconnect()
    spend, again = bench.records()
    assert (spend[1], again[JOBS_IDS]) == (job, (job,))
    assert again[JOBS_FLAGS] & 4 == 0, "the record says that it is not spent"
    assert alive.get("q") == [job]


def test_the_key_of_a_job_that_is_filed_again_stands_behind_it_in_the_journal() -> None:
    bench = Bench(journaling=True)
    dead, alive = bench.client(), bench.client()
    job = alive.add("q", "b", "RETRY", 0, "UNIQUE", "k", 0)
    bench.records()
    dead.choked = True
    dead.send("GETJOB", "FROM", "q")
    bench.settle()
    dead.disconnect()
    assert [record[0] for record in bench.records()] == [SPEND, JOBS, KEYS]
    assert alive.add("q", "b", "UNIQUE", "k", 0) == job


def test_jobs_of_a_reply_that_began_to_leave_stay_out(bench: Bench) -> None:
    consumer, other = bench.client(), bench.client()
    once, often = other.add("q", "b", "RETRY", 0), other.add("q")
    consumer("GETJOB", "COUNT", 2, "FROM", "q")
    consumer.disconnect()
    assert other.get("q", count=2) == []
    assert bench.state(once) == bench.state(often) == "active"


def test_a_blocked_client_that_was_served_and_died_before_the_flush_gives_back(bench: Bench) -> None:
    dead, producer = bench.client(), bench.client()
    dead("GETJOB", "FROM", "q")
    dead.choked = True
    job = producer.add("q")
    assert not dead.waiting
    dead.disconnect()
    assert producer.get("q") == [job]


def test_what_was_given_back_serves_the_line(bench: Bench) -> None:
    dead, waiting, producer = bench.client(), bench.client(), bench.client()
    job = producer.add("q")
    dead.choked = True
    dead.send("GETJOB", "FROM", "q")
    waiting("GETJOB", "FROM", "q")
    dead.disconnect()
    assert_delivered(waiting, job)


def test_a_job_that_others_finished_meanwhile_is_not_given_back(bench: Bench) -> None:
    dead, other = bench.client(), bench.client()
    acked, nacked = other.add("q"), other.add("q")
    dead.choked = True
    dead.send("GETJOB", "COUNT", 2, "FROM", "q")
    other("ACKJOB", acked)
    other("NACK", nacked)
    dead.disconnect()
    assert other.get("q", count=9) == [nacked]
    assert bench.state(acked) == "gone"


def test_a_job_that_went_to_another_consumer_meanwhile_is_not_given_back(bench: Bench) -> None:
    dead, other = bench.client(), bench.client()
    job = other.add("q", "b", "RETRY", 2)
    dead.choked = True
    dead.send("GETJOB", "FROM", "q")
    bench.advance(2000)
    assert other.get("q") == [job], "its RETRY was over"
    dead.disconnect()
    assert other.get("q") == [], "the other consumer has it"
    bench.advance(1999)
    assert bench.state(job) == "active"
    bench.advance(1)
    assert bench.state(job) == "queued"


def test_a_job_that_was_postponed_meanwhile_is_not_given_back(bench: Bench) -> None:
    dead, other = bench.client(), bench.client()
    worked, delayed = other.add("q", "b", "RETRY", 5), other.add("q", "b", "RETRY", 5)
    dead.choked = True
    dead.send("GETJOB", "COUNT", 2, "FROM", "q")
    bench.advance(10)
    other("WORKING", worked)
    other("NACK", delayed, "DELAY", 5)
    dead.disconnect()
    assert other.get("q", count=2) == []


# -- a node that leaves -----------------------------------------------------------------------------------------------


LEAVING = b"-LEAVING This node is leaving the cluster, please connect to a different one\r\n"


def test_a_leaving_node_sends_those_who_wait_elsewhere(bench: Bench) -> None:
    consumer, admin = bench.client(), bench.client()
    consumer("GETJOB", "FROM", "q")
    admin("CLUSTER", "LEAVING", "yes")
    assert consumer.read_raw() == LEAVING
    assert not consumer.waiting


def test_a_leaving_node_serves_what_it_has_and_lets_nobody_wait(bench: Bench) -> None:
    client = bench.client()
    job = client.add("q")
    client("CLUSTER", "LEAVING", "yes")
    assert client.get("q") == [job]
    assert client.raw("GETJOB", "NOHANG", "FROM", "q") == b"*-1\r\n"
    assert client.raw("GETJOB", "TIMEOUT", 100, "FROM", "q") == LEAVING


# -- at most once -----------------------------------------------------------------------------------------------------


def test_an_at_most_once_job_is_delivered_once_whatever_is_tried(bench: Bench) -> None:
    client = bench.client()
    job = client.add("q", "b", "RETRY", 0)
    assert client.get("q") == [job]
    for command in ("NACK", "ENQUEUE", "DEQUEUE", "WORKING"):
        assert client(command, job) == 0
    assert client("NACK", job, "DELAY", 1) == 0
    bench.advance(86_000_000)
    assert client.get("q") == []
    assert bench.state(job) == "active"
    bench.advance(1_000_000)
    assert bench.state(job) == "gone"


def test_an_at_most_once_job_is_spent_in_the_journal_before_its_reply_leaves() -> None:
    bench = Bench(journaling=True)
    client, blocked = bench.client(), bench.client()
    job = client.add("q", "b", "RETRY", 0)
    bench.records()
    client.send("GETJOB", "FROM", "q")
    assert bench.records() == [(5, job)]
    client.read()
    blocked("GETJOB", "FROM", "q")
    job = client.add("q", "b", "RETRY", 0)
    assert bench.records()[-1] == (5, job)
    assert blocked.session.unsettled, "the reply has to wait for the record"


def test_a_job_with_a_retry_writes_nothing_when_it_is_delivered() -> None:
    bench = Bench(journaling=True)
    client = bench.client()
    client.add("q")
    bench.records()
    client.get("q")
    assert bench.records() == []


def test_nothing_waits_for_time_on_a_node_that_holds_nothing(bench: Bench) -> None:
    assert bench.node.next_due_ms == NEVER
    step.tick(bench.node, START_MS + 10)
    step.settle(bench.node, START_MS + 10)
    session = sessions.connect(bench.node, 99, b"a:1", b"a:2", START_MS)
    step.command(bench.node, session, words("GETJOB", "NOHANG", "FROM", "q"), START_MS)
    assert bench.node.next_due_ms == NEVER
    assert_counters_are_true(bench.node)


def test_nobody_waits_in_more_queues_than_there_is_a_reason_for(bench: Bench) -> None:
    client = bench.client()
    names = [f"q{number}" for number in range(deliver.QUEUES_MOST + 1)]
    assert client.error("GETJOB", "FROM", *names) == "ERR GETJOB can wait in at most 4096 queues at once"
    assert bench.node.queues == {}
    client.send("GETJOB", "FROM", *names[:-1])
    assert client.waiting


# -- many places ------------------------------------------------------------------------------------------------------


MANY_QUEUES = [f"q{number}" for number in range(40)]


@pytest.fixture
def slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliver, "LEAVE_MOST", 15)


def places_of(bench: Bench) -> int:
    """What waiting GETJOBs are counted for, in places."""
    others = sum(QUEUE_BYTES + len(name) for name in bench.node.queues)
    others += sum(JOB_BYTES + len(job.body) for job in all_jobs(bench.node))
    return (bench.node.used - others) // PLACE_BYTES


def test_a_wait_counts_as_memory_as_long_as_it_lasts(bench: Bench) -> None:
    first, second = bench.client(), bench.client()
    first.send("GETJOB", "FROM", "a", "b", "a")
    second.send("GETJOB", "TIMEOUT", 50, "FROM", "a")
    assert (bench.node.places, places_of(bench)) == (3, 3)
    bench.advance(100)
    assert places_of(bench) == 2
    bench.client().add("b")
    assert places_of(bench) == bench.node.places == 0


@pytest.mark.usefixtures("slowly")
def test_who_waits_in_many_lines_is_answered_at_once_and_leaves_them_some_at_a_time(bench: Bench) -> None:
    client = bench.client()
    client.send("GETJOB", "FROM", *MANY_QUEUES)
    job = bench.client().add("q7")
    assert client.read()[0][1] == job
    assert client.session.waiting == WAIT_LINES
    assert places_of(bench) == 40
    assert bench.node.next_due_ms == 0
    step.tick(bench.node, bench.now_ms)
    assert 40 > places_of(bench) > 0
    assert client.session.waiting == WAIT_LINES
    bench.advance(0)
    assert (bench.node.places, places_of(bench)) == (0, 0)
    assert client.session.waiting == NOT_WAITING
    client.send("GETJOB", "FROM", *MANY_QUEUES)
    assert bench.node.places == 40


@pytest.mark.usefixtures("slowly")
def test_who_is_gone_is_passed_over_in_lines_that_it_did_not_leave_yet(bench: Bench) -> None:
    gone, killed, other = bench.client(), bench.client(), bench.client()
    for client in (gone, killed):
        client.send("GETJOB", "FROM", *MANY_QUEUES)
    other.send("GETJOB", "FROM", "q0", "q1")
    gone.disconnect()
    killed.disconnect()
    assert bench.node.places == 82
    job = bench.client().add("q0")
    assert other.read()[0][1] == job
    assert [bench.client().add(name) for name in ("q1", "q39")]
    assert bench.state(job) == "active"
    bench.advance(0)
    assert bench.node.places == 0
    assert all(queue.waiters is None for queue in bench.node.queues.values())


@pytest.mark.usefixtures("slowly")
@pytest.mark.parametrize("words", [("DEBUG", "FLUSHALL"), ("CLUSTER", "RESET")])
def test_what_is_flushed_leaves_no_place_behind(bench: Bench, words: tuple[str, ...]) -> None:
    waits = [bench.client() for _ in range(3)]
    for client in waits:
        client.send("GETJOB", "FROM", *MANY_QUEUES)
    bench.client()(*words)
    assert bench.node.used == PLACE_BYTES * bench.node.places == PLACE_BYTES * 120
    bench.advance(0)
    assert (bench.node.used, bench.node.places, bench.node.queues) == (0, 0, {})
    assert [client.session.waiting for client in waits] == [NOT_WAITING] * 3


def test_there_is_a_bound_for_all_places_and_a_few_are_always_left(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliver, "PLACES_MOST", 60)
    bench.client().send("GETJOB", "FROM", *MANY_QUEUES)
    text = "ERR too many clients wait in many queues at once: wait in at most 16 queues"
    client = bench.client()
    assert client.error("GETJOB", "FROM", *MANY_QUEUES) == text
    for _ in range(3):
        bench.client().send("GETJOB", "FROM", *MANY_QUEUES[: deliver.FEW])
    assert bench.node.places == 88
    bench.client().add("x")
    assert client("GETJOB", "FROM", *MANY_QUEUES, "x")[0][0] == b"x"


def test_beyond_maxmemory_nobody_waits_in_many_queues(bench: Bench) -> None:
    bench.client().send("GETJOB", "FROM", *MANY_QUEUES)
    bench.set("maxmemory", bench.node.used - 1)
    client = bench.client()
    assert client.error("GETJOB", "FROM", *MANY_QUEUES).startswith("OOM command not allowed")
    client.send("GETJOB", "FROM", *MANY_QUEUES[: deliver.FEW])
    assert client.waiting


def test_one_settle_serves_few_of_those_who_wait_in_very_many_queues(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliver, "SERVE_MOST", 6)
    waits = [bench.client() for _ in range(4)]
    for client in waits:
        client.send("GETJOB", "FROM", *MANY_QUEUES)
    admin = bench.client()
    for _ in waits:
        admin.send("ADDJOB", "q3", "body", 0)
    step.settle(bench.node, bench.now_ms)
    assert [bool(client.session.out) for client in waits] == [True, True, False, False]
    bench.advance(0)
    assert [len(client.read()) for client in waits] == [1] * 4
