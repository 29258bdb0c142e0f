"""What happens to jobs, as CloudEvents over server-sent events.

Events are told by the node where they happen, so there is a connection to each node, with PSUBSCRIBE of the channels
`job:<event>:<queue>`. A node that is gone is tried again from time to time. A client that reads too slowly misses
events, and is told how many. Events are not kept: who was away has missed them.
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from typing import Final

from redis.asyncio.connection import Connection, SSLConnection
from starlette.responses import Response, StreamingResponse

from disque.client import DisqueError, NodeInfo, UnavailableError
from disque.client.async_pool import read
from disque.client.errors import typed
from disque.client.packing import pack
from disque.client.pool import TROUBLE_AT_FIRST, connection_options
from disque.gateway import ids
from disque.gateway.cluster import Cluster
from disque.gateway.faults import Fault
from disque.gateway.hub import Hub
from disque.gateway.rest.operation import Ask, Operation, Problem, bad
from disque.gateway.rest.schema import array, string
from disque.gateway.rest.shapes import moment

EVENTS: Final = ["added", "ready", "delivered", "acked", "nacked", "retried", "dead", "expired", "cancelled", "moved"]
#: Events that wait for a client, and clients at one time.
WAITING_MOST: Final = 1000
CLIENTS_MOST: Final = 200
#: Seconds between two signs of life, and until a node that is gone is tried again.
BEAT_S: Final = 15.0
AGAIN_S: Final = 2.0


#: Node, channel and job.
Event = tuple[str, bytes, bytes]


class Feed:
    """The events that one client hears."""

    def __init__(self, cluster: Cluster, patterns: list[bytes]) -> None:
        self.cluster = cluster
        self.patterns = patterns
        self.lost = 0
        self.ended = False
        self._queue: deque[Event] = deque()
        self._news = asyncio.Event()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._watch: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Listen at all nodes. Raises DisqueError if this user may not, or if no node can be reached."""
        nodes = await self.cluster.nodes()
        ready = [self._listen_at(node) for node in nodes]
        failed = [error for error in await asyncio.gather(*ready) if error is not None]
        if len(failed) == len(nodes):
            raise failed[0]
        self._watch = asyncio.get_running_loop().create_task(self._watch_nodes())

    async def end(self) -> None:
        """Listen no more."""
        tasks = [*self._tasks.values(), *([self._watch] if self._watch is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def stop(self) -> None:
        """Give no more events."""
        self.ended = True
        self._news.set()

    async def next(self, wait_s: float) -> Event | None:
        """The next event; None if there is none within a time, or no more."""
        if not self._queue and not self.ended:
            self._news.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._news.wait()
        return self._queue.popleft() if self._queue else None

    async def _watch_nodes(self) -> None:
        """Listen at nodes that come, and again at those that were gone."""
        while True:
            await asyncio.sleep(AGAIN_S)
            with suppress(DisqueError):
                for node in await self.cluster.nodes():
                    if node.id not in self._tasks or self._tasks[node.id].done():
                        await self._listen_at(node)

    async def _listen_at(self, node: NodeInfo) -> DisqueError | None:
        """Begin to listen at a node; the error if that cannot be."""
        config = self.cluster.client.config
        kind = SSLConnection if config.tls else Connection
        options = {**connection_options(config, (node.host, node.port)), "protocol": 2}  # messages are arrays there
        connection = kind(socket_timeout=None, **options)
        try:
            await connection.connect()
            await connection.send_packed_command([pack([b"PSUBSCRIBE", *self.patterns])])
            for _ in self.patterns:
                reply = await read(connection)
                if isinstance(reply, Exception):
                    raise reply
        except TROUBLE_AT_FIRST as error:
            await connection.disconnect(nowait=True)
            return typed(error) or UnavailableError.of("no node could be used", [(f"{node.host}:{node.port}", error)])
        self._tasks[node.id] = asyncio.get_running_loop().create_task(self._hear(node, connection))
        return None

    async def _hear(self, node: NodeInfo, connection: Connection) -> None:
        try:
            while True:
                message = await read(connection)
                if isinstance(message, list) and message[:1] == [b"pmessage"]:
                    self._take(node.id, message[2], message[3])
        except TROUBLE_AT_FIRST:
            return
        finally:
            await connection.disconnect(nowait=True)

    def _take(self, node_id: str, channel: bytes, job_id: bytes) -> None:
        if len(self._queue) < WAITING_MOST:
            self._queue.append((node_id, channel, job_id))
            self._news.set()
        else:
            self.lost += 1


def cloud_event(number: str, node_id: str, channel: bytes, job_id: bytes, unix_s: float) -> bytes:
    """One event as bytes of the stream."""
    _, event, queue = channel.decode("utf-8", "replace").split(":", 2)
    shown = ids.shown(job_id).decode("ascii", "replace")
    value = {
        "specversion": "1.0",
        "id": number,
        "source": f"/nodes/{node_id}",
        "type": f"disque.job.{event}",
        "subject": shown,
        "time": moment(unix_s),
        "datacontenttype": "application/json",
        "data": {"event": event, "id": shown, "queue": queue},
    }
    return b"id: %b\nevent: disque.job.%b\ndata: %b\n\n" % (number.encode(), event.encode(), json.dumps(value).encode())


async def stream(hub: Hub, feed: Feed) -> AsyncIterator[bytes]:
    """The bytes that a client gets until it leaves, or the gateway stops."""
    lost = 0
    yield b"retry: 2000\n\n"
    while not feed.ended:
        event = await feed.next(BEAT_S)
        if feed.lost > lost:
            yield b"event: lost\ndata: %d\n\n" % (feed.lost - lost)
            lost = feed.lost
        if event is None:
            yield b": still there\n\n"
        else:
            yield cloud_event(hub.request_id(), *event, hub.wall_s())


def patterns_of(events: Iterable[str], queue: str) -> list[bytes]:
    """What is subscribed to."""
    return [f"job:{event}:{queue}".encode("utf-8", "surrogateescape") for event in events]


async def events(ask: Ask) -> Response:
    """GET /events."""
    hub = ask.hub
    wanted = ask.query.get("event") or EVENTS
    if not set(wanted) <= set(EVENTS):
        raise bad(f"'event' must be of {', '.join(EVENTS)}")
    if len(hub.streams) >= CLIENTS_MOST:
        raise Problem(Fault(503, "Too many clients listen", again=True), f"at most {CLIENTS_MOST} can")
    feed = Feed(ask.cluster, patterns_of(wanted, ask.query["queue"]))
    await feed.begin()
    hub.streams.add(feed.stop)

    async def told() -> AsyncIterator[bytes]:
        try:
            async for part in stream(hub, feed):
                yield part
        finally:
            hub.streams.discard(feed.stop)
            hub.later(feed.end())  # not here: the client has left, and nothing waits any more

    return StreamingResponse(told(), media_type="text/event-stream", headers={"Cache-Control": "no-store"})


OPERATIONS: Final = (
    Operation(
        "GET",
        "/events",
        events,
        "What happens to jobs: CloudEvents, as server-sent events",
        {
            "event": array(string(enum=EVENTS)),
            "queue": string("only of queues that look like this: * is anything, ? one character", default="*"),
        },
    ),
)
