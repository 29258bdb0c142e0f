"""What only a node can do that has a job: ENQUEUE and NACK.

Each node that has a copy does it when it is asked, and tells the others. Asked side by side they would all do it: the
job would be in several queues, and its failure counted by each. So one node is asked after another.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from disque.client import AsyncDisque, DisqueError, NodeInfo, NoPermError, UnavailableError
from disque.gateway import lookup
from disque.gateway.cluster import Cluster

#: What RESULT says of a job that is held back.
DELAYED: Final = "delayed"


async def run_now(cluster: Cluster, job_ids: Sequence[bytes]) -> int:
    """Put jobs that are held back into their queues, each at one node: how many.

    Raises DisqueError, also what a node refused if none was.
    """
    held = await held_back(cluster, list(dict.fromkeys(job_ids)))
    left = held
    refused: list[DisqueError] = []
    for node in await cluster.nodes() if held else []:
        if not left:
            break
        try:
            answers = await cluster.ask_at(node, enqueue(left))
        except DisqueError:
            continue  # it is down or hangs: another one may have copies
        refused += [answer for answer in answers if isinstance(answer, DisqueError)]
        left = [job_id for job_id, answer in zip(left, answers, strict=True) if answer != 1]
    if refused and len(left) == len(held):
        raise refused[0]
    return len(held) - len(left)


def enqueue(job_ids: Sequence[bytes]) -> Callable[[AsyncDisque], Awaitable[list[object]]]:
    """Asks a node: of each job 1, 0, or the error."""

    async def ask(client: AsyncDisque) -> list[object]:
        pipeline = client.pipeline()
        for job_id in job_ids:
            pipeline.enqueue(job_id)
        return await pipeline.execute(raise_on_error=False)

    return ask


async def held_back(cluster: Cluster, job_ids: list[bytes]) -> list[bytes]:
    """Those of some jobs that are held back: ENQUEUE delivers one that a consumer has a second time.

    While a node hangs nobody can tell, so it may be any of them; as where a node refuses to say: ENQUEUE says why.
    """

    async def ask() -> list[bytes]:
        pipeline = cluster.client.pipeline()
        for job_id in job_ids:
            pipeline.result(job_id)
        told = await pipeline.execute(raise_on_error=False)
        return [
            job_id
            for job_id, one in zip(job_ids, told, strict=True)
            if isinstance(one, DisqueError) or (one is not None and one.status == DELAYED)
        ]

    async def all_of_them() -> list[bytes]:
        return job_ids

    return await cluster.of_all(ask, all_of_them)


async def at_holder(cluster: Cluster, job_id: bytes, do: Callable[[AsyncDisque, bytes], Awaitable[int]]) -> int:
    """Do with a job what only a node that has it can do: where it is served, if the first node does not know it.

    Raises DisqueError.
    """
    done = await do(cluster.client, job_id)
    if done or cluster.client.router.count() == 1:
        return done
    failure: DisqueError | None = None
    for node in await nodes_to_ask(cluster, job_id):
        try:
            if done := await cluster.ask_at(node, lambda client: do(client, job_id)):
                return done
        except UnavailableError as error:
            failure = error
    if failure is not None:
        raise failure
    return 0


async def nodes_to_ask(cluster: Cluster, job_id: bytes) -> list[NodeInfo]:
    """Where a job is served; all nodes, if the user may not SHOW it. Raises DisqueError."""
    try:
        found = await lookup.served(cluster, job_id)
    except NoPermError:
        return await cluster.nodes()
    return [] if found is None else [found[0]]
