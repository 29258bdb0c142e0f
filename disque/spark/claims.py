"""Taking jobs out of a queue for Spark, holding them, and releasing them.

Each node is asked for its own jobs, so nothing has to travel between nodes. When there is nothing, one node is asked to
wait, and the others send it what they get. A node that does not answer is left out for a while. Its jobs come when it
is back.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from disque.client import Disque, DisqueError
from disque.client.config import Address
from disque.client.delivery import Parcel, Reply, deliver
from disque.client.errors import is_out_of_reach
from disque.client.packing import pack
from disque.client.requests import say, working
from disque.spark.commits import LOG
from disque.spark.connection import connect
from disque.spark.doors import PlainError
from disque.spark.nodes import Nodes
from disque.spark.options import Options
from disque.spark.partitions import Claimed

#: Requests about so many jobs travel together.
GROUP: Final = 1000
#: The most that the heartbeat waits for a node. One that hangs must not keep it from what others hold.
BEAT_MS: Final = 1500
#: GETJOB gives no more at once.
COUNT_MOST: Final = 10_000


class ReadError(PlainError, RuntimeError):
    """Jobs that could not be read."""


class Taken:
    """What one `take` has taken, and how much more it may take (None: any number, any size)."""

    def __init__(self, most: int | None, most_bytes: int | None = None) -> None:
        self.jobs: dict[str, Claimed] = {}
        self.size = 0
        self._most = most
        self._most_bytes = most_bytes

    def add(self, jobs: Iterable[tuple[Claimed, int]]) -> None:
        """Note jobs and their sizes."""
        for job, size in jobs:
            self.jobs[job.id] = job
            self.size += size

    def is_full(self) -> bool:
        """Whether there is as much as wanted."""
        if self._most is not None and len(self.jobs) >= self._most:
            return True
        return self._most_bytes is not None and self.size >= self._most_bytes

    def bounds(self, fetch_size: int) -> tuple[bytes, ...]:
        """What a GETJOB may take, as its words."""
        count = min(fetch_size, COUNT_MOST)
        if self._most is not None:
            count = min(count, self._most - len(self.jobs))
        words = (b"COUNT", b"%d" % count)
        return words if self._most_bytes is None else (*words, b"BYTES", b"%d" % (self._most_bytes - self.size))


class Claims:
    """The jobs of some queues that this process has claimed, with or without their bodies.

    ``on_claim``, if set, is told of IDs as soon as they are.
    """

    def __init__(self, options: Options, *, bodies: bool) -> None:
        self.what = named(options.sources)
        self._queues = tuple(name.encode() for name in options.sources)
        self._bodies = bodies
        self._options = options
        self.on_claim: Callable[[list[str]], None] | None = None
        self._client = connect(options)
        self._nodes = Nodes(self._client)
        self._holders = Nodes(self._client, patience_ms=BEAT_MS)  # of the heartbeat, which is another thread
        self._delivered_by: dict[str, Address | None] = {}

    # -- taking ----------------------------------------------------------------------------------------------------

    def take(self, most: int | None, most_bytes: int | None = None) -> list[Claimed]:
        """Take what is there, at most so many (None: all); wait for the first as long as `pollTimeoutMs` says.

        The last job is that with which there are ``most_bytes``. Raises ReadError when no node answers.
        """
        taken = Taken(most, most_bytes)
        deadline_s = time.monotonic() + self._options.poll_timeout_ms / 1000
        self._round(taken)
        while not taken.is_full() and (left_s := deadline_s - time.monotonic()) > 0:
            if not self._wait(left_s if not taken.jobs else min(left_s, 0.1), taken):
                break
            self._round(taken)
        return list(taken.jobs.values())

    def _round(self, taken: Taken) -> None:
        """Take what each node has. One that has nothing is not asked for jobs: it would fetch some from the others."""
        for address, length in self._lengths().items():
            try:
                self._empty(address, length, taken)
            except DisqueError as error:
                self._nodes.failed(address)
                LOG.warning("node %s:%d gives no jobs: %s", *address, error)

    def _empty(self, address: Address, length: int, taken: Taken) -> None:
        """Take so many jobs of one node, in several steps. Raises DisqueError."""
        until = len(taken.jobs) + length
        while len(taken.jobs) < until and not taken.is_full():
            if not self._get(self._nodes.one(address), (b"NOHANG",), 0, taken):
                return

    def _wait(self, seconds: float, taken: Taken) -> int:
        wait_ms = max(1, round(seconds * 1000))
        try:
            return self._get(self._client, (b"TIMEOUT", b"%d" % wait_ms), wait_ms, taken)
        except DisqueError as error:
            raise ReadError(f"{self.what}: {error}") from None

    def _get(self, client: Disque, how: tuple[bytes, ...], wait_ms: int, taken: Taken) -> int:
        """One GETJOB: how many jobs there were. Raises DisqueError."""
        bounds = taken.bounds(self._options.fetch_size)
        bodies = () if self._bodies else (b"NOBODY",)
        words = (b"GETJOB", *how, *bounds, b"WITHCOUNTERS", *bodies, b"FROM", *self._queues)
        parcel = Parcel([pack(words)], wait_ms)
        [reply] = client.drive(deliver(client.router, client.config, parcel))
        if isinstance(reply, DisqueError):
            raise reply
        jobs = [delivered(row) for row in reply] if isinstance(reply, list) else []
        taken.add(jobs)
        ids = [job.id for job, _ in jobs]
        self._delivered_by.update(dict.fromkeys(ids, parcel.answered_by))
        if self.on_claim is not None:
            self.on_claim(ids)
        return len(jobs)

    def queued(self) -> int:
        """How many jobs are queued at the nodes that answer.

        Raises ReadError if one refuses to say that, and if none answers.
        """
        replies = self._nodes.ask_all([(b"QLEN", queue) for queue in self._queues])
        lengths = [reply for row in replies.values() for reply in row]
        errors = [reply for reply in lengths if isinstance(reply, DisqueError)]
        if errors or not lengths:
            why = errors[0] if errors else "no node answers"
            raise ReadError(f"{self.what}: how many jobs there are is not known: {why}")
        return sum(one for one in lengths if isinstance(one, int))

    def _lengths(self) -> dict[Address, int]:
        """How many jobs are queued at each node that answers."""
        replies = self._nodes.ask_all([(b"QLEN", queue) for queue in self._queues])
        return {address: sum(one for one in row if isinstance(one, int)) for address, row in replies.items()}

    def lag(self) -> dict[str, int]:
        """How many jobs are queued at the nodes that answer, and how old the oldest is, in ms. Raises DisqueError."""
        rows = self._nodes.ask_all([(b"QSTAT", queue) for queue in self._queues]).values()
        stats = [dict(zip(one[::2], one[1::2], strict=True)) for row in rows for one in row if isinstance(one, list)]
        oldest = max((stat[b"oldest-ms"] for stat in stats), default=0)
        return {"queued": sum(stat[b"len"] for stat in stats), "oldestMs": oldest}

    # -- holding and letting go ------------------------------------------------------------------------------------

    def working(self, ids: Sequence[str]) -> dict[str, int | None]:
        """Say WORKING: the RETRY of each job, None if it is gone or too old for that, nothing if nobody can tell."""
        answers = self._holders.about(ids, say_working, is_settled, self._delivered_by.get)
        answered = {one: reply if isinstance(reply, int) else None for one, reply in answers.known.items()}
        if not answers.silent:
            answered |= dict.fromkeys((one for one in ids if one not in answered), None)
        return answered

    def acknowledge(self, ids: Sequence[str]) -> None:
        """These jobs are done. Raises ReadError when no node can be told."""
        try:
            self._client.ack_many(ids)
        except DisqueError as error:
            if not is_out_of_reach(error):
                raise ReadError(f"{self.what}: {len(ids)} jobs could not be acknowledged: {error}") from None
            LOG.warning("%s: jobs that are in another queue by now are not acknowledged: %s", self.what, error)
        self.forget(ids)

    def forget(self, ids: Iterable[str]) -> None:
        """Remember nothing of these jobs any more."""
        for one in ids:
            self._delivered_by.pop(one, None)

    def close(self) -> None:
        """Close all connections."""
        self._nodes.close()
        self._holders.close()


def named(queues: Sequence[str]) -> str:
    """The queues, for a message."""
    return f"queue {queues[0]!r}" if len(queues) == 1 else f"queues {', '.join(map(repr, queues))}"


def delivered(row: Any) -> tuple[Claimed, int]:  # noqa: ANN401 - a row of GETJOB
    """A job of GETJOB WITHCOUNTERS, and its size with the name of its queue, as BYTES counts.

    Where NOBODY was said, its body is empty.
    """
    queue, job_id, body, _, nacks, _, deliveries = row
    size = len(queue) + (body if isinstance(body, int) else len(body))
    name = queue.decode("utf-8", "surrogateescape")
    return Claimed(name, job_id.decode(), b"" if isinstance(body, int) else body, nacks, deliveries), size


def say_working(client: Disque, ids: Sequence[str]) -> list[Reply]:
    """WORKING for many jobs: the reply about each."""
    groups = [ids[at : at + GROUP] for at in range(0, len(ids), GROUP)]
    said = client.drive(say(client.router, client.config, groups, lambda group: working(client.config, *group)))
    answers = {
        one: answer for group, reply in said for one, answer in zip(group, spread(reply, len(group)), strict=True)
    }
    return [answers[one] for one in ids]


def spread(reply: Reply, count: int) -> list[Reply]:
    """One reply of WORKING as a reply for each of so many jobs."""
    return reply if isinstance(reply, list) and len(reply) == count else [reply] * count


def is_settled(reply: Reply) -> bool:
    """Whether no other node would say more about a job: it holds it, or its time is over."""
    return isinstance(reply, int) or (isinstance(reply, Exception) and not str(reply).startswith("NOJOB"))
