"""Tasks: functions that can be called elsewhere and later, with the types of a call.

A `Task` has the parameters of its function (ParamSpec), so that a wrong argument to `enqueue` is found by the type
checker, and at run time by the one who enqueues, not by the worker. `using` says options for a call, `bind` makes a
value of it that can be enqueued later, with others, or with something behind it.
"""

import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, Unpack, cast

from disque.client import Backoff, NewJob
from disque.tasks.depends import Plan
from disque.tasks.door import Door
from disque.tasks.errors import seconds
from disque.tasks.handle import Job, NotSentError, SyncJob
from disque.tasks.message import Format, Message, read
from disque.tasks.options import CallOptions, Options, key_of
from disque.tasks.shape import Shape

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
S = TypeVar("S")
R_co = TypeVar("R_co", covariant=True)


class Sender(Protocol):
    """What a task needs of its app."""

    format: Format
    lease_s: int
    options: Options

    def door(self) -> Door:
        """The door for asyncio."""

    def blocking_door(self) -> Door:
        """The one that blocks."""

    async def send(self, bound: "Bound[Any]") -> str:
        """Add the job of a call: its ID."""

    def send_now(self, bound: "Bound[Any]") -> str:
        """The same, blocking."""


class Call(Generic[P, R]):
    """A task together with the options of a call: what is left to say are the arguments."""

    __slots__ = ("options", "task")

    def __init__(self, task: "Task[Any, R]", options: Options) -> None:
        self.task = task
        self.options = options

    def bind(self, /, *args: P.args, **kwargs: P.kwargs) -> "Bound[R]":
        """This call as a value. Raises TypeError for arguments that do not fit."""
        self.task.shape.bind(args, kwargs)
        return Bound(self.task, self.options, args, kwargs)

    async def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """Add a job that makes this call: a handle for it. Raises TypeError, EncodeError, DisqueError."""
        return await self.bind(*args, **kwargs).enqueue()

    def enqueue_sync(self, /, *args: P.args, **kwargs: P.kwargs) -> SyncJob[R]:
        """The same without asyncio: from Django, Flask, threads. It blocks until the cluster has the job."""
        return self.bind(*args, **kwargs).enqueue_sync()

    def delay(self, /, *args: P.args, **kwargs: P.kwargs) -> SyncJob[R]:
        """The same as `enqueue_sync`, by the name that Celery has for it."""
        return self.enqueue_sync(*args, **kwargs)


class Task(Call[P, R]):
    """A function that can be enqueued. ``name`` is what its messages say: it must stay the same."""

    __slots__ = ("__dict__", "__weakref__", "app", "cpu", "function", "is_async", "limit", "name", "plan", "shape",
                 "timeout_s")  # fmt: skip

    def __init__(
        self,
        app: Sender,
        function: Callable[..., Any],
        name: str,
        options: Options,
        *,
        cpu: bool = False,
        limit: int | None = None,
    ) -> None:
        super().__init__(self, options.over(app.options))
        if limit is not None and limit < 1:
            raise ValueError(f"limit of task {name} must be at least 1, not {limit}")
        self.app = app
        self.function = function
        self.name = name
        self.cpu = cpu
        self.limit = limit
        self.is_async = inspect.iscoroutinefunction(function)
        #: For how long a call may run.
        self.timeout_s = self.options.timeout_s()
        self.shape = Shape(function, name, app.format)
        self.plan = Plan(function)
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", name)
        self.__module__ = getattr(function, "__module__", "")
        self.__wrapped__ = function

    @property
    def queue(self) -> str:
        """Where its jobs wait unless a call says otherwise."""
        return self.options.queue or "default"

    def using(self, **options: Unpack[CallOptions]) -> Call[P, R]:
        """The same task with other options, for one call or several."""
        return Call(self, Options(**options).over(self.options))

    def message(self, bound: "Bound[Any]", then: list[dict[str, Any]] | None) -> Message:
        """What a worker reads."""
        options = bound.options
        own = None if options.timeout == self.options.timeout else options.timeout_s()
        kept = options.keeps()
        return Message(self.name, list(bound.args), dict(bound.kwargs), own, options.deadline_s(), kept, then)

    def __repr__(self) -> str:
        return f"<Task {self.name}>"


class AsyncTask(Task[P, R]):
    """A task whose function is asynchronous. Called plainly, it is that function."""

    __slots__ = ()

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        """Call the function here and now."""
        return cast("Coroutine[Any, Any, R]", self.function(*args, **kwargs))


