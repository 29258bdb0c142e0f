"""Celery's own workers, as processes: every pool, how they end, what they can be asked, nodes that die."""

import importlib.util
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from celery import Celery, chord, group
from celery.exceptions import TaskRevokedError, TimeLimitExceeded

from disque.client import Disque
from tests.celery.support import application, url_of
from tests.celery.worker import Worker
from tests.end_to_end.cluster import Cluster
from tests.end_to_end.node import ROOT, Node, free_port, until

StartWorker = Callable[..., Worker]
QUIET = ("--without-gossip", "--without-mingle")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[StartWorker]:
    """Give a function that starts a worker."""
    workers: list[Worker] = []

    def start(broker: str, *words: str, **options: str) -> Worker:
        workers.append(Worker(tmp_path, broker, *words, **options))
        return workers[-1]

    yield start
    for worker in workers:
        worker.kill()


@pytest.fixture
def app(node: Node) -> Iterator[Celery]:
    """Give the application as its producers have it, with results over Disque."""
    with application(url_of(node), "rpc://") as one:
        yield one


def send(app: Celery, name: str, *args: Any, **options: Any) -> Any:
    return app.send_task(f"tests.celery.tasks.{name}", args, **options)


def sign(app: Celery, name: str, *args: Any) -> Any:
    return app.signature(f"tests.celery.tasks.{name}", args)


def lines(folder: Path, name: str) -> int:
    path = folder / name
    return len(path.read_text().splitlines()) if path.exists() else 0


