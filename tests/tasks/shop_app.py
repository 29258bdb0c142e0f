"""An app that processes of tests import. Its node is in the environment."""

import asyncio
import logging
import multiprocessing
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from disque.tasks import App, Dead, Snooze, current

app = App(os.environ.get("SHOP_URL", "disque://127.0.0.1:1"), lease=int(os.environ.get("SHOP_LEASE", "2")), tries=3,
          backoff="fixed:0.05:0.05:0")  # fmt: skip


def note(text: str) -> None:
    """Write a line where the test reads it."""
    with Path(os.environ["SHOP_LOG"]).open("a") as log:
        log.write(f"{text}\n")


@app.task(retain=60)
async def mail(number: int) -> int:
    note(f"mail {number} try {current().tries}")
    return number


@app.task
async def slow(number: int, seconds: float) -> None:
    note(f"begin {number} try {current().tries}")
    await asyncio.sleep(seconds)
    note(f"end {number}")


@app.task
def stuck(number: int) -> None:
    note(f"stuck {number}")
    time.sleep(1000)


@app.task(retain=60, cpu=True, timeout=30)
def square(number: int) -> int:
    print("what is printed goes to standard error")  # noqa: T201 - that is the point
    current().progress(f"squaring {number}")
    if number == -1:
        os._exit(7)
    if number == -2:
        raise Dead("two")
    if number == -3:
        raise Snooze(0.01)
    if number == -4:
        time.sleep(1000)
    return number * number


def ends_a_child() -> int | None:
    """Begin a process as `multiprocessing` does, and end it: its exit code."""
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(1000,))
    child.start()
    child.terminate()
    child.join(20)
    return child.exitcode


@app.task(retain=60)
def ends_a_child_of_the_worker() -> int | None:
    return ends_a_child()


@app.task(retain=60, cpu=True, timeout=120)
def surroundings() -> dict[str, object]:
    """What a function finds in a process of its own."""
    with subprocess.Popen(["sleep", "1000"]) as program:
        program.terminate()
        ended = program.wait(20)
    cat = subprocess.run(["cat"], capture_output=True, timeout=20, check=True)
    return {
        "stdin": cat.stdout.decode() + sys.stdin.read(),
        "program": ended,
        "child": ends_a_child(),
        "asyncio.run": asyncio.run(asyncio.sleep(0, "run")),
    }


@app.task
def forks(number: int) -> None:
    if os.fork() == 0:
        return  # a child that comes back: the worker ends it
    note(f"forked {number}")


@app.task
async def forks_in_the_loop(number: int) -> None:
    if os.fork() == 0:
        return
    note(f"forked {number}")


@app.task
async def blocks(seconds: float) -> None:
    time.sleep(seconds)  # noqa: ASYNC251 - that is the point
    logging.getLogger("shop").info("unblocked")


LEFT: set[asyncio.Task[None]] = set()


@app.task
async def leaves(number: int) -> None:
    """Leave behind what does not end: a task, a thread, and an exit that leaves the event loop."""

    async def forever() -> None:
        while True:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(1000)

    LEFT.add(asyncio.create_task(forever()))
    asyncio.get_running_loop().run_in_executor(None, time.sleep, 1000)
    asyncio.get_running_loop().call_soon(sys.exit, 0)
    await asyncio.sleep(0.01)
    note(f"left {number}")


def raise_it(kind: str) -> None:
    """Raise what programs do not expect."""
    if kind == "exit":
        raise SystemExit(3)
    if kind == "interrupt":
        raise KeyboardInterrupt
    if kind == "group":
        raise BaseExceptionGroup("both", [KeyError("a"), KeyboardInterrupt()])
    if kind == "recursion":
        raise_it(kind)
    if kind == "memory":
        raise MemoryError
    raise GeneratorExit("nobody wants it")


@app.task
async def raises(kind: str) -> None:
    raise_it(kind)


@app.task
def raises_in_a_thread(kind: str) -> None:
    raise_it(kind)


@app.task(cpu=True)
def raises_elsewhere(kind: str) -> None:
    raise_it(kind)
