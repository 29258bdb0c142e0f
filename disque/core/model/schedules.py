"""The schedules that a node knows, and when each of them is due.

What a schedule says is one entry of the registry, its last tick another one. Here is only what follows from both: see
`disque.core.schedule`.
"""

from collections import deque
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final

from disque.core.base.timers import Timed
from disque.core.model.index import Index
from disque.core.model.part import Part
from disque.core.schedule.ticks import Ticks

if TYPE_CHECKING:
    from disque.core.model.job import Job
    from disque.core.model.session import Session

#: The heap is made anew when it has so many entries beside those that count.
STALE_MOST: Final = 1000
#: Entries of the heap that do not count and are thrown away at once.
SHELLS_MOST = 1000  # not Final: tests want less, compiled too
#: Jobs that are on their way at once.
OPEN_MOST: Final = 200


class Schedule:
    """One schedule. Times are seconds of the wall clock since 1970, with ``_ms`` milliseconds.

    ``since`` is when it was set or resumed, by the clock of this node: no earlier tick counts. ``said_since`` is that
    by the clock of the node that has set it. ``done`` is the last tick that was fired here, ``skipped`` up to where
    ticks are left out, ``ignored`` the last tick that was ignored, since it is far ahead, ``waits_for`` what is not so
    far ahead, and was told of. ``session`` is owed the reply while ``tick`` is being fired, ``tries`` is how often that
    has failed, ``tried_ms`` when it began. ``due_ms`` is when it is to be looked at; 0: not by time.
    """

    __slots__ = (
        "catchup",
        "done",
        "due_ms",
        "heard_ms",
        "ignored",
        "in_line",
        "name",
        "number",
        "paused",
        "said_since",
        "session",
        "since",
        "skipped",
        "slot",
        "tick",
        "ticks",
        "tried_ms",
        "tries",
        "waits_for",
        "warned",
    )

    def __init__(self, name: bytes, slot: bytes, heard_ms: int = 0) -> None:
        self.name = name
        #: When this node heard of it, by its own time.
        self.heard_ms = heard_ms
        #: Among all, for CRON LIST.
        self.number = 0
        #: What its order of nodes follows from.
        self.slot = slot
        #: None: the spec or the zone is not known here.
        self.ticks: Ticks | None = None
        self.catchup = 0
        self.paused = False
        self.since = 0
        self.said_since = 0
        self.done = 0
        self.skipped = 0
        self.ignored = 0
        self.waits_for = 0
        self.session: Session | None = None
        self.tick = 0
        self.tries = 0
        self.tried_ms = 0
        self.due_ms = 0
        self.in_line = False
        self.warned = False


class Alarm(Timed):
    """Goes off when the next schedule is due."""

    __slots__ = ()


class Schedules(Part):
    """All schedules of a node.

    ``line`` are those that are to be looked at, ``open`` those whose job is on its way. ``nodes`` are the nodes that
    fire, as this one sees them. ``up`` says since when (node time in ms) other nodes run, ``up_ms`` since when this one
    does without a break. ``held``: nothing is fired before this node knows what others know. ``ahead_ms`` is how far
    the wall clock was ahead of the time of the node.
    """

    __slots__ = (
        "_heap",
        "_serial",
        "ahead_ms",
        "alarm",
        "by_name",
        "held",
        "index",
        "line",
        "nodes",
        "open",
        "speaks",
        "up",
        "up_ms",
        "version",
    )

    def __init__(self, now_ms: int) -> None:
        self._heap: list[tuple[int, int, Schedule]] = []
        self._serial = 0
        self.alarm = Alarm()
        self.by_name: dict[bytes, Schedule] = {}
        self.index: Index[Schedule] = Index()
        self.line: deque[Schedule] = deque()
        self.open: list[Schedule] = []
        self.nodes: tuple[bytes, ...] = ()
        self.version = -1
        self.up: dict[bytes, int] = {}
        self.up_ms = now_ms
        self.held = True
        #: There has been a schedule, so the others are told how long this node has been up.
        self.speaks = False
        self.ahead_ms = 0

    def add(self, schedule: Schedule) -> None:
        """Take in a new one."""
        self.by_name[schedule.name] = schedule
        schedule.number = self.index.add(schedule)

    def drop(self, name: bytes) -> None:
        """Forget one, if it is there."""
        schedule = self.by_name.pop(name, None)
        if schedule is not None:
            self.index.drop(schedule.number)
            schedule.due_ms = 0

    def look_at(self, schedule: Schedule) -> None:
        """Have a schedule looked at."""
        if not schedule.in_line:
            schedule.in_line = True
            self.line.append(schedule)

    def has_work(self) -> bool:
        """Whether some can be looked at now."""
        return len(self.line) > 0 and len(self.open) < OPEN_MOST

    def wake_at(self, schedule: Schedule, due_ms: int) -> None:
        """Have a schedule looked at at this time of the wall clock."""
        if schedule.due_ms == due_ms:
            return
        schedule.due_ms = due_ms
        if due_ms:
            self._serial += 1
            heappush(self._heap, (due_ms, self._serial, schedule))
            if len(self._heap) > 2 * len(self.by_name) + STALE_MOST:
                self._heap = [one for one in self._heap if one[2].due_ms == one[0]]
                heapify(self._heap)

    def due(self, wall_ms: int, most: int) -> None:
        """Put those whose time has come into the line: so many, or less where some are not due any more."""
        heap = self._heap
        for _ in range(most):
            if not heap or heap[0][0] > wall_ms:
                return
            due_ms, _, schedule = heappop(heap)
            if schedule.due_ms == due_ms:
                schedule.due_ms = 0
                self.look_at(schedule)

    def next_ms(self) -> int:
        """When the next one is due by the wall clock, or earlier, where many are not due any more; 0: none is."""
        heap = self._heap
        left = SHELLS_MOST
        while left > 0 and heap and heap[0][2].due_ms != heap[0][0]:
            heappop(heap)
            left -= 1
        return heap[0][0] if heap else 0

    def drop_job(self, job: "Job") -> int:
        """As in `Part`: it has nothing of single jobs."""
        del job
        return 0

    def clear(self) -> None:
        """As in `Part`. Schedules stay: they are entries of the registry. What was being fired is fired again."""
        self.alarm = Alarm()
        self.open = []
        for schedule in self.by_name.values():
            if schedule.session is not None:
                schedule.session.closing = True  # nobody goes on with what it is owed
                schedule.session = None
            schedule.tries = 0
            self.look_at(schedule)

    def cost(self) -> int:
        """As in `Part`: they count as entries of the registry."""
        return 0
