"""CLUSTER REPAIR: somebody knows that a node is gone for good, so the copies that it had are made again at once.

All nodes are told, by a question that each answers with whether that node fails in its eyes. Where it does not, nothing
begins. A node that hears of it twice, or late, begins once more, and finds less to do.
"""

from typing import TYPE_CHECKING, Final

from disque.core.base import resp
from disque.core.model.survey import Answers, Asked, Words
from disque.core.replication import repair, surveys

if TYPE_CHECKING:
    from disque.core.node import Node

#: The kind of question: see `questions`.
LOST: Final = 40

YES: Final[Words] = (b"1",)
NO: Final[Words] = (b"0",)


def say_lost(node: "Node", asked: Asked, now_ms: int) -> None:
    """A node is gone for good: begin to repair, if it fails in the eyes of this one."""
    del now_ms
    if len(asked.words) != 1:
        surveys.say(node, asked, surveys.CANNOT)
    else:
        surveys.say(node, asked, YES if repair.lost(node, asked.words[0]) else NO)


class Losing(Answers):
    """How many nodes begin to repair."""

    __slots__ = ("_count",)

    def __init__(self, node_id: bytes) -> None:
        super().__init__(LOST, (node_id,))
        self.promises = False
        self._count = 0

    def take(self, node_id: bytes, words: Words) -> bool:
        """As in `Answers`."""
        del node_id
        self._count += words == YES
        return words in {YES, NO}

    def reply(self) -> bytes:
        """As in `Answers`."""
        return resp.integer(self._count)
