"""What was forgotten all at once, and is freed a few things at a time."""

from collections import deque

from sortedcontainers import SortedKeyList

from disque.core.base.timers import Timed
from disque.core.model.defaults import QueueDefaults, Words
from disque.core.model.job import Job
from disque.core.model.queue import Queue
from disque.core.model.registry import Entry, Key

Returned = SortedKeyList[Job, tuple[int, bytes]]
#: Something that holds many things, which nobody else looks at.
Trash = (
    dict[bytes, Job]
    | dict[bytes, Queue]
    | dict[Key, Entry]
    | dict[Key, None]
    | dict[bytes, Words]
    | dict[bytes, QueueDefaults | None]
    | list[Timed]
    | list[tuple[int, int, Timed]]
    | list[bytes]
    | deque[Job]
    | Returned
)
