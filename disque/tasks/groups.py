"""Many jobs at once, and something when all of them are done: `App.group`.

A group has no state of its own anywhere. Its members are jobs whose ends are kept (RETAIN), and beside them there is
one more job, the collector: a call of a task that every worker has. The collector asks how the members have ended
(WAITJOB). If some have not, it snoozes, which uses up no try, at first shortly and then for a quarter of the time that
the group has taken so far, half a minute at most. If all are done it returns their results as a list, and what comes
after it in the chain gets that list. If one has failed for good, or nobody remembers how it ended, the collector is a
dead letter whose error names it: after the member was put right and revived, revive the collector.

What the app says for tasks is not meant for the collector: a timeout of a second would end its looks, a single try or a
short life would lose what comes after the group. So it has tries and a timeout of its own, and lives as long as the
members may, 30 days at least: then it can tell of those that have expired.

docs/decisions/groups.md says why not a counter.
"""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Concatenate, Final, Generic, ParamSpec, Protocol, TypeVar, cast

from disque.client import Ended
from disque.client.limits import WORD
from disque.tasks.convert import Load, part
from disque.tasks.door import Door
from disque.tasks.errors import Dead, Snooze, seconds
from disque.tasks.handle import LOST, Job
from disque.tasks.message import Message, read
from disque.tasks.options import TTL_S, Options
from disque.tasks.task import AsyncTask, Bound, Call, Link, Sender, Task

P = ParamSpec("P")
Q = ParamSpec("Q")
S = TypeVar("S")
R_co = TypeVar("R_co", covariant=True)

#: The task of collectors.
NAME: Final = "disque:group"
#: Ends of members are kept for so long, unless they say themselves for how long.
RETAIN_S: Final = 86_400
#: IDs in one WAITJOB, and in the first, which shows how long results are.
IDS_MOST: Final = 1000
FIRST: Final = 64
#: Bytes of results in one reply: so long the others of a group are thought to be as those that are there, of
#: which they are twice as many at most.
REPLY_BYTES: Final = 16 << 20
#: Results that are longer together may be too long for one job: then nodes are asked.
UNASKED_BYTES: Final = 1 << 20
#: How long it waits: a quarter of the time, too. Servers need a second to be sure that none of them knows a job, so the
#: longest is longer; the first ones are short, since a look takes a place in the worker that members may need.
WAIT_LEAST_S: Final = 0.5
WAIT_MOST_S: Final = 2.0
#: Between two looks.
SOONEST_S: Final = 0.2
LATEST_S: Final = 30.0


class Grouping(Sender, Protocol):
    """What a group needs of its app."""

    builtins: dict[str, Task[Any, Any]]

    async def enqueue_many(self, calls: Iterable[Bound[S]]) -> list[Job[S]]:
        """Add the jobs of many calls."""

    def now_s(self) -> float:
        """The time of day."""


class Collector(AsyncTask[..., Any]):
    """The task that collects. What comes next has the list: it is not kept beside that, where it could be too long."""

    __slots__ = ()

    def message(self, bound: Bound[Any], then: list[dict[str, Any]] | None) -> Message:
        """See `Task.message`."""
        said = super().message(bound, then)
        return said._replace(result=said.result and not then)


def collector(app: Grouping, door: Callable[[], Door], clock: Callable[[], float], options: Options) -> Task[..., Any]:
    """The task of an app that collects. ``options`` are its own, whatever those of the app are."""

    async def collect(ids: list[str], since: float) -> list[Any]:
        known = await ends(door(), ids, within(WAIT_LEAST_S, (clock() - since) / 4, WAIT_MOST_S))
        if known is None:
            raise Snooze(within(SOONEST_S, (clock() - since) / 4, LATEST_S), "members of the group still run")
        failed = [one for one in known if not one.done]
        if failed:
            raise Dead(f"{len(failed)} of {len(known)} jobs of the group have not succeeded: {told(failed[0])}")
        return [None if one.result is None else read(one.result) for one in known]

    return Collector(app, collect, NAME, options)


