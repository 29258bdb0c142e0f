"""Calls of functions: whatever they raise, it is the outcome of a job and nothing else."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from disque.client import CommandError, DisqueError, NewJob, NoReplError, OomError, PausedError, UnavailableError
from disque.client.errors import NoPermError
from disque.tasks import App, MessageError, current
from disque.tasks.execute import Execution, begin, read
from disque.tasks.held import Held, Run
from disque.tasks.message import Message
from disque.tasks.outcome import Back, Done, Gone, Outcome
from disque.tasks.threads import Threads

app = App()


@app.task(timeout=5)
async def echo(value: Any) -> Any:
    return value


@app.task
def plain(value: int) -> str:
    current().progress(f"at {value}")
    return f"{value} in {current().queue}, {current()!r}"


@app.task
async def leaves(kind: str) -> None:
    if kind == "exit":
        raise SystemExit(1)
    if kind == "interrupt":
        raise KeyboardInterrupt
    if kind == "group":
        raise BaseExceptionGroup("both", [ValueError("one"), SystemExit(2)])
    if kind == "cancel":
        raise asyncio.CancelledError
    await asyncio.sleep(1000)


@app.task(at_most_once=True)
async def once() -> None:
    raise ValueError("no")


def held(task: str, *args: object, **more: Any) -> Held:
    message = Message(task, list(args), {}, **more)
    return Held("D-1", "q", message.encode("json"), None, None, 1e9)


def run_of(one: Held, wall_s: float = 0.0) -> Run:
    read(app, one)
    return begin(one, 100.0, wall_s)


def outcome(run: Run, added: list[NewJob] | None = None, failures: Sequence[DisqueError] = ()) -> Outcome:
    left = list(failures)

    async def add(job: NewJob) -> str:
        if left:
            raise left.pop(0)
        assert added is not None
        added.append(job)
        return "D-2"

    async def scene() -> Outcome:
        run.handle = asyncio.current_task()
        return await asyncio.create_task(Execution(app, Threads(2), None, add).run(run))

    return asyncio.run(scene())


def test_results_are_sent_where_they_are_kept() -> None:
    assert outcome(run_of(held("echo", 5))) == Done()
    assert outcome(run_of(held("echo", 5, result=True))) == Done(b"5")
    assert outcome(run_of(held("echo", None, result=True))) == Done()
    one = held("plain", 7, result=True)
    assert outcome(run_of(one)) == Done(b'"7 in q, <Context D-1 of plain>"')
    assert one.progress == "at 7"


@pytest.mark.parametrize(
    ("kind", "first"),
    [
        ("exit", "SystemExit: 1"),
        ("interrupt", "KeyboardInterrupt"),
        ("group", "BaseExceptionGroup: both (2 sub-exceptions)"),
        ("cancel", "CancelledError: the function was cancelled, and not by the worker"),
    ],
)
def test_whatever_a_function_raises_ends_its_job_only(kind: str, first: str) -> None:
    found = outcome(run_of(held("leaves", kind)))
    assert isinstance(found, Back)
    assert (found.error or "").splitlines()[0] == first
    assert found.counts


@pytest.mark.parametrize(
    ("why", "expected"),
    [
        ("timeout", Back("TimeoutError: ran longer than 5 s")),
        ("stop", Back(counts=False)),
        ("lost", Gone()),
        ("cancelled", Gone()),
    ],
)
def test_what_the_worker_ends(why: Any, expected: Outcome) -> None:
    async def scene() -> Outcome:
        async def add(_job: NewJob) -> str:
            return ""

        run = run_of(held("leaves", ""))
        run.timeout_s = 5.0
        task = asyncio.create_task(Execution(app, Threads(1), None, add).run(run))
        run.handle = task  # type: ignore[assignment]  # its value is not looked at
        await asyncio.sleep(0)
        run.cancel(why)
        return await task

    assert asyncio.run(scene()) == expected


def test_at_most_once_never_goes_back() -> None:
    found = outcome(run_of(held("once")))
    assert isinstance(found, Back)
    assert found.dead


def test_times_are_the_earliest_of_what_is_said() -> None:
    assert run_of(held("echo", 1)).until_s == 105.0
    assert run_of(held("echo", 1, timeout=2)).until_s == 102.0
    assert run_of(held("echo", 1, timeout=0)).until_s is None
    assert run_of(held("echo", 1, deadline=1003), 1000.0).until_s == 103.0
    assert run_of(held("echo", 1, deadline=1010), 1000.0).until_s == 105.0
    with pytest.raises(TimeoutError, match=r"deadline was over 1\.0 s before"):
        run_of(held("echo", 1, deadline=999), 1000.0)


def test_unknown_tasks_and_bodies_that_are_none() -> None:
    with pytest.raises(MessageError, match="no task 'nobody'; it has: echo, leaves, once, plain"):
        run_of(held("nobody"))
    with pytest.raises(MessageError, match="missing a required argument"):
        run_of(held("echo"))


LINK: dict[str, Any] = {"call": {"task": "plain", "args": [2]}, "queue": "next", "takes": True, "job": {"retry": 5}}


def test_the_next_job_of_a_chain_is_added_until_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("disque.tasks.execute.AGAIN_S", 0)
    added: list[NewJob] = []
    passing = [NoReplError("NOREPL"), OomError("OOM"), PausedError("PAUSED"), UnavailableError("no node")]
    assert outcome(run_of(held("echo", 1, then=[LINK])), added, passing) == Done()
    [job] = added
    assert (job.queue, job.body, job.retry) == ("next", b'{"task":"plain","args":[1,2]}', 5)
    assert (job.unique, job.window) == ("then:D-1", 86400)
    found = outcome(run_of(held("echo", 1, then=[{"call": {}}])), added)
    assert isinstance(found, Back)
    assert found.dead
    assert "what comes after the job cannot be read" in (found.error or "")


@pytest.mark.parametrize("error", [CommandError("DELAY is greater than TTL"), NoPermError("NOPERM not this queue")])
def test_a_next_job_that_is_refused_for_good_makes_a_dead_letter(error: DisqueError) -> None:
    found = outcome(run_of(held("echo", 1, then=[LINK])), [], [error])
    assert found == Back(f"the function has ended, but the next job was refused: {error}", dead=True)


def test_a_next_job_that_no_client_sends_makes_a_dead_letter() -> None:
    found = outcome(run_of(held("echo", 1, then=[{**LINK, "job": {"priority": "high"}}])), [])
    assert isinstance(found, Back)
    assert found.dead
    assert "what comes after the job cannot be read" in (found.error or "")
