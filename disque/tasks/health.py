"""A small HTTP server of a worker process: ``/healthz``, ``/readyz``, ``/metrics``."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

#: How long a request may take to arrive, and how long its head may be.
PATIENCE_S: Final = 5.0
HEAD_BYTES: Final = 8192

#: What answers a path: status and text.
Answer = Callable[[], tuple[int, str]]

REASONS: Final = {200: "OK", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}


class HealthServer:
    """Answers GET requests for some paths, each connection once."""

    def __init__(self, answers: dict[str, Answer]) -> None:
        self.answers = answers
        self.port = 0
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> None:
        """Listen. Raises OSError."""
        self._server = await asyncio.start_server(self._serve, host, port, limit=HEAD_BYTES)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            async with asyncio.timeout(PATIENCE_S):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(self.reply(head))
                await writer.drain()
        with suppress(OSError):
            writer.close()

    def reply(self, head: bytes) -> bytes:
        """The reply to a request."""
        words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        method, path = (words[0], words[1].partition("?")[0]) if len(words) > 1 else ("", "")
        if method not in {"GET", "HEAD"}:
            status, text = 405, "only GET\n"
        elif path not in self.answers:
            status, text = 404, f"there are {', '.join(self.answers)}\n"
        else:
            status, text = self.answers[path]()
        body = text.encode()
        lines = f"HTTP/1.1 {status} {REASONS[status]}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
        lines += f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        return lines.encode() + (body if method != "HEAD" else b"")
