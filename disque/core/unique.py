"""UNIQUE keys: one job for one key of a queue, within a window or for as long as the job lives.

A key with a window outlives its job until the window ends; a key with window 0 goes with its job. While the job of a
key still waits for copies nobody can be told its ID: a second ADDJOB with that key waits for the first and takes its
place if the first fails.
"""

from typing import TYPE_CHECKING, Final

from disque.core.memory import KEY_BYTES
from disque.core.records import KEY
from disque.core.session import PendingAdd
from disque.core.timers import IDLE, Timed

if TYPE_CHECKING:
    from disque.core.node import Node

#: Bounds of a key: bytes of the key, seconds of the window.
KEY_MAX: Final = 512
WINDOW_MAX: Final = 7 * 86400


class Key(Timed):
    """One key.

    Who holds it, until when (node time; 0: as long as the job lives), and the ADDJOBs that wait to hear of it.
    """

    __slots__ = ("expires_ms", "job_id", "name", "queue", "segment", "waiting")

    def __init__(self, queue: bytes, name: bytes, job_id: bytes, expires_ms: int) -> None:
        self.due_ms = 0
        self.slot = IDLE
        self.queue = queue
        self.name = name
        self.job_id = job_id
        self.expires_ms = expires_ms
        self.segment = 0
        self.waiting: list[PendingAdd] | None = None

    def cost(self) -> int:
        """Bytes of memory that the key counts for."""
        return KEY_BYTES + len(self.name)


def bind(node: "Node", queue: bytes, name: bytes, job_id: bytes, expires_ms: int) -> Key:
    """Let ``job_id`` hold the key ``name`` of ``queue``."""
    key = Key(queue, name, job_id, expires_ms)
    node.keys[queue, name] = key
    node.used += key.cost()
    if expires_ms:
        node.timers.arm(key, expires_ms)
    else:
        node.keyed[job_id] = key
    return key


def file(node: "Node", key: Key) -> None:
    """Write the key to the journal; it counts for the newest segment from here on."""
    node.journal.append((KEY, key.queue, key.name, key.job_id, key.expires_ms))
    if key.segment:
        node.live[key.segment] -= 1
    key.segment = node.segment
    node.live[node.segment] = node.live.get(node.segment, 0) + 1


def wait_for(key: Key, pending: PendingAdd) -> None:
    """Let ``pending`` wait until the job of ``key`` is decided."""
    pending.key = key
    if key.waiting is None:
        key.waiting = []
    key.waiting.append(pending)


def heirs(node: "Node", key: Key) -> list[PendingAdd]:
    """The job of ``key`` came to nothing: free the key and say who waited for it, in order."""
    node.keyed.pop(key.job_id, None)
    node.drop_key(key)
    return release(key)


def release(key: Key) -> list[PendingAdd]:
    """Those who waited to hear of ``key``; nobody waits any more."""
    waiting, key.waiting = key.waiting or [], None
    return waiting
