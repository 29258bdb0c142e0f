"""NATS JetStream beside this server: three nodes, three copies of each job, driven by their own Python clients.

``python -m tests.speed.jetstream [jobs]`` prints a line for each: jobs a second, and CPU of all nodes together for one
job, to add it, and to get it and acknowledge it. JetStream keeps a work queue in memory and in files; this server, in
the plain form, keeps its journal (`everysec`). The clients are the limit of the rates, so CPU is what counts. Adds go a
hundred at a time, and each is confirmed. JetStream does not confirm acknowledgements, this server does.

It needs `nats-server` and the extra `bench`. docs/benchmarks.md has figures.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path
from subprocess import DEVNULL, Popen
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import psutil

from disque.cli.bench_target import cpu_s_of
from disque.client import AsyncDisque
from tests.end_to_end.cluster import Cluster
from tests.end_to_end.node import LOOPBACK, free_port
from tests.speed.server import missing

if TYPE_CHECKING:
    from nats.js import JetStreamContext

BODY: Final = b"x" * 100
NODES: Final = 3
#: Jobs that are added, fetched and acknowledged at a time.
AT_ONCE: Final = 100
#: After the load, in seconds: what nodes still tell each other belongs to it.
TAIL_S: Final = 1.0
PATIENCE_S: Final = 60.0
STREAM: Final = "jobs"


class Figures(NamedTuple):
    """Of one step: jobs a second, and microseconds of CPU of all nodes for one job."""

    rate: float
    cpu_us: float


async def measured(pids: list[int], jobs: int, step: Callable[[int], Awaitable[None]]) -> Figures:
    """Do something with so many jobs."""
    processes = [psutil.Process(pid) for pid in pids]
    cpu_s = sum(map(cpu_s_of, processes))
    begin_s = time.monotonic()
    for _ in range(0, jobs, AT_ONCE):
        await step(AT_ONCE)
    spent_s = time.monotonic() - begin_s
    await asyncio.sleep(TAIL_S)
    return Figures(jobs / spent_s, (sum(map(cpu_s_of, processes)) - cpu_s) * 1e6 / jobs)


# -- JetStream ---------------------------------------------------------------------------------------------------------


def start_nats(folder: Path) -> tuple[list[Popen[bytes]], list[int]]:
    """Three servers that make a cluster, and their ports."""
    ports = [free_port() for _ in range(NODES)]
    routes = ",".join([f"nats://{LOOPBACK}:{port + 10000}" for port in ports])
    servers = []
    for number, port in enumerate(ports):
        words = ["nats-server", "-a", LOOPBACK, "-p", str(port), "-js", "-sd", str(folder / f"nats{number}")]
        words += ["-n", f"n{number}", "-cluster_name", "bench", "-cluster", f"nats://{LOOPBACK}:{port + 10000}"]
        servers.append(Popen([*words, "-routes", routes], stdout=DEVNULL, stderr=DEVNULL))
    return servers, ports


async def not_yet(error: Exception) -> None:
    """The server does not listen yet: the client tries again."""
    del error


async def make_stream(stream: "JetStreamContext", storage: str) -> None:
    """The work queue with three copies, as soon as the cluster has a leader."""
    from nats.errors import Error  # noqa: PLC0415 - the program says what is missing first
    from nats.js.api import RetentionPolicy, StorageType, StreamConfig  # noqa: PLC0415 - the same

    config = StreamConfig(
        name=STREAM,
        subjects=[STREAM],
        retention=RetentionPolicy.WORK_QUEUE,
        storage=StorageType(storage),
        num_replicas=NODES,
    )
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            await stream.add_stream(config)
        except (Error, TimeoutError):
            if time.monotonic() > deadline_s:
                raise
            await asyncio.sleep(0.5)
        else:
            return


async def of_jetstream(folder: Path, storage: str, jobs: int) -> tuple[Figures, Figures]:
    """To add, and to get and acknowledge."""
    import nats  # noqa: PLC0415 - the program says what is missing first

    servers, ports = start_nats(folder)
    try:
        url = f"nats://{LOOPBACK}:{ports[0]}"
        client = await nats.connect(url, max_reconnect_attempts=-1, error_cb=not_yet)
        stream = client.jetstream(timeout=PATIENCE_S)
        await make_stream(stream, storage)
        consumer = await stream.pull_subscribe(STREAM, "workers")

        async def add(count: int) -> None:
            await asyncio.gather(*[stream.publish(STREAM, BODY) for _ in range(count)])

        async def take(count: int) -> None:
            while count:
                found = await consumer.fetch(count, timeout=PATIENCE_S)
                count -= len(found)
                for message in found:
                    await message.ack()

        pids = [server.pid for server in servers]
        await add(AT_ONCE)
        await take(AT_ONCE)
        found = await measured(pids, jobs, add), await measured(pids, jobs, take)
        await client.close()
        return found
    finally:
        for server in servers:
            server.kill()
            server.wait()


# -- this server -------------------------------------------------------------------------------------------------------


async def of_ours(folder: Path, jobs: int) -> tuple[Figures, Figures]:
    """The same of three nodes with journals."""
    with ExitStack() as stack:
        cluster = Cluster(folder, NODES, "--loglevel", "warning", "--cluster-node-timeout", "15000")
        stack.callback(cluster.discard)
        cluster.start_whole()
        async with AsyncDisque(f"disque://{LOOPBACK}:{cluster.members[0].port}") as client:

            async def add(count: int) -> None:
                pipeline = client.pipeline()
                for _ in range(count):
                    pipeline.add(STREAM, BODY, replicate=NODES, retry=300)
                await pipeline.execute()

            async def take(count: int) -> None:
                while count:
                    found: list[Any] = await client.get(STREAM, count=count, timeout=PATIENCE_S)
                    count -= len(found)
                    await client.ack(*[job.id for job in found])

            pids = [node.pid for node in cluster.members]
            await add(AT_ONCE)
            await take(AT_ONCE)
            return await measured(pids, jobs, add), await measured(pids, jobs, take)


def say(name: str, found: tuple[Figures, Figures]) -> None:
    """One line."""
    added, taken = found
    print(
        f"{name:24} add {added.rate:8.0f} /s {added.cpu_us:6.1f} us   "
        f"get and ack {taken.rate:8.0f} /s {taken.cpu_us:6.1f} us"
    )


def main(jobs: int) -> int:
    """Measure all, one after the other."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ours = folder / "ours"
        ours.mkdir()
        say("disque, journal", asyncio.run(of_ours(ours, jobs)))
        if missing(["nats-server"]):
            print("nats-server is not installed: JetStream is left out")
            return 0
        for storage in ("memory", "file"):
            say(f"JetStream, {storage}", asyncio.run(of_jetstream(folder / storage, storage, jobs)))
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 50_000))
