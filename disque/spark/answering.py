"""Answers to jobs that were read: their IDs are written back with an action: ack, nack, revive or cancel.

All can be repeated without harm: a task that is retried acknowledges jobs that are acknowledged already, and gives back
jobs that are in their queue already. NULLs are errors, and so is text that is no ID. A job that no node knows is no
error: it is done or expired. Nor is a job that is revived and is no dead letter: it stays where it is. It may be at a
node that is away, too. So the log of the task says how many jobs it reached, where these were not all; of
acknowledgements a node that is away hears later.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final

import pyarrow as pa

from disque.client import Disque, DisqueError, UnavailableError
from disque.client.delivery import Reply
from disque.client.ends import cancel
from disque.client.requests import revive, say_counted
from disque.spark.adding import WriteError
from disque.spark.commits import LOG
from disque.spark.nodes import Nodes, patiently, send
from disque.spark.options import ACK, CANCEL, NACK, REVIVE, SECONDS_MAX, Options
from disque.spark.rows import RowError, as_bytes, pieces

#: IDs in one REVIVEJOB or CANCEL, for which a node may have to ask the others.
GROUP: Final = 1000


def answer_rows(client: Disque, batches: Iterable[pa.RecordBatch], options: Options, columns: Mapping[str, int]) -> int:
    """Answer the job of each row and give their number. Raises RowError, WriteError."""
    nodes = Nodes(client)
    done = 0

    def answer(piece: pa.RecordBatch, ids: list[str]) -> None:
        if options.action == ACK:
            client.ack_many(ids)
        elif options.action in {REVIVE, CANCEL}:
            end_or_revive(client, ids, options.action)
        else:
            give_back(nodes, ids, delays_of(piece, columns, options, done))

    try:
        for piece in pieces(batches, options.pipeline_size):
            ids = ids_of(piece, columns["id"], done)
            patiently(partial(answer, piece, ids), options.backoff_ms / 1000)
            done += len(ids)
    except DisqueError as error:
        raise WriteError(f"action={options.action}, at row {done} and following: {error}") from None
    finally:
        nodes.close()
    return done


def end_or_revive(client: Disque, ids: Sequence[str], action: str) -> None:
    """CANCEL or REVIVEJOB for all of these. Raises the first error, when all was said."""
    make = revive if action == REVIVE else cancel
    for at in range(0, len(ids), GROUP):
        group = ids[at : at + GROUP]
        flow = say_counted(client.router, client.config, [group], lambda some: make(client.config, *some))
        warn_of_others(action, client.drive(flow), len(group))


def warn_of_others(action: str, reached: int, of: int) -> None:
    """Tell of jobs that were not reached."""
    if reached < of:
        why = "the others are over, need it no more, or are only at a node that does not answer"
        LOG.warning("action=%s reached %d of %d jobs: %s", action, reached, of, why)


def ids_of(piece: pa.RecordBatch, column: int, done: int) -> list[str]:
    """The IDs of some rows. Raises RowError."""
    ids = as_bytes(piece.column(column))
    if None in ids:
        raise RowError(f"row {done + ids.index(None)}: the id is NULL")
    return [one.decode(errors="replace") for one in ids]


def delays_of(piece: pa.RecordBatch, columns: Mapping[str, int], options: Options, done: int) -> list[int]:
    """The delay of each row: its column's before the option's; 0 is at once. Raises RowError."""
    default = options.delay or 0
    if "delay" not in columns:
        return [default] * piece.num_rows
    delays = [default if delay is None else delay for delay in piece.column(columns["delay"]).to_pylist()]
    for at, delay in enumerate(delays):
        if not 0 <= delay <= SECONDS_MAX:
            raise RowError(f"row {done + at}: the delay must be a whole number from 0 to {SECONDS_MAX}, not {delay}")
    return delays


def give_back(nodes: Nodes, ids: Sequence[str], delays: Sequence[int]) -> None:
    """NACK each job at a node that knows it. Raises WriteError for what is no ID, UnavailableError: no node answers."""
    delay_of = dict(zip(ids, delays, strict=True))

    def ask(client: Disque, group: Sequence[str]) -> list[Reply]:
        return send(client, [nack(one, delay_of[one]) for one in group])

    answers = nodes.about(ids, ask, is_answer, nodes.maker())
    if not answers.known and set(answers.silent) >= set(nodes.addresses()):
        raise UnavailableError("no node could be used")
    warn_of_others(NACK, len(answers.known), len(ids))
    for one, reply in answers.known.items():
        if isinstance(reply, DisqueError):
            raise WriteError(f"action=nack, job {one}: {reply}")


def nack(job_id: str, delay_s: int) -> tuple[bytes, ...]:
    """The words that give one job back."""
    later = (b"DELAY", b"%d" % delay_s) if delay_s else ()
    return (b"NACK", job_id.encode(), *later)


def is_answer(reply: Reply) -> bool:
    """Whether a node knew the job, or has found out that it is none."""
    return reply == 1 or isinstance(reply, DisqueError)
