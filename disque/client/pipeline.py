"""Pipelines: commands that are collected and sent together, each with the value of its reply."""

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self

from disque.client import admin, ends, requests
from disque.client.config import Config
from disque.client.delivery import Flow, Parcel, deliver
from disque.client.errors import DisqueError
from disque.client.methods import describe
from disque.client.packing import pack
from disque.client.requests import Request
from disque.client.router import Router

if TYPE_CHECKING:
    from disque.client.async_client import AsyncDisque
    from disque.client.client import Disque

P = ParamSpec("P")


def _method(build: Callable[Concatenate[Config, P], Request[Any]]) -> "Callable[Concatenate[AnyPipeline, P], Any]":
    """A method that gathers a request."""

    def method(self: "AnyPipeline", /, *args: P.args, **kwargs: P.kwargs) -> "AnyPipeline":
        self.requests.append(build(self.config, *args, **kwargs))
        return self

    describe(method, build)
    return method


class AnyPipeline:
    """The requests that were gathered. Each method returns the pipeline; values come from ``execute``, in order."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.requests: list[Request[Any]] = []

    add = _method(requests.add)
    ack = _method(requests.ack)
    fast_ack = _method(requests.fast_ack)
    nack = _method(requests.nack)
    working = _method(requests.working)
    enqueue = _method(requests.enqueue)
    dequeue = _method(requests.dequeue)
    move = _method(requests.move)
    revive = _method(requests.revive)
    delete = _method(requests.delete)
    show = _method(requests.show)
    result = _method(ends.result)
    cancel = _method(ends.cancel)
    queue_length = _method(admin.queue_length)
    execute_command = _method(admin.any_command)

    def __len__(self) -> int:
        return len(self.requests)

    def flow(self, router: Router, *, raise_on_error: bool) -> Flow[list[Any]]:
        """Send what was gathered, and begin anew."""
        gathered, self.requests = self.requests, []
        if not gathered:
            return []
        waits = [request.wait_ms for request in gathered]
        wait_ms = None if None in waits else max(wait for wait in waits if wait is not None)
        again = all(request.again for request in gathered)
        parcel = Parcel([pack(request.words) for request in gathered], wait_ms, again=again)
        replies = yield from deliver(router, self.config, parcel)
        values = [value_or_error(request, reply) for request, reply in zip(gathered, replies, strict=True)]
        if raise_on_error:
            for value in values:
                if isinstance(value, DisqueError):
                    value.results = values
                    raise value
        return values


def value_or_error(request: Request[Any], reply: object) -> object:
    """The value of a reply, or the error that it is."""
    try:
        return request.value(reply)
    except DisqueError as error:
        return error


class Pipeline(AnyPipeline):
    """Commands that travel together; a context manager for the sake of old code."""

    def __init__(self, client: "Disque") -> None:
        super().__init__(client.config)
        self._client = client

    def execute(self, raise_on_error: bool = True) -> list[Any]:
        """Send what was gathered: the values in order.

        An error is raised, with all values in ``results``, or stands in the list.
        """
        return self._client.drive(self.flow(self._client.router, raise_on_error=raise_on_error))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.requests.clear()


class AsyncPipeline(AnyPipeline):
    """Commands that travel together, with asyncio: only ``execute`` is awaited."""

    def __init__(self, client: "AsyncDisque") -> None:
        super().__init__(client.config)
        self._client = client

    async def execute(self, raise_on_error: bool = True) -> list[Any]:
        """Send what was gathered: the values in order, as `Pipeline.execute` gives them."""
        return await self._client.drive(self.flow(self._client.router, raise_on_error=raise_on_error))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.requests.clear()
