"""The inspector on a real node: what it shows, and what it puts right."""

import asyncio

import pytest

from disque.client import AsyncDisque, BadIdError, CommandError
from disque.client.config import Address
from disque.tasks import JobFailedError
from disque.tasks.inspector import Inspector, call_of, view_of
from tests.tasks.support import Shop


def test_queues_jobs_and_workers(shop: Shop) -> None:
    app = shop.again(name=shop.queue)
    go_on = asyncio.Event()

    @app.task(retain=60, tries=1)
    async def work(how: str, again: bool = False) -> str:
        if how == "fail":
            raise ValueError("bad thing")
        if how == "wait":
            await go_on.wait()
        return f"{how} {again}"

    async def scene() -> None:
        async with app:
            later = await work.using(delay=1000).enqueue("later")
            async with shop.working(app):
                done, waits, failed = [await work.enqueue(how) for how in ("quick", "wait", "fail")]
                assert await done.result(30) == "quick False"
                with pytest.raises(JobFailedError):
                    await failed.result(30)
                inspector = app.inspect
                [queue] = await app.queues(shop.queue)
                assert (queue.delayed, queue.in_flight, queue.dead, queue.added) == (1, 1, 1, 4)
                assert [one.id for one in await app.jobs(shop.queue, "delayed")] == [later.id]
                [running] = await app.jobs(shop.queue, "in-flight")
                assert (running.id, running.task, running.args) == (waits.id, "work", "'wait'")
                assert running.status == "in-flight"
                [dead] = await app.jobs(shop.queue, "dead-letter")
                assert (dead.status, dead.origin) == ("dead-letter", shop.queue)
                assert (dead.error or "").startswith("ValueError: bad thing")
                [kept] = await app.jobs(shop.queue, "done")
                assert (kept.id, kept.status, kept.task, kept.args) == (done.id, "done", "work", "'quick'")
                one = await app.job(done.id)
                assert one is not None
                assert (one.status, one.result) == ("done", b'"quick False"')
                assert (one.task, one.args) == ("work", "'quick'")
                assert await app.job("D-9d30ade3-JhamKYkR8xNKQ/LMOYf7Li6P-05a1") is None
                [worker] = [one for one in await inspector.workers() if one.app == shop.queue]
                assert worker.connections >= 1
                assert await inspector.run_now(later.id) == 1
                assert await later.result(30) == "later False"
                assert await inspector.revive(failed.id) == 1
                await shop.until(lambda: app.jobs(shop.queue, "dead-letter"))
                assert (await inspector.revive_all(shop.queue)).jobs == 1
                go_on.set()

    asyncio.run(scene())


def test_pause_and_delete(shop: Shop) -> None:
    app = shop.app

    @app.task
    async def work() -> None: ...

    async def scene() -> None:
        async with app:
            inspector = app.inspect
            await inspector.pause(shop.queue)
            jobs = [await work.enqueue() for _ in range(4)]
            found = await inspector.queue(shop.queue)
            assert found is not None
            assert found.paused == "out"
            assert await inspector.delete(jobs[0].id) == 1
            assert await inspector.cancel(jobs[1].id) == 1
            assert (await inspector.delete_all(shop.queue)).jobs == 2
            assert await inspector.resume(shop.queue) == "none"
            with pytest.raises(ValueError, match="queue by queue"):
                await inspector.jobs(None, "dead-letter")
            assert await inspector.queue("nobody has ever heard of it") is None
            assert [one.name for one in await inspector.schedules() if one.name == "none"] == []

    asyncio.run(scene())


def test_nodes_that_do_not_answer_are_left_out(shop: Shop) -> None:
    async def scene() -> None:
        async with AsyncDisque(shop.config) as client:
            client.router._known[("127.0.0.1", 1)] = client.router._known[client.config.nodes[0]]
            inspector = Inspector(client)
            assert len(await inspector._each(lambda node: node.ping())) == 1
            [text] = inspector.left_out
            assert text.startswith("without 127.0.0.1:1: ")
            assert inspector._at(("127.0.0.1", 1)).config.attempts == 1, "one that hangs is asked once"

    asyncio.run(scene())


def test_what_is_held_back_runs_once_and_what_runs_is_left_alone(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two names of one node stand for two nodes: each has a copy of every job."""

    async def scene() -> None:
        async with AsyncDisque(shop.config) as client:
            inspector = Inspector(client)
            asked: list[list[str]] = []
            enqueue = inspector._enqueue

            async def noted(address: Address, ids: list[str]) -> list[object]:
                asked.append(ids)
                return await enqueue(address, ids)

            async def two_nodes(_: object) -> list[Address]:
                return [client.config.nodes[0]] * 2

            monkeypatch.setattr(inspector, "_enqueue", noted)
            monkeypatch.setattr(inspector, "_each", two_nodes)
            runs, waits = await client.add(shop.queue, "1"), await client.add(f"{shop.queue}-2", "2")
            assert await client.get(shop.queue)
            later = await client.add(shop.queue, "3", delay=1000)
            assert await inspector.run_now(runs, waits, later, later) == 1
            assert asked == [[later]]
            assert [job.id for job in await client.get(shop.queue, count=5)] == [later]
            monkeypatch.undo()
            with pytest.raises(BadIdError):
                await inspector.run_now("x")
            assert await inspector.run_now() == 0

    asyncio.run(scene())


def test_an_error_of_all_nodes_is_no_empty_answer(shop: Shop) -> None:
    async def scene() -> None:
        async with AsyncDisque(shop.config) as client:
            with pytest.raises(CommandError, match="unknown command"):
                await Inspector(client)._each(lambda node: node.execute_command("NOSUCHTHING"))

    asyncio.run(scene())


def test_it_is_said_that_there_are_more_queues(shop: Shop) -> None:
    async def scene() -> None:
        async with AsyncDisque(shop.config) as client:
            for number in range(3):
                await client.add(f"many-{number}", b"")
            inspector = Inspector(client)
            assert [one.name for one in await inspector.queues("many-*", 2)] == ["many-0", "many-1"]
            assert list(inspector.left_out) == ["3 queues match many-*, of which these are the first 2 by name"]

    asyncio.run(scene())


def test_bodies_that_are_no_messages() -> None:
    assert call_of(None) == (None, "")
    assert call_of(b"\xff") == (None, "b'\\xff'")
    assert call_of(b'{"task":"t","args":[1],"kwargs":{"a":"b"}}') == ("t", "1, a='b'")
    view = view_of({"id": "D-1", "queue": "q", "state": "queued", "origin": "o", "error": b"\xff"}, None)
    assert (view.status, view.error) == ("dead-letter", "\ufffd")
