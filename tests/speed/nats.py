"""NATS JetStream for `tests.speed.brokers`: a work queue of three copies on three servers, in memory and in files."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.end_to_end.node import LOOPBACK
from tests.speed.broker import BODY, NODES, PATIENCE_S, QUEUE, Driver, distinct_ports, lacking, run

if TYPE_CHECKING:
    from nats.js import JetStreamContext

#: A cluster without a leader does not answer: after so many seconds it is asked again.
ANSWER_S: Final = 2.0


def absent() -> list[str]:
    """What it needs and is not installed."""
    return lacking(["nats-server"], "nats")


def start(stack: ExitStack, folder: Path) -> tuple[list[int], list[int]]:
    """Three servers that make a cluster: their process IDs and ports."""
    ports = distinct_ports(NODES)
    routes = ",".join([f"nats://{LOOPBACK}:{port + 10000}" for port in ports])
    pids = []
    for number, port in enumerate(ports):
        words = ["nats-server", "-a", LOOPBACK, "-p", str(port), "-js", "-sd", str(folder / f"nats{number}")]
        words += ["-n", f"n{number}", "-cluster_name", "bench", "-cluster", f"nats://{LOOPBACK}:{port + 10000}"]
        pids.append(run(stack, [*words, "-routes", routes], folder / f"nats{number}.log").pid)
    return pids, ports


async def not_yet(error: Exception) -> None:
    """The server does not listen yet: the client tries again."""
    del error


async def make_stream(stream: "JetStreamContext", storage: str) -> None:
    """The work queue with three copies, as soon as the cluster has a leader."""
    from nats.errors import Error  # noqa: PLC0415 - the program says what is missing first
    from nats.js.api import RetentionPolicy, StorageType, StreamConfig  # noqa: PLC0415 - the same

    config = StreamConfig(
        name=QUEUE,
        subjects=[QUEUE],
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


async def drivers(stack: ExitStack, folder: Path) -> AsyncGenerator[Driver, None]:
    """In memory, and in files, each in a cluster of its own. JetStream does not confirm acknowledgements."""
    import nats  # noqa: PLC0415 - the program says what is missing first

    for storage in ("memory", "file"):
        servers = stack.enter_context(ExitStack())
        place = folder / storage
        place.mkdir()
        pids, ports = start(servers, place)
        url = f"nats://{LOOPBACK}:{ports[0]}"
        client = await nats.connect(url, max_reconnect_attempts=-1, error_cb=not_yet)
        await make_stream(client.jetstream(timeout=ANSWER_S), storage)
        stream = client.jetstream(timeout=PATIENCE_S)
        consumer = await stream.pull_subscribe(QUEUE, "workers")

        async def add(count: int, stream: "JetStreamContext" = stream) -> None:
            await asyncio.gather(*[stream.publish(QUEUE, BODY) for _ in range(count)])

        async def take(count: int, consumer: "JetStreamContext.PullSubscription" = consumer) -> None:
            while count:
                found = await consumer.fetch(count, timeout=PATIENCE_S)
                count -= len(found)
                for message in found:
                    await message.ack()

        version = client.connected_server_version
        name = f"NATS JetStream {version.major}.{version.minor}.{version.patch}, {storage}"
        yield Driver(name, pids, add, take)
        await client.close()
        servers.close()
