"""The process of a function that computes: ``python -m disque.tasks.cpu_child module:app``. See `cpu`.

What the function prints goes to standard error, and its standard input is empty, since the frames come and go by those
that the process began with. It is called in a thread, as other plain functions are: there no event loop runs. Signals
of the terminal are the worker's business. It ends when the frames do: when the worker is gone.
"""

import asyncio
import ctypes
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Final

from disque.client import NewJob
from disque.client.replies import Meta
from disque.tasks.app import App
from disque.tasks.cpu import HEAD, frame, unframe, words_of
from disque.tasks.errors import EncodeError
from disque.tasks.execute import Execution, begin, read
from disque.tasks.held import Held
from disque.tasks.loading import load_app
from disque.tasks.message import dump_result
from disque.tasks.outcome import Back, of_error
from disque.tasks.threads import Threads, let_children_end

PR_SET_PDEATHSIG: Final = 1


def main(argv: list[str] | None = None) -> int:
    """Serve until the worker goes."""
    [place] = sys.argv[1:] if argv is None else argv
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGTSTP):
        signal.signal(number, pass_by)
    let_children_end(pass_by)
    with suppress(OSError, AttributeError):  # Linux: be ended with the worker, however that ends
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    source = os.fdopen(os.dup(0), "rb")
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    with Path(os.devnull).open("rb") as empty:
        os.dup2(empty.fileno(), 0)
    asyncio.run(serve(load_app(place), source, sink))
    return 0


def pass_by(_number: int, _frame: object) -> None:
    """Do nothing about a signal. What is ignored would be so in programs, too, that the function starts."""


async def serve(app: App, source: BinaryIO, sink: BinaryIO) -> None:
    """Run what comes, one after the other."""
    loop = asyncio.get_running_loop()
    execution = Execution(app, Threads(1), None, no_next_job)
    async with app.alive():
        while (words := await loop.run_in_executor(None, receive, source)) is not None:
            said = await answer(app, execution, words, lambda text: send(sink, {"progress": text}))
            send(sink, said)


def receive(source: BinaryIO) -> dict[str, Any] | None:
    """The next frame, or None at the end."""
    head = source.read(HEAD.size)
    if len(head) < HEAD.size:
        return None
    return unframe(source.read(HEAD.unpack(head)[0]))


def send(sink: BinaryIO, words: dict[str, Any]) -> None:
    """Send a frame."""
    sink.write(frame(words))
    sink.flush()


async def no_next_job(job: NewJob) -> str:
    """The worker adds what comes after a job."""
    raise AssertionError(job)


class Telling(Held):
    """A job whose progress is told at once."""

    __slots__ = ("_say",)

    def __init__(self, words: dict[str, Any], known: Meta, say: Callable[[str], object]) -> None:
        super().__init__(words["id"], words["queue"], words["body"], known, None, 0.0)
        self._say = say

    def __setattr__(self, name: str, value: object) -> None:
        if name == "progress" and isinstance(value, str):
            self._say(value)
        super().__setattr__(name, value)


async def answer(app: App, execution: Execution, words: dict[str, Any], say: Callable[[str], object]) -> dict[str, Any]:
    """What comes of one message, as a frame says it."""
    known = Meta(words["tries"], words["left"], 0, 0, 0, 0, 0, 0, 0, words["error"], None, words["headers"])
    held = Telling(words, known, say)
    try:
        read(app, held)
        run = begin(held, 0.0, 0.0)  # time limits are the worker's
        return {"value": dump_result(await execution.function(run), app.format)}
    except EncodeError as error:
        return words_of(Back(f"the function has ended, but {type(error).__name__}: {error}", dead=True))
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is told
        return words_of(of_error(error))


if __name__ == "__main__":
    sys.exit(main())
