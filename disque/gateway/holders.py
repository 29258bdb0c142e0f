"""What only a node can do that has a job: ENQUEUE and NACK.

Each node that has a copy does it when it is asked, and tells the others. Asked side by side they would all do it: the
job would be in several queues (see `held`), and its failure counted by each. So one node is asked after another.
"""

from collections.abc import Awaitable, Callable, Sequence

from disque.client import AsyncDisque, DisqueError, NodeInfo, NoPermError, UnavailableError, held
from disque.gateway import lookup
from disque.gateway.cluster import Cluster


async def run_now(cluster: Cluster, job_ids: Sequence[bytes]) -> int:
    """Put jobs that are held back into their queues, each at one node: how many.

    While a node hangs nobody can tell which are held back: then any of them may be. Raises DisqueError, also what a
    node refused, or that it does not answer, if no job was put into its queue.
    """

    async def ask() -> list[bytes]:
        return await held.held_back(cluster.client, job_ids)

    async def all_of_them() -> list[bytes]:
        return list(dict.fromkeys(job_ids))

    async def at(node: NodeInfo, ids: list[bytes]) -> list[object]:
        return await cluster.ask_at(node, lambda client: held.enqueue(client, ids))

    found = await cluster.of_all(ask, all_of_them)
    return await held.run_now(found, await cluster.nodes(), at) if found else 0


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
