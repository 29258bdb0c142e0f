"""What happens to jobs, as it is told to a browser."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import pytest

from disque.client import Event, UnavailableError
from disque.client.async_listening import AsyncListening
from disque.gateway.rest import events as module
from disque.gateway.rest.events import cloud_event
from tests.gateway.rest.conftest import Api
from tests.gateway.support import Gateway

SCOPE: Final[dict[str, Any]] = {
    "type": "http", "method": "GET", "path": "/api/v1/events", "raw_path": b"/api/v1/events", "headers": [],
    "query_string": b"", "scheme": "http", "server": ("x", 1), "client": ("x", 1), "root_path": "",
    "http_version": "1.1",
}  # fmt: skip


class Listener:
    """A browser that listens."""

    def __init__(self) -> None:
        self.text = ""
        self.status = 0
        self.left = asyncio.Event()
        self._news = asyncio.Event()

    async def receive(self) -> MutableMapping[str, Any]:
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        self.status = message.get("status", self.status)
        self.text += message.get("body", b"").decode()
        self._news.set()

    async def until(self, said: str) -> None:
        while said not in self.text:
            self._news.clear()
            await self._news.wait()

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line[6:]) for line in self.text.splitlines() if line.startswith("data: {")]


@asynccontextmanager
async def listening(gateway: Gateway, query: str = "") -> AsyncIterator[Listener]:
    """Listen while something is done."""
    listener = Listener()
    scope = {**SCOPE, "query_string": query.encode()}
    task = asyncio.ensure_future(gateway.client.app(scope, listener.receive, listener.send))
    await listener.until("retry:")
    yield listener
    listener.left.set()
    await task


def play(gateway: Gateway, act: Callable[[], Awaitable[None]]) -> None:
    gateway.run(act())


def test_head_says_what_would_come_and_ends(api: Api) -> None:
    answer = api.ask("HEAD", "/events")
    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert "content-length" not in answer.headers
    assert not api.gateway.hub.streams


def test_what_happens_is_told_as_cloud_events(gateway: Gateway) -> None:
    async def act() -> None:
        client = gateway.hub.clusters.own.client
        async with listening(gateway) as listener:
            job_id = await client.add("shop/mails", "x")
            await client.get("shop/mails")
            await client.ack(job_id)
            await listener.until("job.acked")
        found = listener.events()
        assert {one["type"] for one in found} >= {"disque.job.added", "disque.job.delivered", "disque.job.acked"}
        assert {one["data"]["queue"] for one in found} == {"shop/mails"}
        assert {one["specversion"] for one in found} == {"1.0"}
        assert found[0]["subject"] == found[0]["data"]["id"]

    play(gateway, act)


def test_only_some_events_of_some_queues(gateway: Gateway) -> None:
    async def act() -> None:
        client = gateway.hub.clusters.own.client
        async with listening(gateway, "event=acked,added&queue=a*") as listener:
            for queue in ("b", "a1"):
                await client.ack(await client.add(queue, "x"))
            await listener.until("job.acked")
        assert [(one["data"]["event"], one["data"]["queue"]) for one in listener.events()] == [
            ("added", "a1"), ("acked", "a1")
        ]  # fmt: skip

    play(gateway, act)


def test_who_leaves_is_forgotten_and_a_stop_ends_the_stream(gateway: Gateway) -> None:
    async def act() -> None:
        async with listening(gateway):
            assert len(gateway.hub.streams) == 1
        assert not gateway.hub.streams
        async with listening(gateway):
            await gateway.hub.stop()

    play(gateway, act)


def test_events_that_there_are_not_and_too_many_clients(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "must be one of" in api.refused("GET", "/events?event=x")
    monkeypatch.setattr(module, "CLIENTS_MOST", 0)
    assert api.refused("GET", "/events", status=503) == "at most 0 can"


def test_those_that_begin_count_as_well(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CLIENTS_MOST", 1)
    genuine = AsyncListening.ready

    async def ready(listening: Any, timeout: float) -> bool:  # noqa: ASYNC109 - the genuine one has it
        assert len(api.gateway.hub.streams) == 1
        await genuine(listening, timeout)
        raise UnavailableError("no")

    monkeypatch.setattr(AsyncListening, "ready", ready)
    api.refused("GET", "/events", status=503)
    assert not api.gateway.hub.streams


def test_who_leaves_before_the_answer_begins_is_forgotten_too(gateway: Gateway) -> None:
    async def act() -> None:
        listener = Listener()

        async def send(_: MutableMapping[str, Any]) -> None:
            assert gateway.hub.streams
            raise OSError("gone")

        with suppress(Exception):  # whatever the server is told
            await gateway.client.app(SCOPE, listener.receive, send)
        assert not gateway.hub.streams

    play(gateway, act)


def test_names_of_queues_cannot_end_an_event_or_begin_another() -> None:
    event = Event("added", "a\n\ndata: b:c\u2028\udcff", "D-+/", "")
    told = cloud_event("1", event, 0.0)
    assert told.count(b"\n\n") == 1
    assert told.endswith(b"\n\n")
    assert b'"id": "D-._"' in told
