"""A gateway with a token of the namespace `ns`."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

import pytest

from tests.end_to_end.node import Node
from tests.gateway.conftest import MakeGateway
from tests.gateway.support import Answer, Gateway

TOKEN: Final = "01ARZ3NDEKTSV4RRFFQ69G5FAV"

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class Door:
    """lmstfy's API, with the token."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        gateway.run(gateway.hub.tokens.add("ns", TOKEN, "of the tests"))

    def __call__(self, method: str, path: str, body: bytes = b"", token: str = TOKEN, **headers: str) -> Answer:
        given = {"x_token": token} if token else {}
        return self.gateway.ask(method, f"/api/{path}", body, **given, **headers)

    def publish(self, path: str = "ns/q", body: bytes = b"hello", /, **headers: str) -> str:
        """Add a job, and give its ID."""
        answer = self("PUT", path, body, **headers)
        assert answer.status == 201, answer
        job_id: str = answer.json()["job_id"]
        return job_id

    async def poll(self, path: str, receive: Receive | None = None) -> Answer:
        """A long poll."""
        asked = self.gateway.client.ask("GET", f"/api/{path}", b"", {"X-Token": TOKEN}, receive)
        return await asked

    async def until_polls(self, number: int) -> None:
        """Wait until so many long polls wait."""
        while self.gateway.hub.clusters.polls != number:  # noqa: ASYNC110 - the gateway tells nobody of it
            await asyncio.sleep(0)

    def consume(self, path: str = "ns/q") -> Any:
        """Take a job."""
        answer = self("GET", path)
        assert answer.status == 200, answer
        return answer.json()


@pytest.fixture
def door(gateway: Gateway) -> Door:
    return Door(gateway)


@pytest.fixture
def open_door(node: Node, make_gateway: MakeGateway) -> Door:
    """The same where sizes are told to everybody."""
    del node
    return Door(make_gateway(open_size=True))
