"""FIND: the job that has a UNIQUE key.

Of what keepers know, an ID that all of them have (SETTLED) is the one that producers are answered. One that is only
COMMITTED may still end as nothing, but after a start nobody knows of any key whether it was settled: so it counts where
no node knows better. What is TENTATIVE counts nowhere.
"""

from typing import TYPE_CHECKING, Final

from disque.core.base import resp
from disque.core.model.jobid import valid
from disque.core.model.key import COMMITTED, SETTLED
from disque.core.model.key_store import DIGEST_BYTES
from disque.core.model.survey import Answers, Asked, Words
from disque.core.replication import surveys

if TYPE_CHECKING:
    from disque.core.node import Node

#: The kind of question: see `questions`.
KEY: Final = 3

NOTHING: Final[Words] = (b"0",)
#: What an answer begins with, by the state of the key that the ID behind it has.
SAID: Final[dict[int, bytes]] = {COMMITTED: b"1", SETTLED: b"2"}


def look(node: "Node", digest: bytes, now_ms: int) -> tuple[int, bytes] | None:
    """The state of the key with this digest, and the ID of its job; None if this node knows of none."""
    key = node.unique.table.get(digest)
    if key is not None:
        found, end_ms = (key.state, key.job_id), key.end_ms()
    else:
        row = node.unique.store.get(digest)
        if row is None:
            return None
        found, end_ms = (row[4], row[0]), row[1]
    return found if found[0] in SAID and end_ms > now_ms else None


def is_sure(node: "Node", digest: bytes, now_ms: int) -> bool:
    """Whether what this node knows of a key is all that anybody does: it keeps it whatever the number of keepers."""
    found = look(node, digest, now_ms)
    if found is not None:
        return found[0] == SETTLED
    ring = node.unique.ring
    return not ring.is_unsure(now_ms) and ring.keepers(digest, 1) == (node.node_id,)


def say_key(node: "Node", asked: Asked, now_ms: int) -> None:
    """Answer which job has a key, as far as this node knows."""
    if len(asked.words) != 1 or len(asked.words[0]) != DIGEST_BYTES:
        surveys.say(node, asked, surveys.CANNOT)
        return
    found = look(node, asked.words[0], now_ms)
    surveys.say(node, asked, NOTHING if found is None else (SAID[found[0]], found[1]))


class Finding(Answers):
    """FIND of all nodes."""

    __slots__ = ("_committed", "_protocol", "_settled")

    def __init__(self, digest: bytes, protocol: int) -> None:
        super().__init__(KEY, (digest,))
        self._protocol = protocol
        self._settled = b""
        self._committed = b""

    def take(self, node_id: bytes, words: Words) -> bool:
        """As in `Answers`."""
        del node_id
        if words[0] == NOTHING[0]:
            return True
        if len(words) < 2 or not valid(words[1]):
            return False
        if words[0] == SAID[SETTLED]:
            self._settled = words[1]
        elif words[0] == SAID[COMMITTED]:
            self._committed = min(self._committed, words[1]) if self._committed else words[1]
        else:
            return False
        return True

    def is_settled(self) -> bool:
        """As in `Answers`."""
        return len(self._settled) > 0

    def reply(self) -> bytes:
        """As in `Answers`."""
        found = self._settled or self._committed
        return resp.bulk(found) if found else resp.null_bulk(self._protocol)
