"""What tasks raise to say what becomes of their job, and what goes wrong with jobs of tasks."""

from disque.client.values import Duration, milliseconds


class Verdict(Exception):  # noqa: N818 - what a function says of its job, which is no error
    """The base of what a function raises to say what becomes of its job. The text is why."""


class Retry(Verdict):
    """Try the job again, after ``delay``, or after its back-off if that is None. This try is used up."""

    def __init__(self, delay: Duration | None = None, reason: str = "") -> None:
        super().__init__(reason)
        self.delay_s = None if delay is None else seconds(delay, "delay")


class Snooze(Verdict):
    """Do the job later, after ``delay``. No try is used up: nothing went wrong, it is only not yet time."""

    def __init__(self, delay: Duration, reason: str = "") -> None:
        super().__init__(reason)
        self.delay_s = seconds(delay, "delay")


class Discard(Verdict):
    """Nobody needs this job any more: it is done, without a result."""


class Dead(Verdict):
    """The job can never succeed: it is a dead letter now, whatever tries are left."""


class TaskError(Exception):
    """The base of what goes wrong with tasks and their jobs."""


class MessageError(TaskError):
    """A body that is not the message of a task, a task that is not known, or arguments that do not fit."""


class EncodeError(TaskError, TypeError):
    """A value that cannot be sent: an argument, or what a task has returned."""


class JobFailedError(TaskError):
    """A job has ended without success. ``status`` is how: see `disque.client.Ended`; ``error`` is the last one."""

    def __init__(self, job_id: str, status: str, error: str | None) -> None:
        super().__init__(f"job {job_id} is {status}" + (f": {error}" if error else ""))
        self.job_id = job_id
        self.status = status
        self.error = error


class ResultLostError(JobFailedError):
    """A job has ended, and nobody knows any more how: ``retain`` says for how long that is kept."""


class NotDoneError(TaskError, TimeoutError):
    """A job has not ended in the time that it was waited for."""


class Cancelled(BaseException):
    """Raised inside of a function that runs in a thread, when its job is cancelled or its time is over."""


def seconds(duration: Duration, what: str) -> float:
    """A duration in seconds. Raises TypeError, and ValueError for a negative one."""
    found = milliseconds(duration, what) / 1000
    if found < 0:
        raise ValueError(f"{what} must not be negative")
    return found
