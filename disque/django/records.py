"""A task as the body of a job, and what is known of the job as Django's `TaskResult`.

The body has the task, its arguments and its options, as JSON. While it runs, the worker says its name and the time as
the progress of the job. When it has returned, the result of the job is a record of all of it. When it has failed, its
last error is that of the dead letter, whose body is the task.
"""

import json
import traceback
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final, Self

from django.conf import settings
from django.utils import timezone
from django.utils.module_loading import import_string

from disque.django.api import Task, TaskError, TaskResult, TaskResultStatus

#: Nodes keep so many bytes of an error, and of what is said of the progress.
ERROR_MOST: Final = 4096
PROGRESS_MOST: Final = 1024
#: Why a task has failed that nobody has given back.
DIED: Final = "its workers have died, or took longer than their lease"


@dataclass(frozen=True)
class Attempts:
    """Who has tried: the IDs of workers, the last ones where there were many, and when the first and last one began."""

    workers: list[str] = field(default_factory=list)
    started_at: datetime | None = None
    last_at: datetime | None = None

    def begun(self, worker: str, now: datetime) -> Self:
        """The same with one more."""
        return type(self)([*self.workers, worker], self.started_at or now, now)

    def packed(self) -> str:
        """As the progress of a job."""
        workers = self.workers
        while len(text := json.dumps([workers, stamp(self.started_at), stamp(self.last_at)])) > PROGRESS_MOST:
            workers = workers[1:]
        return text

    @classmethod
    def unpacked(cls, progress: str | None) -> Self:
        """Out of the progress of a job; nothing where that is none."""
        try:
            workers, started_at, last_at = json.loads(progress or "")
            return cls([str(one) for one in workers], moment(started_at), moment(last_at))
        except (TypeError, ValueError):
            return cls()


def stamp(when: datetime | None) -> str | None:
    """A time as text."""
    return None if when is None else when.isoformat()


def moment(text: str | None) -> datetime | None:
    """A time out of its text, with a time zone if the project uses them. Raises ValueError."""
    if text is None:
        return None
    when = datetime.fromisoformat(text)
    if when.tzinfo is not None and not settings.USE_TZ:
        local: datetime = timezone.make_naive(when)
        return local
    return when


def now() -> datetime:
    """The time, as Django has it."""
    found: datetime = timezone.now()
    return found


def body(result: Any) -> str:
    """A task that was not added yet, as the body of a job. Raises TypeError for arguments that JSON cannot say."""
    task = result.task
    return json.dumps({
        "task": task.module_path,
        "args": result.args,
        "kwargs": result.kwargs,
        "queue": task.queue_name,
        "priority": task.priority,
        "run_after": stamp(task.run_after),
        "enqueued_at": stamp(result.enqueued_at),
    })  # fmt: skip


def new(task: Any, args: Any, kwargs: Any, backend: str) -> Any:
    """The result of a task that was not added yet. Raises TypeError, ValueError for arguments that JSON cannot say."""
    return TaskResult(
        task=task, id="", status=TaskResultStatus.READY, enqueued_at=now(), started_at=None, finished_at=None,
        last_attempted_at=None, args=list(args), kwargs=dict(kwargs), backend=backend, errors=[], worker_ids=[],
    )  # fmt: skip


def read(text: bytes, job_id: str, backend: str) -> Any:
    """The result of a task that waits, out of the body of its job.

    Raises ValueError, TypeError, LookupError for what is no task, ImportError for one that is not there.
    """
    words = json.loads(text)
    task = import_string(words["task"])
    if not isinstance(task, Task):
        raise TypeError(f"{words['task']} is no task")
    changes = {"backend": backend, "queue_name": words["queue"], "priority": words["priority"]}
    task = replace(task, **changes, run_after=moment(words["run_after"]))
    found = new(task, words["args"], words["kwargs"], backend)
    return replace(found, id=job_id, enqueued_at=moment(words["enqueued_at"]))


def running(result: Any, attempts: Attempts) -> Any:
    """The same while a worker has it."""
    return tried(result, attempts, TaskResultStatus.RUNNING)


def tried(result: Any, attempts: Attempts, status: Any) -> Any:
    """The same after attempts."""
    return replace(
        result, status=status, started_at=attempts.started_at, last_attempted_at=attempts.last_at,
        worker_ids=list(attempts.workers),
    )  # fmt: skip


def succeeded(result: Any, value: Any) -> Any:
    """The same at its end. ``value`` is what JSON can say."""
    ended = replace(result, status=TaskResultStatus.SUCCESSFUL, finished_at=now())
    object.__setattr__(ended, "_return_value", value)  # as Django's own backends do
    return ended


def failed(result: Any, error: Any, finished_at: datetime | None) -> Any:
    """The same after its last error."""
    errors = [*result.errors, error] if error is not None else result.errors
    return replace(result, status=TaskResultStatus.FAILED, finished_at=finished_at, errors=errors)


def end(result: Any, task_body: bytes, *, with_arguments: bool = True) -> bytes:
    """A task that has succeeded, as the result of its job. Raises TypeError for a value that JSON cannot say."""
    said = json.loads(task_body)
    if not with_arguments:
        said |= {"args": [], "kwargs": {}}
    attempts = Attempts(result.worker_ids, result.started_at, result.last_attempted_at)
    words = {
        "body": said,
        "value": result._return_value,  # noqa: SLF001 - what return_value gives, without looking at the status
        "finished_at": stamp(result.finished_at),
        "attempts": attempts.packed(),
        "errors": [[one.exception_class_path, one.traceback] for one in result.errors],
    }
    return json.dumps(words).encode()


def read_end(text: bytes, job_id: str, backend: str) -> Any:
    """The same back again. Raises as `read`."""
    words = json.loads(text)
    result = read(json.dumps(words["body"]).encode(), job_id, backend)
    result = tried(result, Attempts.unpacked(words["attempts"]), TaskResultStatus.SUCCESSFUL)
    errors = [TaskError(exception_class_path=path, traceback=trace) for path, trace in words["errors"]]
    ended = replace(result, finished_at=moment(words["finished_at"]), errors=errors)
    object.__setattr__(ended, "_return_value", words["value"])
    return ended


def error_of(error: BaseException) -> Any:
    """What Django keeps of an exception."""
    kind = type(error)
    trace = "".join(traceback.format_exception(error))
    return TaskError(exception_class_path=f"{kind.__module__}.{kind.__qualname__}", traceback=trace)


def error_text(error: Any) -> str:
    """An error as that of a job: class, time, and the end of the traceback, as much as a node keeps."""
    trace: str = error.traceback
    head = f"{error.exception_class_path}\n{datetime.now(UTC).isoformat()}\n"
    room = ERROR_MOST - len(head.encode())
    return head + trace.encode("utf-8", "backslashreplace")[-room:].decode("utf-8", "ignore")


def read_error(text: str | None) -> tuple[Any, datetime | None]:
    """An error and its time, out of that of a job; that may have been said by somebody else, or by nobody."""
    path, _, rest = (text or "").partition("\n")
    when, _, trace = rest.partition("\n")
    try:
        return TaskError(exception_class_path=path, traceback=trace), moment(when)
    except ValueError:
        shown = text or DIED
        return TaskError(exception_class_path="builtins.RuntimeError", traceback=shown), None
