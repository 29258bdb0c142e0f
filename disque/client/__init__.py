"""The Python client: queues, jobs and many nodes on top of redis-py, blocking and with asyncio.

from disque.client import Disque

with Disque.from_url("disque://localhost:7711") as disque:
    disque.add("mails", "to: ada")
    for job in disque.jobs("mails"):
        with job:  # acknowledged, or given back if an exception leaves the block
            send(job.text())
"""

from importlib.util import find_spec

if find_spec("redis") is None:
    raise ImportError("the client needs redis-py: pip install 'disque-server[client]'", name="redis")

from disque.client.async_client import AsyncDisque
from disque.client.async_job import AsyncJob
from disque.client.client import Disque
from disque.client.config import Config
from disque.client.ends import Ended, Result
from disque.client.errors import (
    BadIdError,
    CommandError,
    DeniedError,
    DisqueError,
    IncompleteError,
    JobCancelledError,
    LeavingError,
    LoadingError,
    MaxlenError,
    MisconfError,
    NoAuthError,
    NoCronError,
    NoJobError,
    NoPermError,
    NoProtoError,
    NoReplError,
    OomError,
    PausedError,
    TooLateError,
    TooLongError,
    UnavailableError,
    UnexpectedReplyError,
    UnknownCodeError,
    WrongPassError,
)
from disque.client.job import Job
from disque.client.listening import Event, Message
from disque.client.newjob import NewJob
from disque.client.replies import Delivered, Meta, NodeInfo
from disque.client.schedules import Schedule
from disque.client.sweeps import Swept
from disque.client.terms import Backoff
from disque.client.values import json_body

__all__ = [
    "AsyncDisque",
    "AsyncJob",
    "Backoff",
    "BadIdError",
    "CommandError",
    "Config",
    "Delivered",
    "DeniedError",
    "Disque",
    "DisqueError",
    "Ended",
    "Event",
    "IncompleteError",
    "Job",
    "JobCancelledError",
    "LeavingError",
    "LoadingError",
    "MaxlenError",
    "Message",
    "Meta",
    "MisconfError",
    "NewJob",
    "NoAuthError",
    "NoCronError",
    "NoJobError",
    "NoPermError",
    "NoProtoError",
    "NoReplError",
    "NodeInfo",
    "OomError",
    "PausedError",
    "Result",
    "Schedule",
    "Swept",
    "TooLateError",
    "TooLongError",
    "UnavailableError",
    "UnexpectedReplyError",
    "UnknownCodeError",
    "WrongPassError",
    "json_body",
]
