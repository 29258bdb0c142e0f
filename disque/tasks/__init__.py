"""Workers: functions that run elsewhere and later, typed through, on the jobs of a cluster.

from disque.tasks import App, exponential

app = App("disque://node-1,node-2")

@app.task(queue="mail", tries=5, backoff=exponential(1, 600), timeout=30)
async def welcome(user_id: int) -> None: ...

await welcome.enqueue(7)

and `disque worker module:app` runs them. Nothing of the server is imported here.
"""

from importlib.util import find_spec

if find_spec("redis") is None:
    raise ImportError("tasks need redis-py: pip install 'disque-server[tasks]'", name="redis")

from disque.tasks.app import App
from disque.tasks.backoff import exponential, fixed, linear
from disque.tasks.context import Context, current
from disque.tasks.depends import Depends
from disque.tasks.errors import (
    Cancelled,
    Dead,
    Discard,
    EncodeError,
    JobFailedError,
    MessageError,
    NotDoneError,
    ResultLostError,
    Retry,
    Snooze,
    TaskError,
)
from disque.tasks.groups import Group
from disque.tasks.handle import Job, SyncJob
from disque.tasks.middleware import Event, Go
from disque.tasks.options import Options
from disque.tasks.task import AsyncTask, Bound, SyncTask, Task

__all__ = [
    "App",
    "AsyncTask",
    "Bound",
    "Cancelled",
    "Context",
    "Dead",
    "Depends",
    "Discard",
    "EncodeError",
    "Event",
    "Go",
    "Group",
    "Job",
    "JobFailedError",
    "MessageError",
    "NotDoneError",
    "Options",
    "ResultLostError",
    "Retry",
    "Snooze",
    "SyncJob",
    "SyncTask",
    "Task",
    "TaskError",
    "current",
    "exponential",
    "fixed",
    "linear",
]
