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
from disque.gateway.rest.operation import bad

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
    """Walk through all nodes, one after the other, for `LONGEST_S` at most. A node that is gone is passed over."""
    nodes = sorted(await cluster.nodes())
    until_s = time.monotonic() + LONGEST_S
    place: Place | None = place_of(cursor)
    found: Met = []
    while place is not None and len(found) < limit and time.monotonic() < until_s:
        met, after = await one_step(cluster, nodes, place, step)
        fresh = behind(met, place.last)
        if most is not None and len(found) + len(fresh) > most:
            found += fresh[: most - len(found)]
            return found, written(place._replace(last=str(found[-1][1]["id"])))
        found += fresh
        place = after
    return found, None if place is None else written(place)


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
