"""Which job begins next: at most so many at once, and of a task with a limit at most as many as that says.

Jobs of a task at its limit step aside, and are begun when one of them ends. Others of the same queue pass them. When
some wait aside, nothing more is taken from their queues, else these would fill the worker with jobs that it cannot
begin: so a queue of which most jobs are of a task with a limit goes at the pace of that task.
"""

from collections import Counter, deque
from typing import Any, Final

from disque.tasks.held import Held
from disque.tasks.task import Task

#: So many of a task may wait aside before nothing more is taken from their queue: as many as may run, and at least so
#: many.
ASIDE_LEAST: Final = 10


class Slots:
    """Jobs that are ready, those that step aside, and how many run."""

    def __init__(self, most: int) -> None:
        if most < 1:
            raise ValueError(f"concurrency must be at least 1, not {most}")
        self.most = most
        self.running = 0
        self.ready: deque[Held] = deque()
        self._aside: dict[Task[Any, Any], deque[Held]] = {}
        self._of_task: Counter[Task[Any, Any]] = Counter()

    @property
    def free(self) -> int:
        """How many could begin now."""
        return self.most - self.running

    @property
    def waiting(self) -> int:
        """How many jobs have not begun."""
        return len(self.ready) + sum(map(len, self._aside.values()))

    def put(self, held: Held) -> None:
        """One more job that can begin."""
        self.ready.append(held)

    def next(self) -> Held | None:
        """The job that begins now, whose place it takes; `ended` must follow."""
        while self.ready and self.running < self.most:
            held = self.ready.popleft()
            task = held.task
            if task is None or task.limit is None:
                self.running += 1
                return held
            if self._of_task[task] < task.limit:
                self.force(task)
                return held
            self._aside.setdefault(task, deque()).append(held)
        return None

    def force(self, task: Task[Any, Any]) -> None:
        """A job of this task begins, whether there is a place or not."""
        self.running += 1
        if task.limit is not None:
            self._of_task[task] += 1

    def ended(self, task: Task[Any, Any] | None) -> None:
        """A job of this task has ended."""
        self.running -= 1
        if task is None or task.limit is None:
            return
        self._of_task[task] -= 1
        aside = self._aside.get(task)
        if aside:
            self.ready.appendleft(aside.popleft())
            if not aside:
                del self._aside[task]

    def blocked(self) -> set[str]:
        """Queues of which enough jobs wait for a task with a limit."""
        return {held.queue for task, aside in self._aside.items() if is_enough(task, aside) for held in aside}

    def all_waiting(self) -> list[Held]:
        """The jobs that have not begun."""
        return [*self.ready, *(held for aside in self._aside.values() for held in aside)]

    def drain(self) -> list[Held]:
        """The same, and they are not there any more."""
        drained = self.all_waiting()
        self.ready.clear()
        self._aside.clear()
        return drained


def is_enough(task: Task[Any, Any], aside: deque[Held]) -> bool:
    """Whether no more jobs of a task should be taken that can only wait."""
    return len(aside) >= max(ASIDE_LEAST, task.limit or 0)
