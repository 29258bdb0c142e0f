"""Server processes that one of our programs has started: what `make run` and `--processes` have in common."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Final

READ_BYTES: Final = 65536


class Child:
    """One node: the process that runs it, with its port."""

    def __init__(self, port: int, command: Sequence[str], process: asyncio.subprocess.Process) -> None:
        self.port = port
        self.command = list(command)
        self.process = process

    @property
    def alive(self) -> bool:
        """Whether the process has not been seen to end."""
        return self.process.returncode is None

    def signal(self, *numbers: signal.Signals) -> None:
        """Send signals, if there is still somebody to get them."""
        for number in numbers if self.alive else ():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid, number)  # send_signal() looks whether it has ended, and loses how it did

    async def lines(self) -> AsyncIterator[str]:
        """Give the lines that it writes until it ends, however long they are."""
        stream = self.process.stdout
        assert stream is not None
        rest = b""
        while data := await stream.read(READ_BYTES):
            *whole, rest = (rest + data).split(b"\n")
            for line in whole:
                yield line.decode("utf-8", "backslashreplace")
        if rest:
            yield rest.decode("utf-8", "backslashreplace")


async def start(
    port: int,
    command: Sequence[str],
    *,
    own_session: bool = False,
    stdin: int = asyncio.subprocess.DEVNULL,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Child:
    """Start a node, whose output and errors are to be read by `Child.lines`. Raises OSError."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=stdin,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=own_session,
        cwd=cwd,
        env=environment,
    )
    return Child(port, command, process)


async def stop_in_turn(children: Sequence[Child]) -> None:
    """Stop nodes cleanly, one after the other.

    So each can leave its jobs to those that are still up, and the last one knows best what is queued.
    """
    for child in children:
        if child.alive:
            child.signal(signal.SIGTERM, signal.SIGCONT)  # one that was halted could not hear the first
            await child.process.wait()


def how_it_ended(code: int) -> str:
    """Say what the exit code of a process means."""
    if code >= 0:
        return "has stopped cleanly" if code == 0 else f"has ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
