"""Takes jobs from the cluster: which queues are asked, in which order, for how many.

**Order.** With `strict`, queues are emptied in the order given. Otherwise each has a weight, and each fetch draws an
order at random in which a queue with weight 3 comes before one with weight 1 three times out of four; the first that
has jobs is taken from. So no queue starves.

**How many.** A worker that takes what it cannot begin keeps others from it; one that takes single jobs waits for each.
So it takes what it has room for and, ahead, what it does in a tenth of a second: that is nothing where jobs take long,
and hundreds where they are short. How fast it is, it learns.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final

from disque.client.config import Address, Config
from disque.client.delivery import Flow, deliver
from disque.client.requests import Request
from disque.client.router import Router
from disque.client.values import name_word, text_of
from disque.tasks.held import Held

#: Jobs are taken ahead for so long, but at most so many; and so many bytes at once.
AHEAD_S: Final = 0.1
AHEAD_MOST: Final = 1000
BYTES_MOST: Final = 8 << 20
#: How much of what was known of the speed is forgotten with each look.
FORGET: Final = 0.3
LOOK_S: Final = 0.05


class Order:
    """In which order queues are asked. ``weights`` are by the name of the queue."""

    def __init__(self, weights: Mapping[str, int], random: Random, *, strict: bool) -> None:
        if not weights:
            raise ValueError("there are no queues to take from: no task is registered, and none was named")
        for name, weight in weights.items():
            if weight < 1:
                raise ValueError(f"the weight of queue {name!r} must be at least 1, not {weight}")
        self.weights = dict(weights)
        self.strict = strict
        self._random = random

    def draw(self, without: frozenset[str] | set[str] = frozenset()) -> list[str]:
        """The queues to ask now, the first one first."""
        names = [name for name in self.weights if name not in without]
        if self.strict or len(names) < 2:
            return names
        # A draw without putting back: the least of exponentially distributed times.
        return sorted(names, key=lambda name: self._random.expovariate(self.weights[name]))


class Pace:
    """How many jobs are done in a second, and so how many to take ahead."""

    def __init__(self, most: int = AHEAD_MOST) -> None:
        self.most = most
        self.per_s = 0.0
        self._done = 0
        self._since_s = 0.0

    def done(self) -> None:
        """One more is done."""
        self._done += 1

    def ahead(self, now_s: float) -> int:
        """How many to take ahead."""
        passed_s = now_s - self._since_s
        if passed_s >= LOOK_S:
            rate = self._done / passed_s if self._since_s else 0.0
            keep = (1 - FORGET) ** min(passed_s / LOOK_S, 50)
            self.per_s = self.per_s * keep + rate * (1 - keep)
            self._done, self._since_s = 0, now_s
        return min(self.most, int(self.per_s * AHEAD_S))


def request(queues: Sequence[str], count: int, wait_ms: int, lease_s: float) -> Request[list[list[Any]]]:
    """Take up to ``count`` jobs; wait for the first for so long. Rows as they come."""
    words = [b"GETJOB", b"TIMEOUT", b"%d" % wait_ms, b"COUNT", b"%d" % count, b"BYTES", b"%d" % BYTES_MOST]
    words += [b"LEASE", b"%g" % lease_s, b"STRICT", b"WITHMETA", b"FROM", *map(name_word, queues)]
    return Request(words, rows, wait_ms=wait_ms)


def rows(reply: object) -> list[list[Any]]:
    """The rows of GETJOB; what they hold is looked at one by one."""
    if reply is None:
        return []
    if not isinstance(reply, list):
        raise TypeError("a list is expected")
    return reply


def flow(
    router: Router, config: Config, queues: Sequence[str], count: int, wait_ms: int, lease_s: float
) -> Flow[tuple[Address | None, list[list[Any]]]]:
    """Take jobs: the node that gave them, and their rows."""
    asked = request(queues, count, wait_ms, lease_s)
    parcel = asked.parcel()
    [reply] = yield from deliver(router, config, parcel)
    found = asked.value(reply)
    if config.affinity and found:
        router.saw_jobs(row[1].decode() for row in found)
    return parcel.answered_by, found


def held(row: list[Any], node: Address | None, lease_until_s: float) -> Held:
    """A job as it was delivered."""
    queue, job_id, body = row[0], row[1], row[2]
    return Held(job_id.decode(), text_of(queue), body, row[3] if len(row) > 3 else None, node, lease_until_s)
