"""Workers as real processes: killed, stopped, stopped twice, cut off, with functions that misbehave."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from disque.client import AsyncDisque, Config
from disque.tasks import App
from tests.conftest import ROOT, path_of
from tests.end_to_end.node import Node, until
from tests.tasks import shop_app
from tests.tasks.support import Shop

pytestmark = pytest.mark.slow


class Process:
    """`disque worker` with the app of the tests."""

    def __init__(self, folder: Path, url: str, *words: str, lease: int = 2, **more: str) -> None:
        self.log = folder / "worker.txt"
        self.notes = folder / "notes.txt"
        environment = {**os.environ, "SHOP_URL": url, "SHOP_LEASE": str(lease), "SHOP_LOG": str(self.notes)}
        environment |= {"PYTHONPATH": str(ROOT), **more}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "disque.cli.main", "worker", "tests.tasks.shop_app:app", *words],
                stdout=log, stderr=log, env=environment, cwd=folder,
            )  # fmt: skip
        until(lambda: "works on" in self.log.read_text() or self.process.poll() is not None, "the worker")

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def ended(self) -> int:
        return self.process.wait(60)

    def noted(self) -> list[str]:
        return self.notes.read_text().splitlines() if self.notes.exists() else []


MakeWorker = Callable[..., Process]


@pytest.fixture
def own_node(tmp_path: Path) -> Iterator[Node]:
    (tmp_path / "node").mkdir()
    one = Node(tmp_path / "node", "--appendonly", "yes").start()
    yield one
    one.discard()


@pytest.fixture
def work(tmp_path: Path, own_node: Node) -> Iterator[MakeWorker]:
    """Begin a worker; it is gone at the end."""
    begun: list[Process] = []

    def begin(*words: str, lease: int = 2, **more: str) -> Process:
        folder = tmp_path / "work"
        folder.mkdir(exist_ok=True)
        begun.append(Process(folder, f"disque://127.0.0.1:{own_node.port}?discover=no", *words, lease=lease, **more))
        return begun[-1]

    yield begin
    for one in begun:
        if one.process.poll() is None:
            one.process.kill()
        one.process.wait()


@pytest.fixture
def app(own_node: Node, monkeypatch: pytest.MonkeyPatch) -> App:
    """The app of the worker, as whoever enqueues has it."""
    monkeypatch.setattr(shop_app.app, "config", Config(nodes=(("127.0.0.1", own_node.port),), discover=False))
    monkeypatch.setattr(shop_app.app, "lease_s", 2)
    return shop_app.app


def play(app: App, scene: Any) -> None:
    async def inside() -> None:
        async with app:
            await scene

    asyncio.run(inside())


def statuses(app: App, ids: list[str]) -> Counter[str]:
    async def ask() -> Counter[str]:
        async with AsyncDisque(app.config) as client:
            found = [await client.result(job_id) for job_id in ids]
            return Counter("gone" if one is None else one.status for one in found)

    return asyncio.run(ask())


async def enqueue_slow(app: App, count: int, seconds: float) -> list[str]:
    jobs = await app.enqueue_many(shop_app.slow.using(retain=600).bind(n, seconds) for n in range(count))
    return [job.id for job in jobs]


def enqueue(app: App, count: int, seconds: float) -> list[str]:
    async def inside() -> list[str]:
        async with app:
            return await enqueue_slow(app, count, seconds)

    return asyncio.run(inside())


def test_killed_its_jobs_run_elsewhere(app: App, work: MakeWorker) -> None:
    ids = enqueue(app, 20, 0.3)
    first = work("--concurrency", "5")
    until(lambda: len(first.noted()) >= 5, "jobs that run")
    first.signal(signal.SIGKILL)
    first.ended()
    work("--concurrency", "20")
    until(lambda: statuses(app, ids) == {"done": 20}, lambda: f"all jobs: {statuses(app, ids)}")


def test_stopped_it_uses_up_no_try_and_twice_it_is_gone_at_once(app: App, work: MakeWorker) -> None:
    ids = enqueue(app, 6, 1000)
    first = work("--concurrency", "2", "--grace", "60")
    until(lambda: len(first.noted()) >= 2, "jobs that run")
    first.signal(signal.SIGTERM)
    until(lambda: "stops" in first.log.read_text(), "the stop")
    first.signal(signal.SIGTERM)
    assert first.ended() == 0
    until(lambda: statuses(app, ids) == {"queued": 6}, lambda: f"all in the queue: {statuses(app, ids)}")
    again = work("--concurrency", "6", "--grace", "0")
    until(lambda: sum(line.endswith("try 0") for line in again.noted()) == 8, "no try was used")
    again.signal(signal.SIGTERM)
    assert again.ended() == 0
    assert statuses(app, ids) == {"queued": 6}


def test_quiet_then_stopped(app: App, work: MakeWorker) -> None:
    worker = work()
    worker.signal(signal.SIGTSTP)
    until(lambda: "takes no more" in worker.log.read_text(), "quiet")
    ids = enqueue(app, 3, 0)
    assert statuses(app, ids) == {"queued": 3}
    worker.signal(signal.SIGCONT)
    until(lambda: statuses(app, ids) == {"done": 3}, "work goes on")
    worker.signal(signal.SIGINT)
    assert worker.ended() == 0


def test_a_function_that_never_ends_does_not_keep_the_process(app: App, work: MakeWorker) -> None:
    async def scene() -> None:
        await shop_app.stuck.enqueue(1)

    play(app, scene())
    worker = work("--grace", "0")
    until(worker.noted, "a job that is stuck")
    worker.signal(signal.SIGTERM)
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0
    assert "does not end; it goes back" in worker.log.read_text()


def test_what_functions_leave_behind_keeps_no_process(app: App, work: MakeWorker) -> None:
    worker = work()

    async def scene() -> None:
        await (await shop_app.leaves.using(retain=60).enqueue(1)).result(30)
        assert await (await shop_app.mail.enqueue(5)).result(30) == 5

    play(app, scene())
    assert "has raised SystemExit(0): the worker goes on" in worker.log.read_text()
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0
    assert "something that functions have started does not end" in worker.log.read_text()


def test_a_function_that_blocks_the_loop_for_ever_ends_at_a_second_stop(app: App, work: MakeWorker) -> None:
    worker = work()

    async def scene() -> None:
        await shop_app.blocks.enqueue(1000)

    play(app, scene())
    until(lambda: "the event loop is blocked" in worker.log.read_text(), "the function")
    worker.signal(signal.SIGTERM)
    time.sleep(0.2)  # two signals at once are one
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0


def test_functions_that_fork_leave_one_worker(app: App, work: MakeWorker) -> None:
    worker = work()

    async def scene() -> None:
        for task in (shop_app.forks, shop_app.forks_in_the_loop):
            for number in range(3):
                await (await task.using(retain=60).enqueue(number)).result(30)

    play(app, scene())
    assert len(worker.noted()) == 6
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0


RAISED = {
    "exit": "SystemExit: 3",
    "interrupt": "KeyboardInterrupt",
    "group": "BaseExceptionGroup: both (2 sub-exceptions)",
    "recursion": "RecursionError: maximum recursion depth exceeded",
    "memory": "MemoryError",
    "generator": "GeneratorExit: nobody wants it",
}
BODIES = {
    b"\xff\x00\x01": "neither JSON nor msgpack",
    b"{": "neither JSON nor msgpack",
    b"[]": "a map is expected, not list",
    b'{"task":"nobody"}': "this worker has no task 'nobody'",
    b'{"task":"mail","args":["x"]}': "the arguments do not fit",
    b'{"task":"mail","args":' + b"[" * 100_000: "neither JSON nor msgpack",
}


def test_whatever_functions_raise_and_bodies_say_the_worker_goes_on(app: App, work: MakeWorker) -> None:
    worker = work("--cpus", "1", lease=30)

    async def scene() -> None:
        for task in (shop_app.raises, shop_app.raises_in_a_thread, shop_app.raises_elsewhere):
            jobs = {kind: await task.using(tries=1).enqueue(kind) for kind in RAISED}
            for kind, job in jobs.items():
                [ended] = await app.client.wait(job.id, timeout=60)
                assert ended is not None
                assert ended.status == "dead-letter", (task, kind)
                assert (ended.error or "").startswith(RAISED[kind]), (task, kind)
        for body, reason in BODIES.items():
            job_id = await app.client.add("default", body)
            [ended] = await app.client.wait(job_id, timeout=60)
            assert ended is not None
            assert ended.status == "dead-letter", body[:50]
            assert reason in (ended.error or ""), body[:50]
        assert await (await shop_app.mail.enqueue(5)).result(60) == 5

    play(app, scene())
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0


def test_a_function_that_blocks_the_loop_is_named(app: App, work: MakeWorker) -> None:
    worker = work(lease=30)

    async def scene() -> None:
        await (await shop_app.blocks.using(retain=60).enqueue(1.6)).result(30)

    play(app, scene())
    log = worker.log.read_text()
    assert "the event loop is blocked for more than 1 s" in log
    assert "in blocks" in log
    assert "time.sleep(seconds)" in log


def test_a_child_of_a_function_ends_at_a_signal_that_the_worker_would_take(app: App, work: MakeWorker) -> None:
    work()

    async def scene() -> None:
        assert await (await shop_app.ends_a_child_of_the_worker.enqueue()).result(30) == -signal.SIGTERM

    play(app, scene())


def test_functions_that_compute(app: App, work: MakeWorker) -> None:
    worker = work("--cpus", "2")

    async def scene() -> None:
        jobs = await app.enqueue_many(shop_app.square.bind(number) for number in range(6))
        assert [await job.result(60) for job in jobs] == [number * number for number in range(6)]
        slow = await shop_app.square.using(timeout=0.3, tries=1).enqueue(-4)
        ended = await app.client.wait(slow.id, timeout=30)
        assert "TimeoutError: ran longer than 0.3 s" in str(ended)
        dies = await shop_app.square.using(tries=1).enqueue(-1)
        ended = await app.client.wait(dies.id, timeout=30)
        assert "has ended with exit code 7" in str(ended)

    play(app, scene())
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0


def test_all_nodes_gone_for_longer_than_a_lease_and_back(app: App, work: MakeWorker, own_node: Node) -> None:
    worker = work("--concurrency", "4", lease=2)
    ids = enqueue(app, 2, 6)
    more = enqueue(app, 3, 0.8)
    until(lambda: sum("begin" in line for line in worker.noted()) >= 4, "jobs that run")
    own_node.kill()
    until(lambda: "the lease is lost" in worker.log.read_text(), "the loss of the leases")
    own_node.start()
    until(lambda: statuses(app, [*ids, *more]) == {"done": 5}, lambda: f"all jobs: {statuses(app, [*ids, *more])}")
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0


def test_nodes_that_hang_for_longer_than_a_lease_and_go_on(app: App, work: MakeWorker, own_node: Node) -> None:
    worker = work("--concurrency", "4", lease=2)
    ids = enqueue(app, 2, 6)
    until(lambda: len(worker.noted()) >= 2, "jobs that run")
    own_node.signal(signal.SIGSTOP)
    until(lambda: "the lease is lost" in worker.log.read_text(), "the loss of the leases")
    own_node.signal(signal.SIGCONT)
    until(lambda: statuses(app, ids) == {"done": 2}, lambda: f"all jobs: {statuses(app, ids)}")
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0


def test_a_worker_stops_also_where_no_node_hears_of_it(app: App, work: MakeWorker, own_node: Node) -> None:
    worker = work("--grace", "0", lease=30)
    ids = enqueue(app, 2, 1000)
    until(lambda: len(worker.noted()) == 2, "jobs that run")
    own_node.kill()
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0
    assert "what became of 2 jobs could not be told: they run again" in worker.log.read_text()
    own_node.start()
    assert set(statuses(app, ids)) <= {"queued", "in-flight"}


def test_a_worker_that_stood_still_for_longer_than_a_lease(app: App, work: MakeWorker) -> None:
    first = work("--concurrency", "1", lease=2)
    ids = enqueue(app, 1, 4)
    until(first.noted, "a job that runs")
    first.signal(signal.SIGSTOP)
    second = work("--concurrency", "1", lease=2)
    until(lambda: len(second.noted()) == 2, "another worker has it")
    first.signal(signal.SIGCONT)
    until(lambda: "the lease is lost" in first.log.read_text(), "it notices")
    until(lambda: statuses(app, ids) == {"done": 1}, "it is done")
    assert second.noted().count("end 0") == 1, "the function that lost its lease was cancelled"


def test_a_wall_clock_that_jumps_changes_nothing(app: App, work: MakeWorker, tmp_path: Path) -> None:
    root = Path(path_of("faketime")).resolve().parent.parent
    library = next(iter(sorted(root.glob("lib*/**/faketime/libfaketimeMT.so.1"))))
    clock = tmp_path / "clock"
    clock.write_text("+0")
    worker = work(
        LD_PRELOAD=str(library),
        FAKETIME_TIMESTAMP_FILE=str(clock),
        FAKETIME_NO_CACHE="1",
        FAKETIME_DONT_FAKE_MONOTONIC="1",
    )
    ids = enqueue(app, 1, 5)
    until(worker.noted, "a job that runs")
    for jump in ("+2h", "-2h", "+30d"):
        clock.write_text(jump)
        time.sleep(1)  # longer than a third of a lease: it is renewed in between
    until(lambda: statuses(app, ids) == {"done": 1}, "the job")
    assert worker.noted() == ["begin 0 try 0", "end 0"]
    assert "lost" not in worker.log.read_text()


def test_several_processes(app: App, work: MakeWorker) -> None:
    worker = work("--processes", "2", "--concurrency", "2")
    until(lambda: worker.log.read_text().count("works on") == 2, "both processes")
    ids = enqueue(app, 20, 0.01)
    until(lambda: statuses(app, ids) == {"done": 20}, "all jobs")
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0


def test_processes_end_with_their_supervisor(app: App, work: MakeWorker) -> None:
    worker = work("--processes", "2")
    until(lambda: worker.log.read_text().count("works on") == 2, "both processes")
    worker.signal(signal.SIGKILL)
    worker.ended()
    until(lambda: worker.log.read_text().count("the supervisor is gone") == 2, "both have noticed")
    assert app.tasks


def test_ctrl_c_of_several_processes_is_one_stop(app: App, work: MakeWorker) -> None:
    worker = work("--processes", "2", "--concurrency", "1")
    until(lambda: worker.log.read_text().count("works on") == 2, "both processes")
    ids = enqueue(app, 2, 1.5)
    until(lambda: len(worker.noted()) >= 2, "both run")
    worker.signal(signal.SIGINT)
    assert worker.ended() == 0
    assert statuses(app, ids) == {"done": 2}, "the grace was kept"


def test_a_node_that_leaves(tmp_path: Path) -> None:
    nodes = [Node(tmp_path, "--appendonly", "no", "--cluster-node-timeout", "2000") for _ in range(2)]
    for number, node in enumerate(nodes):
        node.directory = tmp_path / f"n{number}"
        node.directory.mkdir()
        node.start()
    try:
        assert nodes[0].ask("CLUSTER", "MEET", "127.0.0.1", nodes[1].port) == b"OK"
        until(lambda: b"cluster_known_nodes:2" in nodes[1].ask("CLUSTER", "INFO"), "both nodes")
        until(lambda: nodes[0].ask("CLUSTER", "INFO").count(b"state:ok"), "a cluster")
        asyncio.run(leave(nodes))
    finally:
        for node in nodes:
            node.discard()


async def leave(nodes: list[Node]) -> None:
    addresses = tuple(("127.0.0.1", node.port) for node in nodes)
    shop = Shop(Config(nodes=addresses, cooldown_ms=100, also_retry=("NOREPL",)))
    app = shop.app

    @app.task(retain=60, replicate=2)
    async def slow(number: int) -> int:
        await asyncio.sleep(0.5)
        return number

    async with app, shop.working(concurrency=4):
        jobs = await app.enqueue_many(slow.bind(number) for number in range(16))
        await asyncio.to_thread(nodes[0].stop)
        assert [await job.result(60) for job in jobs] == list(range(16))
