"""A gateway in this process, asked without a network between: requests go to its application as a server gives them."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import unquote

from starlette.types import ASGIApp

from disque.gateway.app import build
from disque.gateway.hub import Hub
from disque.gateway.settings import Settings

T = TypeVar("T")
LOOPBACK: Final = "127.0.0.1"


class Answer(NamedTuple):
    """What a client gets."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """One connection's worth of requests, given to an application as a server would."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def ask(
        self,
        method: str,
        url: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        receive: Callable[[], Awaitable[MutableMapping[str, Any]]] | None = None,
    ) -> Answer:
        path, _, query = url.partition("?")
        scope = {
            "type": "http",
            "method": method,
            "scheme": "http",
            "http_version": "1.1",
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [
                (name.lower().encode(), value.encode("latin-1"))
                for name, value in {"host": "gateway", **(headers or {})}.items()
            ],
            "client": (LOOPBACK, 1),
            "server": (LOOPBACK, 7780),
            "state": {},
        }
        begun: dict[str, Any] = {}
        parts: list[bytes] = []
        came = [{"type": "http.request", "body": body, "more_body": False}]
        left = asyncio.Event()

        async def take() -> MutableMapping[str, Any]:
            if came:
                return came.pop()
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                assert not begun, "two answers"
                begun.update(message)
            else:
                parts.append(message.get("body", b""))

        await self.app(scope, receive or take, send)
        shown = {name.decode(): value.decode("latin-1") for name, value in begun["headers"]}
        return Answer(begun["status"], shown, b"".join(parts))


class Gateway:
    """A gateway and the loop that it lives in."""

    def __init__(self, settings: Settings, wall_s: Callable[[], float] | None = None) -> None:
        self._runner = asyncio.Runner()
        self._runner.get_loop()
        self.hub: Hub = self.run(self._make(settings, wall_s))
        self.client = Client(build(self.hub))

    @staticmethod
    async def _make(settings: Settings, wall_s: Callable[[], float] | None) -> Hub:
        return Hub(settings) if wall_s is None else Hub(settings, wall_s)

    def run(self, work: Awaitable[T]) -> T:
        """Run something in the loop of the gateway."""

        async def wait() -> T:
            return await work

        return self._runner.run(wait())

    def ask(self, method: str, url: str, body: bytes = b"", **headers: str) -> Answer:
        """One request; names of headers are written with _ for -."""
        return self.run(
            self.client.ask(method, url, body, {name.replace("_", "-"): value for name, value in headers.items()})
        )

    def close(self) -> None:
        self.run(self._close())
        self._runner.close()

    async def _close(self) -> None:
        await self.hub.stop()
        await self.hub.close()