async def ends(door: Door, ids: Sequence[str], wait_s: float) -> list[Ended] | None:
    """How jobs have ended, None if some have not. Raises Dead when the results are too long for a job that has all."""
    ended: list[Ended] = []
    size, most = 0, float(UNASKED_BYTES)
    while len(ended) < len(ids):
        at = len(ended)
        count = min(max(1, REPLY_BYTES * at // (size + 1)), 2 * at, IDS_MOST) if at else FIRST
        for one in await door.wait(ids[at : at + count], wait_s):
            if one is None:
                return None
            ended.append(one)
            size += len(one.result or b"")
        if size > most:
            most = await door.longest() or math.inf
        if size > most:
            raise Dead(
                f"the results of the first {len(ended)} of {len(ids)} jobs of the group have {size} bytes,"
                f" and the nodes take {most:.0f} at most in one job ({WORD}): return where the data is, not the data"
            )
    return ended


def within(least: float, value: float, most: float) -> float:
    """The value, or the limit that it is beyond."""
    return min(max(value, least), most)


def told(ended: Ended) -> str:
    """How a member has ended that has not succeeded, as far as that is known."""
    why = ended.error
    if ended.status in LOST:
        why = "no node remembers how it ended; the retain of members must be longer than the group takes"
    return f"{ended.id} is {ended.status}" + (f": {why}" if why else "")


@dataclass(frozen=True, slots=True)
class Gathering(Bound[R_co]):
    """The call of a collector. Its result is a list of values without types: ``loads`` says what members give."""

    loads: tuple[Load | None, ...] = field(default=())

    def _value(self, result: bytes | None) -> object:
        """See `Bound._value`. What the last task of a chain has returned was read by that one's annotation."""
        value = Bound._value(self, result)  # noqa: SLF001 - super() does not know classes with slots
        if self.links or not isinstance(value, list):
            return value
        pairs = zip(self.loads, value, strict=False)
        return [None if one is None else part(load, one, f"[{at}]") for at, (load, one) in enumerate(pairs)]


@dataclass(frozen=True, slots=True)
class Group(Generic[R_co]):
    """Calls that run side by side. ``R_co`` is what its handle gives: the list of results, or what the chain gives."""

    app: Grouping
    members: tuple[Bound[Any], ...]
    links: tuple[Link, ...] = field(default=())

    def then(self, task: "Call[Concatenate[R_co, Q], S]", /, *args: Q.args, **kwargs: Q.kwargs) -> "Group[S]":
        """Call ``task`` when all have succeeded, with the list of their results first. See `Bound.then`."""
        following: Bound[Any] = Bound(task.task, task.options, args, kwargs)
        return replace(cast("Group[S]", self), links=(*self.links, Link(following, takes=True)))

    async def enqueue(self) -> Job[R_co]:
        """Add all jobs, and the one that collects: its handle.

        When this raises, some members may have been added, and run; what comes after them does not.
        """
        since = self.app.now_s()
        jobs = await self.app.enqueue_many(self.members)
        queue = self.links[0].bound.queue if self.links else self.members[0].queue
        ttl_s = max(TTL_S, *(seconds(one.options.life(), "ttl") for one in self.members))
        kept = Options(queue=queue, ttl=ttl_s, retain=None if self.links else RETAIN_S)
        task = self.app.builtins[NAME]
        args = ([job.id for job in jobs], since)
        loads = tuple(one.task.shape.result for one in self.members)
        bound: Bound[Any] = Gathering(task, kept.over(task.options), args, {}, self.links, loads)
        return cast("Job[R_co]", await bound.enqueue())


def group(app: Grouping, calls: Iterable[Bound[S]]) -> "Group[list[S]]":
    """A group of calls. Raises ValueError for none, and for chains."""
    members = []
    for one in calls:
        if one.links:
            raise ValueError("a member of a group cannot be a chain")
        kept = one.options.keeps()
        members.append(one if kept else replace(one, options=replace(one.options, retain=RETAIN_S)))
    if not members:
        raise ValueError("a group needs members")
    return Group(app, tuple(members))


def now_s() -> float:
    """The time of day: how long a group has taken is counted by it, and nothing else."""
    return time.time()
