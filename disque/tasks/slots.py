"""Which job begins next: at most so many at once, and of a task with a limit at most as many as that says.

Tasks that compute have a limit together: as many as there are processes for them. So none of them waits for a process
while its time runs, and a worker takes no more of them than it can soon begin.

Jobs of a task at its limit step aside, and are begun when one of them ends. Others of the same queue pass them. When
some wait aside, nothing more is taken from their queues, else these would fill the worker with jobs that it cannot
begin: so a queue of which most jobs are of a task with a limit goes at the pace of that task.
"""

from collections import Counter, deque
from collections.abc import Iterable
from typing import Any, Final

from disque.tasks.held import Held
from disque.tasks.task import Task

#: So many of a task may wait aside before nothing more is taken from their queue: as many as may run, and at least so
#: many.
ASIDE_LEAST: Final = 10


class Slots:
    """Jobs that are ready, those that step aside, and how many run."""

    def __init__(self, most: int, cpus: int = 1) -> None:
        if most < 1:
            raise ValueError(f"concurrency must be at least 1, not {most}")
        self.most = most
        self.cpus = cpus
        self.running = 0
        self.ready: deque[Held] = deque()
        self._aside: dict[Task[Any, Any], deque[Held]] = {}
        self._of_task: Counter[Task[Any, Any]] = Counter()
        self._computing = 0

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

    def left(self, task: Task[Any, Any] | None) -> int:
        """How many of a task could begin now."""
        left = self.free
        if task is not None and task.limit is not None:
            left = min(left, task.limit - self._of_task[task])
        if task is not None and task.cpu:
            left = min(left, self.cpus - self._computing)
        return left

    def room(self, tasks: Iterable[Task[Any, Any] | None]) -> int:
        """How many jobs could begin now if they are all of these tasks."""
        left, computing = 0, 0
        for task in tasks:
            if task is not None and task.cpu:
                computing += self.left(task)
            else:
                left += self.left(task)
        return min(self.free, left + min(computing, self.cpus - self._computing))

    def next(self) -> Held | None:
        """The job that begins now, whose place it takes; `ended` must follow."""
        while self.ready and self.running < self.most:
            held = self.ready.popleft()
            task = held.task
            if self.left(task) > 0:
                self.force(task)
                return held
            assert task is not None  # it has a limit
            self._aside.setdefault(task, deque()).append(held)
        return None

    def force(self, task: Task[Any, Any] | None) -> None:
        """A job of this task begins, whether there is a place or not."""
        self._count(task, 1)

    def ended(self, task: Task[Any, Any] | None) -> None:
        """A job of this task has ended: one that waits aside for that is ready."""
        self._count(task, -1)
        if task is None or not self._aside:
            return
        waiting = [one for one in self._aside if one is task or (task.cpu and one.cpu)]
        for one in waiting:
            if self.left(one) > 0:
                aside = self._aside.pop(one)
                self.ready.appendleft(aside.popleft())
                if aside:
                    self._aside[one] = aside  # behind the others, which have their turn first next time
                return

    def _count(self, task: Task[Any, Any] | None, sign: int) -> None:
        self.running += sign
        if task is not None and task.limit is not None:
            self._of_task[task] += sign
        if task is not None and task.cpu:
            self._computing += sign

    def blocked(self) -> set[str]:
        """Queues of which enough jobs wait for a task with a limit."""
        return {held.queue for task, aside in self._aside.items() if self._is_enough(task, aside) for held in aside}

    def all_waiting(self) -> list[Held]:
        """The jobs that have not begun."""
        return [*self.ready, *(held for aside in self._aside.values() for held in aside)]

    def drain(self) -> list[Held]:
        """The same, and they are not there any more."""
        drained = self.all_waiting()
        self.ready.clear()
        self._aside.clear()
        return drained

    def _is_enough(self, task: Task[Any, Any], aside: deque[Held]) -> bool:
        """Whether no more jobs of a task should be taken that can only wait."""
        limits = [one for one in (task.limit, self.cpus if task.cpu else None) if one is not None]
        return len(aside) >= max(ASIDE_LEAST, min(limits))
