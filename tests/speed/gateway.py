"""The gateway: lmstfy's publish and consume routes at 32 connections, beside a bare route of Starlette.

One gateway process, one node and the load share the machine, as lmstfy, Redis and its clients did when it was measured
(publish 6,600 a second, consume and acknowledge 3,400). The bare route answers the same bytes without doing anything,
with the same server: what is lost between the two is the gateway's. They take turns within a round.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast

import psutil
import uvloop

from disque.cli.bench_target import cpu_s_of
from tests.end_to_end.node import LOOPBACK, ROOT, free_port, until
from tests.speed.setting import BODY, Setting

CONNECTIONS: Final = 32
TOKEN: Final = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
HEAD: Final = f"Host: x\r\nX-Token: {TOKEN}\r\n".encode()
PUBLISH: Final = b"PUT /api/ns/q?delay=0&ttl=3600&tries=3 HTTP/1.1\r\n%bContent-Length: %d\r\n\r\n%b" % (
    HEAD, len(BODY), BODY
)  # fmt: skip
CONSUME: Final = b"GET /api/ns/q?ttr=60&timeout=1 HTTP/1.1\r\n%b\r\n" % HEAD
BARE: Final = "Starlette, bare"
OURS: Final = "gateway"

#: The bare route, as a program of its own.
APP: Final = """\
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

async def put(request):
    await request.body()
    return Response(b'{"job_id":"D-791c4ee7-SBji6wv1NHtofL1quk4HkJc0-05a1","msg":"published"}', 201,
                    media_type="application/json")

app = Starlette(routes=[Route("/api/{ns}/{q}", put, methods=["PUT"])])
"""


class Talk(asyncio.Protocol):
    """One connection that asks again as soon as it is answered."""

    def __init__(self, acknowledge: bool) -> None:
        self.acknowledge = acknowledge
        self.done = 0
        self._data = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(CONSUME if self.acknowledge else PUBLISH)

    def data_received(self, data: bytes) -> None:
        self._data += data
        head, end, body = self._data.partition(b"\r\n\r\n")
        length = head.partition(b"content-length: ")[2].split()[:1]
        if not end or (length and len(body) < int(length[0])):
            return
        self._data = b""
        assert self._transport is not None
        self._transport.write(self.next(head, body))

    def next(self, head: bytes, body: bytes) -> bytes:
        """What is sent behind an answer."""
        status = int(head[9:12])
        if not self.acknowledge:
            assert status == 201, head
            self.done += 1
            return PUBLISH
        if status == 200:
            job_id = body.partition(b'"job_id":"')[2].partition(b'"')[0]
            return b"DELETE /api/ns/q/job/%b HTTP/1.1\r\n%b\r\n" % (job_id, HEAD)
        assert status in {204, 404}, head
        self.done += status == 204
        return CONSUME


async def load(port: int, seconds: float, *, acknowledge: bool) -> float:
    """How many a second were published, or consumed and acknowledged."""
    loop = asyncio.get_running_loop()
    talks = [Talk(acknowledge) for _ in range(CONNECTIONS)]
    made = [await loop.create_connection(lambda talk=talk: talk, LOOPBACK, port) for talk in talks]  # type: ignore[misc]  # bound
    begin_s = time.monotonic()
    await asyncio.sleep(seconds)
    rate = sum(talk.done for talk in talks) / (time.monotonic() - begin_s)
    for transport, _ in made:
        transport.abort()
    return rate


@contextmanager
def served(command: list[str], port: int, folder: Path) -> Iterator[psutil.Process]:
    """A process that answers at a port."""
    with (folder / "http.log").open("wb") as log:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, env=environment)
    try:
        until(lambda: answers(port), f"port {port}")
        yield psutil.Process(process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def answers(port: int) -> bool:
    """Whether somebody listens."""

    async def connect() -> None:
        _, writer = await asyncio.open_connection(LOOPBACK, port)
        writer.close()

    try:
        asyncio.run(connect())
    except OSError:
        return False
    return True


def gateway(run: Setting) -> None:
    """Measure both, in turn."""
    (run.folder / "bare.py").write_text(APP)
    tokens = run.folder / "tokens.json"
    tokens.write_text(json.dumps({"ns": {TOKEN: {"description": "load"}}}))
    seconds = run.scale.rival_s
    for turn in range(run.scale.rival_rounds):
        port = free_port()
        words = ["--port", str(port), "--loop", "uvloop", "--http", "httptools", "--no-access-log"]
        command = [sys.executable, "-m", "uvicorn", "bare:app", *words, "--log-level", "error"]
        with served(command, port, run.folder) as bare:
            rate, cpu_us = measured(bare, load(port, seconds, acknowledge=False), seconds)
            run.note("gateway", BARE, "publish", CONNECTIONS, turn, rate=rate, cpu_us=cpu_us)
        with run.server(run.best) as node:
            words = ["--nodes", f"{LOOPBACK}:{node.port}", "--listen", f"{LOOPBACK}:{port}"]
            command = [sys.executable, "-m", "disque.gateway.main", *words, "--tokens-file", str(tokens)]
            with served(command, port, run.folder) as ours:
                for what, acknowledge in (("publish", False), ("consume and ack", True)):
                    rate, cpu_us = measured(ours, load(port, seconds, acknowledge=acknowledge), seconds)
                    run.note("gateway", OURS, what, CONNECTIONS, turn, rate=rate, cpu_us=cpu_us)


def measured(process: psutil.Process, work: Coroutine[Any, Any, float], seconds: float) -> tuple[float, float]:
    """The rate of some load, and the CPU of the process for each of what was done, in us."""
    before_s = cpu_s_of(process)
    rate = uvloop.run(work)
    return rate, (cpu_s_of(process) - before_s) / max(1.0, rate * seconds) * 1e6
