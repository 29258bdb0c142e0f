"""Holding claims: WORKING for every job of a batch, as long as the batch runs.

The RETRY of a job is not known when it is delivered. The first answer to WORKING has it. So the first beat comes soon
enough for the shortest possible RETRY, one second, and the next ones three times in a RETRY. A batch that is done
before the first beat costs nothing.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from disque.spark.commits import LOG

#: Until the first beat, and after one that was not answered.
FIRST_S: Final = 0.5
#: Beats in one RETRY.
BEATS: Final = 3
#: The most between two beats: who stops holding is found out soon.
LONGEST_S: Final = 30.0

#: Says WORKING of jobs. For each the seconds of its RETRY; None if it can be held no longer; nothing if no node says.
Working = Callable[[list[str]], Mapping[str, int | None]]


class Schedule:
    """Which jobs are held, and when each is due. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._due_s: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._due_s)

    def hold(self, ids: Iterable[str], now_s: float) -> None:
        """Hold these from now on."""
        self._due_s.update(dict.fromkeys(ids, now_s + FIRST_S))

    def release(self, ids: Iterable[str]) -> None:
        """Hold these no longer."""
        for one in ids:
            self._due_s.pop(one, None)

    def due(self, now_s: float) -> list[str]:
        """The jobs of which WORKING is to be said now."""
        return [one for one, due_s in self._due_s.items() if due_s <= now_s]

    def next_s(self) -> float | None:
        """When the next is due."""
        return min(self._due_s.values(), default=None)

    def answered(self, asked: Iterable[str], answers: Mapping[str, int | None], now_s: float) -> list[str]:
        """Take what was answered to a beat. The jobs that cannot be held are given, and not held any more."""
        lost = []
        for one in asked:
            if one not in self._due_s:
                continue
            if one not in answers:
                self._due_s[one] = now_s + FIRST_S
                continue
            retry_s = answers[one]
            if retry_s is None:
                lost.append(one)
                del self._due_s[one]
            else:
                self._due_s[one] = now_s + min(max(retry_s, 1) / BEATS, LONGEST_S)
        return lost


class Heartbeat:
    """A thread that holds jobs as long as this process lives, or until they are released."""

    def __init__(self, working: Working, clock: Callable[[], float]) -> None:
        self._working = working
        self._clock = clock
        self._schedule = Schedule()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._stopped = False

    def hold(self, ids: Iterable[str]) -> None:
        """Hold jobs from now on."""
        with self._changed:
            self._schedule.hold(ids, self._clock())
            self._changed.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="disque-heartbeat", daemon=True)
                self._thread.start()

    def release(self, ids: Iterable[str]) -> None:
        """Hold jobs no longer."""
        with self._changed:
            self._schedule.release(ids)

    def stop(self) -> None:
        """Hold nothing any more. A beat that is under way ends by itself."""
        with self._changed:
            self._stopped = True
            self._changed.notify()

    def _run(self) -> None:
        while (due := self._await_due()) is not None:
            try:
                answers = self._working(due)
            except Exception as error:  # noqa: BLE001 - whatever it was, the next beat must come
                LOG.warning("claims could not be held, the next attempt follows: %s", error)
                answers = {}
            with self._changed:
                lost = self._schedule.answered(due, answers, self._clock())
            if lost:
                LOG.warning(
                    "%d jobs of this batch are gone, or can be held no longer and may be delivered again", len(lost)
                )

    def _await_due(self) -> list[str] | None:
        """Wait until some jobs are due; None when all is over."""
        with self._changed:
            while not self._stopped:
                now_s = self._clock()
                if due := self._schedule.due(now_s):
                    return due
                next_s = self._schedule.next_s()
                self._changed.wait(None if next_s is None else next_s - now_s)
            return None
