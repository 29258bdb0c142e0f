"""The HTTP server: what comes on a socket that no client library would send, and how it ends."""

import asyncio
import resource
import socket
from collections.abc import Awaitable, Callable
from typing import Final

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from disque.gateway import asgi, serving
from disque.gateway.app import build
from disque.gateway.hub import Hub
from disque.gateway.serving import Server, connections_that_fit, listener, make_server, serve
from disque.gateway.settings import BadSettingError, Settings

GET: Final = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


def play(act: Callable[[int], Awaitable[None]], settings: Settings = Settings(grace_s=1)) -> None:  # noqa: B008 - frozen
    """Serve while something is done at the port."""

    async def both() -> None:
        hub = Hub(settings)
        stop = asyncio.Event()
        place = listener(("127.0.0.1", 0))
        serving_it = asyncio.create_task(serve([(make_server(build(hub), settings), place)], stop))
        try:
            await act(place.getsockname()[1])
        finally:
            stop.set()
            await serving_it
            await hub.close()

    asyncio.run(both())


def play_app(app: ASGIApp | Server, act: Callable[[int], Awaitable[None]]) -> None:
    """Serve an app without anything around it while something is done at the port."""
    server = app if isinstance(app, Server) else make_server(app, Settings(grace_s=1))

    async def both() -> None:
        stop, place = asyncio.Event(), listener(("127.0.0.1", 0))
        serving_it = asyncio.create_task(serve([(server, place)], stop))
        await act(place.getsockname()[1])
        stop.set()
        await serving_it

    asyncio.run(both())


