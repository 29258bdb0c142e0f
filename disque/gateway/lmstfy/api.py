"""lmstfy's public routes as an ASGI application: one table, and the checks before each in lmstfy's order."""

import time
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from starlette.types import Receive, Scope, Send

from disque.client import DisqueError
from disque.gateway.asgi import BodyError, GoneError, as_json, header, respond
from disque.gateway.faults import fault_of
from disque.gateway.hub import Hub, log
from disque.gateway.lmstfy import names, query
from disque.gateway.lmstfy.call import DEFAULT_POOL, INTERNAL, UNAVAILABLE, Call, RefusedError, Reply, failure
from disque.gateway.lmstfy.jobs import Jobs
from disque.gateway.lmstfy.throttle import Throttle
from disque.gateway.lmstfy.tokens import BrokenError, Limit, Tokens

Do = Callable[[Jobs, Call], Awaitable[Reply]]


class Route(NamedTuple):
    """What a method and the end of a path mean; ``good`` is the status of a success, ``limited`` what is throttled."""

    do: Do
    pattern: str
    good: int = 200
    limited: str = ""
    is_open: bool = False


BASE: Final = "/api/:namespace/:queue"
#: By method and what stands behind the queue; `job` has an ID behind it.
ROUTES: Final[dict[tuple[str, str], Route]] = {
    ("PUT", ""): Route(Jobs.publish, BASE, 201, "produce"),
    ("GET", ""): Route(Jobs.consume, BASE, 200, "consume"),
    ("DELETE", ""): Route(Jobs.destroy, BASE),
    ("PUT", "bulk"): Route(Jobs.publish_bulk, f"{BASE}/bulk", 201, "produce"),
    ("PUT", "job"): Route(Jobs.publish, f"{BASE}/job/:job_id"),
    ("GET", "job"): Route(Jobs.peek_job, f"{BASE}/job/:job_id"),
    ("DELETE", "job"): Route(Jobs.delete, f"{BASE}/job/:job_id"),
    ("GET", "peek"): Route(Jobs.peek, f"{BASE}/peek"),
    ("GET", "size"): Route(Jobs.size, f"{BASE}/size", is_open=True),
    ("GET", "deadletter"): Route(Jobs.peek_dead, f"{BASE}/deadletter"),
    ("PUT", "deadletter"): Route(Jobs.respawn, f"{BASE}/deadletter"),
    ("DELETE", "deadletter"): Route(Jobs.delete_dead, f"{BASE}/deadletter"),
    ("GET", "deadletter/size"): Route(Jobs.dead_size, f"{BASE}/deadletter/size", is_open=True),
}
NOT_FOUND: Final = failure(404, "api not found")


class Api:
    """The application."""

    def __init__(self, hub: Hub, tokens: Tokens) -> None:
        self.hub = hub
        self.tokens = tokens
        self.jobs = Jobs(hub)
        self.throttle = Throttle(time.monotonic)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        begun_s = time.perf_counter()
        request_id = self.hub.request_id()
        path: list[str] = scope["path"].split("/")
        route = self._route(scope["method"], path)
        if route is None:
            reply, pattern = NOT_FOUND, "other"
        else:
            call = Call(scope, receive, query.parse(scope["query_string"]))
            call.namespace, call.queue = path[2], path[3]
            if len(path) == 6 and path[4] == "job":
                call.job_id = path[5]
            pattern = route.pattern
            try:
                reply = await self._serve(route, call)
            except GoneError:
                return
            except Exception as error:  # noqa: BLE001 - whatever a route raises is a failure of this request alone
                reply = self._failed(error, request_id)
        await respond(send, reply.status, reply.body, [*reply.headers, (b"x-request-id", request_id.encode())])
        took_s = time.perf_counter() - begun_s
        self.hub.note(scope["method"], pattern, reply.status, took_s, request_id)
        if self.hub.lmstfy is not None and route is not None:
            self.hub.lmstfy.answered(path[2], pattern, scope["method"], reply.status, took_s)

    @staticmethod
    def _route(method: str, path: list[str]) -> Route | None:
        """What a path means, taken apart at its slashes: `/api/ns/q` is "", "api", "ns", "q"."""
        behind = path[4:]
        if not path[2] or len(path) < 4 or not all(path[3:]):
            return None
        if len(behind) == 2 and behind[0] == "job":
            behind.pop()
        elif behind == ["job"]:
            return None
        return ROUTES.get((method, "/".join(behind)))

    async def _serve(self, route: Route, call: Call) -> Reply:
        """Check, and do it. Raises RefusedError and what the cluster says."""
        check = names.wrong_for_consuming if route.do is Jobs.consume else names.wrong
        wrong = check(call.namespace, call.queue)
        if wrong:
            raise RefusedError(400, wrong)
        read_token(call)
        if call.pool != DEFAULT_POOL:
            raise RefusedError(404, "pool not found")
        if route.is_open and self.hub.settings.open_size:
            return await route.do(self.jobs, call)
        if not call.token:
            raise RefusedError(401, "token not found")
        known = await self.tokens.find(call.namespace, call.token)
        if known is None:
            raise RefusedError(401, "invalid token")
        if not route.limited or known.limit is None:
            return await route.do(self.jobs, call)
        return await self._limited(route, call, known.limit)

    async def _limited(self, route: Route, call: Call, limit: Limit) -> Reply:
        reads = route.limited == "consume"
        if not self.throttle.admit(call.namespace, call.token, limit, reads=reads):
            if self.hub.lmstfy is not None:
                self.hub.lmstfy.limited(call.namespace, call.token, route.limited)
            said = f"token({call.token}) {route.limited} reach the limit rate, please retry later"
            return Reply(429, as_json({"msg": said}))
        status = 0
        try:
            reply = await route.do(self.jobs, call)
            status = reply.status
        finally:
            if status != route.good:
                self.throttle.forgive(call.namespace, call.token, reads=reads)
        return reply

    @staticmethod
    def _failed(error: Exception, request_id: str) -> Reply:
        """The answer to a request that raised this."""
        if isinstance(error, RefusedError):
            return error.reply
        if isinstance(error, BodyError):
            reply = failure(error.status, error.text)
            more = [(name.lower().encode(), value.encode()) for name, value in error.more.items()]
            return reply._replace(headers=[*reply.headers, *more])
        if isinstance(error, DisqueError) and fault_of(error).again:
            log.warning("request %s: %s", request_id, error)
            return UNAVAILABLE
        if isinstance(error, BrokenError | DisqueError):
            log.error("request %s: %s", request_id, error)
        else:
            log.error("request %s failed", request_id, exc_info=error)
        return INTERNAL


def read_token(call: Call) -> None:
    """Note pool and token, from `X-Token` or the query, as `[pool:]token`."""
    raw = header(call.scope, b"x-token").decode("latin-1") or call.query.get("token", "")
    pool, colon, token = raw.partition(":")
    call.pool, call.token = (pool or DEFAULT_POOL, token) if colon else (DEFAULT_POOL, raw)