class SyncTask(Task[P, R]):
    """A task whose function is a plain one. Called plainly, it is that function."""

    __slots__ = ()

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function here and now."""
        return cast("R", self.function(*args, **kwargs))


@dataclass(frozen=True, slots=True)
class Link:
    """What comes after a call. ``takes``: its first argument is the result of the call before."""

    bound: "Bound[Any]"
    takes: bool


@dataclass(frozen=True, slots=True)
class Bound(Generic[R_co]):
    """A call that can be enqueued: task, options, arguments, and what comes after it."""

    task: Task[Any, Any]
    options: Options
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    links: tuple[Link, ...] = field(default=())

    @property
    def queue(self) -> str:
        """Where its job will wait."""
        return self.options.queue or "default"

    @property
    def last(self) -> "Bound[Any]":
        """The call at the end of the chain."""
        return self.links[-1].bound if self.links else self

    def then(self, task: "Call[Concatenate[R_co, Q], S]", /, *args: Q.args, **kwargs: Q.kwargs) -> "Bound[S]":
        """Call ``task`` when this has succeeded, with its result as the first argument and these behind it.

        The next job is added before this one is acknowledged, under a key made of this job's ID: so the chain goes on
        exactly once, whatever dies meanwhile. The handle has the ID of the first job, and the result of the last one.
        """
        following: Bound[Any] = Bound(task.task, task.options, args, kwargs)
        return replace(cast("Bound[S]", self), links=(*self.links, Link(following, takes=True)))

    def then_run(self, following: "Bound[S]", /) -> "Bound[S]":
        """The same for a call that does not want the result."""
        links = (*self.links, Link(replace(following, links=()), takes=False), *following.links)
        return replace(cast("Bound[S]", self), links=links)

    async def enqueue(self) -> Job[R_co]:
        """Add its job. See `Call.enqueue`."""
        return self.handle(await self.task.app.send(self))

    def enqueue_sync(self) -> SyncJob[R_co]:
        """The same without asyncio."""
        job_id = self.task.app.send_now(self)
        return SyncJob(self.task.app, job_id, self.task.name, self.queue, self._value, self._next_queues)

    def handle(self, job_id: str) -> Job[R_co]:
        """A handle for its job."""
        return Job(self.task.app, job_id, self.task.name, self.queue, self._value, self._next_queues)

    @property
    def _next_queues(self) -> tuple[str, ...]:
        return tuple([link.bound.queue for link in self.links])

    def _value(self, result: bytes | None) -> object:
        """What the last task has returned. Raises NotSentError, ConvertError."""
        task, options = self.last.task, self.last.options
        if result is None:
            if task.shape.returns and not options.keeps():
                raise NotSentError
            return None
        value, load = read(result), task.shape.result
        return value if load is None else load(value)

    def job(self, headers: Mapping[str, str] | None = None) -> NewJob:
        """The job that makes this call; ``headers`` are added to those of its options. Raises EncodeError."""
        task, options = self.task, self.options
        body = task.message(self, [link_words(one) for one in self.links] or None).encode(task.app.format)
        key = None
        if options.unique:
            key = key_of(task.name, options.unique, task.shape.arguments(tuple(self.args), self.kwargs))
        if headers:
            options = replace(options, headers={**(options.headers or {}), **headers})
        return options.job(self.queue, body, task.app.lease_s, key)


def link_words(link: Link) -> dict[str, Any]:
    """A call that comes later, as its message is carried by the one before. Raises TypeError, ValueError."""
    bound = link.bound
    delay, ttl = bound.options.delay, bound.options.ttl
    if delay and ttl is not None and seconds(delay, "delay") >= seconds(ttl, "ttl"):
        raise ValueError(f"task {bound.task.name}, which comes later, has a delay as long as its ttl, or longer")
    job = bound.options.job(bound.queue, b"", bound.task.app.lease_s, None)
    message = bound.task.message(bound, None)
    return {
        "call": {name: value for name, value in message._asdict().items() if is_said(value)},
        "queue": bound.queue,
        "takes": link.takes,
        "job": {name: term(value) for name, value in job._asdict().items() if name in TERMS and value is not None},
    }


def is_said(value: object) -> bool:
    """Whether a part of a message says something: 0 does, though it equals False."""
    return value is not None and value is not False and value not in ([], {})


#: What of a job is carried: all but what is its own.
TERMS = frozenset(NewJob._fields) - {"queue", "body", "unique", "window", "maxlen", "background"}


def term(value: object) -> object:
    """A value of an option as JSON has it."""
    if isinstance(value, Backoff):
        return value.word().decode()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, datetime):
        return value.timestamp()
    return dict(value) if isinstance(value, Mapping) else value
