"""GETJOB LEASE: how long a delivery lasts, here and where the job has other holders."""

import pytest

from cluster.messages import ANSWER, ANSWER_NO, HOLD, OUT_IN_MY_STEAD, QUEUED, WILLQUEUE, WORKING
from disque.core import handover
from disque.core.jobs import sessions
from tests.core.support import MYSELF, Bench, Client

WRONG = b"-ERR LEASE must be a number of seconds greater than zero\r\n"


def leased(client: Client, lease: str | int, *options: str | int, retry: int = 5) -> bytes:
    """A job that was delivered with a lease."""
    job = client.add("q", "b", "RETRY", retry, *options)
    assert client("GETJOB", "LEASE", lease, "FROM", "q") == [[b"q", job, b"b"]]
    return job


def shared(bench: Bench, lease: str | int, retry: int = 5) -> bytes:
    """The same of a job that the first peer holds, too."""
    client = bench.client()
    client.send("ADDJOB", "q", "b", 0, "REPLICATE", 2, "RETRY", retry)
    bench.settle()
    (job,) = bench.node.copies.wanted
    bench.confirm(job, bench.peers[0])
    assert client.read() == job
    assert client("GETJOB", "LEASE", lease, "FROM", "q") == [[b"q", job, b"b"]]
    bench.sent()
    return job


def say_no(bench: Bench) -> None:
    """All who were asked have nothing against it."""
    for peer_id, (_, number, _, ids) in bench.sent(WILLQUEUE):
        bench.hear(bench.membership.nodes[peer_id], (ANSWER, number, ANSWER_NO, (), ids))


def assert_back_after(bench: Bench, job: bytes, ms: int) -> None:
    bench.advance(ms - 1)
    assert bench.state(job) == "active"
    bench.advance(1)
    assert bench.state(job) == "queued"


@pytest.mark.parametrize(
    ("lease", "ms"), [("0.25", 250), ("0.0001", 1), ("4.9", 4900), ("5", 5000), ("7.5", 7500), ("3600", 3_600_000)]
)
def test_a_delivery_lasts_for_its_lease(bench: Bench, client: Client, lease: str, ms: int) -> None:
    job = leased(client, lease)
    assert_back_after(bench, job, ms)
    assert client.show(job)["additional-deliveries"] == 1


def test_it_counts_for_a_client_that_waits(bench: Bench, client: Client) -> None:
    waiting = bench.client()
    waiting("GETJOB", "COUNT", 5, "LEASE", "0.5", "FROM", "q")
    jobs = [client.add("q", "b", "RETRY", 9), client.add("q", "b", "RETRY", 9)]
    assert waiting.read()[0][1] == jobs[0]
    assert_back_after(bench, jobs[0], 500)


def test_the_next_delivery_has_nothing_of_it(bench: Bench, client: Client) -> None:
    job = leased(client, 1)
    bench.advance(1000)
    assert client.get("q") == [job]
    assert_back_after(bench, job, 5000)


def test_a_job_of_retry_0_has_none(bench: Bench, client: Client) -> None:
    job = leased(client, 1, retry=0)
    bench.advance(2000)
    assert bench.state(job) == "active"
    assert client("WORKING", job) == 0
    assert bench.node.leases.by_id == {}


@pytest.mark.parametrize("lease", ["0", "0.0", "-1", "-0", "", "x", "1e3", "nan", "inf", "-0.5", ".5", "1."])
def test_a_lease_is_a_time(client: Client, lease: str) -> None:
    client.add("q")
    assert client.raw("GETJOB", "LEASE", lease, "FROM", "q") == WRONG
    assert client.raw("GETJOB", "LEASE", "5", "LEASE", lease, "FROM", "q") == WRONG


def test_a_lease_has_a_bound_and_stands_before_from(bench: Bench, client: Client) -> None:
    job = client.add("q")
    text = b"-ERR LEASE must be at most 4294967295 seconds\r\n"
    assert client.raw("GETJOB", "LEASE", "4294967295.1", "FROM", "q") == text
    assert client.raw("GETJOB", "LEASE", "FROM", "q") == WRONG
    assert client.raw("GETJOB", "LEASE", "5", "q") == b"-ERR syntax error\r\n"
    assert client.raw("GETJOB", "LEASE") == b"-ERR syntax error\r\n"
    assert client.raw("GETJOB", "LEASE", "9", "LEASE", "9", "FROM", "q") == b"-ERR LEASE can be said once\r\n"
    ((_, got, _),) = client("GETJOB", "LEASE", "4294967295", "NOHANG", "FROM", "LEASE", "5", "q")
    assert got == job
    assert bench.job(job).due_ms == bench.job(job).expires_ms, "a lease does not outlive the job"


