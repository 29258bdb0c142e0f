"""The HTTP server of a worker."""

import asyncio

import pytest

from disque.tasks.health import HealthServer


def reply(head: bytes) -> str:
    return HealthServer({"/ok": lambda: (200, "fine\n"), "/no": lambda: (503, "")}).reply(head).decode()


@pytest.mark.parametrize(
    ("head", "first"),
    [
        (b"GET /ok HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK"),
        (b"GET /ok?x=1 HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK"),
        (b"GET /no HTTP/1.1\r\n\r\n", "HTTP/1.1 503 Service Unavailable"),
        (b"GET /other HTTP/1.1\r\n\r\n", "HTTP/1.1 404 Not Found"),
        (b"POST /ok HTTP/1.1\r\n\r\n", "HTTP/1.1 405 Method Not Allowed"),
        (b"\xff\r\n\r\n", "HTTP/1.1 405 Method Not Allowed"),
    ],
)
def test_replies(head: bytes, first: str) -> None:
    assert reply(head).splitlines()[0] == first


def test_head_has_no_body() -> None:
    assert reply(b"HEAD /ok HTTP/1.1\r\n\r\n").endswith("Content-Length: 5\r\nConnection: close\r\n\r\n")


def test_over_a_socket_also_with_nonsense() -> None:
    async def scene() -> bytes:
        server = HealthServer({"/ok": lambda: (200, "fine\n")})
        await server.start("127.0.0.1", 0)
        for nonsense in (b"\r\n\r\n", b"x" * 20_000):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(nonsense)
            writer.write_eof()
            await reader.read()
            writer.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET /ok HTTP/1.1\r\nHost: x\r\n\r\n")
        found = await reader.read()
        writer.close()
        await server.close()
        return found

    assert asyncio.run(scene()).endswith(b"fine\n")
