"""The UNIQUE keys of a node, wherever they lie."""

from disque.core.dedup.keys import digest_of, find
from disque.core.journal.schema import KEYS, Record
from disque.core.model.key import Key
from disque.core.node import Node

#: The key k of the queue q, which most tests are about.
K = digest_of(b"q", b"k")


def keys(node: Node, now_ms: int = 0) -> dict[bytes, Key]:
    """All keys by digest, those that rest too: but for windows that have ended by ``now_ms``."""
    found = dict(node.unique.table)
    for digest in node.unique.store:
        key = find(node, digest, 0)
        assert key is not None
        assert digest not in node.unique.table
        if key.expires_ms > now_ms:
            found[digest] = key
    return found


def keys_record(digest: bytes, job_id: bytes, expires_ms: int, life_ms: int, repl: int) -> Record:
    """The journal's record of one key."""
    return (KEYS, expires_ms, life_ms, repl, (digest,), (job_id,))
