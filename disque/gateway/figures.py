"""Figures of queues at all nodes. While no node hangs they are exact; else they are the sums of what nodes say.

A list of queues is always such a sum, one parcel for each node: to have each queue asked about everywhere would cost
nodes much more. A sum has the longest of the times of the nodes (`wait-p95-ms` and its like), which is no less than
the one of all jobs.
"""

from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

from disque.client import AsyncDisque, DisqueError, NodeInfo
from disque.client.admin import queue_stat
from disque.client.delivery import Parcel, deliver
from disque.client.packing import pack
from disque.client.replies import History, JobInfo
from disque.gateway.cluster import Cluster

#: Numbers of which the greatest counts, or the least; others are added.
TIMES: Final = [f"{what}_p{percent}_ms" for what in ("wait", "run") for percent in (50, 95, 99)]
GREATEST: Final = frozenset({"age", "oldest_ms", *TIMES})
LEAST: Final = "idle"
#: Pauses as bits, by the word in QSTAT.
PAUSES: Final = {"none": 0, "in": 1, "out": 2, "all": 3}
WORDS: Final = {bits: word for word, bits in PAUSES.items()}

Figures = JobInfo
Value = str | int | bytes | list[str] | dict[str, str] | None
T = TypeVar("T")


async def of_queue(cluster: Cluster, name: str) -> Figures | None:
    """Figures of a queue; None if no node has any. Raises DisqueError."""

    async def exact() -> Figures | None:
        return await cluster.client.queue_stat(name, cluster=True)

    async def sum_of_all() -> Figures | None:
        [found] = await sums(cluster, [name])
        return found

    return await cluster.of_all(exact, sum_of_all)


async def of_queues(cluster: Cluster, names: Sequence[str]) -> list[Figures]:
    """Figures of several queues, each with its name. Raises DisqueError."""
    found = await sums(cluster, names)
    return [{**(one or {}), "name": name} for name, one in zip(names, found, strict=True)]


async def sums(cluster: Cluster, names: Sequence[str]) -> list[Figures | None]:
    """The sums of what nodes say of some queues. Raises DisqueError, if none says anything."""
    if not names:
        return []

    async def ask(client: AsyncDisque) -> list[Figures | None]:
        asked = [queue_stat(client.config, name) for name in names]
        parcel = Parcel([pack(one.words) for one in asked])
        replies = await client.drive(deliver(client.router, client.config, parcel))
        return [one.value(reply) for one, reply in zip(asked, replies, strict=True)]

    answers = await cluster.at_each(ask)
    told = told_by(answers)
    unreachable = [node.id for node, answer in answers if isinstance(answer, DisqueError)]
    found = [merged([one[at] for one in told]) for at in range(len(names))]
    for one in found:
        if one is not None:
            one["nodes"], one["unreachable"] = len(told), unreachable
    return found


def told_by(answers: "Sequence[tuple[NodeInfo, T | DisqueError]]") -> list[T]:
    """What nodes have said. Raises the DisqueError of one, if none has said anything."""
    told = [answer for _, answer in answers if not isinstance(answer, DisqueError)]
    if answers and not told:
        raise next(answer for _, answer in answers if isinstance(answer, DisqueError))
    return told


def merged(told: Iterable[Figures | None]) -> Figures | None:
    """What several nodes say of a queue as one; None if none knows it."""
    known = [one for one in told if one is not None]
    if not known:
        return None
    total = dict(known[0])
    for one in known[1:]:
        total = {name: both(name, value, one.get(name)) for name, value in total.items()}
    return total


def both(name: str, mine: Value, other: Value) -> Value:
    """One value of two nodes; None where one does not know it, being of another version."""
    if isinstance(mine, int) and isinstance(other, int):
        if name in GREATEST:
            return max(mine, other)
        return min(mine, other) if name == LEAST else mine + other
    if isinstance(mine, list) and isinstance(other, list):
        return [*mine, *[one for one in other if one not in mine]]
    if name == "pause":
        return WORDS[PAUSES.get(str(mine), 0) | PAUSES.get(str(other), 0)]
    return mine


async def length(cluster: Cluster, name: bytes) -> int:
    """How many jobs wait in a queue. Raises DisqueError."""

    async def exact() -> int:
        return await cluster.client.queue_length(name, cluster=True)

    async def sum_of_all() -> int:
        answers = await cluster.at_each(lambda client: client.queue_length(name))
        return sum(told_by(answers))

    return await cluster.of_all(exact, sum_of_all)


async def history(cluster: Cluster, name: str, unit: str) -> History | None:
    """What happened in a queue, by minute, hour or day; None if no node has any. Raises DisqueError."""

    async def exact() -> History | None:
        return await cluster.client.queue_history(name, unit, cluster=True)

    async def sum_of_all() -> History | None:
        answers = await cluster.at_each(lambda client: client.queue_history(name, unit))
        return merged_history([one for one in told_by(answers) if one is not None])

    return await cluster.of_all(exact, sum_of_all)


def merged_history(told: Sequence[History]) -> History | None:
    """What happened at several nodes. One whose newest time is over already is a step behind the others."""
    if not told:
        return None
    newest = max(told, key=begin_of)
    total = {name: list(value) if isinstance(value, list) else value for name, value in newest.items()}
    for one in told:
        step = one["seconds"]
        if one is newest or not isinstance(step, int):
            continue
        late = (begin_of(newest) - begin_of(one)) // max(1, step)
        for name, counts in total.items():
            others = one.get(name)
            if isinstance(counts, list) and isinstance(others, list):
                for at, value in enumerate(others[late:]):
                    mine = counts[at]
                    if isinstance(mine, int) and isinstance(value, int):
                        counts[at] = mine + value
    return total


def begin_of(one: History) -> int:
    """When the first of its times began."""
    begin = one["begin"]
    return begin if isinstance(begin, int) else 0
