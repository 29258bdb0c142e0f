"""What waiting for results costs: `python -m tests.speed.results [--compiled PYTHON] [--rounds N]`.

Clients add a job and wait for its result, one after the other; workers take it and acknowledge it with one. The same is
done beside it with redis-server: LPUSH into a list of work, BRPOP from a list of its own for each answer. Rounds of all
servers alternate. Printed are round trips a second, and the median and the 99th percentile of one in ms.

Then 10,000 clients wait for 100,000 jobs, each for ten, and all jobs are acknowledged.
"""

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import ExitStack
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Any, Final

import hiredis

from disque.client.packing import pack
from tests.end_to_end.node import LOOPBACK
from tests.speed.server import PLAIN, Form, Nodes, Ours, Redis

CLIENTS: Final = 50
WORKERS: Final = 10
TRIPS: Final = 4000
BODY: Final = b"x" * 100
WAITING: Final = 10_000
JOBS_EACH: Final = 10
ADDED_AT_ONCE: Final = 1000


class Raw:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.replies = hiredis.Reader()

    @classmethod
    async def to(cls, port: int) -> "Raw":
        """Connect."""
        return cls(*await asyncio.open_connection(LOOPBACK, port))

    def send(self, *words: bytes) -> None:
        """Send a request."""
        self.writer.write(pack(words))

    async def read(self) -> Any:
        """The next reply."""
        while (reply := self.replies.gets()) is False:
            data = await self.reader.read(1 << 16)
            assert data, "the server has closed the connection"
            self.replies.feed(data)
        assert not isinstance(reply, hiredis.ReplyError), reply
        return reply

    async def __call__(self, *words: bytes) -> Any:
        """Send a request, and wait for its reply."""
        self.send(*words)
        return await self.read()


async def trip_of_ours(raw: Raw, number: int) -> None:
    """Add a job, and wait for its result."""
    del number
    job_id = await raw(b"ADDJOB", b"work", BODY, b"5000", b"RETAIN", b"60")
    [[status, _]] = await raw(b"WAITJOB", b"0", job_id)
    assert status == b"done"


async def work_for_ours(raw: Raw) -> None:
    """Acknowledge jobs with a result."""
    while True:
        [[_, job_id, _]] = await raw(b"GETJOB", b"FROM", b"work")
        await raw(b"ACKJOB", job_id, b"RESULT", b"done")


async def trip_of_redis(raw: Raw, number: int) -> None:
    """The same with lists."""
    name = b"answer:%d" % number
    await raw(b"LPUSH", b"work", name + b" " + BODY)
    await raw(b"BRPOP", name, b"0")


async def work_for_redis(raw: Raw) -> None:
    """Answer in the list that the work names."""
    while True:
        _, work = await raw(b"BRPOP", b"work", b"0")
        await raw(b"LPUSH", work.split(b" ", 1)[0], b"done")


Trip = Callable[[Raw, int], Awaitable[None]]
Work = Callable[[Raw], Coroutine[Any, Any, None]]


async def trips(ports: list[int], trip: Trip, work: Work) -> tuple[float, list[float]]:
    """Seconds that all trips took, and each of them. Clients ask the first node, workers work at all."""
    workers = [asyncio.create_task(work(await Raw.to(ports[number % len(ports)]))) for number in range(WORKERS)]
    clients = [await Raw.to(ports[0]) for _ in range(CLIENTS)]
    took: list[float] = []

    async def client(number: int, raw: Raw) -> None:
        for _ in range(TRIPS // CLIENTS):
            begin = time.perf_counter()
            await trip(raw, number)
            took.append(time.perf_counter() - begin)

    begin = time.perf_counter()
    await asyncio.gather(*[client(number, raw) for number, raw in enumerate(clients)])
    passed = time.perf_counter() - begin
    for task in workers:
        task.cancel()
    return passed, took


async def many(port: int) -> tuple[float, float]:
    """Seconds until all clients wait, and from the first acknowledgement to the last answer."""
    producer = await Raw.to(port)
    ids: list[bytes] = []
    for _ in range(0, WAITING * JOBS_EACH, ADDED_AT_ONCE):
        for _ in range(ADDED_AT_ONCE):
            producer.send(b"ADDJOB", b"many", BODY, b"5000", b"REPLICATE", b"1", b"RETAIN", b"60")
        ids += [await producer.read() for _ in range(ADDED_AT_ONCE)]
    begin = time.perf_counter()
    clients = [await Raw.to(port) for _ in range(WAITING)]
    for number, raw in enumerate(clients):
        raw.send(b"WAITJOB", b"0", *ids[number * JOBS_EACH : (number + 1) * JOBS_EACH])
    await producer(b"PING")
    stand = time.perf_counter() - begin
    begin = time.perf_counter()
    for at in range(0, len(ids), ADDED_AT_ONCE):
        for job_id in ids[at : at + ADDED_AT_ONCE]:
            producer.send(b"ACKJOB", job_id, b"RESULT", b"done")
        for _ in range(ADDED_AT_ONCE):
            await producer.read()
    answers = [await raw.read() for raw in clients]
    passed = time.perf_counter() - begin
    assert all(one == [b"done", b"done"] for answer in answers for one in answer)
    for raw in clients:
        raw.writer.close()
    return stand, passed


def main() -> None:
    """Print both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiled", help="an interpreter that has the compiled form")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    form = Form("compiled", options.compiled) if options.compiled else PLAIN
    with TemporaryDirectory() as directory, ExitStack() as stack:
        place = Path(directory)
        for name in ("one", "redis"):
            (place / name).mkdir()
        single, rival = Ours(place / "one", form, "--maxclients", "20000"), Redis(place / "redis")
        for server in (single, rival):
            server.start()
            stack.callback(server.discard)
        three = Nodes(place / "three", 3, form)
        stack.callback(three.discard)
        three.start_whole()
        sides: dict[str, tuple[list[int], Trip, Work]] = {
            "one node": ([single.port], trip_of_ours, work_for_ours),
            "three nodes": ([node.port for node in three.members], trip_of_ours, work_for_ours),
            "redis": ([rival.port], trip_of_redis, work_for_redis),
        }
        rates: dict[str, list[float]] = {name: [] for name in sides}
        times: dict[str, list[float]] = {name: [] for name in sides}
        for _ in range(options.rounds):
            for name, (ports, trip, work) in sides.items():
                passed, took = asyncio.run(trips(ports, trip, work))
                rates[name].append(TRIPS / passed)
                times[name] += took
        for name in sides:
            cuts = quantiles(times[name], n=100)
            print(
                f"{name:12} {median(rates[name]):8.0f} /s   p50 {cuts[49] * 1000:6.2f}   p99 {cuts[98] * 1000:6.2f} ms"
            )
        stand, passed = asyncio.run(many(single.port))
        print(f"{WAITING} clients, {WAITING * JOBS_EACH} jobs: waiting after {stand:.1f} s, answered in {passed:.1f} s")


if __name__ == "__main__":
    main()
