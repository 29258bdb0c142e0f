"""What becomes of a job when its function has ended: said to the cluster by ACKJOB or NACK."""

import asyncio
import os
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from disque.client.failure import described
from disque.tasks.errors import Cancelled, Dead, Discard, MessageError, Retry, Snooze


@dataclass(frozen=True, slots=True)
class Done:
    """It is done; ``result`` is kept if it is not None."""

    result: bytes | None = None


@dataclass(frozen=True, slots=True)
class Back:
    """It goes back: after ``delay_s``, or as its back-off says if that is None. ``counts``: a try is used up."""

    error: str | None = None
    delay_s: float | None = None
    counts: bool = True
    dead: bool = False


@dataclass(frozen=True, slots=True)
class Gone:
    """It is not this worker's any more: there is nothing to say."""


Outcome: TypeAlias = Done | Back | Gone


class Told(Exception):  # noqa: N818 - it only carries the outcome
    """What another process has made of a job."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome)
        self.outcome = outcome


#: Frames that are told of a failure, from where it happened upwards, and errors of a group.
FRAMES: Final = 6
ERRORS: Final = 5
#: Files whose frames say nothing about the failure.
OURS: Final = str(Path(__file__).parent) + os.sep


def of_error(error: BaseException) -> Outcome:
    """What an exception that left the function makes of its job."""
    if isinstance(error, Told):
        return error.outcome
    if isinstance(error, Retry):
        return Back(str(error) or "Retry", error.delay_s)
    if isinstance(error, Snooze):
        return Back(None, error.delay_s, counts=False)
    if isinstance(error, Discard):
        return Done()
    if isinstance(error, Dead | MessageError):
        return Back(described(error), dead=True)
    return Back(explained(error))


def explained(error: BaseException) -> str:
    """Type and text of an exception, those inside of a group, and the last frames, the innermost first."""
    if isinstance(error, Cancelled | asyncio.CancelledError):
        first = f"{type(error).__name__}: the function was cancelled, and not by the worker"
    else:
        first = described(error)
    lines = [first]
    if isinstance(error, BaseExceptionGroup):
        lines += [f"  | {described(one)}" for one in leaves(error)[:ERRORS]]
        inside = leaves(error)
        error = inside[0] if inside else error
    frames = [one for one in traceback.extract_tb(error.__traceback__) if not one.filename.startswith(OURS)]
    lines += [f"  {one.filename}:{one.lineno} in {one.name}: {one.line or ''}" for one in reversed(frames[-FRAMES:])]
    return "\n".join(lines)


def leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    """The errors of a group and of the groups in it."""
    found: list[BaseException] = []
    for one in group.exceptions:
        found += leaves(one) if isinstance(one, BaseExceptionGroup) else [one]
    return found
