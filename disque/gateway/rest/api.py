"""The REST API: finds the operation of a path, checks what comes, and says what is wrong as problem+json."""

import json
import math
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from disque.client import DisqueError
from disque.gateway import guard
from disque.gateway.asgi import BodyError, GoneError
from disque.gateway.faults import RETRY_AFTER_S, Fault, fault_of
from disque.gateway.guard import RefusedError, TooManyError
from disque.gateway.hub import Hub, log
from disque.gateway.rest import dead, events, jobs, nodes, openapi, queues, schedules, users
from disque.gateway.rest.operation import JSON_MOST, Ask, Operation, Problem, Result, bad
from disque.gateway.rest.schema import read, whole, wrong

BASE: Final = "/api/v1"
#: Where the OpenAPI document is.
DOCUMENT: Final = ["openapi.json"]
OPERATIONS: Final[tuple[Operation, ...]] = (
    *nodes.OPERATIONS,
    *queues.OPERATIONS,
    *dead.OPERATIONS,
    *jobs.OPERATIONS,
    *schedules.OPERATIONS,
    *users.OPERATIONS,
    *events.OPERATIONS,
)
#: By the number of words in a path, and its method.
Table = dict[tuple[int, str], list[tuple[list[str], Operation]]]


def table() -> Table:
    """All operations, so that those of a path are found among few."""
    found: Table = {}
    for operation in OPERATIONS:
        words = operation.path.split("/")[1:]
        found.setdefault((len(words), operation.method), []).append((words, operation))
    return found


TABLE: Final = table()
METHODS: Final = sorted({operation.method for operation in OPERATIONS})


def find(method: str, words: list[str]) -> tuple[Operation, list[str]] | None:
    """The operation of a path, and what stands for the names in it; words that are written out count first."""
    best: tuple[Operation, list[str]] | None = None
    for wanted, operation in TABLE.get((len(words), method), ()):
        if all(one == word or (one.startswith("{") and word) for one, word in zip(wanted, words, strict=True)):
            names = [word for one, word in zip(wanted, words, strict=True) if one.startswith("{")]
            if best is None or len(names) < len(best[1]):
                best = operation, names
    return best


