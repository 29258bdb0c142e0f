"""Requests and answers of ASGI without a framework: for the routes that must be fast.

A body is read up to a bound, and in a time: one that is longer, or that trickles in, ends in an error that says so. All
bodies that are being read share a bound, too, so that many slow ones cost no more memory than that.
"""

import asyncio
import json
from collections.abc import Coroutine, Iterable, Mapping
from contextlib import suppress
from typing import Any, ClassVar, Final, TypeVar

from starlette.types import Receive, Scope, Send

#: How long a body may take to come in, in seconds.
BODY_S: Final = 60.0
#: Bytes of bodies that have come in part, of all requests together.
READING_MOST: Final = 256 << 20
#: Bytes of a body that are read only to be dropped, and seconds for that.
DROPPED_MOST = 16 << 20  # not Final: tests want less
DROPPED_S = 5.0  # not Final: the same
JSON_TYPE: Final = (b"content-type", b"application/json; charset=utf-8")

Headers = list[tuple[bytes, bytes]]
T = TypeVar("T")


class BodyError(Exception):
    """A body that is not taken; ``status`` is what HTTP calls it."""

    status = 400
    text = "the body did not come"
    #: Headers of the answer: what is left of the body is not read, so the connection ends.
    more: ClassVar[Mapping[str, str]] = {"Connection": "close"}


class TooLargeError(BodyError):
    """The body is longer than allowed."""

    status = 413
    text = "body too large"


class WholeTooLargeError(TooLargeError):
    """The same, and all of it was read and dropped: the connection goes on."""

    more: ClassVar[Mapping[str, str]] = {}


class TooSlowError(BodyError):
    """The body did not come in time."""

    status = 408
    text = "body too slow"


class CrowdedError(BodyError):
    """Too many large bodies are being read at this moment."""

    status = 503
    text = "too many bodies at once"
    more: ClassVar[Mapping[str, str]] = {"Connection": "close", "Retry-After": "1"}


class GoneError(BodyError):
    """The client has left before its body had come: nobody reads an answer."""


class Reading:
    """Reads bodies. One for a process: it counts what all of them hold."""

    def __init__(self, most: int = READING_MOST, patience_s: float = BODY_S) -> None:
        self.most = most
        self.patience_s = patience_s
        self.held = 0

    async def body(self, receive: Receive, most: int) -> bytes:
        """The body of a request. Raises BodyError."""
        message = await receive()
        if message["type"] == "http.disconnect":
            raise GoneError
        part: bytes = message.get("body", b"")
        if message.get("more_body"):
            try:
                async with asyncio.timeout(self.patience_s):
                    return await self._rest(receive, most, part)
            except TimeoutError:
                raise TooSlowError from None
        if len(part) > most:
            raise WholeTooLargeError
        return part

    async def _rest(self, receive: Receive, most: int, first: bytes) -> bytes:
        parts: list[bytes] = []
        size, part, more = 0, first, True
        try:
            while True:
                parts.append(part)
                size += len(part)
                self.held += len(part)
                if size > most:
                    parts.clear()
                    with suppress(TimeoutError):
                        async with asyncio.timeout(DROPPED_S):
                            await drop(receive if more else None)
                            raise WholeTooLargeError
                    raise TooLargeError
                if self.held > self.most:
                    raise CrowdedError
                if not more:
                    return b"".join(parts)
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise GoneError
                part, more = message.get("body", b""), bool(message.get("more_body"))
        finally:
            self.held -= size


async def drop(receive: Receive | None) -> None:
    """Read the rest of a body that is too large: some clients listen to no answer before they have sent it all.

    Raises TooLargeError if that is too much, too.
    """
    size = 0
    while receive is not None:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise GoneError
        size += len(message.get("body", b""))
        if size > DROPPED_MOST:
            raise TooLargeError
        if not message.get("more_body"):
            receive = None


async def unless_gone(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """Do something as long as the client is there, whose body has come. Raises GoneError."""
    doing = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_left(receive))
    try:
        await asyncio.wait([doing, leaving], return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            raise GoneError
        return doing.result()
    finally:
        doing.cancel()
        leaving.cancel()


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def header(scope: Scope, name: bytes) -> bytes:
    """The value of a header, the first if there are several; empty if there is none. ``name`` is lower-case."""
    for one, value in scope["headers"]:
        if one == name:
            found: bytes = value
            return found
    return b""


def headers(scope: Scope, name: bytes) -> Iterable[bytes]:
    """All values of a header."""
    return [value for one, value in scope["headers"] if one == name]


async def respond(send: Send, status: int, body: bytes, more: Headers | None = None) -> None:
    """Answer with a body whose type is among ``more``, or nothing."""
    length = [] if status == 204 else [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": [*length, *(more or ())]})
    await send({"type": "http.response.body", "body": body})


def as_json(value: object) -> bytes:
    """JSON as Go's servers write it: keys in alphabetical order, no spaces, and no signs of HTML."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        if sign in text:
            text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text.encode("utf-8", "replace")
