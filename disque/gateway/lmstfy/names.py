"""Names of namespaces and queues: which there may be, and what is said of others.

The cluster calls a queue `namespace/queue`.
"""

import re
from typing import Final

LENGTH_MOST: Final = 255
NAME: Final = re.compile(r"[-_A-Za-z0-9]+")
#: A namespace and a queue that are well.
BOTH: Final = re.compile(r"[-_A-Za-z0-9]+/[-A-Za-z0-9][-_A-Za-z0-9]*")
#: What GET takes may be several, with commas between.
NAMES: Final = re.compile(r"[-_,A-Za-z0-9]+")

TOO_LONG: Final = "namespace or queue name too long"
BAD_NAMESPACE: Final = "namespace name contains forbidden characters"
BAD_QUEUE: Final = "queue name contains forbidden characters"


def wrong(namespace: str, queue: str) -> str:
    """What is wrong with them; empty if nothing is."""
    if len(namespace) + len(queue) <= LENGTH_MOST and BOTH.fullmatch(f"{namespace}/{queue}"):
        return ""
    if len(namespace.encode("utf-8", "replace")) > LENGTH_MOST or len(queue.encode("utf-8", "replace")) > LENGTH_MOST:
        return TOO_LONG
    if NAME.fullmatch(namespace) is None:
        return BAD_NAMESPACE
    if queue.startswith("_") or NAME.fullmatch(queue) is None:
        return BAD_QUEUE
    return ""


def wrong_for_consuming(namespace: str, queues: str) -> str:
    """The same for a GET: neither lengths nor underscores are looked at."""
    if NAME.fullmatch(namespace) is None:
        return BAD_NAMESPACE
    return "" if NAMES.fullmatch(queues) else BAD_QUEUE


def inside(namespace: str, queue: str) -> bytes:
    """The queue of the cluster."""
    return f"{namespace}/{queue}".encode("ascii")


def dead(namespace: str, queue: str) -> bytes:
    """Its queue of dead letters."""
    return inside(namespace, queue) + b":dead"
