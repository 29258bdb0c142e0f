"""The Python client on one real node, blocking and with asyncio."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from disque.client import (
    AsyncDisque,
    Backoff,
    BadIdError,
    CommandError,
    Config,
    Disque,
    JobCancelledError,
    MaxlenError,
    NewJob,
    NoAuthError,
    NoJobError,
    NoReplError,
    PausedError,
    Swept,
    UnavailableError,
    WrongPassError,
)
from tests.client.fake import Hands
from tests.end_to_end.conftest import StartNode
from tests.end_to_end.node import PATIENCE_S, ROOT, Node
from tests.support import certificates

UNKNOWN = "D-00000000-000000000000000000000000-05a1"


@contextmanager
def hands_on(kind: str, node: Node, **options: Any) -> Iterator[Hands]:
    """A client of a node."""
    words: dict[str, Any] = {"nodes": ((node.host, node.port),)}
    client: Any = (Disque if kind == "blocking" else AsyncDisque)(Config(**(words | options)))
    with asyncio.Runner() as runner:
        hands = Hands(client, runner)
        try:
            yield hands
        finally:
            hands.wait(client.close() if kind == "blocking" else client.aclose())


@pytest.fixture(params=["blocking", "asyncio"])
def kind(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def hands(kind: str, shared: Node) -> Iterator[Hands]:
    with hands_on(kind, shared) as hands:
        yield hands


class TestCommands:
    @pytest.mark.parametrize("protocol", [2, 3])
    def test_the_life_of_a_job(self, kind: str, shared: Node, protocol: int) -> None:
        with hands_on(kind, shared, protocol=protocol) as hands:
            job_id = hands.add("grüße", b"\x00\xff", retry=10, ttl=timedelta(hours=1))
            assert hands.queue_length("grüße") == 1
            [seen] = hands.peek("grüße")
            assert (seen.id, seen.queue, seen.body) == (job_id, "grüße", b"\x00\xff")
            [job] = hands.get("grüße")
            assert (job.id, job.queue, job.body, job.nacks, job.additional_deliveries) == (
                *(job_id, "grüße", b"\x00\xff", 0, 0),
            )
            assert hands.wait(job.working()) == 10
            hands.wait(job.nack())
            [job] = hands.get(["other", "grüße"], count=9, timeout=5)
            assert (job.id, job.nacks) == (job_id, 1)
            assert hands.enqueue(job_id) == 1
            assert hands.dequeue(job_id) == 1
            info = hands.show(job_id)
            assert (info["state"], info["body"], info["retry"]) == ("active", b"\x00\xff", 10)
            assert hands.queue_stat("grüße")["jobs_in"] > 0
            assert hands.scan_queues(busyloop=True)[1]
            assert hands.scan_jobs(busyloop=True, queue="grüße") == (0, [job_id])
            assert hands.scan_job_infos(busyloop=True, states=("active",))[1][0]["id"] == job_id
            hands.wait(job.ack())
            assert hands.show(job_id) is None
            assert hands.get("grüße", nohang=True) == []
            assert hands.get("grüße", timeout=0.01) == []
            assert hands.fast_ack(job_id) == 0
            assert hands.delete(hands.add("q", "b")) == 1

    @pytest.mark.parametrize("protocol", [2, 3])
    def test_a_job_that_fails_dies_and_is_put_back(self, kind: str, shared: Node, protocol: int) -> None:
        with hands_on(kind, shared, protocol=protocol) as hands:
            job_id = hands.add(
                *("failing", "b"),
                tries=2,
                backoff=Backoff("fixed", 0.001),
                deadletter="morgue",
                priority=7,
                headers={"a": "ä"},
                at=datetime.now(UTC),
            )
            [job] = hands.get(["failing"], lease=60.5, strict=True, meta=True)
            assert (job.tries, job.tries_left, job.priority, job.headers) == (0, 2, 7, {"a": "ä"})
            assert (job.error, job.origin, job.nacks) == (None, None, 0)
            assert 60_000 < job.meta.lease_ms <= 60_500
            hands.inside(job.attempt(backoff=None), lambda _job: 1 // 0)
            [job] = hands.get("failing", meta=True, counters=False)
            why = "ZeroDivisionError: integer division or modulo by zero"
            assert (job.tries, job.tries_left, job.error, job.nacks) == (1, 1, why, 1)
            assert hands.show(job_id)["headers"] == {"a": "ä"}
            hands.wait(job.fail("never again", delay=0.5))
            [job] = hands.get("morgue", meta=True)
            assert (job.id, job.origin, job.error, job.tries_left) == (job_id, "failing", "never again", None)
            assert hands.revive(job_id, UNKNOWN) == 1
            assert hands.queue_length("failing") == 1
            assert hands.move("other", job_id, UNKNOWN, delay=0.001) == 1
            [job] = hands.get("other", meta=True)
            assert (job.id, job.tries_left, job.headers) == (job_id, 2, {"a": "ä"})
            hands.wait(job.dead(ValueError("x")))
            assert hands.show(job_id)["error"] == "ValueError: x"
            hands.ack(job_id)

    @pytest.mark.parametrize("protocol", [2, 3])
    def test_the_backoff_of_a_job_counts_not_that_of_the_attempt(self, kind: str, shared: Node, protocol: int) -> None:
        with hands_on(kind, shared, protocol=protocol) as hands:
            hands.add("slow", "b", backoff="exponential:1800:3600")
            [job] = hands.get("slow", meta=True)
            assert job.meta.backoff == "exponential:1800:3600"
            hands.inside(job.attempt(backoff=1), lambda _job: 1 // 0)
            assert hands.show(job.id)["next_requeue_within"] > 1_700_000
            hands.ack(job.id)

    @pytest.mark.parametrize("protocol", [2, 3])
    def test_what_is_done_with_whole_queues(self, kind: str, shared: Node, protocol: int) -> None:
        with hands_on(kind, shared, protocol=protocol) as hands:
            hands.add_many([("sick", "a"), ("sick", "b")], tries=1)
            for job in hands.get("sick", count=2):
                hands.wait(job.fail("why"))
            hands.add("sick:dead", "no dead letter")
            assert hands.revive_queue("sick:dead", count=1) == Swept(1, [], 1)
            assert hands.revive_queue("sick:dead") == Swept(1, [], 1)
            assert hands.move_queue("sick", "well") == Swept(2, [])
            assert hands.queue_length("well", cluster=True) == 2
            assert hands.flush_queue("well", count=1) == hands.flush_queue("well") == Swept(1, [])
            assert hands.flush_queue("sick:dead").jobs == 1

    @pytest.mark.parametrize("protocol", [2, 3])
    def test_what_comes_of_jobs(self, kind: str, shared: Node, protocol: int) -> None:
        with hands_on(kind, shared, protocol=protocol) as hands:
            done, cancelled = hands.add("sums", "[1, 2]", retain=60), hands.add("sums", "[3]", retain=60, retry=60)
            job, other = hands.get("sums", count=2)
            assert hands.wait(job.progress("half")) > 0
            found = hands.result(done)
            assert (found.status, found.progress, found.has_ended) == ("in-flight", "half", False)
            assert hands.wait(hands.client.wait(done, cancelled, timeout=0.001)) == [None, None]
            hands.wait(job.ack(result=b"3"))
            assert hands.cancel(cancelled, waiting=True) == 0
            assert hands.cancel(cancelled) == 1
            with pytest.raises(JobCancelledError):
                hands.wait(other.working())
            one, two = hands.wait(hands.client.wait(done, cancelled))
            assert (one.id, one.status, one.json()) == (done, "done", 3)
            assert (two.id, two.status, two.result) == (cancelled, "cancelled", None)
            [one, nothing] = hands.wait(hands.client.wait(done, UNKNOWN, any=True))
            assert (one.text(), nothing) == ("3", None)
            assert hands.result(UNKNOWN) is None
            assert hands.result(done).queue == "sums"

    def test_about_the_node(self, hands: Hands, shared: Node) -> None:
        assert hands.ping() == "PONG"
        assert hands.ping("grüße") == "grüße"
        [me] = hands.nodes()
        assert (me.port, me.priority) == (shared.port, 1)
        assert me.id == hands.cluster_id()
        assert hands.node_time() > 1_600_000_000
        assert hands.info()["tcp_port"] == shared.port
        assert hands.config_get("port") == {"port": str(shared.port)}
        hands.config_set("maxclients", 5000)
        assert hands.cluster_info()["cluster_known_nodes"] == 1
        assert "myself" in hands.cluster_nodes()
        assert hands.cluster_leaving() == "no"
        assert hands.pause("q", "in") == "in"
        assert hands.pause("q") == "in"
        assert hands.pause("q", "none") == "none"
        assert hands.execute_command("CONFIG GET", "port")
        assert hands.client.at(shared.host, shared.port).config.nodes == ((shared.host, shared.port),)

    def test_about_its_process(self, hands: Hands) -> None:
        assert hands.echo("grüße") == "grüße"
        assert "addjob" in hands.commands()
        hands.config_set("slowlog-log-slower-than", 0)
        hands.ping()
        assert hands.slowlog_length() > 0
        assert hands.slowlog(1)[0].words
        hands.config_set("slowlog-log-slower-than", 10_000)
        hands.slowlog_reset()
        hands.config_resetstat()
        assert hands.latency_latest() == hands.latency_history("command") == []
        assert hands.latency_doctor()
        assert hands.latency_reset() == 0
        assert any(one["cmd"] == "client" for one in hands.client_list())
        assert hands.client_kill(number=10**9) == 0
        hands.client_pause(0.001)
        hands.client_unpause()
        hands.cluster_save()
        hands.add("q", "b")
        hands.flush_all()
        assert hands.queue_length("q") == 0

    def test_the_end_of_a_node(self, kind: str, start_node: StartNode) -> None:
        node = start_node()
        with hands_on(kind, node, attempts=1) as hands:
            hands.shutdown()
            assert node.ended() == 0
            with pytest.raises(UnavailableError):
                hands.ping()

    def test_bodies_of_any_kind(self, hands: Hands) -> None:
        bodies = ["ä", b"\xff", bytearray(b"a"), memoryview(b"m"), b"", b"x" * 1_000_000]
        hands.add_many([("q", body) for body in bodies])
        jobs = hands.get("q", count=10)
        assert [job.body for job in jobs] == [b"\xc3\xa4", b"\xff", b"a", b"m", b"", b"x" * 1_000_000]


class TestErrors:
    def test_each_has_its_class(self, hands: Hands) -> None:
        hands.pause("paused", "in")
        hands.add("full", "b")
        wrong: list[tuple[type[Exception], Any]] = [
            (BadIdError, lambda: hands.ack("x")),
            (CommandError, lambda: hands.add("q", "b", ttl=-5)),
            (CommandError, lambda: hands.add("q", "b", retry=10**30)),
            (CommandError, lambda: hands.add("q", "b", replicate=0)),
            (CommandError, lambda: hands.add("q", "b", timeout_ms=-1)),
            (CommandError, lambda: hands.get("q", count=-1)),
            (CommandError, lambda: hands.execute_command("NOSUCH")),
            (MaxlenError, lambda: hands.add("full", "b", maxlen=1)),
            (NoReplError, lambda: hands.add("q", "b", replicate=2)),
            (NoJobError, lambda: hands.working_one(UNKNOWN)),
            (PausedError, lambda: hands.add("paused", "b")),
        ]
        for error, call in wrong:
            with pytest.raises(error):
                call()
        assert hands.ping() == "PONG"

    def test_of_many_each_may_stand_in_the_list(self, hands: Hands) -> None:
        hands.pause("paused", "in")
        found = hands.add_many([("q", "1"), ("paused", "2"), ("q", "3")], errors="return")
        assert [type(one).__name__ for one in found] == ["str", "PausedError", "str"]
        with pytest.raises(PausedError):
            hands.add_many([("q", "1"), ("paused", "2")])

    def test_passwords(self, kind: str, start_node: StartNode) -> None:
        node = start_node("--requirepass", "secret")
        for protocol in (2, 3):
            for options in ({"password": "secret"}, {"user": "default", "password": "secret"}):
                with hands_on(kind, node, protocol=protocol, **options) as hands:
                    assert hands.ping() == "PONG"
            for error, wrong in ((WrongPassError, {"password": "x"}), (NoAuthError, {})):
                with hands_on(kind, node, protocol=protocol, **wrong) as hands, pytest.raises(error):
                    hands.ping()


def test_a_key_is_added_once(hands: Hands) -> None:
    first = hands.add("q", "b", unique="k", window=timedelta(minutes=1))
    assert hands.add("q", "b", unique="k", window=60) == first
    ids = hands.add_many([NewJob("q", "b", unique="k"), NewJob("q", "b")], window=60)
    assert ids[0] == first
    assert ids[1] != first


def test_many_more_than_a_part(hands: Hands) -> None:
    ids = hands.add_many(("q", str(number)) for number in range(5000))
    assert len(set(ids)) == 5000
    assert hands.ack_many(ids) == 5000


def test_a_pipeline(hands: Hands) -> None:
    pipeline = hands.client.pipeline(transaction=False)
    for number in range(50):
        pipeline.execute_command("ADDJOB", "q", number, 0)
    values = hands.wait(pipeline.queue_length("q").execute())
    assert values[-1] == 50


def test_an_iteration_hands_out_each_job_once_and_gives_back_the_rest(hands: Hands) -> None:
    hands.add_many(("q", str(number)) for number in range(500))
    jobs = hands.client.jobs("q", prefetch=50)
    seen = []

    async def asynchronous() -> None:
        async with jobs:
            async for job in jobs:
                seen.append(int(job.body))
                await job.ack()
                if len(seen) == 300:
                    break

    if hasattr(jobs, "__aiter__"):
        hands.runner.run(asynchronous())
    else:
        with jobs:
            for job in jobs:
                seen.append(int(job.body))
                job.ack()
                if len(seen) == 300:
                    break
    assert seen == list(range(300))
    assert hands.queue_length("q") == 200
    assert hands.info()["registered_jobs"] == 200


@pytest.mark.slow
def test_work_may_take_longer_than_its_retry(hands: Hands) -> None:
    hands.add("q", "long", retry=1)
    [job] = hands.get("q")
    # Somebody else who waits for twice the RETRY gets nothing.
    hands.inside(job.keep_working(), lambda _kept: hands.client.get("q", timeout=2.2))
    hands.inside(job.keep_working(), lambda kept: kept.check())
    hands.wait(job.ack())
    hands.add("q", "long", retry=1)
    [job] = hands.get("q")
    [again] = hands.get("q", timeout=PATIENCE_S)
    assert (again.id, again.additional_deliveries) == (job.id, 1)


def test_a_thread_that_waits_leaves_no_job_behind(shared: Node) -> None:
    with Disque(Config(nodes=((shared.host, shared.port),))) as disque:
        with disque.jobs("q") as jobs:
            disque.add("q", "first", retry=3600)
            next(jobs).ack()
        disque.add("q", "second", retry=3600)
        assert [job.body for job in disque.get("q", timeout=PATIENCE_S)] == [b"second"]


def test_tls(kind: str, start_node: StartNode, free_port: int) -> None:
    options = [word for name, value in certificates.options("no").items() for word in (f"--{name}", value)]
    node = start_node("--tls-port", str(free_port), *options)
    at = ((node.host, free_port),)
    with hands_on(kind, node, nodes=at, tls=True, ca=certificates.AUTHORITY) as hands:
        job_id = hands.add("q", b"x" * 300_000)
        [job] = hands.get("q")
        assert (job.id, len(job.body)) == (job_id, 300_000)
    with hands_on(kind, node, nodes=at, tls=True, attempts=1) as hands, pytest.raises(UnavailableError, match="verify"):
        hands.ping()


def example(name: str, *words: str) -> str:
    run = subprocess.run(
        [sys.executable, str(ROOT / "examples" / name), *words],
        check=True,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert run.stderr == ""
    return run.stdout


def test_the_examples_run(shared: Node) -> None:
    url = f"disque://127.0.0.1:{shared.port}"
    assert "added 200 more" in example("client_producer.py", url, "200")
    assert "added 200 more" in example("client_producer.py", url, "200")
    assert example("client_worker.py", url, "0.2").count("sent: ") == 202
    assert "sum: 4950" in example("client_asyncio.py", url, "100")
    assert sorted(example("client_dead_letters.py", url, "1").splitlines()) == [
        'dead: {"to": "full@example.com"} from letters because of OSError: mailbox full',
        'dead: {"to": "nowhere"} from letters because of ValueError: no address: nowhere',
        "dead: {} from letters because of nobody to send it to",
        "put back: 1",
        "sent to ada@example.org from grace",
        'to be tried again: {"to": "full@example.com"} tries left: 3',
    ]
    assert example("client_results.py", url).splitlines() == [
        *("done 6", "done 42", "in-flight and at work", "cancelled: 1", "it is cancelled"),
    ]
    *ticks, last = example("client_schedules.py", url, "1").splitlines()
    assert [tick[8:] for tick in ticks] == [" what is to be done"]
    assert last.startswith("the last one was for ")
    shared.ask("DEBUG", "FLUSHALL")
    told = example("client_events.py", url).splitlines()
    assert told[0] == "parcels done: 2"
    happened = ("added", "added", "ready", "ready", "delivered", "delivered", "acked", "nacked", "dead")
    assert sorted(told[1:]) == sorted(f"{event} parcels" for event in happened)
    shared.ask("QFLUSH", "parcels:dead")
    assert shared.info("registered_jobs") == "0"


def test_a_worker_survives_a_job_that_fails_and_hands_back_what_it_has_not_begun_when_it_is_stopped(
    shared: Node,
) -> None:
    bad = shared.ask("ADDJOB", "mails", '{"to": "nobody"}', 0)
    hopeless = shared.ask("ADDJOB", "mails", '{"to": "nobody"}', 0)
    for _ in range(3):
        shared.ask("GETJOB", "COUNT", 2, "FROM", "mails")
        shared.ask("NACK", bad, "NOCOUNT")
        shared.ask("NACK", hopeless)
    good = [shared.ask("ADDJOB", "mails", '{"to": "ada"}', 0) for _ in range(3)]
    words = [sys.executable, "-u", str(ROOT / "examples" / "client_worker.py"), f"disque://127.0.0.1:{shared.port}"]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}
    ) as worker:
        assert worker.stdout is not None
        assert {worker.stdout.readline().split()[-1].encode() for _ in good} == set(good)
        worker.send_signal(signal.SIGTERM)
        said, complained = worker.communicate(timeout=PATIENCE_S)
    assert (worker.returncode, said.splitlines()[-1]) == (0, "stopped")
    assert "ValueError: no such address" in complained
    assert shared.ask("QLEN", "mails-failed") == 1
    assert shared.ask("SHOW", hopeless) is None
    shown = shared.ask("SHOW", bad)
    assert shown[shown.index(b"nacks") + 1] == 1
    shared.ask("DELJOB", bad)


def test_jobs_that_nobody_touched_are_not_counted_as_failed(hands: Hands, shared: Node) -> None:
    ids = hands.add_many([("prefetched", str(number)) for number in range(4)])
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            consume_one(hands, "prefetched")
    counted = {job.id: (job.nacks, job.additional_deliveries) for job in hands.get("prefetched", count=4)}
    assert counted == {ids[0]: (3, 0)} | dict.fromkeys(ids[1:], (0, 0))
    shared.ask("DELJOB", *ids)


def consume_one(hands: Hands, queue: str) -> None:
    """Take the first job of an iteration and fail with it."""
    jobs = hands.client.jobs(queue)

    async def asynchronous() -> None:
        async with jobs:
            async for job in jobs:
                async with job:
                    1 // 0  # noqa: B018 - it fails

    if hasattr(jobs, "__aiter__"):
        hands.runner.run(asynchronous())
        return
    with jobs:
        for job in jobs:
            with job:
                1 // 0  # noqa: B018 - it fails
