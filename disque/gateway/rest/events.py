"""What happens to jobs, as CloudEvents over server-sent events: what `disque.client` hears at all nodes, told on."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Final

from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from disque.client import Event
from disque.client.async_listening import AsyncListening
from disque.client.listening import EVENTS, event_patterns, read_event, subscriptions
from disque.gateway import ids
from disque.gateway.faults import Fault
from disque.gateway.hub import Hub
from disque.gateway.rest.operation import Ask, Operation, Problem, bad
from disque.gateway.rest.schema import array, string
from disque.gateway.rest.shapes import moment

#: Clients at one time.
CLIENTS_MOST: Final = 200
#: Events that are kept for one of them, before nodes are not read from any more; those that leave in one piece.
KEPT_MOST: Final = 500
PIECE_MOST: Final = 32
#: Seconds between two signs of life, and for which nodes may take to confirm that they are listened to.
BEAT_S: Final = 15.0
READY_S: Final = 2.0
HEADERS: Final = {"Cache-Control": "no-store"}


def cloud_event(number: str, event: Event, unix_s: float) -> bytes:
    """One event as bytes of the stream."""
    shown = ids.shown(event.id.encode("utf-8", "surrogateescape")).decode("ascii", "replace")
    value = {
        "specversion": "1.0",
        "id": number,
        "source": "/disque",
        "type": f"disque.job.{event.event}",
        "subject": shown,
        "time": moment(unix_s),
        "datacontenttype": "application/json",
        "data": {"event": event.event, "id": shown, "queue": event.queue},
    }
    return f"id: {number}\nevent: disque.job.{event.event}\ndata: {json.dumps(value)}\n\n".encode()


async def stream(hub: Hub, listening: AsyncListening[Event]) -> AsyncIterator[bytes]:
    """The bytes that a client gets until it leaves, or the gateway stops."""
    lost = 0
    stopping = asyncio.ensure_future(hub.stopping.wait())
    coming = asyncio.ensure_future(anext(listening))
    yield b"retry: 2000\n\n"
    try:
        while not hub.stopping.is_set():
            await asyncio.wait([coming, stopping], timeout=BEAT_S, return_when=asyncio.FIRST_COMPLETED)
            if listening.lost > lost:
                yield b"event: lost\ndata: %d\n\n" % (listening.lost - lost)
                lost = listening.lost
            if coming.done():
                some = [coming.result(), *listening.take(PIECE_MOST)]
                yield b"".join([cloud_event(hub.request_id(), event, hub.wall_s()) for event in some])
                coming = asyncio.ensure_future(anext(listening))
            else:
                yield b": still there\n\n"
    finally:
        coming.cancel()
        stopping.cancel()


class Told(StreamingResponse):
    """The answer to who listens. It ends that itself: a generator that has not begun when a client leaves cannot."""

    def __init__(self, hub: Hub, listening: AsyncListening[Event]) -> None:
        super().__init__(stream(hub, listening), media_type="text/event-stream", headers=HEADERS)
        self._hub = hub
        self._listening = listening

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._hub.streams.discard(self._listening)
            self._hub.later(self._listening.aclose())  # not here: the client has left, and nothing waits any more


def head() -> Response:
    """The answer to HEAD: nobody listens, and how long the body would be is not known."""
    answer = Response(headers=HEADERS, media_type="text/event-stream")
    del answer.headers["content-length"]
    return answer


async def events(ask: Ask) -> Response:
    """GET /events."""
    hub = ask.hub
    wanted = ask.query.get("event") or EVENTS
    if not set(wanted) <= set(EVENTS):
        raise bad(f"'event' must be of {', '.join(EVENTS)}")
    if ask.request.method == "HEAD":
        return head()
    if len(hub.streams) >= CLIENTS_MOST:
        raise Problem(Fault(503, "Too many clients listen", again=True), f"at most {CLIENTS_MOST} can")
    patterns = subscriptions((), event_patterns(wanted, ask.query["queue"]))
    listening = AsyncListening(ask.cluster.client, patterns, read_event, everywhere=True, kept=KEPT_MOST)
    hub.streams.add(listening)
    try:
        await listening.ready(READY_S)
    except BaseException:
        hub.streams.discard(listening)
        await listening.aclose()
        raise
    return Told(hub, listening)


OPERATIONS: Final = (
    Operation(
        "GET",
        "/events",
        events,
        "What happens to jobs: CloudEvents, as server-sent events",
        {
            "event": array(string(enum=list(EVENTS))),
            "queue": string("only of queues that look like this: * is anything, ? one character", default="*"),
        },
    ),
)
