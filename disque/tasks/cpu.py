"""Processes for functions that compute (``cpu=True``), so that they use other cores and block nobody.

Each process runs one function at a time and is told what to do over its standard input, in frames of msgpack behind
their length; it answers on its standard output. It gets the message of the job as it came and reads it itself, so
nothing is pickled. It can be killed: that is how a function ends whose time is over, whose job is cancelled, or whose
lease is lost, and another process takes its place. When a process dies by itself, only its own job has failed.

Children are started, not forked: they import the app by its name.
"""

import asyncio
import os
import struct
import sys
from contextlib import suppress
from typing import Any, Final

import msgpack

from disque.tasks.held import Run
from disque.tasks.message import read
from disque.tasks.outcome import Back, Done, Outcome, Told

HEAD: Final = struct.Struct(">I")


def frame(words: dict[str, Any]) -> bytes:
    """A message to or from a process."""
    data: bytes = msgpack.packb(words)
    return HEAD.pack(len(data)) + data


def unframe(data: bytes) -> dict[str, Any]:
    """What a frame says, without its length."""
    words: dict[str, Any] = msgpack.unpackb(data)
    return words


class Child:
    """One process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self._in = process.stdin
        self._out = process.stdout

    @classmethod
    async def start(cls, place: str) -> "Child":
        """Begin a process that has the app at ``place``."""
        path = os.pathsep.join([one or os.getcwd() for one in sys.path])  # noqa: PTH109 - as it is in sys.path
        return cls(
            await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "disque.tasks.cpu_child", place),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": path},
            )
        )

    async def call(self, words: dict[str, Any], run: Run) -> dict[str, Any]:
        """Let it run a function: what came of it. Raises RuntimeError when it dies."""
        try:
            self._in.write(frame(words))
            await self._in.drain()
            while True:
                (length,) = HEAD.unpack(await self._out.readexactly(HEAD.size))
                said = unframe(await self._out.readexactly(length))
                if "progress" not in said:
                    return said
                for held in run.jobs:
                    held.progress = said["progress"]
        except (ConnectionError, asyncio.IncompleteReadError):
            code = await self.process.wait()
            how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
            raise RuntimeError(f"the process that ran the function has ended {how}") from None

    def kill(self) -> None:
        """End it, whatever it does."""
        with suppress(ProcessLookupError):
            self.process.kill()


class CpuPool:
    """Up to ``size`` processes, begun when they are needed."""

    def __init__(self, place: str, size: int) -> None:
        self.place = place
        self._places = asyncio.Semaphore(size)
        self._idle: list[Child] = []
        self._all: set[Child] = set()

    async def run(self, body: bytes, run: Run) -> Any:  # noqa: ANN401 - what the function returned
        """See `disque.tasks.execute.Cpu`."""
        context = run.context()
        words = {"body": body, "id": context.id, "queue": context.queue, "tries": context.tries, "error": context.error}
        words |= {"left": context.tries_left, "headers": dict(context.headers)}
        async with self._places:
            child = self._idle.pop() if self._idle else await self._begin()
            try:
                said = await child.call(words, run)
            except BaseException:
                self._all.discard(child)
                child.kill()
                raise
            self._idle.append(child)
        if "value" in said:
            return read(said["value"])
        raise Told(outcome_of(said))

    async def _begin(self) -> Child:
        child = await Child.start(self.place)
        self._all.add(child)
        return child

    async def close(self) -> None:
        """End all processes."""
        children, self._all, self._idle = list(self._all), set(), []
        for child in children:
            child.kill()
        for child in children:
            await child.process.wait()


def words_of(outcome: Outcome) -> dict[str, Any]:
    """An outcome as a frame says it."""
    if isinstance(outcome, Back):
        return {"back": [outcome.error, outcome.delay_s, outcome.counts, outcome.dead]}
    return {"done": True}


def outcome_of(words: dict[str, Any]) -> Outcome:
    """The outcome that a frame says."""
    return Back(*words["back"]) if "back" in words else Done()
