"""What every broker under measurement gives: how to add jobs, how to get and acknowledge them, and its processes."""

import importlib.util
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from subprocess import DEVNULL, STDOUT, Popen
from typing import Final, NamedTuple

import psutil

from tests.end_to_end.node import free_port
from tests.speed.server import missing

BODY: Final = b"x" * 100
NODES: Final = 3
#: Jobs that are added, fetched and acknowledged at a time.
AT_ONCE: Final = 100
PATIENCE_S: Final = 60.0
QUEUE: Final = "jobs"


class Driver(NamedTuple):
    """A client of a cluster that runs, with an empty queue of three copies.

    `add` returns when all nodes that must have so many jobs have them; `take` when it has acknowledged so many. `take`
    is called only after the last `add`.
    """

    name: str
    pids: list[int]
    add: Callable[[int], Awaitable[None]]
    take: Callable[[int], Awaitable[None]]


#: One driver after the other, each in a cluster whose files are in this folder. What they start ends with the stack,
#: which does not depend on an event loop or on a client that may hang.
Drivers = Callable[[ExitStack, Path], AsyncGenerator[Driver, None]]


def lacking(programs: list[str], module: str, path: str | None = None) -> list[str]:
    """Which of these programs, and of the client's module, are not installed; programs are looked for in `path`."""
    absent = missing(programs, path)
    return absent if importlib.util.find_spec(module) else [*absent, f"Python's {module}"]


def distinct_ports(count: int) -> list[int]:
    """So many free ports."""
    ports: set[int] = set()
    while len(ports) < count:
        ports.add(free_port())
    return list(ports)


def run(stack: ExitStack, words: list[str], log: Path, environment: Mapping[str, str] | None = None) -> Popen[bytes]:
    """Start a process that writes to this log, and that is killed with all its children when the stack is closed."""
    with log.open("wb") as output:
        process = Popen(
            words,
            stdin=DEVNULL,
            stdout=output,
            stderr=STDOUT,
            env=environment or dict(os.environ),
            start_new_session=True,  # Ctrl-C is for the program, which ends them
        )
    stack.callback(end, process)
    return process


def end(process: Popen[bytes]) -> None:
    """Kill it and all that it has started: programs in sessions of their own outlive it."""
    family: list[psutil.Process] = []
    with suppress(psutil.NoSuchProcess):
        family = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    for child in family:
        with suppress(psutil.NoSuchProcess):
            child.kill()
    process.wait()
