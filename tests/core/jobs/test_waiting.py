from disque.core.jobs import waiting
from tests.core.support import UNKNOWN_ID, Bench


def test_a_client_that_is_answered_at_once_waits_for_nothing() -> None:
    bench = Bench()
    client = bench.client()
    job = client.add("q", "b", "RETAIN", 60)
    client("ACKJOB", job)
    waiting.begin(bench.node, client.session, [job], 0, is_any=False, now_ms=bench.now_ms)
    assert (bench.node.ends.by_session, bench.node.ends.wanted) == ({}, {})


def test_a_job_that_appears_meanwhile_is_heard_of() -> None:
    bench = Bench()
    client, other = bench.client(), bench.client()
    job = other.add("q")
    client.send("WAITJOB", 0, job, UNKNOWN_ID, "ANY")
    other("ACKJOB", job)
    assert client.read() == [[b"done", None], None]


def test_what_was_asked_again_may_be_over() -> None:
    bench = Bench()
    client = bench.client()
    client.send("WAITJOB", 500, UNKNOWN_ID)
    wanted = bench.node.ends.wanted[UNKNOWN_ID]
    bench.advance(500)
    assert client.read() == [None]
    waiting.again(bench.node, wanted, bench.now_ms)
    assert not wanted.again
