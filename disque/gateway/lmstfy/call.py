"""A request to lmstfy's API, and what is answered."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from starlette.types import Receive, Scope

from disque.gateway.asgi import JSON_TYPE, Headers, as_json

DEFAULT_POOL: Final = "default"


class Reply(NamedTuple):
    """Status, body and further headers; a body is JSON unless the headers say something else."""

    status: int
    body: bytes = b""
    headers: Headers = [JSON_TYPE]  # noqa: RUF012 - nobody changes it


class Call:
    """One request: names as they stand in its path, the pool and the token that it came with."""

    __slots__ = ("job_id", "namespace", "pool", "query", "queue", "receive", "scope", "token")

    def __init__(self, scope: Scope, receive: Receive, query: Mapping[str, str]) -> None:
        self.scope = scope
        self.receive = receive
        self.query = query
        self.namespace = ""
        self.queue = ""
        self.job_id = ""
        self.pool = DEFAULT_POOL
        self.token = ""


class RefusedError(Exception):
    """A request that is not done; ``reply`` says why."""

    def __init__(self, status: int, error: str) -> None:
        super().__init__(error)
        self.reply = failure(status, error)


def failure(status: int, error: str) -> Reply:
    """An answer that says what is wrong."""
    return Reply(status, as_json({"error": error}))


NOTHING: Final = Reply(204, b"", [])
INTERNAL: Final = failure(500, "internal error")
#: lmstfy has no answer for a store that is away; its clients take any 5xx for one, and try again.
UNAVAILABLE: Final = Reply(503, as_json({"error": "internal error"}), [JSON_TYPE, (b"retry-after", b"1")])
