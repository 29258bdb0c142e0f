"""Cursors: where a list goes on, as a text that means nothing to clients."""

import base64
import binascii
import json
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from disque.client import AsyncDisque, DisqueError, NodeInfo
from disque.gateway.cluster import Cluster
from disque.gateway.rest.operation import bad

T = TypeVar("T")

CURSOR_MOST: Final = 2000
#: Steps of a walk that one request makes, so that a page that has nothing to show comes to an end, too.
STEPS: Final = 200

Walk = Callable[[AsyncDisque, int], Awaitable[tuple[int, list[T]]]]


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


async def walk(cluster: Cluster, cursor: str, limit: int, step: Walk[T]) -> tuple[list[tuple[NodeInfo, T]], str | None]:
    """Go on with a walk through all nodes, one after the other, until about ``limit`` things are met.

    A node that is gone is passed over. Raises Problem, DisqueError.
    """
    nodes = sorted(await cluster.nodes())
    node_id, at = place_of(cursor)
    found: list[tuple[NodeInfo, T]] = []
    for _ in range(STEPS):
        left = [node for node in nodes if node.id >= node_id]
        if not left:
            return found, None
        node = left[0]

        async def go_on(client: AsyncDisque, at: int = at if node.id == node_id else 0) -> tuple[int, list[T]]:
            return await step(client, at)

        try:
            at, more = await cluster.ask_at(node, go_on)
        except DisqueError as error:
            if error.code != "UNAVAILABLE":
                raise
            at, more = 0, []
        found += [(node, one) for one in more]
        node_id = node.id if at else f"{node.id}~"  # which is behind this node, and before any other
        if len(found) >= limit:
            break
    return found, written([node_id, at])


def place_of(cursor: str) -> tuple[str, int]:
    """Node and cursor of a walk. Raises Problem."""
    if not cursor:
        return "", 0
    place = read(cursor)
    if not (isinstance(place, list) and [type(one) for one in place] == [str, int] and place[1] >= 0):
        raise bad("this is no cursor of this list")
    return place[0], place[1]
