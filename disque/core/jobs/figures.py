"""Figures of a queue, of this node and of all together: QLEN and QSTAT.

A job is queued at one node only, so the lengths at all nodes add up.
"""

from typing import TYPE_CHECKING, Final

from disque.core.base import resp
from disque.core.model.survey import Answers, Asked, Words
from disque.core.replication import surveys

if TYPE_CHECKING:
    from disque.core.node import Node

#: Kinds of questions: see `questions`.
LENGTH: Final = 1

#: Digits of a number that another node tells.
DIGITS_MOST: Final = 18


def number(word: bytes) -> int:
    """A number that another node tells; -1 for what is none."""
    return int(word) if word.isdigit() and len(word) <= DIGITS_MOST else -1


def length(node: "Node", name: bytes) -> int:
    """How many jobs are in the queue at this node."""
    queue = node.queues.get(name)
    return 0 if queue is None else queue.length


def say_length(node: "Node", asked: Asked, now_ms: int) -> None:
    """Answer how long a queue is here."""
    del now_ms
    known = len(asked.words) == 1
    surveys.say(node, asked, (b"%d" % length(node, asked.words[0]),) if known else surveys.CANNOT)


class Lengths(Answers):
    """QLEN of all nodes."""

    __slots__ = ("_sum",)

    def __init__(self, name: bytes) -> None:
        super().__init__(LENGTH, (name,))
        self._sum = 0

    def take(self, node_id: bytes, words: Words) -> bool:
        """As in `Answers`."""
        del node_id
        found = number(words[0])
        self._sum += max(0, found)
        return found >= 0

    def reply(self) -> bytes:
        """As in `Answers`."""
        return resp.integer(self._sum)