@pytest.fixture
def redis_url(redis_server: str, tmp_path: Path) -> Iterator[str]:
    """Give a Redis for results."""
    port = free_port()
    words = [redis_server, "--port", str(port), "--save", "", "--dir", str(tmp_path)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    with redis.Redis(port=port) as client:

        def answers() -> bool:
            try:
                return bool(client.ping())
            except redis.ConnectionError:
                return False

        until(answers, "Redis")
    yield f"redis://127.0.0.1:{port}/0"
    process.kill()
    process.wait()


@pytest.mark.slow
def test_a_worker_without_processes_of_its_own(node: Node, app: Celery, start: StartWorker) -> None:
    worker = start(url_of(node), "--pool", "solo", *QUIET, BACKEND="rpc://").await_ready()
    assert send(app, "add", 1, 2).get(timeout=60) == 3
    assert send(app, "fail_first").get(timeout=60) == 1
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0
    until(lambda: node.ask("QLEN", "celery") == 0, "nothing to be left")


def test_the_example(node: Node, tmp_path: Path) -> None:
    environment = {**os.environ, "BROKER": url_of(node), "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    words = [sys.executable, "-m", "celery", "--app", "examples.celery_shop", "worker", "--pool", "solo"]
    with (tmp_path / "log").open("wb") as log:
        worker = subprocess.Popen(words, env=environment, cwd=ROOT, stdout=log, stderr=log)
    try:
        words = [sys.executable, "-m", "examples.celery_shop"]
        done = subprocess.run(words, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.stdout == "Dear Ada, you pay 8.00.\nDear Ada, you pay 8.00.\n", done.stderr
    finally:
        worker.kill()
        worker.wait()


@pytest.mark.slow
class TestPrefork:
    def test_what_can_be_asked_of_a_worker(self, node: Node, app: Celery, start: StartWorker, tmp_path: Path) -> None:
        worker = start(url_of(node), "--concurrency", "2", BACKEND="rpc://").await_ready()
        name = worker.name
        inspect = app.control.inspect(destination=[name], timeout=10)
        assert inspect.ping() == {name: {"ok": "pong"}}
        seen = self.events(app)
        held = send(app, "hold", "a", "go")
        until(lambda: lines(tmp_path, "begun-a"), "the task to begin")
        later = send(app, "add", 3, 4, countdown=3600)
        [active] = inspect.active()[name]
        until(lambda: inspect.scheduled()[name], "the later task to be scheduled")
        [scheduled] = inspect.scheduled()[name]
        assert (active["id"], scheduled["request"]["id"]) == (held.id, later.id)
        assert inspect.reserved()[name] == []
        assert inspect.stats()[name]["broker"]["transport"] == "disque"
        assert inspect.active_queues()[name][0]["name"] == "celery"
        assert app.control.rate_limit("tests.celery.tasks.add", "100/s", destination=[name], reply=True, timeout=10)
        (tmp_path / "go").touch()
        assert held.get(timeout=60) == "a"
        revoked = send(app, "hold", "b", "never")
        until(lambda: lines(tmp_path, "begun-b"), "the task to begin")
        revoked.revoke(terminate=True)
        with pytest.raises(TaskRevokedError):
            revoked.get(timeout=60)
        with pytest.raises(TimeLimitExceeded):
            send(app, "too_long").get(timeout=60)
        app.control.cancel_consumer("celery", destination=[name], reply=True, timeout=10)
        until(lambda: inspect.active_queues()[name] == [], "the worker to take no more of the queue")
        waiting = send(app, "add", 1, 2)
        assert node.ask("QLEN", "celery") == 1
        app.control.add_consumer("celery", destination=[name], reply=True, timeout=10)
        assert waiting.get(timeout=60) == 3
        until(lambda: {"task-received", "task-succeeded", "worker-heartbeat"} <= seen, "events")
        app.control.broadcast("shutdown")
        assert worker.ended() == 0

    def events(self, app: Celery) -> set[str]:
        """The kinds of events that come from now on."""
        seen: set[str] = set()
        listening = threading.Event()

        def listen() -> None:
            with app.connection_for_read() as first:
                receiver = app.events.Receiver(first, handlers={"*": lambda event: seen.add(event["type"])})
                with receiver.consumer_context() as (connection, _, _):
                    listening.set()
                    while not {"task-received", "task-succeeded", "worker-heartbeat"} <= seen:
                        connection.drain_events(timeout=60)

        threading.Thread(target=listen, daemon=True).start()
        assert listening.wait(60)
        return seen

    def test_workers_find_each_other(self, node: Node, start: StartWorker) -> None:
        one = start(url_of(node), "--concurrency", "1", "--loglevel", "DEBUG", name="one").await_ready()
        two = start(url_of(node), "--concurrency", "1", name="two").await_ready()
        one.await_log("two@test joined the party")  # gossip
        assert "mingle: sync with 1 nodes" in two.log()
        assert "mingle: sync complete" in two.log()

    def test_chords_and_groups_with_results_in_redis(self, node: Node, start: StartWorker, redis_url: str) -> None:
        start(url_of(node), "--concurrency", "2", *QUIET, BACKEND=redis_url).await_ready()
        with application(url_of(node), redis_url) as app:
            sums = group(sign(app, "add", number, number) for number in range(20))
            assert sums.apply_async().get(timeout=60) == [2 * number for number in range(20)]
            whole = chord(sums, app=app)(sign(app, "total"))
            assert whole.get(timeout=60) == 380
            chain = sign(app, "add", 1, 2) | sign(app, "add", 10) | sign(app, "add", 100)
            assert chain.apply_async().get(timeout=60) == 113

    def test_chords_of_chords_and_chains_around_groups(self, node: Node, start: StartWorker, redis_url: str) -> None:
        start(url_of(node), "--concurrency", "2", *QUIET, BACKEND=redis_url).await_ready()
        with application(url_of(node), redis_url) as app:
            total = sign(app, "total")
            inner = [chord([sign(app, "add", row, at) for at in range(3)], total, app=app) for row in range(3)]
            assert chord(inner, app=app)(total).get(timeout=60) == 18
            around = sign(app, "add", 1, 1) | group(sign(app, "add", at) for at in range(5)) | total
            assert around.apply_async().get(timeout=60) == 20
            chains = group(sign(app, "add", at, 1) | sign(app, "add", 2) for at in range(4))
            assert chains.apply_async().get(timeout=60) == [3, 4, 5, 6]
            failing = chord([sign(app, "add", 1, 1), sign(app, "too_long")], app=app)(total)
            until(lambda: failing.state == "FAILURE", "the chord to fail")

    def test_what_is_rejected_or_kills_its_process(self, node: Node, app: Celery, start: StartWorker) -> None:
        worker = start(url_of(node), "--concurrency", "1", *QUIET, BACKEND="rpc://").await_ready()
        assert send(app, "rejected_first").get(timeout=60)
        send(app, "rejected", ignore_result=True)
        until(lambda: node.ask("QLEN", "celery:dead") == 1, "a dead letter")
        assert send(app, "dies_first").get(timeout=60)
        late = send(app, "add", 1, 1, countdown=1, expires=0.5)
        with pytest.raises(TaskRevokedError):
            late.get(timeout=60)
        for kind in ("json", "yaml"):
            assert send(app, "same", {"a": ["\u2603"]}, serializer=kind, compression="zlib").get(timeout=60)
        assert len(send(app, "same", "x" * 2_000_000).get(timeout=60)) == 2_000_000
        [grown] = app.control.pool_grow(1, destination=[worker.name], reply=True, timeout=30)
        assert grown == {worker.name: {"ok": "pool will grow"}}
        inspect = app.control.inspect(destination=[worker.name], timeout=10)
        until(lambda: len(inspect.stats()[worker.name]["pool"]["processes"]) == 2, "one more process")
        app.control.cancel_consumer("celery", destination=[worker.name], reply=True, timeout=30)
        # The worker says so before it has done it.
        until(lambda: not inspect.active_queues()[worker.name], "the worker to take no more of the queue")
        for number in range(3):
            send(app, "done", number)
        send(app, "done", 4, countdown=3600)
        assert app.control.purge() == 4

    def test_what_a_killed_worker_had_comes_to_another_one(
        self, node: Node, app: Celery, start: StartWorker, tmp_path: Path
    ) -> None:
        worker = start(url_of(node), "--concurrency", "1", *QUIET, BACKEND="rpc://", LEASE="1").await_ready()
        held = send(app, "hold", "a", "go")
        until(lambda: lines(tmp_path, "begun-a"), "the task to begin")
        worker.kill()
        (tmp_path / "go").touch()
        start(url_of(node), "--concurrency", "1", *QUIET, name="two", BACKEND="rpc://").await_ready()
        assert held.get(timeout=60) == "a"
        assert (lines(tmp_path, "begun-a"), lines(tmp_path, "ended-a")) == (2, 1)

    def test_a_task_may_take_longer_than_its_lease(
        self, node: Node, app: Celery, start: StartWorker, tmp_path: Path
    ) -> None:
        for name in ("one", "two"):
            start(url_of(node), "--concurrency", "1", *QUIET, name=name, BACKEND="rpc://", LEASE="0.6").await_ready()
        held = send(app, "hold", "a", "go")
        until(lambda: lines(tmp_path, "begun-a"), "the task to begin")
        timer = threading.Timer(2.5, (tmp_path / "go").touch)
        timer.start()
        assert held.get(timeout=60) == "a"
        assert lines(tmp_path, "begun-a") == 1

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGQUIT])
    def test_a_worker_that_stops_gives_back_what_it_has_not_begun(
        self, node: Node, app: Celery, start: StartWorker, tmp_path: Path, number: int
    ) -> None:
        worker = start(url_of(node), "--concurrency", "1", *QUIET, BACKEND="rpc://").await_ready()
        send(app, "hold", "a", "go")
        until(lambda: lines(tmp_path, "begun-a"), "the task to begin")
        for at in range(6):
            send(app, "done", at)
        until(lambda: node.ask("QLEN", "celery") == 3, "three to be taken ahead")
        inspect = app.control.inspect(destination=[worker.name], timeout=30)
        until(lambda: len(inspect.reserved()[worker.name]) == 3, "the worker to have read them")
        worker.signal(number)
        if number == signal.SIGTERM:
            worker.await_log("Warm shutdown")
            (tmp_path / "go").touch()
        worker.ended()
        left = 6 if number == signal.SIGTERM else 7
        until(lambda: node.ask("QLEN", "celery") == left, "all that was not begun")
        with Disque.from_url(url_of(node)) as client:
            jobs = client.get("celery", count=10, meta=True)
        assert [job.nacks for job in jobs] == [0] * left
        assert sum(job.additional_deliveries for job in jobs) == left - 3, "those that it had, which comes marked"

    def test_tasks_with_an_eta_are_not_in_the_worker(self, node: Node, app: Celery, start: StartWorker) -> None:
        worker = start(url_of(node), "--concurrency", "1", *QUIET, BACKEND="rpc://").await_ready()
        assert send(app, "add", 1, 2).get(timeout=60) == 3
        before = worker.memory()
        with app.producer_pool.acquire() as producer, producer.batch():
            for number in range(20_000):
                send(app, "done", number, countdown=3600, producer=producer, ignore_result=True)
        assert send(app, "add", 1, 2).get(timeout=60) == 3
        assert worker.memory() - before < 4 << 20
        name = worker.name
        inspect = app.control.inspect(destination=[name], timeout=30)
        assert inspect.stats()[name]["prefetch_count"] == 4
        assert len(inspect.scheduled()[name]) == 1000

    def test_a_node_dies_and_no_task_is_lost(self, cluster: Cluster, start: StartWorker, tmp_path: Path) -> None:
        first, second, third = cluster.members
        url = url_of(first, second, third)
        worker = start(url, "--concurrency", "2", BACKEND="rpc://", LEASE="5", REPLICATE="2").await_ready()
        with application(url, "rpc://") as app:
            app.conf.broker_transport_options = {"job_options": {"replicate": 2}}
            for number in range(40):
                send(app, "done", number)
            held = send(app, "hold", "a", "go")
            until(lambda: lines(tmp_path, "begun-a"), "the task to begin")
            cluster.kill(first)
            for number in range(40, 80):
                send(app, "done", number)
            (tmp_path / "go").touch()
            assert held.get(timeout=60) == "a"
            until(lambda: all(lines(tmp_path, f"done-{number}") for number in range(80)), "all tasks", 0.05)
        assert lines(tmp_path, "begun-a") == 1, worker.log()

    def test_a_worker_goes_on_when_its_only_node_is_there_again(self, start: StartWorker, tmp_path: Path) -> None:
        (tmp_path / "node").mkdir()
        node = Node(tmp_path / "node", "--appendonly", "yes").start()
        try:
            worker = start(url_of(node), "--concurrency", "1", *QUIET, BACKEND="rpc://", LEASE="5").await_ready()
            with application(url_of(node), "rpc://") as app:
                assert send(app, "add", 1, 2).get(timeout=60) == 3
                send(app, "done", 1, countdown=1)
                node.kill()
                worker.await_log("Cannot connect")
                node.start()
                assert send(app, "add", 3, 4).get(timeout=60) == 7
                until(lambda: lines(tmp_path, "done-1"), "the task that waited in the server")
        finally:
            node.discard()


@pytest.mark.slow
@pytest.mark.parametrize("pool", ["solo", "threads", "gevent"])
def test_other_pools(node: Node, app: Celery, start: StartWorker, tmp_path: Path, pool: str) -> None:
    if pool == "gevent" and importlib.util.find_spec("gevent") is None:
        pytest.skip("gevent is missing")
    concurrency = [] if pool == "solo" else ["--concurrency", "10"]
    workers = [
        start(url_of(node), "--pool", pool, *concurrency, *QUIET, name=name, BACKEND="rpc://", LEASE="0.6")
        for name in ("one", "two")
    ]
    for worker in workers:
        worker.await_ready()
    held = send(app, "hold", "a", "go")
    until(lambda: lines(tmp_path, "begun-a"), "the task to begin")
    timer = threading.Timer(2, (tmp_path / "go").touch)
    timer.start()
    results = [send(app, "add", number, number, countdown=number % 3) for number in range(30)]
    assert [result.get(timeout=60) for result in results] == [2 * number for number in range(30)]
    assert held.get(timeout=60) == "a"
    assert lines(tmp_path, "begun-a") == 1, "it takes longer than its lease, which is kept"
    for worker in workers:
        worker.signal(signal.SIGTERM)
        assert worker.ended() == 0, worker.log()
    until(lambda: node.ask("QLEN", "celery") == 0, "nothing to be left")