class Rest:
    """The application below `/api/v1`."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.document = json.dumps(openapi.document(OPERATIONS)).encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        request = Request(scope, receive)
        try:
            answer = await self._serve(request)
        except GoneError:
            return
        except Exception as error:  # noqa: BLE001 - whatever an operation raises is a failure of this request alone
            answer = problem(error, scope["request_id"])
        await answer(scope, receive, send)

    async def _serve(self, request: Request) -> Response:
        # The path as it was sent: a slash in a name is written %2F, and is none between words.
        raw: bytes = request.scope["raw_path"]
        words = [unquote(word, errors="surrogateescape") for word in raw.decode("latin-1").split("/")[3:]]
        # HEAD is GET whose body the server does not send.
        method = "GET" if request.method == "HEAD" else request.method
        if words == DOCUMENT and method == "GET":
            return Response(self.document, media_type="application/json")
        found = find(method, words)
        if found is None:
            raise self._no_such(words)
        operation, names = found
        request.scope["place"] = f"{BASE}{operation.path}"
        ask = Ask(self.hub, request, names)
        ask.query = query_of(request, operation)
        ask.cluster = await guard.cluster_of(self.hub, request)
        await self._read_body(ask, operation)
        only_looks = method == "GET"
        answer = await (ask.cluster.soon(lambda: operation.do(ask)) if only_looks else operation.do(ask))
        return shown(answer) if isinstance(answer, Result) else answer

    @staticmethod
    def _no_such(words: list[str]) -> Problem:
        others = ["GET"] if words == DOCUMENT else [method for method in METHODS if find(method, words)]
        if others:
            known = ", ".join(others).replace("GET", "GET, HEAD")
            return Problem(Fault(405, "This method is not known here"), f"there is {known}", more={"Allow": known})
        return Problem(Fault(404, "There is no such path"), "all paths are in /api/v1/openapi.json")

    async def _read_body(self, ask: Ask, operation: Operation) -> None:
        if operation.body is None:
            return
        kind = ask.request.headers.get("content-type", "").partition(";")[0].strip().lower()
        is_json = kind in {"application/json", ""} or kind.endswith("+json")
        if not is_json and not operation.raw:
            raise Problem(Fault(415, "The body must be JSON"), f"it is {kind[:100]}")
        coding = ask.request.headers.get("content-encoding", "identity").strip().lower()
        if coding != "identity":
            raise Problem(Fault(415, "The body must not be compressed"), f"its encoding is {coding[:100]}")
        most = JSON_MOST if is_json else operation.raw
        ask.raw = await self.hub.reading.body(ask.request.receive, most)
        if not is_json or not ask.raw:
            if is_json and operation.body.get("required"):
                raise bad("a JSON object is expected as the body")
            if is_json and operation.raw:
                raise bad("a body is expected")
            return
        try:
            ask.body = json.loads(ask.raw, parse_constant=no_json, parse_float=decimal)
        except (ValueError, RecursionError):
            raise bad("the body is no JSON") from None
        said = wrong(ask.body, operation.body)
        if said:
            raise bad(said)
        ask.body = whole(ask.body, operation.body)


def no_json(name: str) -> object:
    """NaN and its like. Raises ValueError."""
    raise ValueError(name)


def decimal(text: str) -> float:
    """A number with a point or an exponent. Raises Problem for one that would be infinite: JSON cannot say that."""
    found = float(text)
    if math.isinf(found):
        raise bad(f"the number {text[:100]} is out of range")
    return found


def query_of(request: Request, operation: Operation) -> dict[str, Any]:
    """The query, checked, with defaults. Raises Problem."""
    found: dict[str, Any] = {name: schema["default"] for name, schema in operation.query.items() if "default" in schema}
    text: bytes = request.scope["query_string"]
    try:
        pairs = parse_qsl(text.decode("latin-1"), keep_blank_values=True, errors="surrogateescape", max_num_fields=100)
    except ValueError:
        raise bad("the query has too many parameters") from None
    for name, value in pairs:
        schema = operation.query.get(name)
        if schema is None or schema["type"] == "object":
            known = ", ".join(operation.query) or "none"
            raise bad(f"unknown parameter {name[:100]!r} of the query; there are {known}")
        try:
            found[name] = read(value, schema)
        except ValueError:
            raise bad(f"{name!r} must be of type {schema['type']}") from None
        said = wrong(found[name], schema, repr(name))
        if said:
            raise bad(said)
    return found


def shown(result: Result) -> Response:
    """An answer as JSON."""
    body = json.dumps(result.value, ensure_ascii=False, separators=(",", ":"), default=repr)
    headers = {"Cache-Control": "no-store", **result.headers}
    return Response(body.encode("utf-8", "backslashreplace"), result.status, headers, "application/json")


def problem(error: Exception, request_id: str) -> Response:
    """What is wrong, as problem+json (RFC 9457)."""
    code, detail, more = "", str(error), dict[str, str]()
    if isinstance(error, Problem):
        fault, code = error.fault, error.code
        more = dict(error.more)
    elif isinstance(error, DisqueError):
        fault, code, detail = fault_of(error), error.code, error.message
        if fault.status >= 500:
            log.warning("request %s: %s", request_id, error)
    elif isinstance(error, TooManyError):
        fault = Fault(429, "Too many wrong passwords")
        more["Retry-After"] = "60"
    elif isinstance(error, RefusedError):
        fault = Fault(403, "This does not seem to be meant by the user")
    elif isinstance(error, UnicodeEncodeError):
        fault, detail = Fault(400, "The request makes no sense"), "half of a surrogate pair is no character"
    elif isinstance(error, BodyError):
        fault, detail = Fault(error.status, "The body is not taken"), error.text
        more = dict(error.more)
    else:
        log.error("request %s failed", request_id, exc_info=error)
        fault, detail = Fault(500, "Something is wrong with the gateway"), "the reason is in its log"
    if fault.again:
        more["Retry-After"] = str(RETRY_AFTER_S)
    if fault.status == 401:
        more["WWW-Authenticate"] = 'Basic realm="disque"'
    value = {
        "type": f"urn:disque:{code.lower()}" if code else "about:blank",
        "title": fault.title,
        "status": fault.status,
        "detail": detail,
        "request_id": request_id,
    }
    body = json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace")
    return Response(body, fault.status, more, "application/problem+json")
