"""lmstfy's admin routes: tokens, limits, and what there is. They have a port of their own."""

import base64
import binascii
import hmac
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple
from urllib.parse import parse_qsl

from starlette.types import Receive, Scope, Send

from disque import VERSION
from disque.client import DisqueError
from disque.gateway import compat, scrape
from disque.gateway.asgi import BodyError, GoneError, as_json, header, respond
from disque.gateway.hub import Hub, log
from disque.gateway.lmstfy import names, query
from disque.gateway.lmstfy.call import DEFAULT_POOL, INTERNAL, NOTHING, RefusedError, Reply, failure
from disque.gateway.lmstfy.names import BAD_NAMESPACE, LENGTH_MOST
from disque.gateway.lmstfy.tokens import BrokenError, Limit
from disque.gateway.metrics import TYPE

TEXT: Final = (b"content-type", b"text/plain; charset=utf-8")
BODY_MOST: Final = 64 << 10
#: Characters of a token that somebody chose.
TOKEN_LEAST: Final = 20
NO_POOL: Final = "the pool was not exists"
NOT_FOUND: Final = Reply(404, b"404 page not found", [(b"content-type", b"text/plain")])
LOGIN: Final = Reply(401, b"", [(b"www-authenticate", b'Basic realm="Authorization Required"')])


class Ask:
    """A request: the parts of its path that are no words of the route, its query, and the body."""

    def __init__(self, words: list[str], asked: Mapping[str, str], body: bytes, scope: Scope) -> None:
        self.words = words
        self.query = dict(asked)
        self.body = body
        self.scope = scope

    def pool(self) -> str:
        """The pool of the query, which must be the only one there is. Raises RefusedError."""
        pool = self.query.get("pool", "")
        if pool not in {"", DEFAULT_POOL}:
            raise RefusedError(400, NO_POOL)
        return pool

    def token(self) -> tuple[str, str]:
        """Namespace and token of the path, whose pool must be the only one there is. Raises RefusedError."""
        namespace, raw = self.words
        pool, colon, token = raw.partition(":")
        if colon and pool not in {"", DEFAULT_POOL}:
            raise RefusedError(400, NO_POOL)
        return namespace, token if colon else raw


class Route(NamedTuple):
    """What it does, its pattern, and whether accounts guard it."""

    do: "Callable[[Admin, Ask], Awaitable[Reply]]"
    pattern: str
    guarded: bool = False