@pytest.mark.parametrize(("lease", "seconds", "ms"), [("2.5", 2, 2500), ("60", 60, 60_000), ("0.25", 1, 1000)])
def test_working_extends_it(bench: Bench, client: Client, lease: str, seconds: int, ms: int) -> None:
    job = leased(client, lease)
    bench.advance(200)
    assert client("WORKING", job) == seconds
    assert client("WORKING", job) == seconds
    assert_back_after(bench, job, ms)
    assert client("WORKING", job) == 5, "it was in its queue: that delivery is over"


@pytest.mark.parametrize(
    "words", [("ACKJOB",), ("FASTACK",), ("DELJOB",), ("NACK",), ("ENQUEUE",), ("NACK", "DELAY"), ("DEBUG",)]
)
def test_it_ends_with_its_delivery(bench: Bench, client: Client, words: tuple[str, ...]) -> None:
    job = leased(client, 60)
    assert list(bench.node.leases.by_id) == [job]
    if words == ("DEBUG",):
        client("DEBUG", "FLUSHALL")
    else:
        client(words[0], job, *((words[1], "0.5") if len(words) > 1 else ()))
    assert bench.node.leases.by_id == {}
    if len(words) > 1:
        assert client("WORKING", job) == 5


def test_working_shortens_no_lease_that_a_process_before_this_one_gave(bench: Bench, client: Client) -> None:
    """After a clean stop it is known until when a delivery lasts, but not that it has a lease."""
    job = leased(client, 60)
    bench.node.used -= bench.node.leases.cost()
    bench.node.leases.clear()
    assert client("WORKING", job) == 5
    assert_back_after(bench, job, 60_000)


def test_what_never_left_is_given_back_without_it(bench: Bench) -> None:
    client, other = bench.client(), bench.client()
    job = client.add("q", "b", "RETRY", 5)
    other.send("GETJOB", "LEASE", "60", "FROM", "q")
    sessions.disconnect(bench.node, other.session, bench.now_ms)
    assert bench.state(job) == "queued"
    assert bench.node.leases.by_id == {}


class TestHolders:
    """A lease binds the node that delivered the job, which answers for it."""

    def test_who_wants_to_queue_the_job_after_its_retry_is_held_off_until_the_lease_ends(self) -> None:
        bench = Bench(peers=1)
        job = shared(bench, 60)
        for passed_ms in (5000, 7000):
            bench.advance(passed_ms)
            bench.hear(bench.peers[0], (WILLQUEUE, 7, bench.job(job).holders, (job,)))
        assert bench.told(bench.peers[0], HOLD) == [
            (HOLD, 7, (), (job,), (55_000,)),
            (HOLD, 7, (), (job,), (48_000,)),
        ]

    def test_when_it_ends_the_others_are_asked_as_after_a_retry(self) -> None:
        bench = Bench(peers=1)
        job = shared(bench, 60)
        bench.advance(59_499)
        assert bench.sent(WILLQUEUE) == []
        bench.advance(1)
        say_no(bench)
        assert_back_after(bench, job, 500)

    def test_one_that_is_shorter_than_the_time_of_asking_ends_in_time(self) -> None:
        bench = Bench(peers=1)
        job = shared(bench, "0.2")
        bench.advance(1)
        say_no(bench)
        assert_back_after(bench, job, 199)

    def test_a_holder_that_was_told_working_holds_on_until_its_retry_ends(self) -> None:
        bench = Bench(peers=1)
        job = shared(bench, 1)
        client = bench.client()
        assert client("WORKING", job) == 1
        assert bench.told(bench.peers[0], WORKING) == [(WORKING, (job,))]
        bench.advance(500)
        ((_, number, _, ids),) = bench.told(bench.peers[0], WILLQUEUE)
        bench.hear(bench.peers[0], (HOLD, number, (), ids, (3000,)))
        bench.advance(2999)
        assert bench.state(job) == "active"

    @pytest.mark.parametrize(("lease", "least_ms"), [(1, 5000), (60, 60_000)])
    def test_working_at_another_node_extends_it_by_the_longer_one(self, lease: int, least_ms: int) -> None:
        bench = Bench(peers=1)
        job = shared(bench, lease)
        bench.advance(400)
        bench.hear(bench.peers[0], (WORKING, (job,)))
        assert least_ms <= bench.job(job).requeue_ms - bench.now_ms <= least_ms + 500
        assert job in bench.node.leases.by_id

    def test_one_that_was_queued_elsewhere_has_none_any_more(self) -> None:
        bench = Bench(peers=1)
        job = shared(bench, 1)
        bench.advance(1100)
        bench.hear(bench.peers[0], (QUEUED, 0, (job,)))
        assert bench.node.leases.by_id == {}

    def test_a_node_that_stops_tells_what_is_left_of_it(self) -> None:
        bench = Bench(peers=1)
        job = shared(bench, 60)
        bench.advance(1000)
        handover.Farewell(bench.node).step(bench.now_ms)
        assert bench.told(bench.peers[0], HOLD) == [(HOLD, OUT_IN_MY_STEAD, (), (job,), (59_000,))]
        assert MYSELF in bench.job(job).holders
