"""Cursors: where a list goes on, as a text that means nothing to clients."""

import base64
import binascii
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from disque.client import AsyncDisque, DisqueError, NodeInfo, UnavailableError
from disque.client.replies import JobInfo
from disque.gateway.cluster import Cluster
from disque.gateway.rest.operation import VALUES_MOST, bad

CURSOR_MOST: Final = 2000
#: Seconds for which one request goes on with a walk, so that a page that has nothing to show comes to an end, too.
LONGEST_S: Final = 0.5


def written(value: object) -> str:
    """A cursor."""
    return base64.urlsafe_b64encode(json.dumps(value, separators=(",", ":")).encode()).decode().rstrip("=")


def read(text: str) -> Any:  # noqa: ANN401 - what was written, or anything that somebody made up
    """What is in a cursor. Raises Problem."""
    try:
        if len(text) > CURSOR_MOST:
            raise ValueError  # noqa: TRY301 - one message for all
        return json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        raise bad("this is no cursor of this API") from None


class Place(NamedTuple):
    """Where a walk goes on: a node, its cursor, and the ID of the last job of that step that was shown, if any."""

    node_id: str = ""
    at: int = 0
    last: str = ""


Met = list[tuple[NodeInfo, JobInfo]]
Walk = Callable[[AsyncDisque, int], Awaitable[tuple[int, list[JobInfo]]]]


async def page(cluster: Cluster, cursor: str, limit: int, step: Walk) -> tuple[Met, str | None]:
    """Go on with a walk, and give ``limit`` jobs at most, whatever a step brings. Raises Problem, DisqueError."""
    return await go(cluster, cursor, limit, step, most=limit)


async def walk(cluster: Cluster, cursor: str, limit: int, step: Walk) -> tuple[Met, str | None]:
    """Go on with a walk by whole steps, until ``limit`` jobs are met: for who changes them. Raises as `page`."""
    return await go(cluster, cursor, limit, step)


async def go(cluster: Cluster, cursor: str, limit: int, step: Walk, most: int | None = None) -> tuple[Met, str | None]:
    """Walk through all nodes, one after the other, for `LONGEST_S` at most. A node that is gone is passed over.

    No step begins behind `VALUES_MOST` bytes of bodies and results; what a node gives in one step is not much more.
    """
    nodes = sorted(await cluster.nodes())
    until_s = time.monotonic() + LONGEST_S
    place: Place | None = place_of(cursor)
    found: Met = []
    size = 0
    while place is not None and len(found) < limit and size < VALUES_MOST and time.monotonic() < until_s:
        met, after = await one_step(cluster, nodes, place, step)
        fresh = behind(met, place.last)
        some = fresh if most is None else fitting(fresh, most - len(found), VALUES_MOST - size)
        found += some
        if len(some) < len(fresh):
            return found, written(place._replace(last=str(found[-1][1]["id"])))
        size += sum(map(size_of, some))
        place = after
    return found, None if place is None else written(place)


def fitting(met: Met, most: int, most_bytes: int) -> Met:
    """The first of these jobs: those that begin within so many bytes."""
    size = 0
    for at, one in enumerate(met[:most]):
        if size >= most_bytes:
            return met[:at]
        size += size_of(one)
    return met[:most]


def size_of(one: tuple[NodeInfo, JobInfo]) -> int:
    """The bytes of what is known of a job, about: long are its body, and its result, which is a text here."""
    return sum(len(value) for value in one[1].values() if isinstance(value, bytes | str))


def behind(met: Met, last: str) -> Met:
    """What a step meets behind the job that was shown last. If that is gone, all: better twice than never."""
    at = next((at for at, (_, info) in enumerate(met, 1) if info["id"] == last), 0)
    return met[at:]


async def one_step(cluster: Cluster, nodes: list[NodeInfo], place: Place, step: Walk) -> tuple[Met, Place | None]:
    """What one step meets, and where the next one begins; None behind the last node. Raises DisqueError."""
    left = [node for node in nodes if node.id >= place.node_id]
    if not left:
        return [], None
    node = left[0]
    at = place.at if node.id == place.node_id else 0
    try:
        at, more = await cluster.ask_at(node, lambda client: step(client, at))
    except DisqueError as error:
        if error.code != UnavailableError.code:
            raise
        at, more = 0, []
    # A name with a tilde is behind this node, and before any other.
    return [(node, one) for one in more], Place(node.id if at else f"{node.id}~", at)


def place_of(cursor: str) -> Place:
    """The place that a cursor means. Raises Problem."""
    if not cursor:
        return Place()
    place = read(cursor)
    if not (isinstance(place, list) and [type(one) for one in place] == [str, int, str] and place[1] >= 0):
        raise bad("this is no cursor of this list")
    return Place(*place)
