"""Counts the jobs of each queue that are delayed or in flight, for those who ask.

A job counts at the node that speaks for it: the one that delivered it, was told NACK or made it with a delay. So it
counts once in a cluster. One that nobody speaks for any more, since that node is gone, counts when it is queued again.

All jobs must be looked at, and all queues are counted together: at once where there are few jobs, else in a chore, and
not again for `FRESH_MS`.
"""

from typing import TYPE_CHECKING, Final

from disque.core.model.census import NEVER_MADE
from disque.core.model.job import ACTIVE, SPOKEN, Job, is_in_flight
from disque.core.model.queue import ELSEWHERE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from disque.core.model.survey import Asked
    from disque.core.node import Node

#: So many jobs are looked at at once; in one step of a chore.
AT_ONCE = 1000  # not Final: tests want less, compiled too
STEP = 2000  # not Final: tests want less, compiled too
#: A count is good for so long.
FRESH_MS: Final = 1000
#: Queues that are counted although nobody has asked for them yet.
QUEUES_MOST = 10_000  # not Final: tests want less, compiled too


def is_counted(node: "Node", name: bytes, now_ms: int) -> bool:
    """Whether there is a count of this queue that is good enough; made now if that takes no time."""
    census = node.census
    if not census.running and node.jobs_registered() <= AT_ONCE:
        census.delayed, census.in_flight = {}, {}
        census.made_ms = NEVER_MADE
        for shard in node.shards:
            if shard:
                tally(node, shard, frozenset((name,)))
        return True
    if census.made_ms < 0 or now_ms - census.made_ms >= FRESH_MS:
        return False
    return is_whole(node) or name in census.delayed or name in census.in_flight


def is_whole(node: "Node") -> bool:
    """Whether all queues were counted."""
    return max(len(node.census.delayed), len(node.census.in_flight)) < QUEUES_MOST


def wait(node: "Node", asked: "Asked", then: "Callable[[Node, Asked, int], None]", now_ms: int) -> None:
    """Call ``then`` for this question, whose first word is the name of a queue, when there is a new count."""
    node.census.waiting.append(asked)
    if not node.census.running:
        node.census.running = True
        node.begin_chore(count(node, then, now_ms))


def count(node: "Node", then: "Callable[[Node, Asked, int], None]", now_ms: int) -> "Iterator[None]":
    """Count, and answer those who wait; go on while there are some whose queue was not counted."""
    census = node.census
    while census.waiting:
        names = frozenset([asked.words[0] for asked in census.waiting])
        census.delayed, census.in_flight = {}, {}
        census.made_ms = NEVER_MADE
        looked = 0
        for shard in node.shards:
            tally(node, shard, names)
            looked += len(shard) + 1
            if looked >= STEP:
                looked = 0
                yield
        now_ms = max(now_ms, node.beat_ms)
        census.made_ms = now_ms
        all_there = is_whole(node)
        waiting, census.waiting = census.waiting, []
        for asked in waiting:
            if all_there or asked.words[0] in names:
                then(node, asked, now_ms)
            else:
                census.waiting.append(asked)
        yield
    census.running = False


def is_out(job: Job) -> bool:
    """Whether this node speaks for a job outside its queue."""
    return job.state == ACTIVE and job.flags & SPOKEN != 0 and job.place < ELSEWHERE


def tally(node: "Node", shard: dict[bytes, Job], names: frozenset[bytes]) -> None:
    """Count some jobs."""
    delayed, in_flight = node.census.delayed, node.census.in_flight
    for job in shard.values():
        if is_out(job):
            table = in_flight if is_in_flight(job) else delayed
            name = job.spec.queue
            known = table.get(name)
            if known is not None:
                table[name] = known + 1
            elif len(table) < QUEUES_MOST or name in names:
                table[name] = 1
