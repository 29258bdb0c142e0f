"""Taking jobs out of a queue for Spark, holding them, and letting them go.

Each node is asked for what it has: nothing has to travel between nodes. When there is nothing, one node is asked to
wait, which makes the others send what they get. A node that does not answer is left out for a while: what
it has comes when it is back.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from disque.client import Disque, DisqueError, Job
from disque.client.config import Address
from disque.client.delivery import Reply
from disque.spark.commits import LOG
from disque.spark.connection import connect
from disque.spark.doors import PlainError
from disque.spark.nodes import Nodes, send
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


class Claims:
    """The jobs of one queue that this process has claimed. ``on_claim``, if set, is told of IDs as soon as they are."""

    def __init__(self, options: Options) -> None:
        assert options.queue is not None
        self.queue = options.queue
        self._options = options
        self.on_claim: Callable[[list[str]], None] | None = None
        self._client = connect(options)
        self._nodes = Nodes(self._client)
        self._holders = Nodes(self._client, patience_ms=BEAT_MS)  # of the heartbeat, which is another thread
        self._delivered_by: dict[str, Address | None] = {}

    # -- taking ----------------------------------------------------------------------------------------------------

    def take(self, most: int | None) -> list[Claimed]:
        """Take what is there, at most so many (None: all); wait for the first as long as `pollTimeoutMs` says.

        Raises ReadError when no node answers.
        """
        taken: dict[str, Claimed] = {}
        deadline_s = time.monotonic() + self._options.poll_timeout_ms / 1000
        self._round(taken, most)
        while not is_full(taken, most) and (left_s := deadline_s - time.monotonic()) > 0:
            came = self._wait(left_s if not taken else min(left_s, 0.1), most, len(taken))
            if not came:
                break
            self._note(came, taken)
            self._round(taken, most)
        return list(taken.values())

    def _round(self, taken: dict[str, Claimed], most: int | None) -> None:
        """Take what each node has. One that has nothing is not asked for jobs: it would fetch some from the others."""
        for address, length in self._lengths().items():
            try:
                self._empty(self._nodes.one(address), length, taken, most)
            except DisqueError as error:
                self._nodes.failed(address)
                LOG.warning("node %s:%d gives no jobs: %s", *address, error)

    def _empty(self, client: Disque, length: int, taken: dict[str, Claimed], most: int | None) -> None:
        """Take so many jobs of one node, in several steps."""
        until = len(taken) + length
        while len(taken) < until and not is_full(taken, most):
            jobs = client.get(self.queue, count=self._count(most, len(taken)), nohang=True)
            if not jobs:
                return
            self._note(jobs, taken)

    def _wait(self, seconds: float, most: int | None, taken: int) -> list[Job]:
        try:
            return self._client.get(self.queue, count=self._count(most, taken), timeout=seconds)
        except DisqueError as error:
            raise ReadError(f"queue {self.queue!r}: {error}") from None

    def _count(self, most: int | None, taken: int) -> int:
        size = min(self._options.fetch_size, COUNT_MOST)
        return size if most is None else min(size, most - taken)

    def _note(self, jobs: Sequence[Job], taken: dict[str, Claimed]) -> None:
        for job in jobs:
            self._delivered_by[job.id] = job.node
            taken[job.id] = Claimed(job.queue, job.id, job.body, job.nacks, job.additional_deliveries)
        if self.on_claim is not None:
            self.on_claim([job.id for job in jobs])

    def queued(self) -> int:
        """How many jobs are queued at the nodes that answer."""
        return sum(self._lengths().values())

    def _lengths(self) -> dict[Address, int]:
        """How many jobs are queued at each node that answers."""
        replies = self._nodes.ask_each(b"QLEN", self.queue.encode())
        return {address: reply for address, reply in replies.items() if isinstance(reply, int)}

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
            raise ReadError(f"queue {self.queue!r}: {len(ids)} jobs could not be acknowledged: {error}") from None
        self.forget(ids)

    def forget(self, ids: Iterable[str]) -> None:
        """Remember nothing of these jobs any more."""
        for one in ids:
            self._delivered_by.pop(one, None)

    # -- by ID -----------------------------------------------------------------------------------------------------

    def fetch(self, ids: Sequence[str]) -> list[Claimed]:
        """Fetch jobs that were claimed before, by a process that is gone; those that are done or gone are left out.

        So are at-most-once jobs, with RETRY 0: the process that is gone may have done them.
        Raises ReadError when some are not known while nodes are away: they may have them. They are not left out then,
        since with the others they would be acknowledged.
        """
        answers = self._nodes.about(ids, show, is_shown, self._nodes.maker())
        missing = [one for one in ids if one not in answers.known]
        if missing and answers.silent:
            away = ", ".join("{}:{}".format(*address) for address in answers.silent)
            raise ReadError(
                f"queue {self.queue!r}: {len(missing)} of {len(ids)} jobs of the last batch are not known to the nodes "
                f"that answer, and these do not answer: {away}. Start the query again when they are back"
            )
        there = [job for one in ids if (job := claimed(answers.known.get(one))) is not None]
        jobs = [job for job in there if not at_most_once(answers.known[job.id])]
        self._left_out(len(ids) - len(there), len(ids), "are acknowledged, expired or deleted")
        self._left_out(len(there) - len(jobs), len(ids), "are at-most-once (RETRY 0) and may have been processed")
        return jobs

    def _left_out(self, count: int, of: int, why: str) -> None:
        """Warn of jobs that a batch does not have any more."""
        if count:
            LOG.warning("queue %r: %d of %d jobs of the last batch %s, and are left out", self.queue, count, of, why)

    def close(self) -> None:
        """Close all connections."""
        self._nodes.close()
        self._holders.close()


def is_full(taken: dict[str, Claimed], most: int | None) -> bool:
    """Whether as many jobs as wanted are taken."""
    return most is not None and len(taken) >= most


def say_working(client: Disque, ids: Sequence[str]) -> list[Reply]:
    """WORKING for many jobs: the reply about each."""
    groups = [ids[at : at + GROUP] for at in range(0, len(ids), GROUP)]
    replies = send(client, [(b"WORKING", *(one.encode() for one in group)) for group in groups])
    return [answer for reply, group in zip(replies, groups, strict=True) for answer in spread(reply, len(group))]


def spread(reply: Reply, count: int) -> list[Reply]:
    """One reply of WORKING as a reply for each of so many jobs."""
    return reply if isinstance(reply, list) and len(reply) == count else [reply] * count


def is_settled(reply: Reply) -> bool:
    """Whether no other node would say more about a job: it holds it, or its time is over."""
    return isinstance(reply, int) or (isinstance(reply, Exception) and not str(reply).startswith("NOJOB"))


def show(client: Disque, ids: Sequence[str]) -> list[Reply]:
    """SHOW for many jobs. Raises the first error, which is about an ID that is none."""
    replies = send(client, [(b"SHOW", one.encode()) for one in ids])
    for reply in replies:
        if isinstance(reply, DisqueError):
            raise reply
    return replies


def is_shown(reply: Reply) -> bool:
    """Whether a node knows the job, be it that it is done."""
    return isinstance(reply, list)


def at_most_once(reply: Reply) -> bool:
    """Whether a reply of SHOW is about a job that must not be processed twice."""
    return isinstance(reply, list) and dict(zip(reply[::2], reply[1::2], strict=True))[b"retry"] == 0


def claimed(reply: Reply) -> Claimed | None:
    """The job out of a reply of SHOW; None if it is done."""
    if not isinstance(reply, list):
        return None
    shown = dict(zip(reply[::2], reply[1::2], strict=True))
    if shown[b"state"] == b"acked" or shown[b"body"] is None:
        return None
    return Claimed(
        shown[b"queue"].decode("utf-8", "surrogateescape"),
        shown[b"id"].decode(),
        shown[b"body"],
        shown[b"nacks"],
        shown[b"additional-deliveries"],
    )
