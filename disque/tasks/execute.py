"""How a function is called on its job: arguments, what it depends on, middleware, and where it runs.

`Execution.run` never raises: what comes of each job is its value. It is the same in a worker, in the process of a task
that computes, and in tests.
"""

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any, Final, Protocol

from disque.client import CommandError, DisqueError, NewJob
from disque.client.errors import NoPermError
from disque.client.values import Name, text_of
from disque.tasks.chains import following
from disque.tasks.context import CURRENT
from disque.tasks.errors import Cancelled, Discard, EncodeError, MessageError
from disque.tasks.held import Held, Run
from disque.tasks.message import Format, Message, decode, dump_result
from disque.tasks.middleware import Event, Middleware, around, enqueue
from disque.tasks.outcome import Back, Done, Gone, Outcome, of_error
from disque.tasks.task import Task
from disque.tasks.threads import ThreadRun, Threads
from disque.tasks.tracing import tracing

LOG: Final = logging.getLogger("disque.tasks")

#: A next job that cannot be added now is added again after so long, while the lease lasts.
AGAIN_S: Final = 0.5
#: What a node says again however often it is asked: what the job says is wrong, or may not be said.
FOR_GOOD: Final = (CommandError, NoPermError)
#: What most jobs come to.
DONE: Final = Done()

Add = Callable[[NewJob], Awaitable[str]]
#: Hears of a job whose next one could not be added.
Late = Callable[[str], None]


class Cpu(Protocol):
    """Processes for functions that compute."""

    async def run(self, body: bytes, run: Run) -> Any:  # noqa: ANN401 - what it returns
        """Call the function of a message in a process. Raises what it raises, as far as that can be told."""


class Registry(Protocol):
    """What is needed of an app."""

    tasks: dict[str, Task[Any, Any]]
    builtins: dict[str, Task[Any, Any]]
    format: Format

    def layers(self) -> Sequence[Middleware]:
        """What is around each run."""


def read(app: Registry, held: Held) -> None:
    """Read the message of a job, and find its task. Raises MessageError."""
    message = held.message = decode(held.body)
    held.task = app.tasks.get(message.task) or app.builtins.get(message.task)
    if held.task is None:
        known = ", ".join(sorted(app.tasks)) or "none"
        raise MessageError(f"this worker has no task {message.task!r}; it has: {known[:300]}")


def begin(held: Held, now_s: float, wall_s: float) -> Run:
    """The call that a job asks for, whose time begins now. Raises MessageError, and TimeoutError if it is too late."""
    message, task = held.message, held.task
    assert message is not None
    assert task is not None
    args, kwargs = task.shape.read(message.args, message.kwargs)
    run = Run(task, [held], args, kwargs, now_s)
    limit(run, task.timeout_s if message.timeout is None else message.timeout, now_s)
    most_s = left_s(held, wall_s)
    if most_s is not None and (run.until_s is None or now_s + most_s < run.until_s):
        limit(run, most_s, now_s)
    held.run = run
    return run


def left_s(held: Held, wall_s: float) -> float | None:
    """How long it is until the deadline of a job, None if it has none. Raises TimeoutError if that is over."""
    if held.message is None or held.message.deadline is None:
        return None
    left = held.message.deadline - wall_s
    if left <= 0:
        raise TimeoutError(f"its deadline was over {-left:.1f} s before it could begin")
    return left


def limit(run: Run, timeout_s: float | None, now_s: float) -> None:
    """Say for how long a call may run; 0 is without end."""
    run.timeout_s = timeout_s or None
    run.until_s = None if run.timeout_s is None else now_s + run.timeout_s


