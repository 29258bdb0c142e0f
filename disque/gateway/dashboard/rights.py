"""What a page offers to a user: what the nodes would not refuse.

Whether a user may send a command is asked with words that are wrong, such as an ID that is none: a node looks at rights
before it looks at these. Whether the user has the right to a queue is only seen when something is done: then the node
refuses, and the page says so.
"""

import asyncio
import time
from typing import Final
from weakref import WeakKeyDictionary

from disque.client import DisqueError
from disque.gateway.cluster import Cluster

#: What each thing that a page offers would send.
PROBES: Final[dict[str, tuple[str, ...]]] = {
    "add": ("ADDJOB", "-", "-", "-"),
    "cancel": ("CANCEL", "-"),
    "delete": ("DELJOB", "-"),
    "move": ("MOVE", "-", "-"),
    "revive": ("REVIVEJOB", "-"),
    "run": ("ENQUEUE", "-"),
    "flush": ("QFLUSH", "-", "COUNT", "-"),
    "pause": ("PAUSE", "-", "bcast", "-"),
    "options": ("QCONFIG", "SET", "-", "-", "-"),
    "cron": ("CRON", "SET", "-", "-", "-", "-"),
    "users": ("ACL", "LIST"),
    "repair": ("CLUSTER", "REPAIR", "-"),
}
#: Seconds for which an answer counts.
FRESH_S: Final = 30.0
#: How a node refuses a command, whatever its words.
REFUSED: Final = "NOPERM"
WHOLLY: Final = "to run the"

_known: WeakKeyDictionary[Cluster, tuple[float, frozenset[str]]] = WeakKeyDictionary()


async def of(cluster: Cluster) -> frozenset[str]:
    """The names of what the user of ``cluster`` may do. Raises DisqueError where nobody can be asked."""
    now_s = time.monotonic()
    known = _known.get(cluster)
    if known is not None and now_s - known[0] < FRESH_S:
        return known[1]
    answers = await asyncio.gather(*[allowed(cluster, words) for words in PROBES.values()])
    found = frozenset(name for name, answer in zip(PROBES, answers, strict=True) if answer)
    _known[cluster] = now_s, found
    return found


async def allowed(cluster: Cluster, words: tuple[str, ...]) -> bool:
    """Whether a node takes a command. Raises DisqueError where nobody can be asked."""
    try:
        await cluster.asking.ask([word.encode() for word in words])
    except DisqueError as error:
        if error.code == "UNAVAILABLE":
            raise
        return error.code != REFUSED or WHOLLY not in error.message
    return True
