"""A worker on a real node, in this process: what it does with jobs, and that it loses none."""

import asyncio
import logging
import sys
import threading
import time
import urllib.request
from collections.abc import AsyncIterator
from typing import Any

import pytest

from disque.client import (
    AsyncDisque,
    CommandError,
    Config,
    DisqueError,
    NewJob,
    NoReplError,
    UnavailableError,
    WrongPassError,
)
from disque.tasks import App, Cancelled, Dead, Discard, JobFailedError, ResultLostError, Retry, Snooze, current
from disque.tasks.execute import Execution, begin, read
from disque.tasks.held import Held
from disque.tasks.inspector import WORKER
from disque.tasks.threads import Threads
from disque.tasks.worker import Settings, Worker, client_name
from tests.client.served import Served
from tests.tasks.support import Shop


def play(scene: Any) -> None:
    asyncio.run(scene)


def test_functions_of_all_kinds_and_their_results(shop: Shop) -> None:
    app = shop.app
    names: list[str] = []

    @app.task(retain=60)
    async def in_the_loop(number: int) -> list[int]:
        names.append(threading.current_thread().name)
        return [number]

    @app.task(retain=60)
    def in_a_thread(number: int) -> dict[str, int]:
        names.append(threading.current_thread().name)
        return {current().queue: number}

    @app.task
    async def not_kept() -> int:
        return 5

    @app.task
    async def nothing(_number: int) -> None:
        return None

    async def scene() -> None:
        async with app, shop.working():
            assert await (await in_the_loop.enqueue(1)).result(30) == [1]
            assert await (await in_a_thread.enqueue(2)).result(30) == {shop.queue: 2}
            job = await not_kept.using(delay=0.2).enqueue()
            with pytest.raises(ResultLostError, match="is done: what it has returned was not sent"):
                await job.result(30)
            assert await (await not_kept.using(retain=60).enqueue()).result(30) == 5
            await (await nothing.using(delay=0.2).enqueue(3)).result(30)

    play(scene())
    assert names[0] == "MainThread"
    assert names[1].startswith("disque-task-")


def test_failures_are_the_servers_to_count(shop: Shop) -> None:
    app = shop.app
    tries: list[tuple[str, int]] = []

    @app.task(tries=3, retain=60)
    async def fails(how: str) -> None:
        tries.append((how, current().tries))
        count = len([one for one, _ in tries if one == how])
        if how == "dead":
            raise Dead("no such user")
        if how == "discard":
            raise Discard
        if how == "retry" and count < 3:
            raise Retry(0.01)
        if how == "snooze" and count < 4:
            raise Snooze(0.01)
        if how == "error":
            raise ValueError("bad")

    async def scene() -> None:
        async with app, shop.working():
            jobs = {how: await fails.enqueue(how) for how in ("dead", "discard", "retry", "snooze", "error")}
            for how in ("discard", "retry", "snooze"):
                await jobs[how].result(30)
            for how, reason in (("dead", "Dead: no such user"), ("error", "ValueError: bad")):
                with pytest.raises(JobFailedError, match=reason):
                    await jobs[how].result(30)

    play(scene())
    assert [number for how, number in tries if how == "error"] == [0, 1, 2]
    assert [number for how, number in tries if how == "retry"] == [0, 1, 2]
    assert [number for how, number in tries if how == "snooze"] == [0, 0, 0, 0], "no try is used up"


def test_what_cannot_be_run_is_a_dead_letter(shop: Shop) -> None:
    app = shop.app

    @app.task
    async def add(a: int) -> None:
        del a

    async def scene() -> None:
        async with AsyncDisque(shop.config) as client:
            for body in (b"\xff nonsense", b'{"task":"ghost"}', b'{"task":"add","args":["x"]}', b'{"task":"add"}'):
                await client.add(shop.queue, body, tries=5)
        async with app, shop.working() as worker:
            await shop.until(lambda: worker.metrics.ended["", "dead"] + worker.metrics.ended["add", "dead"] == 4)
        errors = sorted(await shop.dead())
        assert len(errors) == 4
        assert "neither JSON nor msgpack" in errors[0]
        assert "a: int is expected" in errors[1]
        assert "missing a required argument: 'a'" in errors[2]
        assert "no task 'ghost'" in errors[3]

    play(scene())