class Execution:
    """Calls functions. ``add`` adds the next jobs of chains. Without ``threads`` plain functions run right here.

    ``late`` hears of each job whose next one could not be added: nobody may want it any more.
    """

    def __init__(
        self, app: Registry, threads: Threads | None, cpu: Cpu | None, add: Add, late: Late = lambda _: None
    ) -> None:
        self.app = app
        self.threads = threads
        self.cpu = cpu
        self.add = add
        self.late = late
        self._pid = os.getpid()

    async def run(self, run: Run) -> Outcome:
        """Call the function: what becomes of the jobs."""
        try:
            layers = self.app.layers()
            if layers:
                return await self._through(layers, run)
            return await self._ended(run, await self.function(run))
        except BaseException as error:  # noqa: BLE001 - SystemExit, groups, what not: it ends a job, not the worker
            try:
                return self._failed(run, error)
            except BaseException:  # noqa: BLE001 - an error that cannot even be told, such as groups in groups without end
                return once(run.task, Back(type(error).__name__))

    async def _through(self, layers: Sequence[Middleware], run: Run) -> Outcome:
        """Call the function with middleware around it. What comes after it belongs to its span, if there is one."""
        context = run.context()
        event = Event(
            "run", run.task.name, context.queue, run.args, run.kwargs, dict(context.headers), context.id, context.tries
        )

        async def rest() -> Outcome:
            inner = [one for one in layers if one is not tracing]
            return await self._ended(run, await around(inner, event, lambda: self.function(run))())

        if tracing not in layers:
            return await rest()
        outcome: Outcome = await tracing(event, rest)
        return outcome

    async def _ended(self, run: Run, value: object) -> Outcome:
        if run.why == "cancelled":
            return Gone()
        return await self._succeeded(run, value) if wants_more(run) else DONE

    async def function(self, run: Run) -> Any:  # noqa: ANN401 - what it returns
        """Call the function without middleware, where it belongs. Raises what it raises."""
        task = run.task
        if task.cpu and self.cpu is not None:
            return await self.cpu.run(run.jobs[0].body, run)
        CURRENT.set(run.context())
        if not task.plan.parts:
            return await self._plainly(run, run.kwargs)
        async with AsyncExitStack() as stack:
            return await self._plainly(run, {**run.kwargs, **await task.plan.fill(stack, {})})

    async def _plainly(self, run: Run, kwargs: dict[str, Any]) -> Any:  # noqa: ANN401 - the same
        function = run.task.function
        if run.task.is_async:
            value = await function(*run.args, **kwargs)
        elif self.threads is None:
            value = function(*run.args, **kwargs)
        else:
            run.thread = ThreadRun()
            value = await self.threads.run(run.thread, lambda: function(*run.args, **kwargs))
        if os.getpid() != self._pid:
            os._exit(1)  # the child of a fork in the function: the parent has the job
        return value

    async def _succeeded(self, run: Run, value: object) -> Outcome:
        result = None
        try:
            for held in run.jobs:
                message = held.message
                if message is not None and message.result and value is not None and result is None:
                    result = dump_result(value, self.app.format)
                if message is not None and message.then:
                    await self._follow(held.id, *following(message.then, held.id, value, self.app.format))
        except (EncodeError, MessageError) as error:
            return Back(f"the function has ended, but {type(error).__name__}: {error}", dead=True)
        except FOR_GOOD as error:
            return Back(f"the function has ended, but the next job was refused: {error}", dead=True)
        return Done(result)

    async def _follow(self, before: str, job: NewJob, call: Message) -> None:
        """Add the next job of a chain, through the middleware. Raises what no other attempt would mend."""
        layers = self.app.layers()
        if not layers:
            await self._add(before, job)
            return
        headers = {text_of(name): text_of(value) for name, value in (job.headers or {}).items()}
        event = Event("enqueue", call.task, text_of(job.queue), list(call.args), dict(call.kwargs), headers)

        async def last() -> str:
            said = dict[Name, Name](event.headers.items())
            return await self._add(before, job._replace(headers=said or None))

        await enqueue(layers, event, last)

    async def _add(self, before: str, job: NewJob) -> str:
        """Add a job, as often as that takes."""
        while True:
            try:
                return await self.add(job)
            except FOR_GOOD:
                raise
            except DisqueError as error:
                LOG.warning("the next job of a chain, %s, cannot be added now: %s", job.unique, error)
                self.late(before)
                await asyncio.sleep(AGAIN_S)

    def _failed(self, run: Run, error: BaseException) -> Outcome:
        if run.why is not None and isinstance(error, asyncio.CancelledError | Cancelled):
            return ended_by_worker(run)
        outcome = of_error(error)
        if isinstance(outcome, Back) and outcome.error is not None:
            name, job_id = run.task.name, run.jobs[0].id
            if isinstance(error, Exception) and not isinstance(error, MessageError):
                LOG.warning("task %s failed, job %s", name, job_id, exc_info=error)
            else:
                LOG.warning("task %s failed, job %s: %s", name, job_id, outcome.error)
        elif isinstance(error, Discard):
            LOG.info("task %s discarded job %s: %s", run.task.name, run.jobs[0].id, error)
        return once(run.task, outcome)


def wants_more(run: Run) -> bool:
    """Whether more is to be said than that the jobs are done, or more to be done."""
    for held in run.jobs:
        message = held.message
        if message is not None and (message.result or message.then):
            return True
    return False


def ended_by_worker(run: Run) -> Outcome:
    """What becomes of jobs whose function was ended for a reason of the worker's."""
    if run.why == "timeout":
        LOG.warning("task %s, job %s: ran longer than %g s", run.task.name, run.jobs[0].id, run.timeout_s or 0)
        return once(run.task, Back(f"TimeoutError: ran longer than {run.timeout_s:g} s"))
    if run.why == "stop":
        return once(run.task, Back(counts=False))
    return Gone()


def once(task: Task[Any, Any], outcome: Outcome) -> Outcome:
    """A job of a task that is run at most once cannot go back: what would, ends."""
    if isinstance(outcome, Back) and task.options.at_most_once:
        return Back(outcome.error or "its worker was stopped, and it is run at most once", dead=True)
    return outcome


def wall_s() -> float:
    """The time of day: deadlines are in it, and nothing else."""
    return time.time()
