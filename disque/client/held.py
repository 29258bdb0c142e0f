"""Letting jobs that are held back run now.

Each node that has a copy of a job puts it into its queue when it is asked, and tells the others. Asked side by side
they would all do it, and the job would be in several queues. So one node is asked after another, for what is left.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from disque.client.errors import DisqueError

if TYPE_CHECKING:
    from disque.client.async_client import AsyncDisque

Id = TypeVar("Id", str, bytes)
Place = TypeVar("Place")

#: What RESULT says of a job that is held back.
DELAYED: Final = "delayed"


async def held_back(client: "AsyncDisque", job_ids: Iterable[Id]) -> list[Id]:
    """Those of some jobs that are held back: ENQUEUE delivers one that a consumer has a second time.

    One of which a node does not say what it is may be held back: ENQUEUE says why. Raises DisqueError.
    """
    ids = list(dict.fromkeys(job_ids))
    pipeline = client.pipeline()
    for job_id in ids:
        pipeline.result(job_id)
    told = await pipeline.execute(raise_on_error=False)
    return [
        job_id
        for job_id, one in zip(ids, told, strict=True)
        if isinstance(one, DisqueError) or (one is not None and one.status == DELAYED)
    ]


async def enqueue(client: "AsyncDisque", job_ids: Sequence[Id]) -> list[object]:
    """ENQUEUE at a node: of each job 1, 0, or the error. Raises DisqueError if the node does not answer."""
    pipeline = client.pipeline()
    for job_id in job_ids:
        pipeline.enqueue(job_id)
    return await pipeline.execute(raise_on_error=False)


async def run_now(
    held: Sequence[Id], places: Iterable[Place], ask: Callable[[Place, list[Id]], Awaitable[list[object]]]
) -> int:
    """Put jobs into their queues, each at one node: how many. ``ask`` is `enqueue` at one of these ``places``.

    A node that is down is passed over: another one may have copies. Raises DisqueError, what the first node refused, or
    why it did not answer, if no job was put into its queue.
    """
    left = list(held)
    failures: list[DisqueError] = []
    for place in places:
        if not left:
            break
        try:
            answers = await ask(place, left)
        except DisqueError as error:
            failures.append(error)
            continue
        failures += [answer for answer in answers if isinstance(answer, DisqueError)]
        left = [job_id for job_id, answer in zip(left, answers, strict=True) if answer != 1]
    if failures and len(left) == len(held):
        raise failures[0]
    return len(held) - len(left)
