"""Dead letters: the queues of them, and one of these grouped by error."""

import time
from collections import Counter
from typing import Final, NamedTuple

from disque.client import AsyncDisque
from disque.client.replies import JobInfo
from disque.gateway import ids
from disque.gateway.cluster import Cluster
from disque.gateway.rest import cursors
from disque.gateway.rest.operation import CURSOR, LIMIT, Ask, Operation, Result
from disque.gateway.rest.queues import list_queues
from disque.gateway.rest.schema import array, boolean, integer, record, string

#: How the names of their queues end.
DEAD: Final = ":dead"
#: Dead letters that are looked at, to group them; of an error, so many letters count; seconds after which no further
#: step begins.
LOOKED_MOST: Final = 2000
ERROR_MOST: Final = 200
LONGEST_S = 0.4  # not Final: tests want another
STEP: Final = 500


class Group(NamedTuple):
    """Dead letters with the same error: the first line of it, how many, and the ID of one as it is shown."""

    error: str
    jobs: int
    example: str


class Groups(NamedTuple):
    """All groups, the largest first; how many dead letters were looked at, and whether that is all of them."""

    groups: list[Group]
    looked: int
    is_whole: bool


async def groups_of(cluster: Cluster, name: str) -> Groups:
    """The dead letters of a queue by error. Raises DisqueError."""
    seen: set[str] = set()
    counted: Counter[str] = Counter()
    examples: dict[str, str] = {}
    cursor: str | None = ""
    until_s = time.monotonic() + LONGEST_S

    async def step(client: AsyncDisque, at: int) -> tuple[int, list[JobInfo]]:
        return await client.scan_job_infos(at, count=STEP, queue=name, states=("queued", "delayed"))

    while cursor is not None and len(seen) < LOOKED_MOST and time.monotonic() < until_s:
        found, cursor = await cursors.walk(cluster, cursor, STEP, step)
        for _, info in found:
            job_id = str(info["id"])
            if job_id not in seen:
                seen.add(job_id)
                error = error_of(info)
                counted[error] += 1
                examples.setdefault(error, ids.shown(job_id.encode()).decode())
    groups = [Group(error, count, examples[error]) for error, count in counted.most_common()]
    return Groups(groups, len(seen), cursor is None)


def error_of(info: JobInfo) -> str:
    """The error by which a dead letter is grouped."""
    lines = str(info.get("error") or "").strip().splitlines()
    return lines[0][:ERROR_MOST] if lines else ""


async def dead_letters(ask: Ask) -> Result:
    """GET /dead-letters: the queues of dead letters."""
    ask.query["suffix"] = DEAD
    ask.query["figures"] = True
    return await list_queues(ask)


async def by_error(ask: Ask) -> Result:
    """GET /dead-letters/{queue}/errors."""
    found = await groups_of(ask.cluster, ask.path[0])
    groups = found.groups[: ask.query["limit"]]
    shown = [{"error": one.error, "count": one.jobs, "example": one.example} for one in groups]
    return Result({"errors": shown, "looked_at": found.looked, "complete": found.is_whole})


OPERATIONS: Final = (
    Operation(
        "GET", "/dead-letters", dead_letters, "Queues of dead letters, with figures", {"cursor": CURSOR, "limit": LIMIT}
    ),
    Operation(
        "GET",
        "/dead-letters/{queue}/errors",
        by_error,
        "Dead letters of a queue, grouped by the first line of their error",
        {"limit": LIMIT},
        wants=record(
            {
                "errors": array(record({"error": string(), "count": integer(), "example": string("the ID of one")})),
                "looked_at": integer(f"dead letters that were looked at, {LOOKED_MOST} or some more at most"),
                "complete": boolean("whether these are all that there are"),
            }
        ),
    ),
)
