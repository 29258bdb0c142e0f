"""Apps: tasks are registered, typed, enqueued with and without asyncio, through middleware."""

import asyncio
import gc
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from disque.client import DisqueError, NewJob, PausedError
from disque.tasks import App, Event, Go, TaskError, current
from disque.tasks.message import decode
from tests.conftest import ROOT
from tests.tasks.support import Shop

TYPES = """
from disque.tasks import App, Depends, Job

app = App()

def open_db() -> int:
    return 1

@app.task(queue="mail", tries=5)
async def welcome(user_id: int, *, db: int = Depends(open_db)) -> str:
    return ""

@app.task
def add(a: int, b: int = 2) -> int:
    return a + b

@app.batch(max_size=5)
async def clicks(items: list[str]) -> None: ...

async def main() -> None:
    job: Job[str] = await welcome.enqueue(7)
    text: str = await job.result(timeout=5)
    text = await welcome(7)
    number: int = add(1)
    number = add.delay(1, b=3).result()
    await app.enqueue_many(welcome.bind(i) for i in range(3))
    await clicks.enqueue("x")
    await add.bind(1).then(add, 3).enqueue()
    print(text, number)
"""
WRONG = {
    'await welcome.enqueue("x")': 'Argument 1 to "enqueue" of "Call" has incompatible type "str"; expected "int"',
    "await welcome.enqueue()": 'Missing positional argument "user_id" in call to "enqueue"',
    "add.delay(1, c=3)": 'Unexpected keyword argument "c" for "delay"',
    'add.bind("x")': 'Argument 1 to "bind" of "Call" has incompatible type "str"; expected "int"',
    "await welcome.using(soon=1).enqueue(7)": 'Unexpected keyword argument "soon" for "using"',
    "await clicks.enqueue(5)": 'expected "str"',
    "await welcome.bind(1).then(add, 3).enqueue()": 'has incompatible type "SyncTask[[int, int], int]"',
    "number = await (await welcome.enqueue(7)).result()": 'expression has type "str", variable has type "int"',
}


@pytest.mark.slow
def test_a_wrong_argument_is_found_by_mypy(tmp_path: Path) -> None:
    lines = TYPES + "".join(f"    {line}\n" for line in WRONG)
    path = tmp_path / "shop.py"
    path.write_text(lines)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    errors = [line for line in done.stdout.splitlines() if ": error: " in line]
    first = len(TYPES.splitlines()) + 1
    for number, (line, reason) in enumerate(WRONG.items(), first):
        found = [error for error in errors if f"shop.py:{number}: " in error]
        assert any(reason in error for error in found), f"{line}: {found or errors}"
    assert not [error for error in errors if int(error.split(":")[1]) < first], errors


def test_a_plain_call_stays_one() -> None:
    app = App()

    @app.task
    def add(a: int, b: int = 2) -> int:
        """Add."""
        return a + b

    @app.task(name="other")
    async def later(a: int) -> int:
        return a

    assert add(1) == 3
    assert asyncio.run(later(5)) == 5
    assert (add.__doc__, add.__name__, add.name, later.name) == ("Add.", "add", "add", "other")
    assert repr(add) == "<Task add>"
    assert repr(app) == "<App app: 2 tasks>"


def test_what_is_wrong_is_said_when_the_task_is_made_or_called() -> None:
    app = App()

    @app.task
    def add(a: int) -> int:
        return a

    with pytest.raises(ValueError, match="two tasks 'add'"):
        app.task(name="add")(lambda: None)
    with pytest.raises(TypeError, match="plain function"):

        @app.task(cpu=True)
        async def compute() -> None: ...

    with pytest.raises(ValueError, match="limit of task x"):
        app.task(name="x", limit=0)(lambda: None)
    with pytest.raises(TypeError, match="task add: too many positional"):
        add.bind(1, 2)  # type: ignore[call-arg]  # that is what is refused, and that a name is unknown
    with pytest.raises(TypeError, match="soon"):
        add.using(soon=5)  # type: ignore[call-arg]  # the same
    for wrong in ({"lease": 0}, {"format": "pickle"}, {"url": "nonsense"}):
        with pytest.raises(ValueError):  # noqa: PT011 - of any kind
            App(**wrong)


