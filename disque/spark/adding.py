"""The write path: the rows of one partition become jobs, a pipeline at a time.

Some refusals may end (a queue that is paused or full, memory, copies that cannot be made), and nodes that cannot be
reached may be back. The task waits for that, up to the option `backoffMs` without any progress. Any other error, or a
refusal that stays, fails the task with the queue in its message. Spark then starts the task again, and with dedup
nothing is added twice. If a node dies, the client goes on at another one.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import pyarrow as pa

from disque.client import Disque, DisqueError, UnavailableError
from disque.client.delivery import Reply
from disque.spark.doors import PlainError
from disque.spark.keys import Keys
from disque.spark.nodes import patiently, send
from disque.spark.options import Options
from disque.spark.rows import JobRows, pieces
from disque.spark.terms import Words

#: Refusals that may pass; UNAVAILABLE: there was no node.
PASSING: Final = frozenset({"PAUSED", "OOM", "NOREPL", "MAXLEN", "UNAVAILABLE"})
FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 1.0
#: The least that a node's `proto-max-bulk-len` can be, and what is usual, where the node does not tell.
SMALL_BODY: Final = 1024
USUAL_LIMIT: Final = 64 << 20


class WriteError(PlainError, RuntimeError):
    """Jobs that could not be added or answered."""


def add_rows(
    client: Disque,
    batches: Iterable[pa.RecordBatch],
    options: Options,
    columns: Mapping[str, int],
    keys: Keys | None,
    look: Callable[[list[Words]], list[Words]] | None = None,
) -> tuple[int, int]:
    """Add a job for each row; how many rows there were, and how many of them were bad and left out.

    ``look``, if given, chooses the jobs that are to be added. Raises RowError, WriteError.
    """
    rows = JobRows(options, columns, keys, BodyLimit(client))
    adder = Adder(lambda jobs: send(client, jobs, options.timeout_ms), options.backoff_ms)
    done = 0
    for piece in pieces(batches, options.pipeline_size):
        jobs = rows.jobs(piece)
        if look is not None and jobs:
            try:
                jobs = patiently(partial(look, jobs), options.backoff_ms / 1000)
            except DisqueError as error:
                raise WriteError(f"{queues_of(jobs)}: {error}") from None
        if jobs:
            adder.add(jobs)
        done += piece.num_rows
    return done, rows.bad


class Adder:
    """Adds jobs; ``put`` sends ADDJOBs together and gives their replies. Times are those of the machine."""

    def __init__(
        self,
        put: Callable[[list[Words]], Sequence[Reply]],
        backoff_ms: int,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._put = put
        self._patience_s = backoff_ms / 1000
        self._clock = clock
        self._pause = pause

    def add(self, jobs: list[Words]) -> None:
        """Add all of them. Raises WriteError."""
        since_s, pause_s = self._clock(), FIRST_PAUSE_S
        while refused := self._refused(jobs):
            if len(refused) < len(jobs):
                since_s, pause_s = self._clock(), FIRST_PAUSE_S
            self._judge(refused, len(jobs), self._clock() - since_s)
            self._pause(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            jobs = [job for job, _ in refused]

    def _refused(self, jobs: list[Words]) -> list[tuple[Words, DisqueError]]:
        """Send the jobs once; those that were not added, and why."""
        try:
            replies = self._put(jobs)
        except UnavailableError as error:
            return [(job, error) for job in jobs]
        except DisqueError as error:
            raise WriteError(f"{queues_of(jobs)}: {error}") from None
        return [(job, reply) for job, reply in zip(jobs, replies, strict=True) if isinstance(reply, DisqueError)]

    def _judge(self, refused: list[tuple[Words, DisqueError]], sent: int, waited_s: float) -> None:
        """Raise WriteError unless all that was refused is worth another attempt."""
        lasting = next(((job, error) for job, error in refused if error.code not in PASSING), None)
        if lasting is not None:
            job, error = lasting
            raise WriteError(f"{queues_of([job])}: {error}") from None
        if waited_s >= self._patience_s:
            job, error = refused[0]
            text = f"{queues_of([job])}: {error}; {len(refused)} of {sent} jobs were still refused after"
            raise WriteError(f"{text} {self._patience_s:g} s (backoffMs)") from None


def queues_of(jobs: Iterable[Words]) -> str:
    """The queues of ADDJOBs, for a message."""
    names = sorted({job[1].decode(errors="replace") for job in jobs})
    shown = ", ".join(map(repr, names[:5])) + ", ..." * (len(names) > 5)
    return f"queue {shown}" if len(names) == 1 else f"queues {shown}"


class BodyLimit:
    """The size that no body may exceed: a node is asked for it once, when there is a body that could be too large."""

    def __init__(self, client: Disque) -> None:
        self._client = client
        self._limit = 0

    def __call__(self, longest: int) -> int:
        """Give the limit for bodies of at most so many bytes."""
        if longest <= SMALL_BODY:
            return SMALL_BODY
        if not self._limit:
            self._limit = self._ask()
        return self._limit

    def _ask(self) -> int:
        try:
            reply = self._client.execute_command("CONFIG", "GET", "proto-max-bulk-len")
        except DisqueError:  # the command may be renamed
            return USUAL_LIMIT
        return limit_of(reply)


def limit_of(reply: Any) -> int:  # noqa: ANN401 - a map or a list, of text or bytes, as the protocol is
    """The number in a reply of CONFIG GET."""
    values = list(reply.values()) if isinstance(reply, dict) else list(reply)[1:]
    return int(values[0]) if values else USUAL_LIMIT
