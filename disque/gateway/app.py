"""A gateway as an ASGI application: what comes in goes to lmstfy's API, or to the pages, REST and the rest.

Both are given an ID for each request, which the answer has in `X-Request-Id`. Requests are counted by the pattern of
their route, and logged without their query, which may hold a token.
"""

import time
from collections.abc import MutableMapping
from typing import Any
from urllib.parse import unquote_to_bytes

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from disque.client import DisqueError
from disque.gateway import compat, guard, health, scrape, sizes
from disque.gateway.asgi import BodyError
from disque.gateway.faults import RETRY_AFTER_S, fault_of
from disque.gateway.guard import RefusedError, TooManyError
from disque.gateway.hub import Hub, log
from disque.gateway.lmstfy.api import Api
from disque.gateway.metrics import TYPE
from disque.gateway.pages import Pages
from disque.gateway.rest.api import Rest


class Counted:
    """Gives requests IDs and headers, counts and logs them."""

    def __init__(self, hub: Hub, app: ASGIApp) -> None:
        self.hub = hub
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        begun_s = time.perf_counter()
        request_id = scope["request_id"] = self.hub.request_id()
        more = [(b"x-request-id", request_id.encode()), *guard.HEADERS]
        status = 500

        async def answer(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *more]
            await send(message)

        try:
            await self.app(scope, receive, answer)
        except Exception:  # noqa: BLE001 - whatever a route raises is a failure of this request alone
            log.exception("request %s failed", request_id)
        route = scope.get("route")
        place = scope.get("place") or (route.path if isinstance(route, Route) else "other")
        self.hub.note(scope["method"], place, status, time.perf_counter() - begun_s, request_id)


async def broken(request: Request, error: Exception) -> Response:
    """A failure of ours, whose reason is in the log."""
    del request, error
    return PlainTextResponse("internal error\n", 500)


async def refused(request: Request, error: Exception) -> Response:
    """What does not seem to be meant."""
    del request
    return PlainTextResponse(f"{error}\n", 429 if isinstance(error, TooManyError) else 403)


async def not_read(request: Request, error: Exception) -> Response:
    """A body that is not taken."""
    del request
    assert isinstance(error, BodyError)
    return PlainTextResponse(f"{error.text}\n", error.status, error.more)


def metrics(hub: Hub) -> list[Route]:
    """`/metrics`: all nodes, with the rights of who asks, and the gateway; `/metrics/gateway`: that alone."""

    async def show_all(request: Request) -> Response:
        try:
            cluster = await guard.cluster_of(hub, request)
            told = await cluster.soon(lambda: scrape.nodes(cluster))
        except DisqueError as error:
            fault = fault_of(error)
            more = {"Retry-After": str(RETRY_AFTER_S)} if fault.again else {}
            more |= {"WWW-Authenticate": 'Basic realm="disque"'} if fault.status == 401 else {}
            return PlainTextResponse(f"{fault.title}\n", fault.status, more)
        if hub.lmstfy is not None:
            found = compat.samples(told)
            told += compat.asynq(found, await sizes.of_queues(cluster, found)) + hub.lmstfy.text(found)
        return Response(hub.metrics.text() + told.encode("utf-8", "replace"), media_type=TYPE)

    async def show_own(request: Request) -> Response:
        del request
        return Response(hub.metrics.text(), media_type=TYPE)

    return [Route("/metrics", show_all), Route("/metrics/gateway", show_own)]


class Front:
    """Chooses who serves a path: `/api/v1` is REST, all else below `/api/` is lmstfy's, and the rest are pages."""

    def __init__(self, lmstfy: ASGIApp, rest: ASGIApp, pages: ASGIApp) -> None:
        self.lmstfy = lmstfy
        self.rest = rest
        self.pages = pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request. What was sent decides: a slash that is written %2F is a part of a word."""
        path: bytes = scope["raw_path"]
        if path.startswith(b"/api/v1/") or path == b"/api/v1":
            await self.rest(scope, receive, send)
        elif path.startswith(b"/api/"):
            await self.lmstfy(scope, receive, send)
        else:
            whole = unquote_to_bytes(path).decode("utf-8", "surrogateescape")  # names may be no UTF-8
            await self.pages({**scope, "path": whole}, receive, send)


def build(hub: Hub) -> ASGIApp:
    """The application at the public port."""
    shown = Pages(hub)
    routes: list[BaseRoute] = [*health.routes(hub), *metrics(hub), *shown.routes()]

    async def failed(request: Request, error: Exception) -> Response:
        """No such path, no such method: as a page to browsers."""
        assert isinstance(error, HTTPException)
        if error.status_code == 404 and "text/html" in request.headers.get("accept", ""):
            return shown.nothing(request)
        return PlainTextResponse(f"{error.detail}\n", error.status_code, error.headers)

    handlers: dict[Any, Any] = {Exception: broken, RefusedError: refused, BodyError: not_read, HTTPException: failed}
    pages = Starlette(routes=routes, exception_handlers=handlers)
    return Front(Api(hub, hub.tokens), Counted(hub, Rest(hub)), Counted(hub, pages))
