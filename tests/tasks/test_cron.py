"""Schedules: said to the servers by each worker, kept and fired there."""

import asyncio
import logging
from typing import Any

import pytest

from disque.client import AsyncDisque, CommandError
from disque.tasks import App, current
from disque.tasks.worker import Worker
from tests.tasks.support import Shop


def test_a_worker_says_the_schedules_and_the_servers_fire_them(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    app = shop.again(name=shop.queue)
    ticks: list[str] = []

    @app.cron("@every 1s")
    @app.task(tries=2)
    async def often() -> None:
        ticks.append(current().headers["cron-tick"])

    @app.cron("0 9 * * mon-fri", tz="Europe/Berlin", catchup="last", name="morning", queue="other")
    def report(kind: str = "daily") -> str:
        return kind

    assert report("x") == "x"

    async def scene() -> None:
        async with AsyncDisque(shop.config) as client:
            async with shop.working(app):
                await shop.until(lambda: len(ticks) >= 2)
            found = await client.schedule(f"{app.name}:morning")
            assert found is not None
            assert (found.spec, found.tz, found.catchup, found.queue) == (
                *("0 9 * * mon-fri", "Europe/Berlin", "last"), "other",
            )  # fmt: skip
            assert found.body == b'{"task":"report"}'
            assert await client.pause_schedule(f"{app.name}:often")
            older = shop.again(name=shop.queue)
            older.cron("@every 1s", name="often")(lambda: None)
            with caplog.at_level(logging.WARNING, "disque.tasks"):
                async with shop.working(older):
                    pass
            assert f"schedule {app.name}:morning is not in this app any more" in caplog.text
            paused = await client.schedule(f"{app.name}:often")
            assert paused is not None
            assert paused.paused, "who starts a worker changes nothing of that"
            for name in ("often", "morning"):
                assert await client.delete_schedule(f"{app.name}:{name}")

    asyncio.run(scene())
    assert len(set(ticks)) == len(ticks)


def test_unique_does_not_count_for_a_schedule_and_the_worker_says_so(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    app = shop.again(name=shop.queue)
    app.cron("0 9 * * *", name="once")(app.task(name="once", unique=True)(lambda: None))
    app.cron("0 9 * * *", name="always")(lambda: None)

    async def scene() -> None:
        async with AsyncDisque(shop.config) as client:
            with caplog.at_level(logging.WARNING, "disque.tasks"):
                async with shop.working(app):
                    pass
            for name in ("once", "always"):
                assert await client.delete_schedule(f"{app.name}:{name}")

    asyncio.run(scene())
    assert f"schedule {app.name}:once: unique does not count for it" in caplog.text
    assert f"schedule {app.name}:always" not in caplog.text


def test_a_spec_that_is_none_ends_the_worker(shop: Shop) -> None:
    app = shop.again()
    app.cron("sometimes", name="x")(lambda: None)
    with pytest.raises(CommandError):
        asyncio.run(Worker(app).run())


def test_what_cannot_be_planned() -> None:
    app = App()

    @app.cron("@hourly")
    @app.task
    def once() -> None: ...

    with pytest.raises(ValueError, match="two schedules 'app:once'"):
        app.cron("@daily")(once)
    with pytest.raises(TypeError, match="missing a required argument"):

        @app.cron("@hourly")
        def needs(number: int) -> None: ...


def test_in_memory_it_ticks_when_the_test_says_so() -> None:
    app = App()
    ran: list[Any] = []

    @app.cron("@hourly")
    def report() -> None:
        ran.append(1)

    @app.task
    def other() -> None: ...

    async def scene() -> None:
        async with app.testing() as t:
            await t.tick(report)
            assert await t.run() == 1
            with pytest.raises(ValueError, match="has no schedule"):
                await t.tick(other)

    asyncio.run(scene())
    assert ran == [1]