def test_a_chain_whose_next_job_would_be_refused_is_none() -> None:
    app = App()

    @app.task
    async def one() -> int:
        return 1

    @app.task(ttl=10)
    async def two(number: int) -> int:
        return number

    assert one.bind().then(two.using(delay=9)).job().body
    for chain in (one.bind().then(two.using(delay=10)), one.bind().then_run(two.using(delay=60).bind(1))):
        with pytest.raises(ValueError, match="task two, which comes later, has a delay as long as its ttl"):
            chain.job()


def test_a_chain_carries_what_is_nothing_and_means_something() -> None:
    app = App()

    @app.task(timeout=5, priority=9, retain=60)
    async def work(number: int) -> int:
        return number

    chain = work.bind(1).then(work.using(timeout=0, priority=0, retain=0, tries=0, delay=0, deadletter=""))
    body = chain.job().body
    assert isinstance(body, bytes)
    [link] = decode(body).then or []
    assert link["call"] == {"task": "work", "timeout": 0}
    assert [link["job"][name] for name in ("priority", "retain", "tries", "delay", "deadletter")] == [0, 0, 0, 0, ""]


def test_middleware_is_around_each_enqueue_and_each_run() -> None:
    app = App()
    log: list[str] = []

    @app.middleware
    async def outer(event: Event, go: Go) -> Any:
        log.append(f"outer {event.phase} {event.task}{event.args}")
        if event.phase == "enqueue":
            event.headers["by"] = "ada"
        found = await go()
        log.append(f"outer {event.phase} ends")
        return found

    @app.middleware
    async def inner(event: Event, go: Go) -> Any:
        log.append(f"inner {event.phase} {event.headers}")
        return (await go()) + (1 if event.phase == "run" else "")

    @app.task(retain=60)
    def add(a: int) -> int:
        log.append("add")
        return a

    async def scene() -> None:
        async with app.testing() as t:
            job = await add.enqueue(1)
            await t.run()
            assert await job.result() == 2
            [many] = await app.enqueue_many([add.bind(3)])
            now = add.enqueue_sync(4)
            await t.run()
            assert await many.result() == 4
            assert now.result() == 5

    asyncio.run(scene())
    assert log[:8] == [
        "outer enqueue add[1]",
        "inner enqueue {'by': 'ada'}",
        "outer enqueue ends",
        "outer run add[1]",
        "inner run {'by': 'ada'}",
        "add",
        "outer run ends",
        "outer enqueue add[3]",
    ]


def test_middleware_is_around_what_comes_after_a_job_too() -> None:
    app = App()
    sent: list[tuple[str, str, list[object]]] = []
    got: list[dict[str, str]] = []

    @app.middleware
    async def notes(event: Event, go: Go) -> Any:
        if event.phase == "enqueue":
            event.headers["by"] = "ada"
            sent.append((event.task, event.queue, event.args))
        found = await go()
        return found + 1 if event.phase == "run" and event.task == "add" else found

    @app.task
    def add(a: int, b: int) -> int:
        return a + b

    @app.task(queue="sums", headers={"own": "yes"}, retain=60)
    async def total(numbers: int | list[int]) -> int:
        got.append(dict(current().headers))
        return numbers if isinstance(numbers, int) else sum(numbers)

    async def scene() -> None:
        async with app.testing() as t:
            job = await add.bind(1, 2).then(add, 10).then(total).enqueue()
            await t.run()
            assert await job.result() == 15
            assert sent == [("add", "default", [1, 2]), ("add", "default", [4, 10]), ("total", "sums", [15])]
            sent.clear()
            group = await app.group([add.bind(1, 2)]).then(total).enqueue()
            await t.run()
            assert await group.result() == 4
            assert [name for name, _, _ in sent] == ["add", "disque:group", "total"]

    asyncio.run(scene())
    assert got == [{"by": "ada", "own": "yes"}] * 2


