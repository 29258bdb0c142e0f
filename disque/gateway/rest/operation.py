"""What an operation of the API is: a row of a table, from which routing, checks and the OpenAPI document follow."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from disque.client.requests import Request as Asked
from disque.gateway import ids
from disque.gateway.cluster import Cluster
from disque.gateway.faults import Fault
from disque.gateway.hub import Hub
from disque.gateway.lane import Lane
from disque.gateway.rest.schema import Schema, integer, nullable, string

T = TypeVar("T")

#: Bytes of a JSON body; elements of a page.
JSON_MOST: Final = 16 << 20
PAGE_MOST: Final = 1000
#: Bytes of bodies and results in one answer, about.
VALUES_MOST = 8 << 20  # not Final: tests want less

CURSOR: Final = string("where to go on: the next of the answer before")
NEXT: Final = nullable(string("give it as cursor to go on; null: there is no more"))
LIMIT: Final = integer("elements of a page", 1, PAGE_MOST, default=100)


class Problem(Exception):  # noqa: N818 - RFC 9457 calls it so
    """An answer that says what is wrong (RFC 9457). ``more`` are headers."""

    def __init__(self, fault: Fault, detail: str, code: str = "", more: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.fault = fault
        self.detail = detail
        self.code = code
        self.more = more or {}


def bad(detail: str) -> Problem:
    """The request makes no sense."""
    return Problem(Fault(400, "The request makes no sense"), detail)


def unknown(detail: str) -> Problem:
    """There is no such thing."""
    return Problem(Fault(404, "There is no such thing"), detail)


class Ask:
    """One request: the words of its path, its query and its body, checked and read."""

    def __init__(self, hub: Hub, request: Request, path: list[str]) -> None:
        self.hub = hub
        self.request = request
        self.path = path
        self.query: dict[str, Any] = {}
        self.body: Any = None
        self.raw = b""
        self._cluster: Cluster | None = None

    @property
    def cluster(self) -> Cluster:
        """The cluster with the rights of whoever asks."""
        assert self._cluster is not None
        return self._cluster

    @cluster.setter
    def cluster(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def job_id(self) -> bytes:
        """The ID of a job in the path. Raises Problem."""
        found = ids.meant(self.path[0])
        if found is None:
            raise Problem(Fault(404, "There is no such job"), f"{self.path[0][:100]!r} is not the ID of a job", "BADID")
        return found


class Result(NamedTuple):
    """What is answered: a value as JSON; None: nothing."""

    value: object = None
    status: int = 200
    headers: dict[str, str] = {}  # noqa: RUF012 - nobody changes it


Do = Callable[[Ask], Awaitable[Result | Response]]


class Operation(NamedTuple):
    """A row: method, path with names in braces, what it does, and what is to be said of it.

    ``query`` has the schema of each parameter, ``body`` that of the body. A ``raw`` body may be something else than
    JSON. ``wants`` says what the answer is.
    """

    method: str
    path: str
    do: Do
    summary: str
    query: dict[str, Schema] = {}  # noqa: RUF012 - nobody changes it
    body: Schema | None = None
    raw: int = 0
    status: int = 200
    wants: Schema | None = None
    group: str = ""


async def through(lane: Lane, asked: Asked[T]) -> T:
    """Bring a request to the cluster together with others, and give the value of its reply. Raises DisqueError."""
    return asked.value(await lane.ask(asked.words))


def page(items: list[Any], next_cursor: str | None, name: str) -> Result:
    """A page of a list."""
    return Result({name: items, "next": next_cursor})
