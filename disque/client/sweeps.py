"""Requests that do something with the jobs of a queue at all nodes: QMOVE, REVIVE, QFLUSH.

Each counts what it has done, so none is sent twice: if its connection is lost, `IncompleteError` says so.
"""

from typing import Final, NamedTuple

from disque.client import replies
from disque.client.config import Config
from disque.client.requests import Request
from disque.client.values import Name, name_word, number_word

#: A node that works on a long queue is waited for, up to so long, in ms.
SWEEP_MS: Final = 600_000


class Swept(NamedTuple):
    """With how many jobs it was done, and the IDs of nodes that did not answer: these may have done it all the same.

    ``without_origin``: how many jobs `Disque.revive_queue` left where they are, since they are no dead letters.
    """

    jobs: int
    unreachable: list[str]
    without_origin: int = 0


def swept(reply: object) -> Swept:
    """The map that is the reply to each, in the shape of either protocol."""
    found = {replies.text(name): value for name, value in replies.pairs(reply)}
    without = replies.whole(found.get("without-origin", 0))
    return Swept(replies.whole(found["count"]), replies.texts(found["unreachable"]), without)


def sweep(words: list[bytes], count: int | None) -> Request[Swept]:
    """A request that wants all jobs, or ``count``."""
    bound = [] if count is None else [b"COUNT", number_word(count, "count")]
    return Request([*words, *bound], swept, wait_ms=SWEEP_MS, again=False)


def move_queue(config: Config, source: Name, target: Name, *, count: int | None = None) -> Request[Swept]:
    """Put what is queued or delayed in ``source`` into ``target``, at all nodes (QMOVE).

    All of it, or the ``count`` oldest jobs.
    """
    del config
    return sweep([b"QMOVE", name_word(source), name_word(target)], count)


def revive_queue(config: Config, queue: Name, *, count: int | None = None) -> Request[Swept]:
    """Put dead letters back into the queues in which they died, at all nodes (REVIVE).

    All of this queue, or the ``count`` oldest; see `revive` for single ones.
    """
    del config
    return sweep([b"REVIVE", name_word(queue)], count)


def flush_queue(config: Config, queue: Name, *, count: int | None = None) -> Request[Swept]:
    """Delete what is queued or delayed in a queue, at all nodes: all of it, or the ``count`` oldest jobs (QFLUSH)."""
    del config
    return sweep([b"QFLUSH", name_word(queue)], count)
