"""Fetching jobs by their IDs, in the tasks of a stream.

The driver has claimed the jobs and noted their IDs. Each task asks SHOW for those of its partition: first the node that
made a job, then the others. Jobs that were acknowledged, expired or deleted meanwhile are left out, and so are those in
a queue to which the user has no right. If some are not known while nodes are away that may have them, the task waits up
to `backoffMs`, and then fails: otherwise they would be acknowledged with the others.

A batch may have been begun before, by a process that is gone. Then at-most-once jobs (RETRY 0) are left out, too, since
they may have been processed.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

from disque.client import Disque, DisqueError
from disque.client.config import Address
from disque.client.delivery import Reply
from disque.client.errors import is_out_of_reach
from disque.client.replies import pairs
from disque.spark.claims import ReadError, named
from disque.spark.commits import LOG
from disque.spark.connection import connect
from disque.spark.nodes import PAUSE_S, Nodes, patiently, send
from disque.spark.options import Options
from disque.spark.partitions import Claimed, IdsPartition

#: Jobs that are asked for together: few at first, since nobody knows how large they are.
FIRST: Final = 16
MOST: Final = 1000
#: Bodies that a task wants in memory at a time.
CHUNK_BYTES: Final = 8_000_000
#: From the time of creation in SHOW, which also counts, to microseconds.
CTIME_A_US: Final = 1000


def fetch(partition: IdsPartition, options: Options) -> Iterator[list[Claimed]]:
    """Give the jobs of a partition, some at a time. Raises ReadError."""
    if not partition.ids:
        return
    what = named(options.sources)
    with connect(options) as client:
        nodes = Nodes(client)
        try:
            fetcher = Fetcher(nodes, options, what)
            yield from fetcher.jobs(partition)
            fetcher.report(len(partition.ids))
        except DisqueError as error:
            raise ReadError(f"{what}: {error}") from None
        finally:
            nodes.close_others()


class Fetcher:
    """Fetches jobs, and counts those that are left out."""

    def __init__(self, nodes: Nodes, options: Options, what: str) -> None:
        self._nodes = nodes
        self._patience_s = options.backoff_ms / 1000
        self._what = what
        #: With poisonTries, jobs in other queues are dead letters, and not acknowledged with the batch.
        self._queues = frozenset(options.sources) if options.poison_tries else None
        self._gone = 0
        self._spent = 0

    def jobs(self, partition: IdsPartition) -> Iterator[list[Claimed]]:
        """Give the jobs of a partition, in its order. Raises ReadError, DisqueError."""
        maker = patiently(self._nodes.maker, self._patience_s)
        ids, at, count = partition.ids, 0, FIRST
        while at < len(ids):
            some = ids[at : at + count]
            found = shown_to_all(self._nodes, some, maker, self._patience_s, self._what)
            jobs = [job for one in some if (job := claimed(found.get(one))) is not None and self._is_ours(job)]
            kept = [job for job in jobs if not (partition.again and at_most_once(found[job.id]))]
            self._gone += len(some) - len(jobs)
            self._spent += len(jobs) - len(kept)
            yield kept
            at += len(some)
            average = sum(len(job.body) for job in jobs) // max(1, len(jobs))
            count = max(1, min(MOST, 8 * count, CHUNK_BYTES // max(1, average)))

    def _is_ours(self, job: Claimed) -> bool:
        return self._queues is None or job.queue in self._queues

    def report(self, of: int) -> None:
        """Warn of jobs that were left out."""
        for count, why in (
            (self._gone, "are acknowledged, expired, deleted or in another queue"),
            (self._spent, "are at-most-once (RETRY 0) and may have been processed"),
        ):
            if count:
                LOG.warning("%s: %d of %d jobs of the batch %s, and are left out", self._what, count, of, why)


def shown_to_all(
    nodes: Nodes, ids: Sequence[str], maker: Callable[[str], Address | None], patience_s: float, what: str
) -> dict[str, Reply]:
    """What SHOW says of jobs. Nodes that are away are waited for if they may know more. Raises ReadError."""
    until_s = time.monotonic() + patience_s
    known: dict[str, Reply] = {}
    while True:
        left = [one for one in ids if one not in known]
        answers = patiently(partial(nodes.about, left, show, is_shown, maker), until_s - time.monotonic())
        known |= answers.known
        missing = len(ids) - len(known)
        if not missing or not answers.silent:
            return known
        if time.monotonic() >= until_s:
            away = ", ".join("{}:{}".format(*address) for address in answers.silent)
            raise ReadError(
                f"{what}: {missing} of {len(ids)} jobs of the batch are not known to the nodes that answer, "
                f"and these do not answer: {away}. Start the query again when they are back"
            )
        time.sleep(PAUSE_S)


def show(client: Disque, ids: Sequence[str]) -> list[Reply]:
    """SHOW for many jobs. Raises the first error, of an ID that is none, or of a user who may show no jobs."""
    replies = send(client, [(b"SHOW", one.encode()) for one in ids])
    for reply in replies:
        if isinstance(reply, DisqueError) and not is_out_of_reach(reply):
            raise reply
    return replies


def is_shown(reply: Reply) -> bool:
    """Whether a node knows the job, be it that it is done, or in a queue to which the user has no right."""
    return isinstance(reply, list) or is_out_of_reach(reply)


def at_most_once(reply: Reply) -> bool:
    """Whether a reply of SHOW is about a job that must not be processed twice."""
    return isinstance(reply, list) and fields(reply)[b"retry"] == 0


def fields(reply: list[Any]) -> dict[bytes, Any]:
    """A reply of SHOW by names."""
    return dict(zip(reply[::2], reply[1::2], strict=True))


def claimed(reply: Reply) -> Claimed | None:
    """The job out of a reply of SHOW; None if it is done."""
    if not isinstance(reply, list):
        return None
    shown = fields(reply)
    if shown[b"state"] == b"acked" or shown[b"body"] is None:
        return None
    return Claimed(
        shown[b"queue"].decode("utf-8", "surrogateescape"),
        shown[b"id"].decode(),
        shown[b"body"],
        shown[b"nacks"],
        shown[b"additional-deliveries"],
        shown[b"ctime"] // CTIME_A_US,
        shown.get(b"tries", shown[b"nacks"] + shown[b"additional-deliveries"]),
        tuple((readable(name) or "", readable(value)) for name, value in pairs(shown.get(b"headers"))),
        readable(shown.get(b"error")),
        readable(shown.get(b"origin")),
    )


def readable(word: object) -> str | None:
    """A text, which may be none or be cut in the middle of a character."""
    return word.decode("utf-8", "replace") if isinstance(word, bytes) else None