def test_time_limits_end_functions_of_each_kind(shop: Shop) -> None:
    app = shop.app
    ended: list[str] = []

    @app.task(timeout=0.2, tries=1)
    async def in_the_loop() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            ended.append("loop")

    @app.task(tries=1)
    def in_a_thread() -> None:
        try:
            while True:
                time.sleep(0.01)
        except Cancelled:
            ended.append("thread")
            raise

    async def scene() -> None:
        async with app, shop.working():
            for job in (await in_the_loop.enqueue(), await in_a_thread.using(timeout=0.2).enqueue()):
                with pytest.raises(JobFailedError, match=r"TimeoutError: ran longer than 0\.2 s"):
                    await job.result(30)

    play(scene())
    assert sorted(ended) == ["loop", "thread"]


def test_a_function_that_does_not_end_does_not_keep_its_job(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("disque.tasks.worker.CANCEL_S", 0.1)
    app = shop.app
    let_go = threading.Event()

    @app.task(timeout=0.1, tries=1)
    def stuck() -> None:
        let_go.wait(60)

    @app.task
    def other() -> int:
        return 5

    async def scene() -> None:
        async with app, shop.working(concurrency=2) as worker:
            with pytest.raises(JobFailedError, match="could not be cancelled"):
                await (await stuck.enqueue()).result(30)
            assert worker.slots.running == 1, "it keeps its place"
            assert await (await other.using(retain=60).enqueue()).result(30) == 5
            let_go.set()
            await shop.until(lambda: worker.slots.running == 0)

    play(scene())


def test_cancel_reaches_the_function(shop: Shop) -> None:
    app = shop.again(lease=1)
    log: list[str] = []

    @app.task
    async def slow() -> None:
        log.append("begin")
        try:
            await asyncio.sleep(1000)
        finally:
            log.append("end")

    async def scene() -> None:
        async with app, shop.working(app) as worker:
            job = await slow.enqueue()
            await shop.until(lambda: log)
            assert await job.cancel()
            await shop.until(lambda: len(log) == 2)
            await shop.until(lambda: worker.metrics.ended["slow", "gone"])

    play(scene())


def test_a_cancel_reaches_a_worker_that_cannot_add_the_next_job(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long before it renews the lease: what it tries to add keeps the key that the one who cancels wants."""
    app = shop.again(lease=3600)
    tried: list[NewJob] = []

    @app.task
    async def step() -> None: ...

    async def away(_worker: Worker, job: NewJob) -> str:
        tried.append(job)
        raise NoReplError("NOREPL")

    async def scene() -> None:
        async with app, shop.working(app) as worker:
            job = await step.bind().then_run(step.bind()).enqueue()
            await shop.until(lambda: tried)
            assert await job.cancel()
            await shop.until(lambda: worker.metrics.ended["step", "gone"])

    monkeypatch.setattr(Worker, "_add", away)
    monkeypatch.setattr("disque.tasks.execute.AGAIN_S", 0.01)
    play(scene())


def test_a_stop_uses_up_nobodys_try(shop: Shop) -> None:
    app = shop.app
    seen: list[tuple[int, int]] = []

    @app.task(tries=1, retain=60)
    async def slow(number: int) -> int:
        seen.append((number, current().tries))
        await asyncio.sleep(1000 if len(seen) <= 2 else 0)
        return number

    async def scene() -> None:
        async with app:
            jobs = await app.enqueue_many(slow.bind(number) for number in range(10))
            async with shop.working(concurrency=2, grace_s=0.0):
                await shop.until(lambda: len(seen) == 2)
            async with shop.working():
                assert [await job.result(30) for job in jobs] == list(range(10))

    play(scene())
    assert [tries for _, tries in seen] == [0] * 12


def test_what_runs_may_end_in_the_grace(shop: Shop) -> None:
    app = shop.app
    log: list[str] = []
    go_on = asyncio.Event()

    @app.task(retain=60)
    async def slow() -> str:
        log.append("begin")
        await go_on.wait()
        return "done"

    async def scene() -> None:
        async with app:
            job = await slow.enqueue()
            async with shop.working() as worker:
                await shop.until(lambda: log)
                worker.stop()
                await asyncio.sleep(0.05)
                go_on.set()
                await shop.until(lambda: worker.metrics.ended["slow", "done"])  # a second stop would cancel it
            assert await job.result(30) == "done"

    play(scene())
    assert log == ["begin"]


def test_quiet_and_on_again(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    app = shop.app
    caplog.set_level(logging.INFO, "disque.tasks")

    @app.task(retain=60)
    async def echo(number: int) -> int:
        return number

    async def scene() -> None:
        async with app, shop.working() as worker:
            worker.resume()  # systems say SIGCONT also to what runs
            worker.hush()
            worker.hush()
            job = await echo.enqueue(5)
            await asyncio.sleep(0.2)
            status = await job.status()
            assert status is not None
            assert status.status == "queued"
            assert worker._readyz() == (503, "quiet\n")
            worker.resume()
            assert await job.result(30) == 5
            worker.stop()
            worker.resume()  # and to what stops
            worker.hush()

    play(scene())
    said = [one for one in caplog.messages if "takes" in one or "stops" in one]
    assert said[:3] == [
        "takes no more jobs until SIGCONT; 0 run",
        "takes jobs again",
        "takes no more jobs and stops; 0 run, and have 10 s",
    ]
    assert not any("takes" in one for one in said[3:])


def test_limits_and_places(shop: Shop) -> None:
    app = shop.app
    now = {"narrow": 0, "wide": 0}
    most = dict(now)

    async def work(name: str) -> None:
        now[name] += 1
        most[name] = max(most[name], now[name])
        await asyncio.sleep(0.005)
        now[name] -= 1

    @app.task(limit=2, retain=60, queue=f"{shop.queue}-narrow")
    async def narrow() -> None:
        await work("narrow")

    @app.task(retain=60)
    async def wide() -> None:
        await work("wide")

    async def scene() -> None:
        async with app, shop.working(concurrency=6):
            jobs = await app.enqueue_many([*[narrow.bind()] * 20, *[wide.bind()] * 20])
            for job in jobs:
                await job.result(30)

    play(scene())
    assert most["narrow"] == 2
    assert 2 <= most["wide"] <= 6


def test_a_task_at_its_limit_stops_nobody_else(shop: Shop) -> None:
    app = shop.app
    goes_on = asyncio.Event()

    @app.task(limit=1, retain=60)
    async def narrow() -> None:
        await goes_on.wait()

    @app.task(retain=60)
    async def same_queue() -> None: ...

    @app.task(retain=60, queue=f"{shop.queue}-other")
    async def other_queue() -> None: ...

    async def scene() -> None:
        async with app, shop.working(concurrency=3):
            first = await app.enqueue_many([narrow.bind()] * 6)
            await (await same_queue.enqueue()).result(30)
            full = await app.enqueue_many([narrow.bind()] * 40)
            await (await other_queue.enqueue()).result(30)
            goes_on.set()
            for job in (*first, *full):
                await job.result(30)

    play(scene())


def test_tasks_that_compute_are_taken_when_a_process_is_free(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    app = shop.app
    begun: list[bytes] = []
    goes_on = asyncio.Event()

    class Cpu:
        async def run(self, body: bytes, run: Any) -> None:
            assert run.until_s is not None, "its time runs"
            begun.append(body)
            await goes_on.wait()

        async def close(self) -> None: ...

    @app.task(cpu=True, retain=60, timeout=600)
    def heavy() -> None: ...

    async def scene() -> None:
        async with app:
            jobs = await app.enqueue_many([heavy.bind()] * 20)
            async with shop.working(concurrency=10, cpus=2) as worker:
                await shop.until(lambda: len(begun) == 2 and not worker._wanted())
                async with AsyncDisque(shop.config) as client:
                    assert await client.queue_length(shop.queue) == 18
                goes_on.set()
                for job in jobs:
                    await job.result(30)

    monkeypatch.setattr(Worker, "_cpu_pool", lambda _: Cpu())
    play(scene())


def test_batches_and_their_failures(shop: Shop) -> None:
    app = shop.app
    calls: list[list[int]] = []

    @app.batch(max_size=5, max_wait=0.2, tries=2, retain=60)
    async def clicks(numbers: list[int]) -> None:
        calls.append(sorted(numbers))
        if len(calls) == 1:
            raise ValueError("the first time")

    async def scene() -> None:
        async with app, shop.working():
            jobs = await app.enqueue_many(clicks.bind(number) for number in range(7))
            for job in jobs:
                await job.result(30)

    play(scene())
    assert len(calls[0]) <= 5
    assert sorted(number for call in calls[1:] for number in call) == list(range(7))


def test_batches_take_places_and_no_more_than_can_soon_be_called_is_taken(shop: Shop) -> None:
    app = shop.app
    sizes: list[int] = []
    goes_on = asyncio.Event()

    @app.batch(max_size=5, max_wait=0.1, retain=60)
    async def clicks(numbers: list[int]) -> None:
        sizes.append(len(numbers))
        await goes_on.wait()

    async def scene() -> None:
        async with app:
            jobs = await app.enqueue_many(clicks.bind(number) for number in range(200))
            late = await clicks.using(deadline=time.time() - 1).enqueue(0)
            async with shop.working(concurrency=2) as worker:
                await shop.until(lambda: len(sizes) == 2)
                async with AsyncDisque(shop.config) as client:
                    await shop.until(lambda: not worker._wanted())
                    assert await client.queue_length(shop.queue) > 150
                assert len(worker.running) == 2
                goes_on.set()
                for job in jobs:
                    await job.result(30)
                with pytest.raises(JobFailedError, match="its deadline was over"):
                    await late.result(30)
        assert max(sizes) == 5

    play(scene())


def test_a_chain_over_a_node(shop: Shop) -> None:
    app = shop.app

    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    @app.task(retain=60)
    def text(number: int) -> str:
        return f"it is {number}"

    async def scene() -> None:
        async with app, shop.working():
            job = await add.bind(1, 2).then(add, 10).then(text).enqueue()
            assert await job.result(30) == "it is 13"
            assert await job.next_id() is not None

    play(scene())


def test_a_chain_goes_on_once_however_often_its_first_job_runs(shop: Shop) -> None:
    """As after a worker that died between adding the next job and acknowledging this one."""
    app = shop.app
    ran: list[str] = []

    @app.task
    async def first() -> str:
        ran.append("first")
        return "x"

    @app.task(queue=f"{shop.queue}-next", retain=60)
    async def second(before: str) -> str:
        ran.append("second")
        return before * 2

    async def scene() -> None:
        async with app:
            job = await first.bind().then(second).enqueue()
            for _ in range(2):
                [taken] = await app.client.get(shop.queue, lease=0.2)
                held = Held(taken.id, taken.queue, taken.body, None, None, 1e9)
                read(app, held)
                run = begin(held, 0.0, 0.0)
                await asyncio.create_task(Execution(app, Threads(1), None, app.door().add).run(run))
            assert ran == ["first", "first"]
            assert await app.client.queue_length(f"{shop.queue}-next") == 1
            async with shop.working():
                assert await job.result(30) == "xx"

    play(scene())
    assert ran.count("second") == 1


def test_strict_order_and_several_queues(shop: Shop) -> None:
    app = shop.app
    ran: list[str] = []

    @app.task(retain=60)
    async def note(text: str) -> None:
        ran.append(text)

    async def scene() -> None:
        low, high = f"{shop.queue}-low", f"{shop.queue}-high"
        async with app:
            jobs = await app.enqueue_many(note.using(queue=low).bind("low") for _ in range(5))
            jobs += await app.enqueue_many(note.using(queue=high).bind("high") for _ in range(5))
            async with shop.working(queues={high: 1, low: 1}, strict=True, concurrency=1):
                for job in jobs:
                    await job.result(30)

    play(scene())
    assert ran == ["high"] * 5 + ["low"] * 5


def test_at_most_once(shop: Shop) -> None:
    app = shop.app
    seen: list[int] = []

    @app.task(at_most_once=True, retain=60)
    async def once(number: int) -> None:
        seen.append(number)
        if number == 3:
            raise ValueError("no")

    async def scene() -> None:
        async with app:
            jobs = await app.enqueue_many(once.bind(number) for number in range(8))
            async with shop.working(concurrency=2):
                with pytest.raises(JobFailedError, match="dead"):
                    await jobs[3].result(30)
                for job in [*jobs[:3], *jobs[4:]]:
                    await job.result(30)

    play(scene())
    assert sorted(seen) == list(range(8))


def test_a_batch_at_most_once_that_gathers_is_called_at_the_stop(shop: Shop) -> None:
    app = shop.app
    calls: list[list[int]] = []

    @app.batch(max_wait=600, at_most_once=True, retain=60)
    async def once(numbers: list[int]) -> None:
        calls.append(sorted(numbers))

    async def scene() -> None:
        async with app:
            jobs = await app.enqueue_many(once.bind(number) for number in range(3))
            async with shop.working() as worker:
                await shop.until(lambda: len(worker.buckets.waiting()) == 3)
            for job in jobs:
                await job.result(30)

    play(scene())
    assert calls == [[0, 1, 2]]


def test_progress_and_a_result_that_is_too_long(shop: Shop) -> None:
    app = shop.app
    go_on = asyncio.Event()

    @app.task(retain=60)
    async def slow() -> str:
        current().progress("half")
        await go_on.wait()
        return "x" * (2 << 20)

    async def scene() -> None:
        async with app, shop.working():
            job = await slow.enqueue()

            async def progress() -> bool:
                status = await job.status()
                return status is not None and status.progress == "half"

            await shop.until(progress)
            go_on.set()
            with pytest.raises(JobFailedError, match="its result was refused"):
                await job.result(30)

    play(scene())


def test_health_metrics_and_lifespan(shop: Shop) -> None:
    app = shop.app
    log: list[str] = []

    @app.lifespan
    async def life(_: App) -> AsyncIterator[None]:
        log.append("begin")
        yield
        log.append("end")

    @app.task(retain=60)
    async def echo(number: int) -> int:
        return number

    def fetch(port: int, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}") as found:
            text: str = found.read().decode()
            return text

    async def scene() -> None:
        async with app, shop.working(health=0) as worker:
            await (await echo.enqueue(1)).result(30)
            port = worker.health.port
            assert await asyncio.to_thread(fetch, port, "/healthz") == "ok\n"
            assert await asyncio.to_thread(fetch, port, "/readyz") == "ok\n"
            text = await asyncio.to_thread(fetch, port, "/metrics")
            assert 'disque_worker_runs_total{task="echo",outcome="done"} 1\n' in text
            assert log == ["begin"]

    play(scene())
    assert log == ["begin", "end"]


def test_a_worker_that_cannot_begin_says_so(config: Config) -> None:
    async def scene() -> None:
        with Served(lambda _words: b"", handshake=b"-WRONGPASS wrong\r\n") as served:
            app = App(Config(nodes=(served.address,), password="wrong"))
            app.task(name="x")(lambda: None)
            with pytest.raises(WrongPassError):
                await Worker(app).run()
        with pytest.raises(ValueError, match="there are no queues"):
            Worker(App(config))

        lost = App(config)

        @lost.task(cpu=True)
        def compute() -> None: ...

        with pytest.raises(ValueError, match="an app that can be imported"):
            await Worker(lost).run()

    play(scene())


def test_a_stop_ends_a_worker_that_has_not_begun(shop: Shop) -> None:
    app = shop.app
    log: list[str] = []

    @app.lifespan
    async def life(_: App) -> AsyncIterator[None]:
        log.append("begin")
        await asyncio.Event().wait()
        yield

    app.task(name="x")(lambda: None)

    async def scene() -> None:
        worker = Worker(app)
        task = asyncio.create_task(worker.run())
        await shop.until(lambda: log)
        worker.stop()
        worker.stop()
        await asyncio.wait_for(task, 30)
        assert not worker.ready.is_set()

    play(scene())


def test_schedules_that_are_refused_later_cost_no_job(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    app = shop.app
    answers: list[DisqueError] = [UnavailableError("no node"), CommandError("NOPERM no schedules for you")]

    async def say(*_: object) -> None:
        raise answers.pop(0)

    monkeypatch.setattr("disque.tasks.cron.say", say)

    @app.task(retain=60)
    async def echo(number: int) -> int:
        return number

    async def scene() -> None:
        async with app, shop.working():
            assert await (await echo.enqueue(5)).result(30) == 5
            assert await (await echo.enqueue(6)).result(30) == 6

    play(scene())
    assert answers == []


def test_an_error_that_cannot_be_told_is_a_failure(shop: Shop) -> None:
    app = shop.app

    class Silent(Exception):  # noqa: N818 - it says nothing
        def __str__(self) -> str:
            raise SystemExit(1)

    @app.task(tries=1)
    async def fails(how: str) -> None:
        if how == "silent":
            raise Silent
        error: BaseException = KeyError("innermost")
        for _ in range(5000):
            error = BaseExceptionGroup("group", [error])
        raise error

    @app.batch(max_size=1, max_wait=0, group_by=lambda _: sys.exit(3))
    async def batch(items: list[int]) -> None: ...

    async def scene() -> None:
        async with app, shop.working():
            for job in (await fails.enqueue("silent"), await fails.enqueue("deep"), await batch.enqueue(1)):
                [ended] = await app.client.wait(job.id, timeout=30)
                assert ended is not None
                assert ended.status == "dead-letter"
        errors = await shop.dead()
        assert [one.split("\n")[0][:18] for one in errors] == ["Silent", "ExceptionGroup", "SystemExit: 3"]

    play(scene())


def test_leases_are_renewed_while_the_function_runs_and_while_jobs_wait(shop: Shop) -> None:
    app = shop.again(lease=1)
    seen: list[int] = []

    @app.task(retain=60, tries=1)
    async def slow(number: int) -> int:
        seen.append(number)
        await asyncio.sleep(1.6)
        return number

    async def scene() -> None:
        async with app, shop.working(app, concurrency=2):
            jobs = await app.enqueue_many(slow.bind(number) for number in range(3))
            assert [await job.result(30) for job in jobs] == [0, 1, 2]

    play(scene())
    assert sorted(seen) == [0, 1, 2]


def test_a_paused_queue_is_waited_for(shop: Shop) -> None:
    app = shop.app

    @app.task(retain=60)
    async def echo(number: int) -> int:
        return number

    async def scene() -> None:
        async with app, shop.working():
            await app.client.pause(shop.queue, "out")
            job = await echo.enqueue(5)
            await asyncio.sleep(0.1)
            await app.client.pause(shop.queue, "none")
            assert await job.result(30) == 5

    play(scene())


def test_how_a_worker_calls_itself() -> None:
    assert client_name("my shop").startswith("worker:my_shop:")
    for odd in ("größe", "店:1", "a\x7fb\n", "long" * 1000):
        assert WORKER.fullmatch(client_name(odd))
        assert Config(client_name=client_name(odd))
    assert client_name("größe").startswith("worker:gr__e:")
    assert Settings().queues is None