class Admin:
    """The application at the admin port."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.tokens = hub.tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        begun_s = time.perf_counter()
        request_id = self.hub.request_id()
        route, words = find(scope["method"], scope["path"])
        pattern = "other" if route is None else f"admin {route.pattern}"
        try:
            reply = NOT_FOUND if route is None else await self._serve(route, words, scope, receive)
        except GoneError:
            return
        except RefusedError as refused:
            reply = refused.reply
        except BodyError as error:
            reply = failure(error.status, error.text)
        except (BrokenError, DisqueError) as error:
            log.error("request %s: %s", request_id, error)
            reply = INTERNAL
        await respond(send, reply.status, reply.body, [*reply.headers, (b"x-request-id", request_id.encode())])
        self.hub.note(scope["method"], pattern, reply.status, time.perf_counter() - begun_s, request_id)

    async def _serve(self, route: Route, words: list[str], scope: Scope, receive: Receive) -> Reply:
        if route.guarded and not self._may(scope):
            return LOGIN
        body = await self.hub.reading.body(receive, BODY_MOST)
        return await route.do(self, Ask(words, query.parse(scope["query_string"]), body, scope))

    def _may(self, scope: Scope) -> bool:
        """Whether a request has one of the accounts, or there are none."""
        accounts = self.hub.settings.accounts
        if not accounts:
            return True
        kind, _, word = header(scope, b"authorization").partition(b" ")
        try:
            given = base64.b64decode(word, validate=True) if kind.lower() == b"basic" else b""
        except binascii.Error:
            return False
        known = [f"{user}:{password}".encode() for user, password in accounts.items()]
        return any([hmac.compare_digest(given, one) for one in known])  # noqa: C419 - all are compared, found or not

    # -- tokens ----------------------------------------------------------------------------------------------------

    async def list_tokens(self, ask: Ask) -> Reply:
        """GET /token/:namespace."""
        ask.pool()
        known = await self.tokens.of(ask.words[0])
        return indented(200, {"tokens": {token: one.description for token, one in known.items()}})

    async def new_token(self, ask: Ask) -> Reply:
        """POST /token/:namespace: make a token, or take the one that is given."""
        form = form_of(ask)
        description, token = form.get("description", ""), form.get("token", "")
        if not description:
            raise RefusedError(400, "invalid description")
        if token and len(token) < TOKEN_LEAST:
            raise RefusedError(400, "the user token was too short")
        namespace = ask.words[0]
        if len(namespace) > LENGTH_MOST:
            raise RefusedError(400, "the namespace name was too long")
        if names.NAME.fullmatch(namespace) is None:
            raise RefusedError(400, BAD_NAMESPACE)
        pool, colon, behind = token.partition(":")
        if colon and ":" not in behind:
            ask.query["pool"], token = pool, behind
        ask.pool()
        token = token or self.hub.request_id()
        if not await self.tokens.add(namespace, token, description):
            raise RefusedError(400, "the token has already existed")
        return indented(201, {"token": token})

    async def delete_token(self, ask: Ask) -> Reply:
        """DELETE /token/:namespace/:token."""
        await self.tokens.remove(*ask.token())
        return NOTHING

    # -- limits ----------------------------------------------------------------------------------------------------

    async def add_limit(self, ask: Ask) -> Reply:
        """POST /token/:namespace/:token/limit: only where there is none."""
        limit, (namespace, token) = limit_of(ask), ask.token()
        known = await self.tokens.find(namespace, token)
        if known is not None and known.limit is not None:
            raise RefusedError(500, f"throttler token({token}) has already exists")
        await self.tokens.limit(namespace, token, limit)
        return Reply(201, ordered({"limiter": limit.shown()}))

    async def set_limit(self, ask: Ask) -> Reply:
        """PUT /token/:namespace/:token/limit."""
        limit = limit_of(ask)
        await self.tokens.limit(*ask.token(), limit)
        return Reply(200, ordered({"limiter": limit.shown()}))

    async def get_limit(self, ask: Ask) -> Reply:
        """GET /token/:namespace/:token/limit."""
        known = await self.tokens.find(*ask.token())
        if known is None or known.limit is None:
            return Reply(404, b"null")
        return Reply(200, ordered(known.limit.shown()))

    async def delete_limit(self, ask: Ask) -> Reply:
        """DELETE /token/:namespace/:token/limit."""
        await self.tokens.limit(*ask.token(), None)
        return Reply(200, b'{"msg":"success"}')

    async def limits(self, ask: Ask) -> Reply:
        """GET /limits. They are always up to date, so force_update changes nothing."""
        del ask
        return Reply(
            200,
            ordered(
                [
                    {"namespace": namespace, "token": token, "limiter": limit.shown()}
                    for namespace, token, limit in await self.tokens.limits()
                ]
            ),
        )

    # -- what there is ---------------------------------------------------------------------------------------------

    async def info(self, ask: Ask) -> Reply:
        """GET /info: queues by namespace. A pool that there is not has an empty answer."""
        if ask.query.get("pool", "") not in {"", DEFAULT_POOL}:
            return Reply(200, b"", [])
        found: dict[str, set[str]] = {}
        for namespace, queue in await self.queues():
            found.setdefault(namespace, set()).add(queue)
        body = go_indented({namespace: sorted(queues) for namespace, queues in found.items()})
        return Reply(200, body + b"\n", [TEXT])

    async def queues(self) -> list[tuple[str, str]]:
        """Namespace and name of all queues at all nodes, dead letters aside."""
        pairs = [name.partition("/")[::2] for name in await self.hub.clusters.own.queue_names()]
        return [pair for pair in pairs if not names.wrong_for_consuming(*pair)]

    async def pools(self, ask: Ask) -> Reply:
        """GET /pools."""
        del ask
        return indented(200, [DEFAULT_POOL])

    async def version(self, ask: Ask) -> Reply:
        """GET /version."""
        del ask
        return indented(200, {"build_commit": "", "build_date": "", "version": VERSION})

    async def metrics(self, ask: Ask) -> Reply:
        """GET /metrics."""
        del ask
        text = self.hub.metrics.text()
        own = self.hub.clusters.own
        if self.hub.lmstfy is not None:
            told = compat.samples(await own.soon(lambda: scrape.nodes(own)))
            text += self.hub.lmstfy.text(told).encode("utf-8", "replace")
        return Reply(200, text, [(b"content-type", TYPE.encode())])

    async def profile(self, ask: Ask) -> Reply:
        """GET /debug/pprof: there is none, and that is said."""
        del ask
        return Reply(200, b"There are no profiles of this process: it is not written in Go.\n", [TEXT])

    async def access_log(self, ask: Ask) -> Reply:
        """GET /accesslog."""
        del ask
        return Reply(200, as_json({"status": "enabled" if self.hub.access_log else "disabled"}))

    async def set_access_log(self, ask: Ask) -> Reply:
        """POST /accesslog?status=enable or disable."""
        status = ask.query.get("status", "")
        if status not in {"enable", "disable"}:
            raise RefusedError(400, "invalid status")
        self.hub.access_log = status == "enable"
        return Reply(200, as_json({"status": f"{status}d"}))


#: By method and path; `:word` is any word.
ROUTES: Final[dict[tuple[str, str], Route]] = {
    ("GET", "/token/:namespace"): Route(Admin.list_tokens, "/token/:namespace", guarded=True),
    ("POST", "/token/:namespace"): Route(Admin.new_token, "/token/:namespace", guarded=True),
    ("DELETE", "/token/:namespace/:token"): Route(Admin.delete_token, "/token/:namespace/:token", guarded=True),
    **{
        (method, "/token/:namespace/:token/limit"): Route(do, "/token/:namespace/:token/limit", guarded=True)
        for method, do in (
            ("GET", Admin.get_limit),
            ("POST", Admin.add_limit),
            ("PUT", Admin.set_limit),
            ("DELETE", Admin.delete_limit),
        )
    },
    ("GET", "/limits"): Route(Admin.limits, "/limits", guarded=True),
    ("GET", "/info"): Route(Admin.info, "/info"),
    ("GET", "/pools"): Route(Admin.pools, "/pools"),
    ("GET", "/version"): Route(Admin.version, "/version"),
    ("GET", "/metrics"): Route(Admin.metrics, "/metrics"),
    ("GET", "/debug/pprof/:profile"): Route(Admin.profile, "/debug/pprof/:profile"),
    ("GET", "/accesslog"): Route(Admin.access_log, "/accesslog"),
    ("POST", "/accesslog"): Route(Admin.set_access_log, "/accesslog", guarded=True),
}


def find(method: str, path: str) -> tuple[Route | None, list[str]]:
    """The route of a path, and the words in it that may be any."""
    parts = path.split("/")[1:]
    for (known, pattern), route in ROUTES.items():
        wanted = pattern.split("/")[1:]
        if known == method and len(wanted) == len(parts) and all(map(fits, wanted, parts)):
            return route, [part for part, word in zip(parts, wanted, strict=True) if word.startswith(":")]
    return None, []


def fits(wanted: str, part: str) -> bool:
    """Whether a part of a path is what a pattern has there. A profile may have no name."""
    return wanted == part or (wanted.startswith(":") and bool(part)) or wanted == ":profile"


def form_of(ask: Ask) -> dict[str, str]:
    """Fields of a form, and behind them those of the query."""
    kind = header(ask.scope, b"content-type")
    fields = ask.body.decode("latin-1") if kind.startswith(b"application/x-www-form-urlencoded") else ""
    return {**ask.query, **dict(reversed(parse_qsl(fields, keep_blank_values=True)))}


def limit_of(ask: Ask) -> Limit:
    """The limit that a body tells. Raises RefusedError."""
    try:
        given = json.loads(ask.body)
        read, write, interval = (given.get(name, 0) for name in ("read", "write", "interval"))
    except (ValueError, AttributeError, RecursionError):
        raise BadBodyError from None
    if not all(type(one) is int and abs(one) <= query.I64 for one in (read, write, interval)):
        raise BadBodyError
    limit = Limit(read, write, interval)
    if not read and not write:
        refusal = RefusedError(400, "")
        refusal.reply = Reply(400, ordered({"limiter": limit.shown()}))
        raise refusal
    if not interval:
        raise RefusedError(400, "interval should be > 0")
    if interval < 0:
        raise RefusedError(500, "limiter interval should be >= 0")
    return limit


class BadBodyError(RefusedError):
    """A body that is no limit: lmstfy shows an error that has no text as JSON, and calls it a text."""

    def __init__(self) -> None:
        super().__init__(400, "")
        self.reply = Reply(400, b'{"error":{}}', [TEXT])


def ordered(value: object) -> bytes:
    """JSON whose keys are in the order of the fields of lmstfy's structures."""
    return json.dumps(value, separators=(",", ":")).encode()


def go_indented(value: object) -> bytes:
    """JSON as Go indents it."""
    return json.dumps(value, indent=4, sort_keys=True, ensure_ascii=False).encode()


def indented(status: int, value: object) -> Reply:
    """An answer as people read it."""
    return Reply(status, go_indented(value))
