"""Work that takes longer than RETRY: WORKING is sent in the background as often as needed.

The reply of WORKING is the RETRY of the job. So the first beat shows how often to beat: three times a RETRY, and at
least ten times a second for a RETRY of a second or less. A job that this consumer has lost (NOJOB, TOOLATE, CANCELLED,
NOPERM) is left out from then on, and listed in ``errors``. A beat that no node answered is tried again with the next
one.
"""

import threading
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from disque.client.bell import Bell
from disque.client.config import Address
from disque.client.errors import DisqueError, UnavailableError
from disque.client.job import AnyJob

if TYPE_CHECKING:
    from disque.client.client import Disque

#: Until a beat was answered.
FIRST_S: Final = 0.3
SHORTEST_S: Final = 0.1
LONGEST_S: Final = 60.0
BEATS: Final = 3


class Pulse:
    """Which jobs are kept, when the next beat is due, and what went wrong. ``errors`` is by the ID of the job.

    ``progress`` is what is to be said of the work.
    """

    def __init__(self, ids: Sequence[str]) -> None:
        self.ids = list(ids)
        self.errors: dict[str, DisqueError] = {}
        self.interval_s = FIRST_S
        self.progress: str | None = None
        self._said: str | None = None
        self._told: str | None = None

    def news(self) -> str | None:
        """What the next beat says of the work, if no beat that was answered has said it."""
        self._said = self.progress
        return None if self._said == self._told else self._said

    def answered(self, answers: Sequence[int | DisqueError]) -> None:
        """Take what a beat was answered."""
        self._told = self._said
        kept = []
        for job_id, answer in zip(list(self.ids), answers, strict=True):
            if isinstance(answer, DisqueError):
                self.errors[job_id] = answer
            else:
                kept.append(job_id)
        self.ids = kept
        retries = [answer for answer in answers if isinstance(answer, int) and answer > 0]
        if retries:
            self.interval_s = min(max(min(retries) / BEATS, SHORTEST_S), LONGEST_S)

    def missed(self, error: DisqueError) -> None:
        """No node has answered a beat: the next one may. Other errors end it for all."""
        if not isinstance(error, UnavailableError):
            self.errors.update(dict.fromkeys(self.ids, error))
            self.ids = []


def check(errors: dict[str, DisqueError]) -> None:
    """Raise the first of these errors, if there is one."""
    for error in errors.values():
        raise error


def ids_of(jobs: Sequence[AnyJob | str]) -> list[str]:
    """The IDs of jobs, or IDs as they are."""
    return [job.id if isinstance(job, AnyJob) else job for job in jobs]


def node_of(jobs: Sequence[AnyJob | str]) -> Address | None:
    """The node that gave these jobs; of several, the first."""
    return next((job.node for job in jobs if isinstance(job, AnyJob)), None)


class KeepWorking:
    """Keeps jobs while a block runs, with a thread that ends with the block.

    ``errors`` has the jobs that can be kept no longer, by ID, and `check` raises the first of them; the block itself
    goes on, since its ACKJOB counts all the same.
    """

    def __init__(self, client: "Disque", jobs: Sequence[AnyJob | str]) -> None:
        self._client = client
        self._node = node_of(jobs)
        self._pulse = Pulse(ids_of(jobs))
        self._end = Bell()
        self._thread: threading.Thread | None = None

    @property
    def errors(self) -> dict[str, DisqueError]:
        """Why which jobs are not kept any more."""
        return dict(self._pulse.errors)

    def check(self) -> None:
        """Raise if a job can be kept no longer: `NoJobError`, `TooLateError`, `JobCancelledError`."""
        check(self.errors)

    def progress(self, text: str) -> None:
        """Say with the next beat how far the work is: at most 1 KB, which `Disque.result` shows."""
        self._pulse.progress = text

    def beat(self) -> None:
        """Say WORKING once."""
        pulse = self._pulse
        if pulse.ids:
            try:
                pulse.answered(self._client.working_at(self._node, pulse.ids, pulse.news()))
            except DisqueError as error:
                pulse.missed(error)

    def start(self) -> Self:
        """Say WORKING now, and begin to say it in the background."""
        self.beat()
        self._thread = threading.Thread(target=self._run, name="disque-keep-working", daemon=True)
        try:
            self._thread.start()
        except BaseException:  # Ctrl-C: it may have begun, and nobody would end it
            self._end.ring()
            raise
        return self

    def stop(self) -> None:
        """End it, and wait for the thread."""
        self._end.ring()
        if self._thread is not None and self._thread.is_alive():
            self._thread.join()
        self._thread = None

    def _run(self) -> None:
        while self._pulse.ids and not self._end.wait(self._pulse.interval_s):
            self.beat()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()
