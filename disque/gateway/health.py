"""`/healthz`: the process answers. `/readyz`: it reaches a node, and is not about to stop."""

import asyncio
from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from disque.client import DisqueError
from disque.gateway.hub import Hub

#: Seconds after which a cluster that does not answer is none.
PATIENCE_S: Final = 3.0


def routes(hub: Hub) -> list[Route]:
    """Both of them. They tell nothing that needs a login."""

    async def healthy(request: Request) -> Response:
        del request
        return PlainTextResponse("ok\n")

    async def ready(request: Request) -> Response:
        del request
        if hub.stopping.is_set():
            return PlainTextResponse("stopping\n", 503)
        try:
            async with asyncio.timeout(PATIENCE_S):
                await hub.clusters.own.soon(hub.clusters.own.client.ping)
        except (DisqueError, TimeoutError):
            return PlainTextResponse("no node answers\n", 503, {"Retry-After": "1"})
        return PlainTextResponse("ok\n")

    return [Route("/healthz", healthy), Route("/readyz", ready)]