async def nothing(send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body"})


async def talk(port: int, data: bytes) -> bytes:
    """Send bytes, and give all that comes until the server closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    try:
        return await reader.read()
    finally:
        writer.close()


@pytest.mark.parametrize(
    "data",
    [
        b"nonsense\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: +3\r\n\r\nabc",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nA b: c\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\nA: b\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\n A: folded\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nA: \x00\r\n\r\n",
        b"GET /heal thz HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nA: " + b"b" * serving.HEADERS_MOST,
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nA: " + b"b" * serving.HEADERS_MOST + b"\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * (serving.HEADERS_MOST // 6) + b"\r\n",
        b"GET /" + b"a" * serving.HEADERS_MOST + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nhost: y\r\n\r\n",
        b"PUT /healthz HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 3\r\n\r\nabc",
        b"PUT /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"PUT /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ],
)
def test_what_could_be_read_in_two_ways_is_refused(data: bytes) -> None:
    async def act(port: int) -> None:
        answer = await talk(port, data)
        assert answer.startswith(b"HTTP/1.1 400 "), answer
        assert answer.count(b"HTTP/1.1") == 1

    play(act)


def test_requests_one_after_the_other_use_one_connection() -> None:
    async def act(port: int) -> None:
        last = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        assert (await talk(port, GET + GET + last)).count(b"HTTP/1.1 200 OK") == 3

    play(act)


def test_who_leaves_with_requests_waiting_ends_the_one_that_is_served() -> None:
    heard: list[str] = []
    begun, over = asyncio.Event(), asyncio.Event()

    async def waits(scope: Scope, receive: Receive, send: Send) -> None:
        del scope, send
        while not heard or heard[-1] != "http.disconnect":
            heard.append((await receive())["type"])
            begun.set()
        over.set()

    async def act(port: int) -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(GET * 3)
        await begun.wait()
        writer.close()
        async with asyncio.timeout(5):
            await over.wait()

    play_app(waits, act)
    assert heard == ["http.request", "http.disconnect"], "the next ones are not served: nobody is there"


def test_who_sends_more_than_is_answered_waits() -> None:
    served: list[int] = []
    most: list[tuple[int, int]] = []
    begun, may_go_on = asyncio.Event(), asyncio.Event()

    async def answers(scope: Scope, receive: Receive, send: Send) -> None:
        del receive
        served.append(int(scope["path"][1:]))
        begun.set()
        for one in server.server_state.connections:
            assert isinstance(one, serving.Protocol)
            most.append((len(one.pipeline), len(one._unread)))
        await may_go_on.wait()
        await nothing(send)

    server = make_server(answers, Settings(grace_s=1))

    async def act(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        sent = [b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n" % number for number in range(20_000)]
        sent[-1] = sent[-1].replace(b"Host", b"Connection: close\r\nHost")
        writer.write(b"".join(sent))
        await begun.wait()
        may_go_on.set()
        assert (await reader.read()).count(b"HTTP/1.1 200 OK") == len(sent)
        writer.close()

    play_app(server, act)
    assert served == list(range(20_000))
    assert max(requests for requests, _ in most) <= serving.PIECE // len(b"GET /0 HTTP/1.1\r\nHost: x\r\n\r\n")
    assert max(unread for _, unread in most) <= 1 << 19, "what the loop reads at once, and no more"


@pytest.mark.parametrize("size", [10, 1800])
def test_who_waits_behind_a_long_request_is_not_too_slow(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(serving, "HEADERS_S", 0.02)
    calls: list[serving.Protocol] = []
    too_slow = serving.Protocol._too_slow
    twice = asyncio.Event()

    def notes(self: serving.Protocol) -> None:
        too_slow(self)
        calls.append(self)
        if len(calls) > 1:
            twice.set()

    monkeypatch.setattr(serving.Protocol, "_too_slow", notes)

    async def waits(scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive
        await twice.wait()
        await nothing(send)

    async def act(port: int) -> None:
        head = b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * size
        count = serving.PIECE // size + 2
        data = (head + b"\r\n\r\n") * count + head + b"\r\nConnection: close\r\n\r\n"
        assert (await talk(port, data)).count(b"HTTP/1.1 200 OK") == count + 1

    play_app(waits, act)


def test_what_is_received_does_not_let_more_come_in() -> None:
    most: list[int] = []
    held: list[serving.Protocol] = []

    async def receives(scope: Scope, receive: Receive, send: Send) -> None:
        del scope
        await receive()
        waiting = asyncio.ensure_future(receive())
        await asyncio.sleep(0)
        most.extend(len(one._unread) for one in held)
        await nothing(send)
        waiting.cancel()

    async def act(port: int) -> None:
        data = GET * 30_000 + GET.replace(b"Host", b"Connection: close\r\nHost")
        assert (await talk(port, data)).count(b"HTTP/1.1 200 OK") == 30_001

    with pytest.MonkeyPatch.context() as patch:
        made = serving.Protocol.connection_made

        def connection_made(self: serving.Protocol, transport: asyncio.Transport) -> None:
            held.append(self)
            made(self, transport)

        patch.setattr(serving.Protocol, "connection_made", connection_made)
        play_app(receives, act)
    assert max(most) <= 1 << 19


def test_a_body_that_comes_with_its_headers_does_not_count_as_one_of_them() -> None:
    async def act(port: int) -> None:
        size = serving.HEADERS_MOST * 2
        head = b"PUT /healthz HTTP/1.1\r\nHost: x\r\n"
        long = head + b"Content-Length: %d\r\n\r\n" % size + b"x" * size
        chunked = head + b"Transfer-Encoding: Chunked\r\n\r\n0\r\n\r\n"
        last = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        answers = await talk(port, long + chunked + last)
        assert (answers.count(b"HTTP/1.1 405 "), answers.count(b"HTTP/1.1 200 ")) == (2, 1)

    play(act)


def test_headers_that_do_not_come_end_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "HEADERS_S", 0.01)

    async def act(port: int) -> None:
        for data in (b"", b"GET /healthz HTTP/1.1\r\nHost:", GET + b"GET /"):
            answer = await talk(port, data)
            assert answer.count(b"200 OK") == data.count(b"\r\n\r\n")

    play(act)


def test_a_body_that_does_not_come_is_answered_and_the_connection_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asgi, "DROPPED_S", 0.01)

    async def act(port: int) -> None:
        head = b"POST /login HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n"
        answer = await talk(port, head + b"Content-Length: 1000000\r\n\r\n" + b"x" * 100_000)
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert b"connection: close" in answer.lower()

    play(act)


def test_more_connections_than_allowed_are_told_so() -> None:
    async def act(port: int) -> None:
        _, first = await asyncio.open_connection("127.0.0.1", port)
        second = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        while not (await talk(port, second)).startswith(b"HTTP/1.1 503 "):  # noqa: ASYNC110 - until the first is there
            await asyncio.sleep(0)
        first.close()

    play(act, Settings(connections_most=2, grace_s=1))


@pytest.mark.parametrize(
    ("limits", "set_to", "fit"),
    [
        ((1024, 4096), 4096, 3596),
        ((1024, 1 << 20), 20_500, 20_000),
        ((30_000, 30_000), 30_000, 20_000),
        ((64, 64), 64, 1),
    ],
)
def test_as_many_connections_as_open_files_allow(
    monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int], set_to: int, fit: int
) -> None:
    now = [limits]
    monkeypatch.setattr(resource, "getrlimit", lambda _: now[0])
    monkeypatch.setattr(resource, "setrlimit", lambda _, given: now.__setitem__(0, given))
    assert connections_that_fit(20_000) == fit
    assert now == [(set_to, limits[1])]


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(BadSettingError, match=f"cannot listen at 127.0.0.1:{port}: Address already in use$"):
            listener(("127.0.0.1", port))