def test_middleware_that_is_wrong() -> None:
    app = App()

    @app.middleware
    async def forgets(_event: Event, go: Go) -> None:
        await asyncio.sleep(0)
        await go()

    @app.task
    def add(a: int) -> int:
        return a

    async def scene() -> None:
        async with app.testing():
            with pytest.raises(TaskError, match="must return the ID"):
                await add.enqueue(1)
            with pytest.raises(RuntimeError, match="only with enqueue"):
                add.delay(1)

    asyncio.run(scene())


class FakeDoor:
    """Takes jobs, and refuses those of a queue that is paused."""

    def __init__(self) -> None:
        self.parts: list[int] = []

    async def add_many(self, jobs: Sequence[NewJob]) -> list[str]:
        self.parts.append(len(jobs))
        results = [PausedError("paused") if job.queue == "paused" else f"D-{at}" for at, job in enumerate(jobs)]
        for one in results:
            if isinstance(one, DisqueError):
                one.results = results
                raise one
        return [one for one in results if isinstance(one, str)]


def test_many_travel_together_through_middleware_too(monkeypatch: pytest.MonkeyPatch) -> None:
    app = App()
    door = FakeDoor()
    monkeypatch.setattr(app, "door", lambda: door)
    places = asyncio.Semaphore(10)
    narrow = False

    @app.middleware
    async def some(_event: Event, go: Go) -> Any:
        if narrow:
            async with places:
                return await go()
        return await go()

    @app.task
    def add(a: int) -> int:
        return a

    async def scene() -> None:
        nonlocal narrow
        jobs = await app.enqueue_many(add.bind(at) for at in range(1500))
        assert [job.id for job in jobs[:2]] == ["D-0", "D-1"]
        assert door.parts == [1000, 500]
        narrow, door.parts = True, []
        assert len(await app.enqueue_many(add.bind(at) for at in range(35))) == 35
        assert door.parts == [10, 10, 10, 5]  # what waits in the middleware keeps nobody
        narrow = False
        with pytest.raises(PausedError) as raised:
            await app.enqueue_many([add.bind(1), add.using(queue="paused").bind(2), add.bind(3)])
        assert raised.value.results == ["D-0", raised.value, "D-2"]

    asyncio.run(scene())


def test_jobs_reach_a_node_from_loops_and_threads(shop: Shop) -> None:
    app = shop.app

    @app.task(retain=60)
    async def double(number: int) -> int:
        return 2 * number

    async def first() -> list[int | None]:
        async with app, shop.working():
            jobs = await app.enqueue_many(double.bind(number) for number in range(2500))
            assert len({job.id for job in jobs}) == 2500
            sync = await asyncio.to_thread(double.delay, 7)
            assert await asyncio.to_thread(sync.result, 30) == 14
            status = await asyncio.to_thread(sync.status)
            assert status is not None
            assert status.done
            assert not await asyncio.to_thread(sync.cancel)
            return [await job.result(30) for job in jobs[:3]]

    assert asyncio.run(first()) == [0, 2, 4]
    assert double.enqueue_sync(1).queue == shop.queue

    async def second() -> None:  # in another loop, with connections of its own
        async with app, shop.working():
            assert await (await double.enqueue(4)).result(30) == 8

    asyncio.run(second())
    app.blocking_client.close()


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # what Python says of a loop that is closed with connections
def test_connections_of_closed_loops_are_closed_when_there_is_another_loop(shop: Shop) -> None:
    app = shop.app
    sockets: list[Any] = []

    @app.task
    async def nothing() -> None: ...

    async def call() -> None:
        await nothing.enqueue()
        [idle] = app.client._pool._idle.values()
        writers = [one._writer for one in idle]  # redis-py has no other way to it
        sockets.extend(writer.get_extra_info("socket") for writer in writers if writer is not None)

    for number in range(3):
        asyncio.run(call())
        assert [one.fileno() == -1 for one in sockets] == [True] * number + [False]
        assert len(app._clients) == 1

    async def last() -> None:
        await app.aclose()

    asyncio.run(last())
    assert [one.fileno() for one in sockets] == [-1] * 3
    assert not app._clients
    sockets.clear()
    gc.collect()


def test_where_an_app_is() -> None:
    assert App().place() is None
    from tests.tasks import shop_app  # noqa: PLC0415 - it is imported to be found

    assert shop_app.app.place() == "tests.tasks.shop_app:app"
