"""The HTTP server: uvicorn, with a bound for headers that trickle in, and an end that lets requests finish.

uvicorn, since it lets one process serve two ports in one event loop, and costs no more than granian: measured beside
each other on two cores, a route without a framework had 40,600 and 42,700 requests a second with uvicorn, 39,400 and
42,700 with granian; one of Starlette 21,100 and 28,200 against 19,600 and 21,100.
"""

import asyncio
import contextlib
import logging
import resource
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from disque.gateway.settings import Address, BadSettingError, Settings

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application

#: How long the headers of a request may take to come in, in seconds; also until the first request of a connection.
HEADERS_S: Final = 20.0
#: How long an idle connection is kept, in seconds.
KEEP_ALIVE_S: Final = 75
#: Bytes of the headers of a request, its first line included.
HEADERS_MOST: Final = 64 << 10
#: Bytes that are read at once: what comes behind a request that is served waits as bytes, which are much less than the
#: requests in them. With more of them, the connection is not listened to, not even for its end.
PIECE: Final = 4 << 10
UNREAD_MOST: Final = 64 << 10
#: Open files beside the connections of clients: those to nodes above all.
OTHER_FILES: Final = 500


class UnclearError(Exception):
    """Headers that are too long, or that could be read in two ways: the reader of requests answers with 400."""


class Flow(FlowControl):
    """Takes no more bytes while many wait."""

    full = False

    def resume_reading(self) -> None:
        """Read on, if what has come was read, or most of it."""
        if not self.full:
            super().resume_reading()


class Protocol(HttpToolsProtocol):
    """One connection. Headers have a time and a size, and who sends requests before he is answered waits."""

    flow: Flow
    _patience: asyncio.TimerHandle | None = None
    _header_bytes = 0
    _chunk_bytes = 0
    _in_headers = True
    _running: RequestResponseCycle | None = None
    _unread: bytes = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Wait for the first request, though not for ever."""
        super().connection_made(transport)
        self.flow = Flow(transport)
        self._wait_for_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over, for the request that is being served as well: uvicorn tells the one that came last."""
        self._headers_came()
        self.pipeline.clear()
        self._unread = b""
        running = self._running
        if running is not None and not running.response_complete:
            running.disconnected = True
            running.message_event.set()
        super().connection_lost(exc)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: "ASGI3Application") -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def data_received(self, data: bytes) -> None:
        """Bytes have come."""
        self._unread += data
        self._read_on()

    def on_response_complete(self) -> None:
        """A request is answered: the next one is served, if it has come."""
        super().on_response_complete()
        self._read_on()
        self.flow.resume_reading()

    def _read_on(self) -> None:
        """Read what has come up to the first request that has to wait, and no more before that is served."""
        at = 0
        while at < len(self._unread) and not self.pipeline and not self.transport.is_closing():
            self._read(self._unread[at : at + PIECE])
            at += PIECE
        self._unread = self._unread[at:]
        self.flow.full = len(self._unread) > UNREAD_MOST
        if self.flow.full:
            self.flow.pause_reading()

    def _read(self, data: bytes) -> None:
        """Read some bytes, unless the headers are too long by now."""
        self._chunk_bytes = len(data)
        if self._in_headers:
            self._header_bytes += len(data)
        super().data_received(data)
        if self._in_headers and self._header_bytes > HEADERS_MOST and not self.transport.is_closing():
            self.send_400_response("The headers are too long.")

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        if self._patience is None:
            self._wait_for_headers()

    def on_headers_complete(self) -> None:
        """Its headers are there. Raises UnclearError."""
        self._headers_came()
        self._check_headers()
        super().on_headers_complete()

    def _check_headers(self) -> None:
        """What the reader lets pass: two hosts, codings beside chunked, and headers that came at once.

        And a body behind `Upgrade`, of which it reads nothing: it would be taken for the next request.
        """
        names = [name for name, _ in self.headers]
        if self.parser.should_upgrade() and (b"content-length" in names or b"transfer-encoding" in names):
            raise UnclearError
        if names.count(b"host") > 1:
            raise UnclearError
        if b"transfer-encoding" in names:
            codings = [value.strip().lower() for name, value in self.headers if name == b"transfer-encoding"]
            if codings != [b"chunked"]:
                raise UnclearError
        if self._header_bytes + self._chunk_bytes > HEADERS_MOST:  # a part of these may be no headers
            size = len(self.url) + sum(len(name) + len(value) + len(": \r\n") for name, value in self.headers)
            if size > HEADERS_MOST:
                raise UnclearError

    def _wait_for_headers(self) -> None:
        self._in_headers, self._header_bytes = True, 0
        self._patience = self.loop.call_later(HEADERS_S, self._too_slow)

    def _headers_came(self) -> None:
        self._in_headers = False
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _too_slow(self) -> None:
        if self.pipeline:  # the rest of the headers may have come: it is read when those in front are answered
            self._patience = self.loop.call_later(HEADERS_S, self._too_slow)
            return
        self._patience = None
        self.transport.close()


class Server(uvicorn.Server):
    """One of the ports. Signals are for whoever runs all of them."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield


def connections_that_fit(wanted: int) -> int:
    """How many connections the open files allow that this process may have; it asks for as many as are wanted."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = hard if hard != resource.RLIM_INFINITY else wanted + OTHER_FILES
    soft = max(soft, min(most, wanted + OTHER_FILES)) if soft != resource.RLIM_INFINITY else wanted + OTHER_FILES
    with contextlib.suppress(OSError, ValueError):  # some systems allow less than they say
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return wanted if allowed == resource.RLIM_INFINITY else max(1, min(wanted, allowed - OTHER_FILES))


def make_server(app: ASGIApp, settings: Settings) -> Server:
    """A server that does not run yet."""
    config = uvicorn.Config(
        app,
        http=Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=settings.connections_most,
        backlog=4096,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=settings.grace_s,
        ssl_certfile=settings.cert,
        ssl_keyfile=settings.key,
    )
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # a line for each bad request would be for attackers
    return Server(config)


def listener(address: Address) -> socket.socket:
    """A socket that listens. Raises BadSettingError."""
    host, port = address
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=4096)
    except OSError as error:
        reason = (error.strerror or str(error)).partition(" (while attempting")[0]
        raise BadSettingError(f"cannot listen at {host}:{port}: {reason}") from None


async def serve(servers: list[tuple[Server, socket.socket]], stop: asyncio.Event) -> None:
    """Run servers until ``stop`` is set, and let what they do come to an end."""
    running: list[asyncio.Task[Any]] = [asyncio.create_task(server.serve(sockets=[where])) for server, where in servers]
    told = asyncio.create_task(stop.wait())
    await asyncio.wait([*running, told], return_when=asyncio.FIRST_COMPLETED)
    for server, _ in servers:
        server.should_exit = True
    told.cancel()
    await asyncio.gather(*running)
