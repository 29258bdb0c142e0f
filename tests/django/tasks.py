"""Tasks for tests."""

import os
import threading
from typing import Any

import django

if django.VERSION >= (6,):
    from django.tasks import task
else:
    from django_tasks import task

#: What a test waits for, and what a task waits for.
BEGUN = threading.Event()
GO = threading.Event()


@task
def add(one: int, other: int = 1) -> int:
    return one + other


@task
async def later(number: int) -> int:
    return -number


@task
def fail(text: str) -> None:
    raise ValueError(text)


@task
def give_up() -> None:
    raise SystemExit(1)


@task
def fork() -> int:
    child = os.fork()
    if child == 0:
        raise SystemExit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@task(takes_context=True)
def attempt(context: Any) -> list[Any]:
    if context.attempt == 1:
        raise ConnectionError("not yet")
    return [context.attempt, context.task_result.id]


@task
def length(text: str, *, more: str = "") -> int:
    return len(text + more)


@task
def large() -> str:
    return "x" * 2_000_000


@task
def strange() -> object:
    return object()


@task
def wait() -> str:
    BEGUN.set()
    GO.wait(60)
    return "waited"
