"""Batches that fail again and again: jobs that were in one too often become dead letters (poisonTries).

A query that is started again on its checkpoint gets the batch once more with which it ended. So this batch has failed,
or the query was stopped or killed in the middle of it, which looks the same: a job may be what kills the driver. Nobody
knows which of its jobs is to blame. How often that was is noted with each job, as its PROGRESS, so it is
known wherever the query is started. Jobs with which a batch has failed too often are given back with NACK DEAD. From
then on they are in another queue: they are left out of the batch, and not acknowledged with it.

Past half of its TTL a job cannot be held any more by WORKING, nor is there a PROGRESS. Then the number is the text of
its error: it is given back (NACK), for another RETRY.

A node that is away may be the only one that has a job. So a batch is not begun again while some of its jobs are not
known, and that counts as no failure. At the end of a batch, a job that is not known is acknowledged if this process has
seen that it is one of the queue: all nodes take the acknowledgement, and tell the one that is away.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from disque.client import Disque, DisqueError, TooLateError
from disque.client.delivery import Reply
from disque.client.errors import is_out_of_reach
from disque.spark.claims import ReadError, named
from disque.spark.commits import LOG
from disque.spark.connection import connect
from disque.spark.fetching import fields, is_shown, show, shown_to_all
from disque.spark.nodes import Nodes, send
from disque.spark.options import Options

#: What the PROGRESS of a job says before the number, or its error.
NOTE: Final = b"batches that failed: "


class Poison:
    """Counts how often batches have failed with a job."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._what = named(options.sources)
        self._client = connect(options)
        self._nodes = Nodes(self._client)
        self._patience_s = options.backoff_ms / 1000
        self._dead: set[str] = set()
        self._seen: set[str] = set()  # the jobs of the batch that has failed, which were in a queue that is read

    def close(self) -> None:
        """Close all connections."""
        self._nodes.close()

    def failed(self, ids: Sequence[str]) -> list[str]:
        """A batch of these jobs has failed: those that stay in it.

        Raises ReadError if a node refuses that, and if nodes are away that may have some of them.
        """
        most = self._options.poison_tries
        shown = self._in_queue(shown_to_all(self._nodes, ids, self._nodes.maker(), self._patience_s, self._what))
        self._seen = set(shown)
        failures = {one: 1 + (0 if was_put_back(reply) else failures_of(reply)) for one, reply in shown.items()}
        noted = self._say(
            [note(one, count) for one, count in failures.items()]
        )  # which also takes them out of their queue
        late = [one for one, reply in noted.items() if isinstance(reply, TooLateError)]
        self._say([note_late(shown[one], failures[one]) for one in late])
        answers = self._say([kill(one, count) for one, count in failures.items() if count >= most])
        dead = {one for one, reply in answers.items() if reply == 1}
        if dead:
            LOG.warning("%s: %d jobs of a batch that failed %d times are dead letters now", self._what, len(dead), most)
        self._dead |= dead
        return [one for one in ids if one in failures and one not in dead]

    def ours(self, ids: Sequence[str], *, claimed: bool) -> list[str]:
        """Those of these jobs that are still in a queue that is read, and were not put back there meanwhile.

        ``claimed``: this process has taken them from there.
        """
        answers = self._nodes.about(ids, show, is_shown, self._nodes.maker())
        ours = set(self._in_queue(answers.known))
        if answers.silent:
            ours |= (set(ids) if claimed else self._seen) - answers.known.keys()
        return [one for one in ids if one in ours and one not in self._dead]

    def _in_queue(self, found: Mapping[str, Reply]) -> dict[str, Reply]:
        return {one: reply for one, reply in found.items() if is_in(reply, self._options.sources)}

    def _say(self, commands: Sequence[tuple[bytes, ...]]) -> dict[str, Reply]:
        """Tell a node that knows each job: its answer, by ID. Raises ReadError.

        Jobs that were moved meanwhile to where the user has no right are left alone.
        """
        by_id = {words[1].decode(): words for words in commands}

        def ask(client: Disque, some: Sequence[str]) -> list[Reply]:
            return send(client, [by_id[one] for one in some])

        answers = self._nodes.about(list(by_id), ask, is_done, self._nodes.maker())
        for one, reply in answers.known.items():
            left_alone = is_out_of_reach(reply)
            if isinstance(reply, DisqueError) and reply.code not in {"TOOLATE", "CANCELLED"} and not left_alone:
                raise ReadError(f"{self._what}, job {one}: {reply}")
        return answers.known


def is_in(reply: Reply, queues: Collection[str]) -> bool:
    """Whether a reply of SHOW is about a job in one of these queues."""
    return isinstance(reply, list) and fields(reply)[b"queue"].decode("utf-8", "surrogateescape") in queues


def failures_of(reply: Any) -> int:  # noqa: ANN401 - a reply of SHOW
    """How often a batch has failed with this job."""
    known = fields(reply)
    return max(number_of(known.get(b"progress")), number_of(known.get(b"error")))


def was_put_back(reply: Any) -> bool:  # noqa: ANN401 - a reply of SHOW
    """Whether this job was a dead letter after the last failure of a batch with it: it begins again."""
    error: object = fields(reply).get(b"error")
    return error == why(failures_of(reply))


def number_of(text: object) -> int:
    """The number of a note; 0 for anything else."""
    number = text.removeprefix(NOTE) if isinstance(text, bytes) else b""
    return int(number) if number != text and number.isdigit() else 0


def note(job_id: str, count: int) -> tuple[bytes, ...]:
    """The words that note this; they also hold the job."""
    return (b"WORKING", job_id.encode(), b"PROGRESS", NOTE + b"%d" % count)


def note_late(reply: Any, count: int) -> tuple[bytes, ...]:  # noqa: ANN401 - a reply of SHOW
    """The same for a job past half of its TTL."""
    known = fields(reply)
    held_s = min(known[b"retry"], known[b"ttl"])
    return (b"NACK", known[b"id"], b"DELAY", b"%d" % held_s, b"ERROR", NOTE + b"%d" % count)


def kill(job_id: str, count: int) -> tuple[bytes, ...]:
    """The words that make a dead letter of a job."""
    return (b"NACK", job_id.encode(), b"DEAD", b"ERROR", why(count))


def why(count: int) -> bytes:
    """The error of such a dead letter."""
    return b"a batch with it failed %d times" % count


def is_done(reply: Reply) -> bool:
    """Whether a node knew the job."""
    return reply != 0 and not (isinstance(reply, DisqueError) and reply.code == "NOJOB")
