"""Named runs: each remembers in how many partitions it was written.

The key of a row contains the number of its partition. That keeps equal rows of two partitions two jobs. So a run that
is written again in another number of partitions would add its rows again. Spark gives that number only when a save is
over. Then the driver notes it, together with the partitions that were finished, as a job with a UNIQUE key in a queue
of its own that nobody reads. The note lasts as long as the keys of rows. A run that failed first, and then ended well
in as many partitions, has a second note which says so: the first one cannot be changed.

A task of a later save asks for the note before it adds anything. It refuses a partition that the run never had. In a
partition that was finished, nothing is left to be added: all its rows must be known, otherwise they were in another
partition. If the run had not come so far, neither shows the mistake. It is then found when the save is over, and fails
the save.

To ask whether a key is known, an ADDJOB is sent that no cluster can execute, because it wants too many copies. A known
key is answered with the ID of its job all the same.
"""

import json
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from disque.client import Disque, DisqueError, NoPermError, NoReplError
from disque.client.delivery import Reply
from disque.spark.adding import WriteError
from disque.spark.fetching import claimed, is_shown, show
from disque.spark.nodes import Nodes, send
from disque.spark.options import Options
from disque.spark.terms import Words

#: Where notes are. They are delayed as long as they live: nobody gets one.
QUEUE: Final = b"disque:spark:runs"
#: More copies than there can be.
IMPOSSIBLE: Final = b"65535"


class Run(NamedTuple):
    """In how many partitions a run was written, and which of them were finished (None: all)."""

    partitions: int
    finished: frozenset[int] | None

    def has(self, partition: int) -> bool:
        """Whether this partition was finished."""
        return self.finished is None or partition in self.finished


def note(client: Disque, scope: str, run: Run, options: Options) -> Run:
    """Note how a run was written, and give what was noted first. Raises DisqueError."""
    first = note_under(client, key_of(scope), scope, run, options)
    if run.finished is None and first.finished is not None and first.partitions == run.partitions:
        note_under(client, key_of_end(scope), scope, run, options)
    return first


def note_under(client: Disque, key: bytes, scope: str, run: Run, options: Options) -> Run:
    """Note it under a key, and give what that is the key of. Raises DisqueError."""
    finished = None if run.finished is None else sorted(run.finished)
    body = json.dumps({"run": scope, "partitions": run.partitions, "finished": finished}).encode()
    window = options.dedup_window
    life = (b"TTL", b"%d" % window, b"DELAY", b"%d" % (window - 1)) if window else (b"DELAY", b"86399")
    copies = (b"REPLICATE", b"%d" % options.replicate) if options.replicate is not None else ()
    words = (b"ADDJOB", QUEUE, body, b"%d" % options.timeout_ms, b"UNIQUE", key, b"%d" % window)
    [reply] = send(client, [(*words, *life, *copies)], options.timeout_ms)
    if isinstance(reply, DisqueError):
        raise reply
    return read(client, reply) or run


def noted(client: Disque, scope: str, options: Options) -> Run | None:
    """How a run was written before, if it was. Raises DisqueError."""
    first, end = known(client, [(QUEUE, key_of(scope)), (QUEUE, key_of_end(scope))], options)
    found = None if end is None else read(client, end)
    return found if found is not None or first is None else read(client, first)


def read(client: Disque, reply: Reply) -> Run | None:
    """The note in the job with this ID; None if it is gone."""
    assert isinstance(reply, bytes)
    nodes = Nodes(client)
    job_id = reply.decode()
    try:
        job = claimed(nodes.about([job_id], show, is_shown, nodes.maker()).known.get(job_id))
    finally:
        nodes.close_others()
    if job is None:
        return None
    found = json.loads(job.body)
    return Run(found["partitions"], None if found["finished"] is None else frozenset(found["finished"]))


def known(client: Disque, keys: Sequence[tuple[bytes, bytes]], options: Options) -> list[bytes | None]:
    """The IDs of the jobs that have these keys in these queues; None for a key that is free. Raises DisqueError."""
    window = b"%d" % options.dedup_window
    timeout = b"%d" % options.timeout_ms
    last = (window, b"REPLICATE", IMPOSSIBLE)
    asked = [(b"ADDJOB", queue, b"", timeout, b"UNIQUE", key, *last) for queue, key in keys]
    found: list[bytes | None] = []
    for reply in send(client, asked, options.timeout_ms):
        if isinstance(reply, DisqueError) and not isinstance(reply, NoReplError):
            raise reply
        found.append(reply if isinstance(reply, bytes) else None)
    return found


class Look:
    """Looks at the jobs of one partition before they are added."""

    def __init__(self, client: Disque, scope: str, partition: int, options: Options) -> None:
        self._client = client
        self._scope = scope
        self._partition = partition
        self._options = options
        self._asked = False
        self._run: Run | None = None

    def __call__(self, jobs: list[Words]) -> list[Words]:
        """Give the jobs that are to be added. Raises WriteError, DisqueError."""
        name = self._options.run_id
        if not self._asked:
            try:
                self._run, self._asked = noted(self._client, self._scope, self._options), True
            except NoPermError as error:
                where = QUEUE.decode()
                raise WriteError(
                    f"run {name!r} is noted in the queue {where!r}, to which one needs rights: {error}"
                ) from None
        run = self._run
        if run is None:
            return jobs
        if self._partition >= run.partitions:
            raise WriteError(f"run {name!r} has no partition {self._partition}: {advice(run.partitions)}")
        if not run.has(self._partition):
            return jobs
        if None in known(self._client, [(job[1], job[5]) for job in jobs], self._options):
            text = f"run {name!r} did not have these rows in partition {self._partition} when that was written, or"
            raise WriteError(f"{text} their keys are no longer kept (dedupWindow): {advice(run.partitions)}")
        return []


def compare(noted_first: Run, partitions: int, options: Options) -> None:
    """Look at the number of partitions when all is written. Raises WriteError."""
    if noted_first.partitions != partitions:
        text = f"run {options.run_id!r} is now written in {partitions} partitions, so rows may be there twice"
        raise WriteError(f"{text}: {advice(noted_first.partitions)}")


def advice(partitions: int) -> str:
    """What to do about it."""
    return (
        f"it was written in {partitions} partitions first, and rows are recognised only there. "
        f"Write repartition({partitions}) of the same rows, or take another runId, or a column 'key'"
    )


def key_of(scope: str) -> bytes:
    """The key of the first note."""
    return blake2b(scope.encode("utf-8", "surrogateescape"), digest_size=16).digest()


def key_of_end(scope: str) -> bytes:
    """The key of the note that a run has ended well."""
    return blake2b(scope.encode("utf-8", "surrogateescape"), digest_size=16, person=b"ended well").digest()
