"""The examples do what they say: the shop's tasks in memory, behind FastAPI and Flask on a node, the demonstration."""

import asyncio
import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from disque.client import Config
from disque.tasks.worker import Settings, Worker
from tests.conftest import ROOT

FOLDER = ROOT / "examples" / "tasks"


@pytest.fixture
def shop(config: Config, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """The shop, imported anew with a node of the tests."""
    [(host, port)] = config.nodes
    monkeypatch.setenv("SHOP_URL", f"disque://{host}:{port}?discover=no")
    monkeypatch.setenv("SHOP_LOG", str(tmp_path / "notes.txt"))
    names = [f"examples.tasks.{name}" for name in ("shop", "fastapi_app", "flask_app")]
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield importlib.import_module(names[0])
    for name in names:
        sys.modules.pop(name, None)


def test_the_shop_in_memory(shop: Any) -> None:
    async def scene() -> None:
        async with shop.app.testing() as t:
            sent = await shop.mail.enqueue("customer-7", "hello")
            assert await shop.mail.enqueue("customer-7", "hello") == sent
            await shop.mail.enqueue("nobody-1", "hello")
            small = await shop.picture.enqueue("cat.png", 10)
            for number in range(150):
                await shop.clicks.enqueue(f"/{number % 2}")
            order = shop.Order(1, "ada", 1250)
            chain = await shop.pay.bind(order).then(shop.invoice, order).enqueue()
            await t.tick(shop.report)
            await t.advance(5)
            assert await sent.result() == "sent to customer-7"
            assert await small.result() == 1000
            assert await chain.result() == "invoice 1: 12.50 EUR"
            assert [entry.error for entry in t.dead("mail")] == ["Dead: there is no nobody-1"]

    asyncio.run(scene())


def works_until(shop: Any, ask: Any) -> Any:
    """Let a worker run while this is asked in a thread."""

    async def scene() -> Any:
        worker = Worker(shop.app, Settings(queues={"mail": 1, "orders": 1}, place="examples.tasks.shop:app"))
        task = asyncio.create_task(worker.run())
        await worker.ready.wait()
        try:
            return await asyncio.to_thread(ask)
        finally:
            worker.stop()
            await task

    return asyncio.run(scene())


def test_fastapi(shop: Any) -> None:
    pytest.importorskip("fastapi")
    pytest.importorskip("httpx2")
    from fastapi.testclient import TestClient  # noqa: PLC0415 - it may be missing

    web = importlib.import_module("examples.tasks.fastapi_app").web

    def ask() -> None:
        with TestClient(web) as client:
            given = client.post("/orders", json={"number": 5, "customer": "ada", "cents": 100})
            assert given.status_code == 202
            job = given.json()["job"]
            while (found := client.get(f"/jobs/{job}").json())["status"] != "done":
                pass
            assert found["result"] == "100"
            assert client.post("/welcome/ada").status_code == 202
            assert client.get("/jobs/D-9d30ade3-JhamKYkR8xNKQ%2FLMOYf7Li6P-05a1").status_code == 404

    works_until(shop, ask)


def test_flask(shop: Any) -> None:
    pytest.importorskip("flask")
    web = importlib.import_module("examples.tasks.flask_app").web

    def ask() -> None:
        client = web.test_client()
        given = client.post("/orders/5/ada/1999")
        assert given.json["invoice"] == "invoice 5: 19.99 EUR"
        assert client.post("/welcome/ada").status_code == 202

    works_until(shop, ask)
    shop.app.blocking_client.close()


@pytest.mark.slow
def test_the_demonstration_loses_nothing() -> None:
    command = [sys.executable, str(FOLDER / "demo.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "lost       0" in done.stdout
    assert "dead       1 Dead: there is no nobody-0" in done.stdout
    assert "mails      3 dead-letter, 57 done" in done.stdout
