"""What was forgotten all at once, and is freed a few things at a time."""

from collections import deque

from sortedcontainers import SortedKeyList

from disque.core.base.timers import Timed
from disque.core.model.job import Job
from disque.core.model.queue import Queue

Returned = SortedKeyList[Job, tuple[int, bytes]]
#: Something that holds many things, which nobody else looks at.
Trash = (
    dict[bytes, Job]
    | dict[bytes, Queue]
    | list[Timed]
    | list[tuple[int, int, Timed]]
    | list[bytes]
    | deque[Job]
    | Returned
)
