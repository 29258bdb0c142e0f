"""What has become of one job, wherever in the cluster it is."""

import asyncio
from typing import Final

from disque.client import DisqueError, NodeInfo, UnavailableError
from disque.client.ends import Result
from disque.client.replies import JobInfo
from disque.gateway import circuit
from disque.gateway.circuit import SilentError
from disque.gateway.cluster import Cluster

#: The states of a job at a node, by how much it knows: `active` may be a mere copy, and the end is heard of last.
KNOWLEDGE: Final = {"active": 1, "wait-repl": 2, "queued": 3, "acked": 4}


async def find(cluster: Cluster, job_id: bytes) -> JobInfo | None:
    """All that is known of a job, from the node that serves it; None if no node has it. Raises DisqueError.

    Several nodes may have a copy. Of a copy only the body and the terms are true: whether the job waits, who has it and
    how often it failed is known where it is served.
    """
    if cluster.client.router.count() == 1:
        return await cluster.client.show(job_id)
    found = await served(cluster, job_id)
    return None if found is None else found[1]


async def served(cluster: Cluster, job_id: bytes) -> tuple[NodeInfo, JobInfo] | None:
    """The node that serves a job, and what it knows of it; None if no node has it. Raises DisqueError."""
    answers = await cluster.at_each(lambda client: client.show(job_id))
    found = [(node, info) for node, info in answers if isinstance(info, dict)]
    if not found:
        for _, answer in answers:
            if isinstance(answer, DisqueError) and answer.code != UnavailableError.code:
                raise answer
    return max(found, key=lambda one: knowledge(one[1]), default=None)


def knowledge(info: JobInfo) -> tuple[int, int, int]:
    """How much a node knows of a job, to be compared.

    Of several that say `active` the one that serves it has heard of more failures, and puts it back before the others.
    """
    numbers = {name: one for name in ("nacks", "additional_deliveries") if isinstance(one := info.get(name), int)}
    back_ms = info.get("next_requeue_within")
    return KNOWLEDGE.get(str(info.get("state")), 0), sum(numbers.values()), -back_ms if isinstance(back_ms, int) else 0


async def fate(cluster: Cluster, job_id: bytes) -> Result | None:
    """What has become of a job; None if no node knows it.

    Raises DisqueError, and SilentError where only a node that hangs may know it.
    """

    async def ask() -> Result | None:
        return await cluster.client.result(job_id)

    async def ask_in_short() -> Result | None:
        try:
            async with asyncio.timeout(circuit.PATIENCE_S):
                return await ask()
        except TimeoutError:
            raise SilentError("what has become of it may be known to a node that does not answer") from None

    return await cluster.of_all(ask, ask_in_short)
